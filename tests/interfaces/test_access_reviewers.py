"""Reviewers of a broker that asks for access tokens: each has a pass of its own, and its programs have no more."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from tandem import examples
from tests.broker import BrokerProcess
from tests.commandline import Inside, owners_desk
from tests.interfaces.test_cli_reviewers import supervisor

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="platform: reviewers run in WSL there")

SCRIPTED = str(files(examples).joinpath("scripted_reviewer.py"))
AGENT = str(Path(__file__).parent.parent / "acceptance" / "programs" / "agent.py")
FOREIGN = "tdm_for_another_broker"
WATCHED = """\
import json, os, runpy, sys

note, program = sys.argv[1:3]
with open(note, "w") as file:
    json.dump(dict(os.environ), file)
sys.argv[1:] = [os.path.dirname(note)]
runpy.run_path(program, run_name="__main__")
"""
"""Notes the environment that the program has, and is the program, which gets the folder of the note."""


def pool(command: list[str], **settings: Any) -> str:
    """The settings of a pool that waits for nothing that is not tested here."""
    hasty = {"spawn_cooldown_seconds": 0, "retry_delay_seconds": 0.05, "grace_seconds": 1, "drain_seconds": 1}
    return json.dumps({"enabled": True, "provider": "custom", "command": command, **hasty, **settings})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("broker")


@pytest.fixture(scope="module")
def staffed(folder: Path) -> Iterator[BrokerProcess]:
    """A broker with a pool, in whose environment somebody left a token for another broker."""
    watched = folder / "watched.py"
    watched.write_text(WATCHED, "utf-8")
    command = [sys.executable, str(watched), str(folder / "environment.json"), SCRIPTED]
    with BrokerProcess(folder, auth="token", token=FOREIGN, reviewer_pool=pool(command)) as running:
        yield running


@pytest.fixture(scope="module")
def bare(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that has no pool."""
    with BrokerProcess(tmp_path_factory.mktemp("bare"), auth="token") as running:
        yield running


def submitted(tandem: Inside) -> tuple[int, str]:
    """Propose a change and wait for its verdict; the exit status and the output."""
    (tandem.cwd / "a.txt").write_text("one\ntwo\nthree\n", "utf-8")
    ended = tandem.run("submit", "-m", "Do it right", "--wait", "--timeout", "60")
    return ended.status, ended.stdout + ended.stderr


def reviewers(tandem: Inside) -> list[dict[str, Any]]:
    return tandem.run("reviewers", "list", "--json").data["reviewers"]


def with_tokens(folder: Path, mark: bytes = b"tdm_") -> list[str]:
    """Files that hold a token, but for the one that is there for the owner."""
    kept = [path for path in folder.rglob("*") if path.is_file() and path.name != "broker.json"]
    return [str(path) for path in kept if mark in path.read_bytes()]


def test_the_brokers_own_reviewers_are_let_in(
    staffed: BrokerProcess, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tandem = owners_desk(staffed.url, staffed.data_dir, tmp_path, monkeypatch)
    status, said = submitted(tandem)
    assert status == 0, said
    [reviewer] = reviewers(tandem)
    assert (reviewer["reviews_completed"], reviewer["state"]) == (1, "active")
    # A program that only answers has nothing to ask the broker.
    environment = json.loads((folder / "environment.json").read_text("utf-8"))
    assert "TANDEM_TOKEN" not in environment
    assert "tdm_" not in json.dumps(environment)
    assert with_tokens(staffed.data_dir, b"tdm_r_") == []


def test_an_agent_of_a_supervisor_elsewhere_is_let_in_with_a_pass(
    bare: BrokerProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tandem = owners_desk(bare.url, bare.data_dir, tmp_path, monkeypatch)
    token = tandem.run("token", "create", "host-2", "--role", "supervisor", "--json").data["token"]
    notes, watched = tmp_path / "notes", tmp_path / "watched.py"
    notes.mkdir()
    watched.write_text(WATCHED, "utf-8")
    command = [sys.executable, str(watched), str(notes / "environment.json"), AGENT]
    theirs = {"TANDEM_DATA_DIR": str(tmp_path / "theirs"), "TANDEM_TOKEN": token}
    settings = json.loads(pool(command, mode="agent"))
    with supervisor(tandem, tmp_path / "theirs", "--json", environment=theirs, **settings) as (process, line):
        assert json.loads(line())["data"]["mode"] == "agent"
        status, said = submitted(tandem)
        assert status == 0, said
        [reviewer] = reviewers(tandem)
        assert reviewer["reviews_completed"] == 1
        environment = json.loads((notes / "environment.json").read_text("utf-8"))
        assert environment["TANDEM_TOKEN"].startswith("tdm_r_")
        assert token not in json.dumps(environment)
        given: dict[str, Any] = {**theirs, "TANDEM_TOKEN": environment["TANDEM_TOKEN"]}
        # Its project's reviews, and nothing else.
        assert tandem.run("review", "list", "--project", tandem.project, "--json", **given).status == 0
        for beyond in (("review", "list", "--project", "others"), ("token", "list"), ("reviewers", "list")):
            refused = tandem.run(*beyond, "--json", **given)
            assert (refused.status, refused.envelope["error"]["code"]) == (1, "FORBIDDEN"), beyond
        process.terminate()
        assert process.wait(60) == 0
    assert with_tokens(tmp_path / "theirs") == []
    ended = tandem.run("review", "list", "--json", **given)
    assert (ended.status, ended.envelope["error"]["code"]) == (1, "UNAUTHENTICATED")


def test_a_supervisor_without_a_token_is_told_what_to_do(bare: BrokerProcess, tmp_path: Path) -> None:
    theirs = {"TANDEM_DATA_DIR": str(tmp_path / "theirs"), "TANDEM_TOKEN": ""}
    with supervisor(Inside(bare.url, tmp_path), tmp_path / "theirs", "--json", environment=theirs) as (process, line):
        error = json.loads(line())["error"]
        assert (error["code"], "tandem token create" in error["message"]) == ("UNAUTHENTICATED", True)
        assert process.wait(60) == 1
