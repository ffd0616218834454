"""Each client program is run in a clean room, with nothing that a shell could make of our words."""

from __future__ import annotations

import os
import sys
import threading
from dataclasses import replace
from pathlib import Path

import pytest

from tandem.errors import ConfigInvalid
from tandem.pool.reviewers import Invocation, RunContext, programs
from tandem.pool.reviewers.programs import lay_out
from tandem.pool.reviewers.providers import NAMES, provider
from tests.reviewers.providing import MCP, OFFERED, OWN_KEYS, PROMPT, ended, made, values
from tests.reviewers.running import ACTS, LIMITS


@pytest.fixture(params=NAMES)
def name(request: pytest.FixtureRequest) -> str:
    return request.param


def both(name: str, room: RunContext) -> list[Invocation]:
    return [made(name).review(room, PROMPT), made(name).agent(room, PROMPT, MCP)]


def test_each_has_its_name_and_its_program(name: str, room: RunContext) -> None:
    assert made(name).name == name
    assert made(name).review(room, PROMPT).argv[0] == ("/opt/reviewer" if name == "custom" else name)


def test_another_command_stands_in_for_the_program(room: RunContext) -> None:
    argv = provider("claude", ("/opt/claude", "--verbose")).review(room, PROMPT).argv
    assert argv[:3] == ("/opt/claude", "--verbose", "-p")


def test_the_prompt_comes_by_standard_input_and_no_other_way(name: str, room: RunContext) -> None:
    for invocation in both(name, room):
        assert PROMPT in invocation.stdin.decode()
        assert not any("Review" in word for word in (*invocation.argv, *invocation.environment.values()))


def test_keys_are_never_on_the_command_line(name: str, room: RunContext) -> None:
    room = replace(room, environment={**room.environment, **dict.fromkeys(OWN_KEYS[name], "k3y")})
    for invocation in both(
        name, replace(room, environment={**room.environment, "SOME_BASE_URL": "http://127.0.0.1/v1"})
    ):
        assert not any("k3y" in word for word in invocation.argv)
        assert "k3y" not in repr(invocation)


def test_the_environment_is_what_is_listed_and_no_more(name: str, room: RunContext, tmp_path: Path) -> None:
    for invocation in both(name, room):
        environment = invocation.environment
        handed = {one: value for one, value in environment.items() if OFFERED.get(one) == value}
        kept = {one: OFFERED[one] for one in ("LANG", "HTTPS_PROXY", "no_proxy", "SSL_CERT_FILE")}
        assert handed == {**kept, **OWN_KEYS[name]}
        assert environment["TANDEM_REVIEWER"] == "codex-r1-abcdef"
        assert (environment["TERM"], environment["TMPDIR"]) == ("dumb", str(tmp_path / "run" / "tmp"))
        assert environment["HOME"] == str(tmp_path / ("user" if name == "custom" else "run/home"))


def test_nothing_of_the_repository_is_on_the_search_path(name: str, room: RunContext, tmp_path: Path) -> None:
    inside = Path(room.workspace, "node_modules", ".bin")
    inside.mkdir(parents=True)
    (tmp_path / "link").symlink_to(inside)
    path = os.pathsep.join(["/usr/bin", str(inside), ".", "", "bin", str(tmp_path / "link"), "/bin"])
    invocation = made(name).review(replace(room, environment={**room.environment, "PATH": path}), PROMPT)
    assert invocation.environment["PATH"] == f"/usr/bin{os.pathsep}/bin"


@pytest.mark.parametrize("url", ["file:///etc/passwd", "http://x/ y", "http://x/$(y)", "http://x/'\"", "x"])
def test_an_address_is_an_address(name: str, room: RunContext, url: str) -> None:
    with pytest.raises(ConfigInvalid, match="URL"):
        made(name).agent(room, PROMPT, url)


def test_without_a_model_the_program_chooses(name: str, room: RunContext) -> None:
    room = replace(room, model=None)
    if name == "opencode":
        with pytest.raises(ConfigInvalid, match="SERVICE/MODEL"):
            made(name).review(room, PROMPT)
    else:
        assert not values(made(name).review(room, PROMPT), "--model")


def test_what_has_to_be_there_is_private_and_below_the_scratch_folder(
    name: str, room: RunContext, tmp_path: Path
) -> None:
    for invocation in both(name, room):
        scratch = tmp_path / f"laid-{len(list(tmp_path.iterdir()))}"
        scratch.mkdir()
        lay_out(scratch, invocation.files)
        made_files = [one for one in scratch.rglob("*") if one.is_file()]
        assert {one.relative_to(scratch).as_posix() for one in made_files} == set(invocation.files)
        assert all(one.stat().st_mode & 0o077 == 0 for one in scratch.rglob("*"))


def test_no_argument_of_any_provider_is_interpreted(name: str, room: RunContext, tmp_path: Path) -> None:
    program = tmp_path / "codex-and-others"
    # The interpreter itself: its environment may be in a folder with a space, which this line cannot name.
    program.write_text(f"#!{Path(sys.executable).resolve()}\n{ACTS.read_text()}")
    program.chmod(0o700)
    invocation = provider(name, (str(program), "show-arguments")).review(room, PROMPT)
    lay_out(Path(room.scratch), invocation.files)
    done = programs.run(invocation, LIMITS, on_start=lambda _: None, cancelled=threading.Event())
    assert done.stdout.decode().splitlines() == [repr(word) for word in invocation.argv[2:]]
    assert list(Path(room.workspace).iterdir()) == []
    assert not any(one.name == "x" for one in tmp_path.rglob("*"))


@pytest.mark.parametrize(
    "output", ["", "no JSON", "{", "[]", "null", '{"type":"result"}', "{}\n" * 3, "\ufffd{\x00}", "[" * 100_000]
)
def test_output_that_says_nothing_is_no_answer(name: str, room: RunContext, output: str) -> None:
    reply = made(name).read(ended(output), room)
    assert reply.text == (output.strip() or None if name == "custom" else None)
    assert (reply.tokens_in, reply.tokens_out, reply.cost_usd) == (None, None, None)


def test_a_program_in_wsl_is_told_paths_of_the_distribution(name: str, room: RunContext) -> None:
    inside = replace(
        room, workspace="/mnt/c/shop", scratch="\\\\wsl.localhost\\Ubuntu\\tmp\\run-1", wsl_distro="Ubuntu"
    )
    for invocation in both(name, inside):
        assert invocation.wsl_distro == "Ubuntu"
        assert invocation.folder in {"/mnt/c/shop", "/tmp/run-1/desk"}
        assert invocation.environment["TMPDIR"] == "/tmp/run-1/tmp"
        assert not any("\\" in word for word in invocation.argv if "wsl" in word)
