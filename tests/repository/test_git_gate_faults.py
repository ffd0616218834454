"""A gate that cannot judge refuses and names the remedy: it lets nothing through, and people can get on."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tests.broker import BrokerProcess
from tests.commandline import NOBODY
from tests.forked_hooks import hook_python
from tests.repository.gating import DIGITS, Gated
from tests.stranger import listening


def test_p7_without_a_broker_nothing_passes_until_it_is_back(own_gated: Gated):
    own_gated.stage(DIGITS)
    own_gated.approve()
    own_gated.broker.stop()
    words = own_gated.refused("commit", "-m", "x")
    assert "tandem up --background" in words
    assert "tandem gate override" in words
    own_gated.refused("commit", "--allow-empty", "--only", "-m", "Nothing")
    own_gated.broker.start()
    own_gated.git("commit", "-m", "x")


def test_p7_a_broker_elsewhere_is_found_by_its_data(shared_broker: BrokerProcess, gated: Gated):
    gated.rewrite(broker=None, data_dir=str(shared_broker.data_dir), usual_url=None)
    gated.stage(DIGITS)
    assert "no approved round" in gated.refused("commit", "-m", "x")
    gated.rewrite(data_dir=str(shared_broker.folder / "nothing"))
    assert "none runs" in gated.refused("commit", "-m", "x")


def test_p2_a_gate_asks_the_next_of_several_brokers_where_the_first_is_away(gated: Gated, shared_broker: BrokerProcess):
    gated.rewrite(broker=f"{NOBODY},{shared_broker.url}", data_dir=str(shared_broker.data_dir))
    gated.stage(DIGITS)
    assert "no approved round" in gated.refused("commit", "-m", "x")
    gated.approve()
    gated.rewrite(broker=f"{NOBODY},{NOBODY}")
    assert "cannot be reached" in gated.refused("commit", "-m", "x")
    gated.rewrite(broker=f"{NOBODY},{shared_broker.url}")
    gated.git("commit", "-m", "x")


def test_p7_something_else_that_answers_is_no_approval(gated: Gated):
    gated.stage(DIGITS)
    with listening(lambda _said: b'HTTP/1.1 200 OK\r\nContent-Length: 11\r\n\r\n{"ok":true}') as (port, _told):
        gated.rewrite(broker=f"http://127.0.0.1:{port}")
        assert "has not proved that it is this user's broker" in gated.refused("commit", "-m", "x")


UNREADABLE = "Switch the gate on again with 'tandem gate on', or off with 'tandem gate off'."


BROKEN: tuple[tuple[bytes | dict[str, object], str], ...] = (
    *((content, UNREADABLE) for content in (b"", b"[]", b'{"version": 2}', b"\xff")),
    *(({"branches": branches}, UNREADABLE) for branches in (None, "main")),
    *(({"enabled": enabled}, "not approved") for enabled in (None, "false")),
    ({"project": 7}, "project: Input should be a valid string"),
    ({"project": "somebody-elses"}, "tandem gate on"),
    ({"broker": "http://255.255.255.255:9"}, "whether the broker runs on that machine"),
)


def test_p7_a_switch_that_is_broken_or_names_something_else_is_no_open_gate(gated: Gated):
    gated.stage(DIGITS)
    sound = gated.gate_file.read_bytes()
    for written, said in BROKEN:
        gated.gate_file.write_bytes(written if isinstance(written, bytes) else sound)
        if not isinstance(written, bytes):
            gated.rewrite(**written)
        words = gated.refused("commit", "-m", "x")
        assert said in words, written
        assert "tandem up" not in words, written


def test_a_broken_switch_is_mended_by_switching_on_and_taken_away_by_switching_off(gated: Gated):
    gated.gate_file.write_bytes(b"{")
    assert "person" in gated.tandem("gate", "on", CLAUDECODE="1").refusal
    mended = gated.person("gate", "on")
    assert mended.ok, mended.stdout
    gated.stage(DIGITS)
    assert "no approved round" in gated.refused("commit", "-m", "x")
    gated.gate_file.write_bytes(b"{")
    ended = gated.person("gate", "off")
    assert ended.ok, ended.stdout
    gated.git("commit", "-m", "x")


def test_a_switch_that_is_gone_is_told_and_the_hooks_are_taken_away_all_the_same(gated: Gated):
    gated.gate_file.unlink()
    status = gated.tandem("gate", "status")
    assert status.status == 1
    assert "is missing, though the gate's hooks are installed" in status.stdout
    ended = gated.person("gate", "off")
    assert ended.ok, ended.stdout
    gated.stage(DIGITS)
    gated.git("commit", "-m", "x")


def test_a_gate_of_which_nothing_is_left_here_is_found_by_its_broker(gated: Gated):
    for folder in ("tandem", "hooks"):
        shutil.rmtree(gated.root / ".git" / folder)
    status = gated.tandem("gate", "status")
    assert (status.status, f"The broker has the gate of {gated.project} on here" in status.stdout) == (1, True)
    assert "nothing is held back" in gated.tandem("doctor").stdout
    mended = gated.person("gate", "on")
    assert mended.ok, mended.stdout
    gated.stage(DIGITS)
    assert "no approved round" in gated.refused("commit", "-m", "x")


def test_the_status_asks_the_gates_broker_and_no_other(gated: Gated, tmp_path: Path):
    gated.rewrite(broker=None, data_dir=str(tmp_path / "missing"), usual_url=None)
    status = gated.tandem("gate", "status", "--json", TANDEM_BROKER="")
    assert (status.status, status.data["broker_enabled"]) == (1, None)
    assert "No broker runs on" in status.data["broker_problem"]


def replaced(gated: Gated, old: str, new: str) -> None:
    """Have every hook name something else, as after an upgrade that moved it."""
    for name in ("prepare-commit-msg", "post-commit", "reference-transaction", "pre-push", "post-rewrite"):
        hook = gated.root / ".git/hooks" / name
        hook.write_text(hook.read_text("utf-8").replace(old, new), "utf-8")


@pytest.mark.parametrize("part", ["python", "source"])
def test_p7_a_part_of_the_hooks_that_is_gone_refuses_and_says_how_to_mend(gated: Gated, part: str):
    there = hook_python() if part == "python" else gated.switch[part]
    replaced(gated, there, f"/nowhere/{part}")
    gated.stage(DIGITS)
    words = gated.refused("commit", "-m", "x")
    assert "tandem gate on" in words
    assert part == "source" or str(gated.root / ".git/hooks") in words


def test_p7_an_error_inside_of_the_gate_refuses(gated: Gated, tmp_path: Path):
    source = Path(gated.switch["source"])
    copy = tmp_path / "source"
    for part in ("bridge", "core", "git", "hooks", "rulings"):
        shutil.copytree(source / "tandem" / part, copy / "tandem" / part)
    for module in ("__init__.py", "errors.py"):
        shutil.copy(source / "tandem" / module, copy / "tandem" / module)
    broken = "def prepare(gate, arguments):\n    raise KeyError('surprise')\n"
    (copy / "tandem/hooks/commit.py").write_text(broken, "utf-8")
    replaced(gated, str(source), str(copy))
    gated.stage(DIGITS)
    words = gated.refused("commit", "-m", "x")
    assert "surprise" in words
    assert "tandem gate status" in words


def test_p7_git_that_is_not_found_by_the_hook_refuses(gated: Gated, tmp_path: Path):
    # A shim under git's name that fails every command.
    gated.stage(DIGITS)
    gated.approve()
    shims = tmp_path / "shims"
    shims.mkdir()
    (shims / "git").write_text("#!/bin/sh\nexit 9\n", "utf-8")
    (shims / "git").chmod(0o755)
    hook = gated.root / ".git/hooks/prepare-commit-msg"
    hook.write_text(hook.read_text("utf-8").replace("here=", f"PATH={shims}:$PATH; export PATH\nhere=", 1), "utf-8")
    assert "cannot be judged" in gated.refused("commit", "-m", "x")
