"""Commands for people: one's name is said once, reviews have commands to decide them, programs' ones are not listed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.commandline import DIFF, Ended, Inside

PERSON = "alice"


@pytest.fixture
def desk(tandem: Inside, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """A registered project, with a person who has not said who they are."""
    monkeypatch.setenv("TANDEM_CONFIG_DIR", str(tmp_path / "config"))
    return tandem


def said(ended: Ended, status: int) -> str:
    assert ended.status == status, ended
    return ended.stderr


def state(desk: Inside, review_id: str) -> dict[str, Any]:
    return desk.run("review", "status", review_id, "--json").data


def revise(desk: Inside, review_id: str) -> None:
    given = ("--review-id", review_id, "--intent", "an intent", "--diff", DIFF.replace("+2", "+EVIL"))
    assert desk.run("review", "create", *given, "--agent", "carol").status == 0


def test_who_i_am_is_said_once_and_every_command_uses_it(desk: Inside) -> None:
    assert "Say it once: tandem me" in said(desk.run("me"), 1)
    assert desk.run("me", PERSON).status == 0
    found = desk.run("me", "--json").data
    assert (found["name"], Path(found["source"]).name) == (PERSON, "person.json")
    told = {"name": "carol", "source": "TANDEM_AGENT", "quiet": False}
    assert desk.run("me", "--json", TANDEM_AGENT="carol").data == told
    review_id = desk.created()
    assert desk.run("review", "proposal", review_id, "--json").data["proposer_id"] == PERSON
    other = desk.created("--agent", "carol")
    assert desk.run("review", "claim", other, "--json").data["reviewer_id"] == PERSON
    assert desk.run("inbox", "show", "--json").data["person"] == PERSON


def test_an_agent_neither_takes_nor_sets_the_persons_name(desk: Inside) -> None:
    desk.run("me", PERSON)
    assert desk.run("me", "--json", CLAUDECODE="1").data["name"] == "claude-code"
    assert "an agent runs this command" in said(desk.run("me", "mallory", CLAUDECODE="1"), 1)
    assert desk.run("me", "--json").data["name"] == PERSON


def test_reviews_are_approved_and_rejected_in_ones_own_name(desk: Inside) -> None:
    first, second = desk.created("--agent", "carol"), desk.created("--agent", "carol")
    assert "tandem me NAME" in said(desk.run("review", "approve", first), 1)
    desk.run("me", PERSON)
    assert desk.run("review", "approve", first, "--json").data["verdict"] == "approved"
    assert state(desk, first)["reviewer_id"] == PERSON
    assert "-m is missing" in said(desk.run("review", "reject", second), 2)
    assert desk.run("review", "reject", second, "-m", "No tests", "--json").data["status"] == "rejected"
    assert state(desk, second)["verdict_reason"] == "No tests"


def test_a_decision_does_not_go_past_ones_drafts(desk: Inside) -> None:
    desk.run("me", PERSON)
    review_id = desk.created("--agent", "carol")
    about = ("--kind", "finding", "--round", "1", "--file", "a.txt", "--line", "2", "--severity", "blocker")
    given = ("--review-id", review_id, "--person", PERSON, "--draft-id", "d1", "--body", "It deletes all.")
    assert desk.run("review", "draft", "save", *given, *about).status == 0
    for command in (("approve", review_id), ("reject", review_id, "-m", "No tests")):
        refused = said(desk.run("review", *command), 1)
        assert "a.txt, line 2 (blocker)" in refused
        assert f"tandem open {review_id}" in refused
    assert state(desk, review_id)["status"] == "pending"
    assert desk.run("review", "approve", review_id, "--without-drafts", "--json").data["verdict"] == "approved"


def test_ones_own_change_is_not_ones_to_approve_and_goes_back_to_the_queue(desk: Inside) -> None:
    desk.run("me", PERSON)
    review_id = desk.created()
    refused = desk.run("review", "approve", review_id, "--json")
    assert (refused.status, refused.envelope["error"]["code"]) == (1, "SELF_APPROVAL")
    assert state(desk, review_id)["status"] == "pending"


def test_a_decision_about_an_older_round_is_refused_and_the_claim_given_back(desk: Inside) -> None:
    desk.run("me", PERSON)
    review_id = desk.created("--agent", "carol")
    refused = desk.run("review", "approve", review_id, "--round", "2", "--json")
    assert refused.envelope["error"]["code"] == "STALE_ROUND"
    assert state(desk, review_id)["status"] == "pending"


READ = (
    ("review", "show", "{review}"),
    ("review", "checkout", "{review}"),
    ("review", "proposal", "{review}", "--json"),
    ("review", "claim", "{review}", "--reviewer-id", PERSON),
)
DECIDED = (
    ("review", "approve", "{review}", "--agent", PERSON),
    ("review", "verdict", "{review}", "--verdict", "approve", "--claim", "--reviewer-id", PERSON),
)


@pytest.mark.parametrize(
    ("read", "decided"), [(READ[0], DECIDED[0]), *((read, DECIDED[1]) for read in READ)], ids=lambda words: words[1]
)
def test_a_round_that_was_never_shown_is_not_decided_about(
    desk: Inside, read: tuple[str, ...], decided: tuple[str, ...]
) -> None:
    def run(words: tuple[str, ...]) -> Ended:
        return desk.run(*(word.format(review=review_id) for word in words))

    review_id = desk.created("--agent", "carol")
    assert run(read).status == 0
    revise(desk, review_id)
    # Neither the proposer's own look at it, nor that of an agent, shows it to the person.
    assert desk.run("review", "show", review_id, "--agent", "carol").status == 0
    assert desk.run("review", "show", review_id, CLAUDECODE="1").status == 0
    refused = said(run(decided), 1)
    assert "STALE_ROUND: You decide about round 1, which you were shown, and round 2 is the current one." in refused
    assert state(desk, review_id)["verdict"] is None
    command = refused.partition("decide then: ")[2].splitlines()[0]
    assert "EVIL" in desk.run(*command.split()[1:]).stdout
    # To look back takes nothing from that.
    assert desk.run("review", "show", review_id, "--round", "1", "--agent", PERSON).status == 0
    assert run(decided).status == 0
    assert state(desk, review_id)["status"] == "approved"


def test_rounds_shown_long_ago_are_forgotten_and_a_cut_line_spoils_no_later_one(desk: Inside, tmp_path: Path) -> None:
    kept = tmp_path / "config" / "shown.jsonl"
    review_id = desk.created("--agent", "carol")
    assert desk.run("review", "show", review_id).status == 0
    kept.write_bytes(b'["rv_another", "", 1]\n' * 4000 + kept.read_bytes()[:9])
    assert desk.run("review", "show", review_id).status == 0
    assert 0 < kept.stat().st_size < 20_000
    revise(desk, review_id)
    assert "You decide about round 1" in said(desk.run("review", "approve", review_id, "--agent", PERSON), 1)


def test_a_round_that_cannot_be_remembered_is_to_be_named(desk: Inside, tmp_path: Path) -> None:
    (tmp_path / "config/shown.jsonl").mkdir(parents=True)
    review_id = desk.created("--agent", "carol")
    shown = desk.run("review", "show", review_id)
    assert (shown.status, "Name that round when you decide: --round 1" in shown.stderr) == (0, True)
    revise(desk, review_id)
    refused = desk.run("review", "approve", review_id, "--agent", PERSON, "--round", "1", "--json")
    assert refused.envelope["error"]["code"] == "STALE_ROUND"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="platform: only Linux has it")
def test_output_that_has_no_room_is_told_without_a_traceback_and_shows_nothing(desk: Inside) -> None:
    review_id = desk.created("--agent", "carol")
    assert desk.run("review", "show", review_id).status == 0
    revise(desk, review_id)
    with Path("/dev/full").open("wb") as full:
        ended = subprocess.run(
            [sys.executable, "-m", "tandem", "review", "show", review_id],
            cwd=desk.cwd,
            env={**os.environ, "TANDEM_BROKER": desk.url},
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
    assert (ended.returncode, ended.stderr.partition(":")[0]) == (1, "The output could not be written")
    assert "You decide about round 1" in said(desk.run("review", "approve", review_id, "--agent", PERSON), 1)


@pytest.mark.parametrize(
    ("asked", "shown"),
    [
        (("-h",), "Usage: tandem [OPTIONS]"),
        (("help",), "Usage: tandem [OPTIONS]"),
        (("review", "-h"), "Usage: tandem review [OPTIONS]"),
        (("help", "review", "approve"), "Usage: tandem review approve"),
        (("review", "help", "patch", "accept"), "Usage: tandem review patch accept"),
        (("audit", "help"), "Usage: tandem audit"),
        (("version",), "tandem "),
    ],
)
def test_help_and_version_are_where_people_look(desk: Inside, asked: tuple[str, ...], shown: str) -> None:
    ended = desk.run(*asked)
    assert (ended.status, shown in ended.stdout) == (0, True), ended


def test_commands_for_programs_are_carried_out_and_not_listed(desk: Inside) -> None:
    assert [name for name in ("│ mcp ", "│ supervisor ", "│ commits ") if name in desk.run("-h").stdout] == []
    assert [name for name in ("│ create ", "│ renew ", "│ file ") if name in desk.run("review", "-h").stdout] == []
    assert desk.created()
