"""The hook at the end of an agent's turn: the agent goes on with its reviews' results, once for each change."""

from __future__ import annotations

import json
import os
import socket
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tandem.hooks.turn import GO_ON, PATIENCE_SECONDS
from tests.forked import run_tandem
from tests.repository.agents import hook
from tests.repository.gating import DIGITS, RUN_SECONDS, Gated
from tests.repository.test_session_hook import told as told_at_start

SESSION = "0b7f3c1e"
AS_AGENT = {"CLAUDECODE": "1", "CLAUDE_CODE_SESSION_ID": SESSION}
START_SECONDS = 2.0
"""How long the start of the hook itself may take on a busy machine."""


def submit(gated: Gated, *options: str, cwd: Path | None = None, marks: dict[str, str] = AS_AGENT) -> str:
    """Have an agent submit the staged change; the review's id."""
    words = options or ("-m", "Count in digits")
    return marked(gated, marks).tandem("submit", "--staged", "--json", *words, cwd=cwd).data["review_id"]


def marked(gated: Gated, marks: dict[str, str] = AS_AGENT) -> Gated:
    """The repository for an agent whose client sets these marks."""
    return replace(gated, environment=marks)


def at_end(folder: Path, session: str | None = SESSION, **environment: str) -> str:
    """Returns the message to an agent at the end of its turn; empty if it may end."""
    said: dict[str, Any] = {"hook_event_name": "Stop", "cwd": str(folder), "stop_hook_active": False}
    said |= {} if session is None else {"session_id": session}
    answer = hook(said, "--client", "claude", cwd=folder, name="turn", **environment)
    assert answer.passes
    if not answer.stdout:
        return ""
    document = json.loads(answer.stdout)
    assert document.pop("decision") == "block"
    assert document["reason"].startswith(GO_ON)
    return document["reason"]


@pytest.fixture
def review(gated: Gated) -> str:
    """A pending review of an agent in the gate's repository."""
    gated.stage(DIGITS)
    return submit(gated)


def test_an_agent_ends_while_its_review_is_pending_and_hears_of_the_verdict_once(gated: Gated, review: str) -> None:
    assert at_end(gated.root) == ""
    gated.decide(review, "changes_requested", "Say two, not 2.")
    text = at_end(gated.root)
    assert f"{review} (Count in digits): changes requested, round 1." in text
    assert "Say two, not 2." in text
    assert f"--revise {review}" in text
    assert at_end(gated.root) == "", "each change is told once"
    gated.stage({"a.txt": "one\ntwo!\nthree\n"})
    assert submit(gated, "--revise", review) == review
    assert at_end(gated.root) == "", "the new round is pending"
    gated.decide(review)
    assert f"{review} (Count in digits): approved, round 2." in at_end(gated.root)
    assert at_end(gated.root) == ""


def test_each_question_is_told_once(gated: Gated, review: str) -> None:
    gated.call("claim_review", review_id=review, reviewer_id="rev-1")
    for number in range(2):
        gated.call("add_message", review_id=review, sender_role="reviewer", body="Why?", reviewer_id="rev-1")
        text = at_end(gated.root)
        assert "its reviewer asks something" in text, number
        assert f"tandem review discussion {review}" in text
        assert at_end(gated.root) == ""
        gated.call("add_message", review_id=review, sender_role="proposer", body="So.")
        assert at_end(gated.root) == ""


def test_after_the_last_round_the_agent_is_told_to_stop_and_that_once(gated: Gated, review: str) -> None:
    for number in range(2):
        gated.decide(review, "changes_requested")
        gated.stage({"a.txt": f"{number}\n"})
        submit(gated, "--revise", review)
    gated.decide(review, "changes_requested")
    assert "Stop, and tell your person" in at_end(gated.root)
    assert at_end(gated.root) == ""


def test_an_agent_in_another_working_tree_or_session_hears_nothing(gated: Gated, review: str, tmp_path: Path) -> None:
    other = gated.linked(tmp_path / "other", "other")
    gated.stage({"b.txt": "beta\n"}, other)
    neighbours = submit(gated, "-m", "Only beta", cwd=other, marks={"CLAUDECODE": "1"})
    gated.decide(review)
    gated.decide(neighbours)
    assert at_end(gated.root, "another") == ""
    in_other = at_end(other, "another")
    assert neighbours in in_other, "a client that names no session to its commands is known by its working tree"
    assert review not in in_other
    text = at_end(gated.root)
    assert review in text
    assert neighbours not in text


def test_what_a_person_submits_keeps_no_agent(gated: Gated) -> None:
    gated.stage(DIGITS)
    gated.decide(submit(gated, marks={}))
    assert at_end(gated.root) == ""


def test_a_review_that_somebody_else_closed_is_told_and_then_over(gated: Gated, review: str) -> None:
    gated.call("close_review", review_id=review, reason="Not now.")
    text = at_end(gated.root)
    assert f"{review} (Count in digits): closed without approval" in text
    assert "Not now." in text
    assert at_end(gated.root) == ""
    assert told_at_start(gated.root).endswith("The broker runs.")


def test_a_review_that_the_agent_closed_or_committed_is_over_at_once(gated: Gated, review: str) -> None:
    gated.decide(review)
    gated.git("commit", "--quiet", "-m", "Digits")
    assert marked(gated).tandem("review", "close", review).status == 0
    assert at_end(gated.root) == ""
    gated.stage({"a.txt": "one\n"})
    withdrawn = submit(gated, "-m", "Only one")
    assert marked(gated).tandem("review", "close", withdrawn).status == 0
    assert at_end(gated.root) == ""


def test_what_was_submitted_by_the_mcp_server_is_told_too(gated: Gated) -> None:
    facts = {"intent": "The plan", "agent_type": "author", "category": "plan_review", "description": "1. Begin."}
    call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "create_review", "arguments": facts}}
    broker = {**os.environ, "TANDEM_BROKER": gated.broker.url}
    done = run_tandem(["mcp"], gated.root, broker, told=json.dumps(call).encode() + b"\n", seconds=RUN_SECONDS)
    review = json.loads(done.stdout)["result"]["structuredContent"]["data"]["review_id"]
    assert at_end(gated.root) == ""
    gated.decide(review, "rejected", "No.")
    assert f"{review} (The plan): rejected, round 1." in at_end(gated.root, None)


def test_a_session_that_starts_hears_what_waits_in_two_lines(gated: Gated, review: str) -> None:
    [gate, line] = told_at_start(gated.root).splitlines()
    assert gate.endswith("The broker runs.")
    assert line == f"{review} (Count in digits): pending."
    gated.decide(review, "rejected", "No.")
    [_, line] = told_at_start(gated.root).splitlines()
    assert line.startswith(f"{review} (Count in digits): rejected. Do it differently, git add, then: tandem submit")
    assert at_end(gated.root) != "", "another session was told"
    for number in range(2):
        gated.stage({"b.txt": f"{number}\n"})
        submit(gated, "-m", f"Number {number}")
    lines = told_at_start(gated.root).splitlines()[1:]
    assert len(lines) == 2
    assert lines[0].endswith("(Number 1): pending.")
    assert lines[1] == "2 more reviews wait: tandem review list"


def test_a_person_ends_it_with_quiet_and_reviewers_never_hear_of_it(gated: Gated, review: str) -> None:
    gated.decide(review)
    refused = marked(gated).tandem("me", "quiet")
    assert refused.status == 1
    assert "a person's to say" in refused.stderr
    assert gated.tandem("me", "rita").status == 0
    assert "end their turns" in gated.tandem("me", "quiet").stdout
    assert "me quiet --off' ends that. You are rita" in " ".join(gated.tandem("me").stdout.split())
    assert at_end(gated.root) == ""
    assert told_at_start(gated.root).endswith("The broker runs.")
    assert gated.tandem("me", "quiet", "--off").status == 0
    assert gated.tandem("me").stdout.startswith("You are rita")
    assert at_end(gated.root, TANDEM_REVIEWER="rev-1") == ""
    assert review in at_end(gated.root)


def test_without_a_submission_nothing_is_asked(gated: Gated, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        gated.rewrite(broker=f"http://127.0.0.1:{silent.getsockname()[1]}")
        assert at_end(gated.root) == ""
        assert at_end(tmp_path) == "", "no repository at all"
        for said in (b"", b"nonsense", b"[]"):
            answer = hook(said, "--client", "codex", cwd=gated.root, name="turn")
            assert (answer.passes, answer.stdout) == (True, "")
        silent.settimeout(0)
        with pytest.raises(BlockingIOError):
            silent.accept()


def test_a_broker_that_is_away_or_hangs_keeps_no_agent(gated: Gated, review: str) -> None:
    gated.decide(review)
    right = gated.switch["broker"]
    with socket.create_server(("127.0.0.1", 0)) as silent:
        for url in ("http://127.0.0.1:9", f"http://127.0.0.1:{silent.getsockname()[1]}"):
            gated.rewrite(broker=url)
            began = time.monotonic()
            assert at_end(gated.root) == ""
            assert time.monotonic() - began < PATIENCE_SECONDS + START_SECONDS, url
    gated.rewrite(broker=right)
    assert review in at_end(gated.root), "it was not told yet"
