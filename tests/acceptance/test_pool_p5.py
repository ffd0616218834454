"""P5 and P1 with real processes: reviewers that stand still, work long, or are killed in the middle of a review."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from datetime import UTC, datetime

import pytest

from tests.acceptance.staffed import Counter, StaffedBroker, counter, go_on, only_posix, stand_still, until
from tests.reviewers.running import is_gone

pytestmark = only_posix
LEASE_SECONDS = 12
"""It is renewed every third of it, so a reviewer may be kept off the processor for two thirds: who lets it run out is
ended. With 5, and with 8, that was too little on a machine with seven times as much to do as it has processors."""
DEADLINE_SECONDS = 12
"""The renewal after 4 seconds is the first that it cuts short. Half of the 8 that are left, by then, is for ending the
program and giving the review back, which takes 1 second on an idle machine, since every process is looked at."""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """The project of a broker whose leases are short, and that always keeps three reviewers."""
    folder = tmp_path_factory.mktemp("p5")
    # Who lets a lease run out is ended; not so soon here that it could not come back and be late.
    pool = {"min_pool_size": 3, "max_pool_size": 3, "background_check_interval_seconds": 1, "grace_seconds": 30}
    with (
        StaffedBroker(folder, pool, sweep_interval_seconds=0.2, claim_timeout_seconds=LEASE_SECONDS) as broker,
        counter(broker, folder / "repository") as opened,
    ):
        until(lambda: len(opened.active()) == 3, "all reviewers run")
        yield opened


@pytest.fixture(scope="module")
def endless(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Counter, str]]:
    """The project of a broker with a deadline, and a review that no program ends; its time runs during other tests."""
    folder = tmp_path_factory.mktemp("endless")
    with (
        StaffedBroker(folder, review_deadline_seconds=DEADLINE_SECONDS) as broker,
        counter(broker, folder / "repository") as opened,
    ):
        yield opened, opened.ask("hold never")


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """The project of a broker whose leases outlast any test: a review is released for another reason only."""
    folder = tmp_path_factory.mktemp("patient")
    with StaffedBroker(folder) as broker, counter(broker, folder / "repository") as opened:
        yield opened


def halt(project: Counter, review: str) -> list[int]:
    """Stops the reviewer that holds a review, and its program; their processes."""
    holder = project.claimed(review)["reviewer_id"]
    processes = [project.member(holder)["pid"], project.broker.running(review)["pid"]]
    stand_still(processes)
    return processes


def instant(stated: str) -> datetime:
    """A time as the broker writes it."""
    return datetime.fromisoformat(stated)


@pytest.mark.usefixtures("endless")
def test_p5_p1_the_late_verdict_of_one_who_stood_still_is_refused_and_who_works_keeps_its_claim(
    project: Counter,
) -> None:
    slow = project.ask("hold slow")
    first = project.claimed(slow)
    lease = instant(first["lease_expires_at"])
    review = project.ask("hold late")
    processes = halt(project, review)
    late = project.status(review)["reviewer_id"]
    try:
        # The other one takes it when the lease is over, and its program answers at once.
        second = project.broker.running(review, 2)
        assert second["environment"]["TANDEM_REVIEWER"] != late
        project.broker.let("late")
        status = project.decided(review)
        assert (status["status"], status["verdict"]) == ("approved", "approved")
        decided_by = status["reviewer_id"]
        assert decided_by == second["environment"]["TANDEM_REVIEWER"]
        before = project.everything(review)
    finally:
        go_on(reversed(processes))
    # It has its answer, which is an approval too; it hears that the claim is not its own any more.
    until(lambda: project.outcomes(review).count("cancelled") == 1, "the late one says what became of it")
    assert project.everything(review) == before
    assert sorted(project.outcomes(review)) == ["cancelled", "timeout", "verdict"]
    assert [event["actor"] for event in project.of_kind(review, "verdict_submitted")] == [decided_by]
    assert "verdict" not in project.member(late)["outcomes"]
    [reclaimed] = project.of_kind(review, "review_reclaimed")
    assert (reclaimed["data"]["reviewer_id"], reclaimed["data"]["reason"]) == (late, "lease expired")
    # All the while another one was at work, whose first lease is over, too.
    assert datetime.now(UTC) > lease
    now = project.status(slow)
    assert (now["status"], now["claim_generation"], now["reviewer_id"]) == ("claimed", 1, first["reviewer_id"])
    assert instant(now["lease_expires_at"]) > lease
    project.broker.let("slow")
    assert project.decided(slow)["claim_generation"] == 1
    assert project.outcomes(slow) == ["verdict"]


def test_p5_a_claim_does_not_last_beyond_the_deadline(endless: tuple[Counter, str]) -> None:
    project, review = endless
    released = until(lambda: project.of_kind(review, "claim_released"), "the deadline comes")[0]
    claimed = project.of_kind(review, "review_claimed")[0]
    assert released["actor"] == claimed["actor"], project.events(review)
    assert "deadline" in released["data"]["reason"]
    assert released["data"]["attempts"] == 1
    # At the deadline its reviewer begins to give it back.
    assert (instant(released["at"]) - instant(claimed["at"])).total_seconds() <= DEADLINE_SECONDS + 1
    assert project.status(review)["verdict"] is None
    project.do("close_review", review_id=review)
    until(lambda: len(project.broker.programs()) == 0, "no program works on a closed review")


def test_p5_what_a_killed_reviewer_held_is_tried_again_at_once(patient: Counter) -> None:
    review = patient.ask("hold-with-brood killed")
    holder = patient.claimed(review)
    run = patient.broker.running(review)
    until(lambda: len(patient.broker.programs()) == 3, "the children run")
    [worker] = patient.broker.workers()
    assert worker.pid == patient.member(holder["reviewer_id"])["pid"]
    theirs = patient.broker.programs()
    assert run["pid"] in {one.pid for one in theirs}
    assert len(theirs) == 3
    [tree] = patient.broker.trees()
    os.kill(worker.pid, signal.SIGKILL)
    status = patient.when(review, lambda one: one["claim_generation"] >= 3, "is claimed by the next")
    assert status["reviewer_id"] != holder["reviewer_id"]
    [reclaimed] = patient.of_kind(review, "review_reclaimed")
    assert instant(reclaimed["at"]) < instant(holder["lease_expires_at"])
    assert "SIGKILL" in reclaimed["data"]["reason"]
    assert reclaimed["data"]["attempts"] == 1
    assert all(is_gone(one.pid) for one in theirs)
    assert not tree.exists()
    gone = patient.member(holder["reviewer_id"])
    assert (gone["state"], gone["exit_code"], gone["outcomes"]["crashed"]) == ("terminated", -signal.SIGKILL, 1)
    patient.broker.let("killed")
    assert patient.decided(review)["status"] == "approved"
    assert patient.outcomes(review) == ["crashed", "verdict"]
    assert len(patient.of_kind(review, "verdict_submitted")) == 1


def test_p5_a_review_whose_reviewer_is_ended_by_hand_goes_to_the_next_and_loses_no_try(patient: Counter) -> None:
    review = patient.ask("hold-with-brood by-hand")
    reviewer = patient.claimed(review)["reviewer_id"]
    until(lambda: len(patient.broker.programs()) == 3, "the children run")
    theirs = patient.broker.programs()
    patient.do("kill_reviewer", reviewer_id=reviewer)
    # Asked to end, it finishes its work first; forced to, it does not.
    assert patient.member(reviewer)["state"] == "draining"
    assert not any(is_gone(one.pid) for one in theirs)
    patient.do("kill_reviewer", reviewer_id=reviewer, force=True)
    again = patient.when(review, lambda one: one["claim_generation"] >= 3, "is claimed by the next")
    assert again["reviewer_id"] != reviewer
    assert all(is_gone(one.pid) for one in theirs)
    patient.broker.let("by-hand")
    patient.decided(review)
    assert patient.outcomes(review) == ["cancelled", "verdict"]
    assert [event["data"].get("attempts") for event in patient.of_kind(review, "claim_released")] == [None]
