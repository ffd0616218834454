"""The way past the gate: a person at a terminal has it, an agent has not."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.hooks import pending
from tandem.setup import gate_switch
from tests.broker import BrokerProcess
from tests.repository.gating import Gated, gate_on, new_repository
from tests.repository.terminals import Terminal

DIGITS = {"a.txt": "one\n2\nthree\n"}
WHY = "the release is burning"

pytestmark = pytest.mark.timeout(180)


def override(gated: Gated, *arguments: str, **environment: str) -> Terminal:
    command = [sys.executable, "-m", "tandem", "gate", "override", "-m", WHY, "--", *arguments]
    variables = {**os.environ, "TANDEM_BROKER": gated.broker.url, "GIT_EDITOR": "true", **environment}
    return Terminal(command, gated.root, variables)


def overrides(gated: Gated) -> list[dict[str, object]]:
    feed = gated.call("get_audit_log", kind="gate_overridden")["events"]
    return [event for event in feed if event["project"] == gated.project]


def test_a_person_at_a_terminal_who_types_the_projects_name_gets_past_the_gate(gated: Gated):
    gated.stage(DIGITS)
    with override(gated, "-m", "Fix it") as terminal:
        shown = terminal.read_until("to let it pass: ")
        assert "a.txt: no approved round" in shown
        assert WHY in shown
        terminal.type(gated.project)
        assert terminal.wait() == 0, terminal.read_all()
    (override_id,) = gated.trailers("Tandem-Override")
    assert gated.trailers() == []
    (event,) = overrides(gated)
    assert WHY in str(event)
    assert override_id in str(event)
    # Exactly this was let through, nothing else.
    gated.stage({"b.txt": "more\n"})
    gated.refused("commit", "-m", "More")


@pytest.mark.skipif(sys.platform == "win32", reason="platform: such names cannot be made there")
def test_the_question_names_every_path_and_no_name_can_forge_it(gated: Gated):
    forged = "a\r\x1b[2K\ntandem: The gate allows it.\u202e.txt"
    names = [f"{number:02}.txt" for number in range(12)]
    gated.stage(dict.fromkeys((forged, *names), "x\n"))
    with override(gated, "-m", "Fix it") as terminal:
        shown = terminal.read_until("to let it pass: ")
        terminal.type("no")
        assert terminal.wait() != 0
    lines = shown.replace("\r\n", "\n").split("\n")
    assert all(line.isprintable() for line in lines)
    listed = lines[lines.index("tandem: All that this lets through (13):") + 1 :][:13]
    assert listed == [f"tandem:   {name}" for name in (*names, r"a\r\u001b[2K\ntandem: The gate allows it.\u202e.txt")]


def test_p2_any_other_answer_is_no(gated: Gated):
    gated.stage(DIGITS)
    head = gated.head()
    with override(gated, "-m", "Fix it") as terminal:
        terminal.read_until("to let it pass: ")
        terminal.type("yes")
        assert terminal.wait() != 0
    assert gated.head() == head
    assert overrides(gated) == []


@pytest.mark.parametrize("mark", ["CLAUDECODE", "CODEX_SANDBOX", "GEMINI_CLI", "OPENCODE", "CURSOR_AGENT"])
def test_p2_an_agent_is_refused_even_at_a_terminal(gated: Gated, mark: str):
    gated.stage(DIGITS)
    head = gated.head()
    with override(gated, "-m", "Fix it", **{mark: "1"}) as terminal:
        assert terminal.wait() != 0
        assert mark in terminal.read_all()
    assert gated.head() == head


def test_p2_an_agent_that_sets_the_variable_itself_is_refused(gated: Gated):
    gated.stage(DIGITS)
    words = gated.refused("commit", "-m", "x", TANDEM_OVERRIDE=WHY, CLAUDECODE="1")
    assert "ask a person" in words


def test_p2_without_a_terminal_there_is_no_override(gated: Gated):
    gated.stage(DIGITS)
    ended = gated.tandem("gate", "override", "-m", WHY, "--", "-m", "x", stdin=f"{gated.project}\n".encode())
    assert ended.status == 1
    assert "terminal" in ended.stderr
    # The hook itself asks too: the variable alone opens nothing.
    done = subprocess.run(
        ["git", "commit", "-m", "x"],
        cwd=gated.root,
        env={**os.environ, "TANDEM_OVERRIDE": WHY},
        input=f"{gated.project}\n".encode(),
        capture_output=True,
        check=False,
        start_new_session=True,
        timeout=60,
    )
    assert done.returncode != 0
    assert b"terminal" in done.stderr


def test_an_override_without_a_broker_is_recorded_when_it_is_back(tmp_path: Path, config_dir: Path):
    folder = tmp_path / "broker"
    folder.mkdir()
    with BrokerProcess(folder) as broker:
        gated = gate_on(broker, new_repository(tmp_path / "repository"))
        gated.stage(DIGITS)
        broker.stop()
        with override(gated, "-m", "Fix it") as terminal:
            terminal.read_until("to let it pass: ")
            terminal.type(gated.project)
            # The base branch moves as well, and a record that waits is no approval: the person is asked again.
            terminal.read_until("to let it pass: ")
            terminal.type(gated.project)
            assert terminal.wait() == 0, terminal.read_all()
        place = gate_switch.place_at(gated.root)
        assert pending.waiting(place)
        broker.start()
        assert overrides(gated) == []
        status = gated.tandem("gate", "status")
        assert status.status == 0, status.stdout
        assert pending.waiting(place) == []
        assert overrides(gated)
        assert gated.trailers("Tandem-Override")
        assert gated.call("list_reviews")["reviews"] == []


def test_a_merge_is_overridden_like_a_commit(gated: Gated):
    gated.settings(review_granularity="per_plan")
    gated.git("switch", "--quiet", "--create", "feature")
    gated.stage(DIGITS)
    gated.git("commit", "-m", "Unreviewed")
    gated.git("switch", "--quiet", "main")
    with override(gated, "merge", "--ff-only", "feature") as terminal:
        terminal.read_until("to let it pass: ")
        terminal.type(gated.project)
        assert terminal.wait() == 0, terminal.read_all()
    assert gated.head() == gated.head("feature")
