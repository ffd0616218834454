"""A reviewer process takes reviews, has its program judge them, and submits each clear verdict."""

from __future__ import annotations

import itertools
import stat
import sys
import time
from pathlib import Path
from typing import Any

from tandem.pool.reviewers.job import WorkerExit
from tests.modes import VARIATION
from tests.reviewers.answers import FINDING as A_FINDING
from tests.reviewers.peer import DIFF, Peer, Refusal
from tests.reviewers.working import StartReviewer, answer, deeds, keeping

FINDING = {**A_FINDING, "line": 1}
ELSEWHERE = {**FINDING, "file": "README.md", "line": 9}


def outcome(peer: Peer, number: int = 1) -> dict[str, Any]:
    """The outcome that was reported, without the key."""
    reported = peer.wait_for("report_outcome", number)
    return {name: value for name, value in reported.items() if name != "idempotency_key"}


def test_a_verdict_is_handed_in_under_its_claim(peer: Peer, start: StartReviewer) -> None:
    peer.put_up()
    reviewer = start(deeds("say", answer(findings=[FINDING])))
    sent = peer.wait_for("submit_verdict")
    key = sent.pop("idempotency_key")
    assert sent == {
        "review_id": "rv_1",
        "project": "shop",
        "claim_generation": 1,
        "round": 1,
        "reviewer_id": reviewer.job.reviewer_id,
        "verdict": "approved",
        "reason": "Read all of it.",
        "findings": [FINDING],
        "answers": [],
        "read_all": True,
    }
    assert len(key) == 32
    told = outcome(peer)
    assert 0 < told.pop("seconds") < 30
    assert told == {
        "reviewer_id": reviewer.job.reviewer_id,
        "review_id": "rv_1",
        "claim_generation": 1,
        "outcome": "verdict",
        "reason": "approved",
        "exit_code": 0,
    }


def test_while_nothing_waits_nothing_is_written(peer: Peer, start: StartReviewer) -> None:
    start(deeds("say", answer()))
    peer.wait_for("list_reviews", 2)
    asked = peer.wait_for("list_reviews", 2)
    # It looks once for a review that others hold, too, when it begins.
    assert len(peer.all("claim_review")) == 1
    assert (asked["wait"], asked["cursor"], asked["timeout_s"], asked["status"]) == (True, "0", 10.0, "pending")


def test_a_review_that_comes_between_the_look_and_the_wait_is_found(peer: Peer, start: StartReviewer) -> None:
    def comes_at_once(sent: dict[str, Any]) -> dict[str, Any]:
        peer.put_up()
        return {"reviews": [], "cursor": "0", "changed": False}

    peer.script["list_reviews"].append(comes_at_once)
    start(deeds("say", answer()))
    assert outcome(peer)["outcome"] == "verdict"


def test_an_old_cursor_is_given_up(peer: Peer, start: StartReviewer) -> None:
    nothing: dict[str, Any] = {"reviews": [], "cursor": "0", "changed": False}
    peer.script["list_reviews"] += [nothing, Refusal("CURSOR_EXPIRED")]
    start(deeds("say", answer()))
    peer.wait_for("list_reviews", 3)
    peer.put_up()
    assert outcome(peer)["outcome"] == "verdict"
    assert "cursor" not in peer.wait_for("list_reviews", 3)


def test_a_broker_that_answers_waits_at_once_is_not_asked_all_the_time(peer: Peer, start: StartReviewer) -> None:
    asked: list[float] = []

    def answers_at_once(_: dict[str, Any]) -> dict[str, Any]:
        asked.append(time.monotonic())
        return {"reviews": [], "cursor": "0", "changed": False}

    peer.script["list_reviews"] += [answers_at_once] * 4
    start(deeds("say", answer()))
    peer.wait_for("list_reviews", 5)
    assert [later - sooner > 0.4 for sooner, later in itertools.pairwise(asked)] == [False, True, True]


def test_the_program_is_told_everything(peer: Peer, start: StartReviewer, tmp_path: Path) -> None:
    said = {"kind": "verdict", "round": 1, "at": "t", "author": "codex-r1", "sender_role": "reviewer"}
    peer.files["AGENTS.md", "tip"] = "Use tabs."
    peer.script["get_discussion"] += [
        {"entries": [{**said, "body": "It loses a row.", "verdict": "changes_requested"}], "next_page": "p2"},
        {"entries": [{**said, "kind": "message", "body": "Why two?", "resolved_by": None}], "next_page": None},
    ]
    peer.script["get_proposal"].append({"interdiff": "-lost\n+kept\n"})
    peer.put_up(round=3)
    start(keeping(tmp_path / "kept", answer()))
    assert outcome(peer)["outcome"] == "verdict"
    prompt = (tmp_path / "kept" / "prompt-1.txt").read_text()
    for words in ("Use tabs.", "It loses a row.", "Why two?", "-lost\n+kept", DIFF, '"round": 3'):
        assert words in prompt
    asked = peer.wait_for("get_proposal")
    assert (asked["round"], asked["since_round"], asked["files"]) == (3, 1, [])


def test_a_large_diff_is_given_by_file(peer: Peer, start: StartReviewer, tmp_path: Path) -> None:
    diff = DIFF + "+x\n" * 100_000
    peer.put_up(diff=diff)
    reviewer = start(keeping(tmp_path / "kept", answer()))
    assert outcome(peer)["outcome"] == "verdict"
    prompt = (tmp_path / "kept" / "prompt-1.txt").read_text()
    assert "+x" not in prompt
    name = prompt.partition("The file `")[2].partition("`")[0]
    assert name.startswith(str(reviewer.scratch))
    assert name.endswith("/given/proposal.diff")
    given = (tmp_path / "kept" / "given-1" / "proposal.diff").read_text()
    assert given.startswith(f'{diff}The nonce of file 1 is "')


def test_findings_are_handed_in_wherever_they_are(peer: Peer, start: StartReviewer) -> None:
    peer.put_up()
    given = [{**FINDING, "file": "b/src/a.py"}, ELSEWHERE, {**FINDING, "file": None, "line": None}]
    start(deeds("say", answer("changes_requested", findings=given, files=[])))
    sent = peer.wait_for("submit_verdict")
    assert sent["findings"] == [{**FINDING, "file": "src/a.py"}, *given[1:]]
    # It asks for changes, which takes no proof; but then no rule makes an approval of that.
    assert sent["read_all"] is False


# ------------------------------------------------------------------------------------------- counter-patches


@VARIATION
def test_a_counter_patch_that_is_refused_is_left_out(peer: Peer, start: StartReviewer) -> None:
    start(deeds("say", answer("changes_requested", counter_patch="no diff")))
    for number, code in enumerate(("INVALID_DIFF", "SCHEMA_INVALID", "TOO_LARGE", "INVALID_INPUT"), 1):
        peer.script["submit_verdict"].append(Refusal(code, field="counter_patch"))
        peer.put_up(review_id=f"rv_{number}")
        first, second = (peer.wait_for("submit_verdict", 2 * number - again) for again in (1, 0))
        assert first["counter_patch"] == "no diff"
        assert "counter_patch" not in second
        assert second["reason"] == f"Read all of it.\n\nA counter-patch was left out: Tandem refused it ({code})."
        assert first["idempotency_key"] != second["idempotency_key"]
        assert outcome(peer, number)["outcome"] == "verdict"
    keys = [sent["idempotency_key"] for sent in peer.all("submit_verdict") + peer.all("claim_review")]
    assert len(set(keys)) == len(keys)


def test_without_a_counter_patch_such_a_refusal_is_final(peer: Peer, start: StartReviewer) -> None:
    peer.script["submit_verdict"].append(Refusal("INVALID_INPUT", "findings: too many."))
    peer.put_up()
    start(deeds("say", answer("rejected")))
    told = outcome(peer)
    assert (told["outcome"], len(peer.all("submit_verdict"))) == ("unreadable", 1)
    assert told["reason"] == "The verdict was refused (INVALID_INPUT): findings: too many."


# ------------------------------------------------------------------------------------------ without a verdict


def test_a_verdict_that_findings_do_not_take_is_no_answer(peer: Peer, start: StartReviewer) -> None:
    start(deeds("say", answer()))
    of_findings: dict[str, dict[str, Any]] = {
        "OPEN_FINDINGS": {"count": 1},
        "INVALID_TRANSITION": {"finding_id": "fn_1"},
    }
    for number, (code, details) in enumerate(of_findings.items(), 1):
        peer.script["submit_verdict"].append(Refusal(code, "fn_1 is open.", **details))
        peer.put_up(review_id=f"rv_{number}")
        told = outcome(peer, number)
        assert (told["outcome"], told["reason"]) == ("unreadable", f"The verdict was refused ({code}): fn_1 is open.")
        assert len(peer.all("submit_verdict")) == number


def test_what_the_broker_makes_of_a_verdict_is_reported(peer: Peer, start: StartReviewer) -> None:
    peer.script["submit_verdict"].append({"status": "approved", "verdict": "approved"})
    peer.put_up()
    start(deeds("say", answer("changes_requested", findings=[{**FINDING, "severity": "nit"}])))
    assert outcome(peer)["reason"] == "approved"


def test_a_verdict_that_comes_too_late_is_dropped_and_so_is_an_outcome(peer: Peer, start: StartReviewer) -> None:
    start(deeds("say", answer()))
    # That no one wants to know of it is no reason to end.
    peer.script["report_outcome"].append(Refusal("STALE_CLAIM"))
    for number, code in enumerate(("STALE_CLAIM", "STALE_ROUND", "NOT_CLAIMANT", "INVALID_TRANSITION"), 1):
        peer.script["submit_verdict"].append(Refusal(code))
        peer.put_up(review_id=f"rv_{number}")
        told = outcome(peer, number)
        assert (told["outcome"], told["reason"]) == ("cancelled", f"The claim was over before the verdict ({code}).")


def test_who_is_not_known_any_more_takes_no_further_review(peer: Peer, start: StartReviewer) -> None:
    peer.script["report_outcome"].append(Refusal("UNKNOWN_REVIEWER"))
    peer.put_up()
    peer.put_up(review_id="rv_2")
    reviewer = start(deeds("say", answer()))
    assert reviewer.wait() == WorkerExit.BROKER_GONE
    assert len(peer.all("claim_review")) == 1


# ------------------------------------------------------------------------------------------------- its log


def test_the_log_has_the_output_and_no_prompt(peer: Peer, start: StartReviewer) -> None:
    peer.put_up(description="the secret of the proposal")
    reviewer = start(deeds("fill-stderr", "0", "say", answer(reason="I was at it.")))
    outcome(peer)
    said = reviewer.said()
    for words in ("I was at it", "last complaint", "custom runs as process", "claim 1: verdict: approved"):
        assert words in said
    assert "the secret of the proposal" not in said
    assert "PATH" not in said
    if sys.platform != "win32":
        assert stat.S_IMODE(reviewer.log.stat().st_mode) == 0o600
