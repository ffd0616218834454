"""A reviewer process ends when it is told to, when its supervisor is gone, and when it can do nothing more."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tandem.pool.reviewers.job import CANCEL, DRAIN, WorkerExit
from tests.modes import VARIATION
from tests.reviewers.peer import Peer, Refusal
from tests.reviewers.running import is_gone, number_in
from tests.reviewers.working import Reviewer, StartReviewer, answer, deeds

only_posix = pytest.mark.skipif(sys.platform == "win32", reason="platform: signals are of POSIX")
AT_ONCE_SECONDS = 8.0
"""Less than a wait for reviews lasts."""


def hanging(folder: Path) -> tuple[str, ...]:
    """A program that notes its own number and its child's, and hangs."""
    return deeds("child", str(folder / "child"), "note", str(folder / "program"), "sleep", "300")


def until_it_hangs(folder: Path) -> tuple[int, int]:
    """The numbers of the program and of its child, once both run."""
    return number_in(folder / "child"), number_in(folder / "program")


# ---------------------------------------------------------------------------------------------- told to stop


def stop(reviewer: Reviewer, told: str) -> None:
    """Tells it to stop, by a signal or a line."""
    if told.startswith("signal"):
        if sys.platform == "win32":
            pytest.skip("platform: signals are of POSIX")
        reviewer.stop()
    else:
        reviewer.say(b"who knows\n" + (CANCEL if told == "cancel" else DRAIN))


@pytest.mark.parametrize("told", ["signal", "drain", "cancel", "signal without a broker"])
def test_told_to_stop_while_idle_it_ends_at_once(peer: Peer, start: StartReviewer, told: str) -> None:
    reviewer = start(deeds("say", answer()))
    peer.wait_for("list_reviews", 2)
    if told.endswith("without a broker"):
        peer.stop()
    stop(reviewer, told)
    assert reviewer.wait(AT_ONCE_SECONDS) == WorkerExit.IN_ORDER
    assert "told to stop" in reviewer.said()


@pytest.mark.parametrize("told", ["signal", "drain, and again"])
def test_told_to_stop_during_a_review_it_finishes_that_one(
    peer: Peer, start: StartReviewer, tmp_path: Path, told: str
) -> None:
    go_on = tmp_path / "go on"
    peer.put_up()
    peer.put_up(review_id="rv_2")
    reviewer = start(deeds("note", str(tmp_path / "program"), "wait-for", str(go_on), "say", answer()))
    number_in(tmp_path / "program")
    for _ in range(2 if "again" in told else 1):
        stop(reviewer, told)
    reviewer.until_said("told to stop after the review")
    go_on.touch()
    assert reviewer.wait() == WorkerExit.IN_ORDER
    assert peer.wait_for("report_outcome")["outcome"] == "verdict"
    assert len(peer.all("claim_review")) == 1


@VARIATION
@pytest.mark.parametrize("told", ["cancel", "signal, and again"])
def test_told_to_break_off_it_ends_the_review_as_well(
    peer: Peer, start: StartReviewer, tmp_path: Path, told: str
) -> None:
    peer.put_up()
    reviewer = start(hanging(tmp_path))
    pids = until_it_hangs(tmp_path)
    stop(reviewer, told)
    if "again" in told:
        # Signals do not queue up.
        reviewer.until_said("told to stop after the review")
        stop(reviewer, told)
    assert reviewer.wait() == WorkerExit.IN_ORDER
    outcome = peer.wait_for("report_outcome")
    assert (outcome["outcome"], outcome["reason"]) == ("cancelled", "The reviewer was told to stop at once.")
    assert all(is_gone(pid) for pid in pids)
    assert list(reviewer.scratch.iterdir()) == []


@only_posix
def test_what_was_claimed_while_it_was_told_to_stop_is_given_back(peer: Peer, start: StartReviewer) -> None:
    reviewers: list[Any] = []

    def stop_first(_: dict[str, Any]) -> None:
        reviewers[0].stop()
        reviewers[0].until_said("told to stop after the review")

    def find_nothing(_: dict[str, Any]) -> None:
        """As it begins, nothing is there."""

    peer.script["claim_review"] += [find_nothing, stop_first]
    reviewers.append(start(deeds("say", answer())))
    peer.wait_for("list_reviews", 2)
    peer.put_up()
    assert reviewers[0].wait() == WorkerExit.IN_ORDER
    assert [sent["claim_generation"] for sent in peer.all("release_claim")] == [1]
    assert peer.all("report_outcome") == []


# ----------------------------------------------------------------------------------- its supervisor is gone


def test_without_its_supervisor_it_ends_at_once(peer: Peer, start: StartReviewer) -> None:
    reviewer = start(deeds("say", answer()))
    peer.wait_for("list_reviews", 2)
    reviewer.leave()
    assert reviewer.wait(AT_ONCE_SECONDS) == WorkerExit.SUPERVISOR_GONE
    assert "supervisor is gone" in reviewer.complaint()


@pytest.mark.parametrize("broker_is_there", [True, False])
def test_without_its_supervisor_the_program_and_its_children_end(
    peer: Peer, start: StartReviewer, tmp_path: Path, broker_is_there: bool
) -> None:
    peer.put_up()
    peer.put_up(review_id="rv_2")
    reviewer = start(hanging(tmp_path))
    pids = until_it_hangs(tmp_path)
    if not broker_is_there:
        peer.stop()
    reviewer.leave()
    assert reviewer.wait() == WorkerExit.SUPERVISOR_GONE
    assert all(is_gone(pid) for pid in pids)
    assert [one["outcome"] for one in peer.all("report_outcome")] == ["cancelled"] * broker_is_there
    assert len(peer.all("claim_review")) == 1
    assert list(reviewer.scratch.iterdir()) == []


# ------------------------------------------------------------------------------------- the program is no good


@pytest.mark.parametrize(
    ("command", "status", "reason"),
    [
        (deeds("fill-stderr", "0", "leave", "1"), 1, "The program ended with status 1: last complaint"),
        (("no-such-program", "review"), None, "'no-such-program' cannot be started"),
    ],
    ids=["fails", "is not there"],
)
def test_a_program_that_does_not_work_at_all_ends_it(
    peer: Peer, start: StartReviewer, command: tuple[str, ...], status: int | None, reason: str
) -> None:
    peer.put_up()
    peer.put_up(review_id="rv_2")
    reviewer = start(command)
    assert reviewer.wait() == WorkerExit.PROGRAM_FAILED
    told = peer.wait_for("report_outcome")
    assert (told["outcome"], told.get("exit_code")) == ("crashed", status)
    assert reason in told["reason"]
    assert reason in reviewer.complaint()
    assert len(peer.all("claim_review")) == 1


def test_complaints_are_reported_without_what_a_terminal_would_do(peer: Peer, start: StartReviewer) -> None:
    peer.put_up()
    words = r"'first\n\x1b[31mNo\x07 key\x1b[0m \u202eevil' + 'x' * 500 + '\n\n'"
    start((sys.executable, "-c", f"import sys; sys.stderr.write({words}); sys.exit(1)"))
    reason = peer.wait_for("report_outcome")["reason"]
    assert reason.startswith("The program ended with status 1: No\\u0007 key \\u202eevilxxx")
    assert len(reason) < 350


# ----------------------------------------------------------------------------------------- the claim is over


def test_a_claim_that_is_over_ends_its_run(peer: Peer, start: StartReviewer, tmp_path: Path) -> None:
    peer.lease_seconds = 1.5
    program = tmp_path / "program"
    start(deeds("note", str(program), "sleep", "300"))
    for number, code in enumerate(("STALE_CLAIM", "NOT_CLAIMANT", "INVALID_TRANSITION", "NOT_FOUND"), 1):

        def over(_: dict[str, Any], code: str = code) -> None:
            number_in(program)
            raise Refusal(code)

        peer.script["renew_claim"].append(over)
        peer.put_up(review_id=f"rv_{number}")
        told = peer.wait_for("report_outcome", number)
        assert told["outcome"] == "cancelled"
        assert told["reason"] == f"The claim was over before there was an answer ({code})."
        assert is_gone(number_in(program))
        assert len(peer.all("renew_claim")) == number
        program.unlink()


def test_the_claim_is_renewed_while_the_program_lives(peer: Peer, start: StartReviewer, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    peer.lease_seconds = 1.5
    peer.script["renew_claim"] += [Refusal("UNAVAILABLE", retryable=True), Refusal("INTERNAL_ERROR")]
    peer.put_up()
    start(deeds("wait-for", str(go_on), "say", answer()))
    sent = peer.wait_for("renew_claim", 4)
    go_on.touch()
    assert sent["claim_generation"] == 1
    assert peer.wait_for("report_outcome")["outcome"] == "verdict"


# ----------------------------------------------------------------------------------------- the broker is away


def test_a_broker_that_comes_back_finds_it_at_work(peer: Peer, start: StartReviewer, tmp_path: Path) -> None:
    go_on = tmp_path / "go on"
    peer.put_up()
    reviewer = start(deeds("note", str(tmp_path / "program"), "wait-for", str(go_on), "say", answer()))
    number_in(tmp_path / "program")
    peer.stop()
    go_on.touch()
    reviewer.until_said('"verdict": "approved"')
    peer.start()
    assert peer.wait_for("report_outcome")["outcome"] == "verdict"
    assert len(peer.all("submit_verdict")) == 1
    peer.put_up(review_id="rv_2")
    assert peer.wait_for("submit_verdict", 2)["review_id"] == "rv_2"


def test_a_broker_that_refuses_it_ends_it(peer: Peer, start: StartReviewer) -> None:
    peer.script["claim_review"].append(Refusal("UNKNOWN_REVIEWER", "No such reviewer."))
    peer.put_up()
    reviewer = start(deeds("say", answer()))
    assert reviewer.wait() == WorkerExit.BROKER_GONE
    assert "UNKNOWN_REVIEWER: No such reviewer." in reviewer.complaint()


def test_a_fault_of_ours_gives_the_claim_back_and_is_told(peer: Peer, start: StartReviewer) -> None:
    peer.script["get_discussion"].append({"entries": "none"})
    peer.put_up()
    reviewer = start(deeds("say", answer()))
    assert reviewer.wait() == WorkerExit.FAULT
    told = peer.wait_for("report_outcome")
    assert told["outcome"] == "crashed"
    assert "Traceback" in reviewer.said()
    assert "its traceback" in reviewer.complaint()
