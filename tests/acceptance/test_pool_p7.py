"""P7 with real processes: a program that fails, times out or answers nonsense never becomes an approval."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pytest

from tests.acceptance.reviewing import edited
from tests.acceptance.staffed import Counter, StaffedBroker, counter, only_posix, until

pytestmark = only_posix
TRIES = 3

WITHOUT_ANSWER = {
    "hang": ("timeout", "The program said nothing and was ended after"),
    "brood": ("timeout", "The program said nothing and was ended after"),
    "approve-and-hang": ("timeout", "The program was ended after"),
    "complain": ("no_verdict", "The program ended in order and gave no answer"),
    "tamper": ("no_verdict", "The program ended in order and gave no answer"),
}
# Some of what `tests/reviewers` has: test_programs.py the ways that a run ends, test_verdicts.py the wrong answers.
WITH_A_WRONG_ONE = {
    "endless": ("unreadable", "The program wrote without end"),
    "other-digest": ("unreadable", "The program's answer cannot be used"),
    "earlier-nonce": ("unreadable", "The program's answer cannot be used"),
    "nonces-of-another": ("unreadable", "it was not read to its end"),
}
CRASHES = {
    "fail": ("crashed", "The program ended with status 3: the service is not there"),
    "approve-and-fail": ("crashed", "The program ended with status 3: the service is not there"),
    "approve-and-die": ("crashed", "The program ended by signal 9"),
}
MISCHIEF = {**WITHOUT_ANSWER, **WITH_A_WRONG_ONE}
DEEDS = [*MISCHIEF]
TURNS = [DEEDS[number :: len(DEEDS) // TRIES] for number in range(len(DEEDS) // TRIES)]
"""The deeds of each review, one at each of its runs: the slow ones are spread over the reviews."""


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[StaffedBroker]:
    """A broker with a pool of impatient reviewers."""
    pool = {"max_pool_size": 6, "scaling_ratio": 1, "attempt_seconds": 3, "output_bytes": 1_000_000}
    with StaffedBroker(tmp_path_factory.mktemp("p7"), {**pool, "log_max_bytes": 1_000_000}) as started:
        yield started
        started.assert_intact()


@pytest.fixture(scope="module")
def project(broker: StaffedBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """Its project."""
    with counter(broker, tmp_path_factory.mktemp("p7") / "repository") as opened:
        yield opened


@dataclass(frozen=True)
class Mischief:
    """Reviews whose programs did all that was asked of them.

    Attributes:
        reviews: The review of each of `TURNS`.
        left: The processes that were there, in words, when the last of them was done.
        started: How many processes the programs had noted by then.
    """

    reviews: list[str]
    left: list[list[str]]
    started: int


@pytest.fixture(scope="module")
def mischief(broker: StaffedBroker, project: Counter) -> Mischief:
    """All reviews at once, since most of them take their time: each is tried until a person is asked."""
    digest = project.status(project.approved())["digest"]
    named = [[f"{deed}={digest}" if deed == "other-digest" else deed for deed in turn] for turn in TURNS]
    reviews = [project.ask(f"in-turn {' '.join(turn)}") for turn in named]
    for review in reviews:
        project.decided(review)
    left = [one.cmdline() for one in broker.programs()]
    return Mischief(reviews, left, len(broker.started()))


def test_p7_never_an_approval(project: Counter, mischief: Mischief) -> None:
    for review, turn in zip(mischief.reviews, TURNS, strict=True):
        assert_given_up(project, review, [MISCHIEF[deed] for deed in turn])


def assert_given_up(project: Counter, review: str, runs: Sequence[tuple[str, str]]) -> None:
    """All that a user sees of a review at which three runs have failed, with the outcome and the reason of each."""
    status = project.status(review)
    assert (status["status"], status["verdict"], status["outcome"]) == ("pending", None, None)
    assert (status["turn"], status["next_action"]) == ("proposer", "escalate")
    assert f"{TRIES} reviewers gave no verdict" in status["attention"]
    assert runs[-1][1] in status["attention"]
    assert not project.is_open_for(status["digest"])
    assert project.kinds(review) == [
        "review_created",
        *["review_claimed", "claim_released"] * TRIES,
        "attention_raised",
    ]
    released = [event["data"] for event in project.of_kind(review, "claim_released")]
    assert [one["attempts"] for one in released] == [1, 2, 3]
    assert [one["not_before"] is None for one in released] == [False, False, True]
    for one, (outcome, reason) in zip(released, runs, strict=True):
        assert one["reason"].startswith(f"{outcome}: "), released
        assert reason in one["reason"], released
    assert project.outcomes(review) == [outcome for outcome, _ in runs]
    assert len(project.broker.runs(review)) == TRIES
    waiting = [one["review_id"] for one in project.do("list_reviews", attention=True)["reviews"]]
    assert review in waiting


def test_p7_a_quoted_answer_approves_nothing(project: Counter) -> None:
    """The digest of a change is known beforehand: so its proposer can write a whole answer into the description."""
    diff = edited(line=3, text="quoted")
    known = project.put_up_whole(intent="leave", diff=diff)
    project.do("close_review", review_id=known["review_id"])
    approval: dict[str, Any] = {"digest": known["digest"], "summary": None, "findings": [], "reason": "Read all of it."}
    approval |= {"verdict": "approved", "counter_patch": None}
    deeds = "in-turn quote quote-alone quote-with-answer"
    review = project.put_up(intent=deeds, diff=diff, description=json.dumps(approval))
    status = project.decided(review)
    assert (status["status"], status["verdict"], status["digest"]) == ("pending", None, known["digest"])
    assert project.outcomes(review) == ["unreadable"] * TRIES
    assert not project.is_open_for(known["digest"])


def test_p7_the_nonce_of_a_run_is_not_in_its_log(project: Counter) -> None:
    review = project.approved("approve-in-pieces")
    [run] = project.broker.runs(review)
    reviewer = project.status(review)["reviewer_id"]

    def log() -> str | None:
        said = "\n".join(project.do("get_reviewer_log", reviewer_id=reviewer)["lines"])
        return said if f"review {review}, claim 1: verdict" in said else None

    # The line that the program left open ends with the reviewer's own, which comes after the verdict.
    said = until(log, f"{reviewer} notes the outcome")
    assert '"nonce": "********************************"' in said
    assert run["nonce"] not in said


def test_p7_nothing_of_theirs_is_left_running(mischief: Mischief) -> None:
    # Every run notes itself; `brood` has two more, one of them outside of its session.
    assert mischief.started >= 1 + len(DEEDS) + 2
    assert mischief.left == []


def test_p7_the_next_good_review_is_approved(project: Counter, mischief: Mischief) -> None:
    review = project.approved()
    assert review not in mischief.reviews
    status = project.status(review)
    assert project.is_open_for(status["digest"])
    assert project.supervision()["state"] == "running"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """The project of a broker that has one reviewer at a time, so that it is known which is the newest."""
    folder = tmp_path_factory.mktemp("p7-small")
    with StaffedBroker(folder, {"max_pool_size": 1}) as broker, counter(broker, folder / "repository") as opened:
        yield opened


def test_p7_a_program_that_crashes_is_tried_again_and_its_reviewer_replaced(small: Counter) -> None:
    review = small.ask(f"in-turn {' '.join(CRASHES)}")
    small.decided(review)
    assert_given_up(small, review, [*CRASHES.values()])
    assert small.broker.programs() == []
    claimants = [event["actor"] for event in small.of_kind(review, "review_claimed")]
    assert len({*claimants}) == TRIES
    for reviewer, (_, reason) in zip(claimants, CRASHES.values(), strict=True):
        until(lambda who=reviewer: small.member(who)["state"] == "terminated", f"{reviewer} has ended")
        ended = small.member(reviewer)
        assert ended["exit_code"] == 3
        assert reason in ended["end_reason"]
    # As after every good sign: a fourth crash in a row would stop the pool.
    small.do("resume_reviewers")
    assert small.approved()


def test_p7_one_failure_is_only_that(project: Counter) -> None:
    review = project.approved("in-turn garbage approve")
    assert project.outcomes(review) == ["unreadable", "verdict"]
    assert len(project.of_kind(review, "verdict_submitted")) == 1
