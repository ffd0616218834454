"""`tandem gate on`, `off` and `status`: the switch is kept at both places, and a person's to turn."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.broker import BrokerProcess
from tests.repository.gating import Gated, gate_on, new_repository
from tests.repository.terminals import Terminal

DIGITS = {"a.txt": "one\n2\nthree\n"}


def switch_of(gated: Gated) -> dict[str, object]:
    return json.loads((gated.root / ".git/tandem/gate.json").read_text("utf-8"))


def test_switching_on_registers_the_project_and_says_so_at_both_places(
    shared_broker: BrokerProcess, tmp_path: Path, config_dir: Path
):
    root = new_repository(tmp_path / "webshop")
    gated = Gated(shared_broker, root, "webshop")
    ended = gated.tandem("gate", "on", "--reason", "a release", "--accept", "refs/remotes/origin/main", "--json")
    assert ended.status == 0, ended.stderr
    assert ended.data["enabled"] is ended.data["broker_enabled"] is True
    assert set(ended.data["hooks"].values()) == {True}
    assert ended.data["branches"] == ["main"]
    state = gated.call("get_gate")
    assert (state["enabled"], state["branches"], state["reason"]) == (True, ["main"], "a release")
    kept = switch_of(gated)
    assert (kept["project"], kept["accepted"]) == ("webshop", ["refs/remotes/origin/main"])
    assert gated.head("refs/tandem/gate-start/main") == gated.head()
    again = gated.tandem("gate", "on", "--json")
    assert again.data == ended.data


def test_from_a_linked_working_tree_it_is_the_same_gate(gated: Gated, tmp_path: Path):
    linked = gated.linked(tmp_path / "linked", "feature")
    status = gated.tandem("gate", "status", "--json", cwd=linked)
    assert (status.status, status.data["enabled"], status.data["root"]) == (0, True, str(gated.root))


def test_a_gate_that_is_off_or_was_never_on_is_no_error(shared_broker: BrokerProcess, plain: Path, config_dir: Path):
    gated = Gated(shared_broker, plain, "none")
    status = gated.tandem("gate", "status", "--json")
    assert (status.status, status.data["enabled"], status.data["project"]) == (0, False, None)
    assert gated.tandem("gate", "off").status == 0
    outside = gated.tandem("gate", "status", cwd=plain.parent)
    assert outside.status == 1
    assert "git repository" in outside.stderr


@pytest.mark.parametrize("mark", ["CLAUDECODE", "CODEX_SANDBOX"])
def test_p2_an_agent_does_not_switch_off(gated: Gated, mark: str):
    environment: dict[str, Any] = {mark: "1"}
    ended = gated.tandem("gate", "off", "--yes", **environment)
    assert ended.status == 1
    assert "person" in ended.stderr
    gated.stage(DIGITS)
    gated.refused("commit", "-m", "x")


def test_switching_off_asks_at_the_terminal(gated: Gated):
    nobody = gated.tandem("gate", "off", stdin=b"yes\n")
    assert nobody.status == 1
    assert "terminal" in nobody.stderr
    variables = {**os.environ, "TANDEM_BROKER": gated.broker.url}
    command = [sys.executable, "-m", "tandem", "gate", "off", "--reason", "enough"]
    with Terminal(command, gated.root, variables) as terminal:
        terminal.read_until("Type yes: ")
        terminal.type("no")
        assert terminal.wait() == 1
    assert switch_of(gated)["enabled"] is True
    with Terminal(command, gated.root, variables) as terminal:
        terminal.read_until("Type yes: ")
        terminal.type("yes")
        assert terminal.wait() == 0, terminal.read_all()
    assert gated.call("get_gate")["enabled"] is False
    gated.stage(DIGITS)
    gated.git("commit", "-m", "x")


@pytest.mark.parametrize(
    ("options", "named"),
    [
        (("--branch", "release"), "main"),
        (("--branch", "main", "--branch", "feature"), "feature"),
        (("--accept", "refs/heads/feature"), "refs/heads/feature"),
        (("--broker", "http://127.0.0.1:9"), "http://127.0.0.1:9"),
        (("--project", "elsewhere"), "elsewhere"),
    ],
)
def test_p2_an_agent_does_not_make_a_gate_that_is_on_let_more_through(
    gated: Gated, options: tuple[str, ...], named: str
):
    before = switch_of(gated)
    ended = gated.tandem("gate", "on", *options, CLAUDECODE="1")
    assert ended.status == 1
    assert named in ended.stderr
    assert switch_of(gated) == before


def test_p2_switching_on_again_moves_nothing_out_of_sight(gated: Gated):
    start = gated.head("refs/tandem/gate-start/main")
    gated.approved_commit(DIGITS)
    assert gated.tandem("gate", "on").status == 0
    assert gated.head("refs/tandem/gate-start/main") == start
    assert not gated.try_git("update-ref", "refs/tandem/gate-start/main", "HEAD").ok


def test_a_broker_that_is_away_does_not_keep_anybody_from_switching_off(tmp_path: Path, config_dir: Path):
    folder = tmp_path / "broker"
    folder.mkdir()
    with BrokerProcess(folder) as broker:
        gated = gate_on(broker, new_repository(tmp_path / "repository"))
        broker.stop()
        ended = gated.tandem("gate", "off", "--yes")
        assert ended.status == 0, ended.stderr
        assert "broker was not told" in ended.stderr
        gated.stage(DIGITS)
        gated.git("commit", "-m", "x")
        broker.start()
        assert gated.call("get_gate")["enabled"] is True
        assert gated.tandem("gate", "status").status == 0
        assert gated.call("get_gate")["enabled"] is False
        # On again from here, both agree at once.
        assert gated.tandem("gate", "on").status == 0


def test_places_that_disagree_are_a_problem(gated: Gated):
    gated.call("set_gate", enabled=False)
    status = gated.tandem("gate", "status", "--json")
    assert status.status == 1
    assert "tandem gate on" in " ".join(status.data["problems"])
    # Here it says on, so it is on.
    gated.stage(DIGITS)
    gated.refused("commit", "-m", "x")


def test_the_status_tells_what_the_settings_ask_for_and_whether_it_holds(gated: Gated):
    gated.settings(trusted=False, tandem_enabled=True, review_granularity="per_plan", execution_mode="optimistic")
    shown = gated.tandem("gate", "status", "--json").data
    assert (shown["granularity"], shown["mode"], shown["tandem_enabled"]) == ("per_task", "blocking", True)
    assert set(shown["untrusted"]) == {"review_granularity", "execution_mode"}
    gated.settings(tandem_enabled=True, review_granularity="per_plan", execution_mode="optimistic")
    shown = gated.tandem("gate", "status", "--json").data
    assert (shown["granularity"], shown["mode"], shown["untrusted"]) == ("per_plan", "optimistic", [])
    words = gated.tandem("gate", "status").stdout
    assert "optimistic" in words
    assert "5 of 5 alive" in words
