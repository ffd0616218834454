"""A provider's quota is waited for and costs no try of a review; and its state says when the next try is."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tandem.pool.reviewers.job import WorkerExit
from tests.acceptance.pooling import Steward, broker, ended, started
from tests.acceptance.reviewing import Desk
from tests.acceptance.staffed import Counter, StaffedBroker, counter, only_posix, program, until
from tests.commandline import Shell, finish

__all__ = ["broker"]

SAID = "You've hit your usage limit"
RUNS_OUT = "import sys; sys.exit('HTTP 429, retry-after: 900')"
WAIT_SECONDS = 1


@pytest.fixture
def steward(shop: Desk) -> Steward:
    """A pool that has just started."""
    return started(shop)


def limited(steward: Steward, seconds: float, outcome: str = "crashed") -> dict[str, Any]:
    """Have a run of a fresh reviewer fail by the quota; the broker's answer."""
    if not steward.desk.do("list_reviews", status="pending")["reviews"]:
        steward.desk.put_up()
    steward.desk.do("resume_reviewers")
    steward.beat(*map(ended, steward.known))
    return steward.fail(steward.one(), outcome, reason=SAID, retry_after_s=seconds)


def said_wait(steward: Steward) -> str:
    """The wait that the pool's state names."""
    return steward.pool()["why"].partition("Next try in ")[2].removesuffix(".")


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Counter]:
    """The project of a broker with one real reviewer at a time."""
    folder = tmp_path_factory.mktemp("quota")
    with StaffedBroker(folder, {"max_pool_size": 1}) as started, counter(started, folder / "repository") as opened:
        yield opened


@only_posix
def test_what_waits_for_a_quota_goes_on_by_itself_and_has_all_its_tries(project: Counter) -> None:
    review = project.ask(f"in-turn rate-limited={WAIT_SECONDS} approve")
    until(lambda: project.of_kind(review, "claim_released"), "its run ends")
    other = project.ask("approve")
    assert project.decided(review)["status"] == project.decided(other)["status"] == "approved"
    [released] = project.of_kind(review, "claim_released")
    assert "attempts" not in released["data"]
    assert [len(project.broker.runs(one)) for one in (review, other)] == [2, 1]
    [paused, resumed] = [
        event
        for event in project.log(f"pool:{project.supervision()['supervisor_id']}")
        if event["kind"] in {"pool_paused", "pool_resumed"}
    ]
    assert (paused["data"]["kind"], paused["data"]["seconds"], resumed["actor"]) == (
        "quota",
        WAIT_SECONDS,
        "broker",
    )
    assert _seconds(paused, resumed) >= WAIT_SECONDS
    # Nothing was tried meanwhile.
    claimed = [event for one in (review, other) for event in project.of_kind(one, "review_claimed")]
    assert all(_seconds(paused, event) < 0 or _seconds(resumed, event) >= 0 for event in claimed)


@only_posix
def test_p7_what_a_model_says_of_quotas_pauses_no_pool_and_what_a_failed_program_prints_does(project: Counter) -> None:
    review = project.ask("speak-of-429")
    until(lambda: project.of_kind(review, "claim_released"), "its run ends")
    [released] = project.of_kind(review, "claim_released")
    assert "attempts" in released["data"]
    # Nor does an answer about quotas, which is an answer.
    assert project.decided(project.ask("reject-429"))["verdict"] == "rejected"
    assert project.supervision()["state"] == "running"
    project.do("close_review", review_id=review)
    review = project.ask("print-429-and-fail")
    until(lambda: project.of_kind(review, "claim_released"), "its run ends")
    [released] = project.of_kind(review, "claim_released")
    assert "attempts" not in released["data"]
    assert (project.supervision()["state"], project.supervision()["why"].count("429")) == ("rate_limited", 1)


@only_posix
def test_of_an_agent_too(tmp_path: Path) -> None:
    command = [*program(tmp_path)[:1], "-I", "-S", "-c", RUNS_OUT]
    with (
        StaffedBroker(tmp_path, {"mode": "agent", "command": command}) as broker,
        counter(broker, tmp_path / "repository") as project,
    ):
        review = project.ask("approve")
        # No event of the review tells it.
        none = until(lambda: project.status(review)["no_reviewer"], "it is waited for")
        assert "HTTP 429, retry-after: 900" in none["message"]
        assert (none["reason"], project.supervision()["state"]) == ("rate_limited", "rate_limited")


def test_every_interface_says_when_the_next_try_is(shop: Desk, steward: Steward) -> None:
    reported = limited(steward, 700)
    assert (reported["attempts"], reported["not_before"], reported["paused"]) == (0, None, SAID)
    review = reported["review_id"]
    status = shop.status(review)
    why = f"codex is rate limited ({SAID}). Next try in 12 min."
    assert status["no_reviewer"] == {
        "reason": "rate_limited",
        "needs_person": False,
        "message": why,
        "remedy": f"Wait: tandem review status {review} --wait",
    }
    assert (status["next_action"], status["turn"], status["attention"]) == ("wait", "reviewer", None)
    assert (steward.pool()["state"], steward.pool()["why"]) == ("rate_limited", why)
    assert shop.refused("POOL_DISABLED", "spawn_reviewer")["why"] == SAID
    [problem] = [one for one in shop.do("get_inbox", person="ada")["problems"] if one["kind"] == "pool"]
    assert (problem["why"], problem["detail"]) == ("rate_limited", why)
    for address in ("/reviewers", f"/reviews/{review}"):
        assert "Next try in 12 min" in httpx.get(f"{shop.url}{address}", timeout=60).text
    # No other review is tried on it meanwhile, and no reviewer is started.
    shop.put_up()
    [reviewer] = steward.known
    assert shop.do("claim_review", reviewer_id=reviewer)["review"] is None
    assert [one["wanted"] for one in steward.beat()["reviewers"]] == ["drain"]
    assert steward.beat(ended(reviewer))["reviewers"] == []


def test_a_command_that_the_message_names_waits(shop: Desk, steward: Steward, tmp_path: Path) -> None:
    review = limited(steward, 700)["review_id"]
    _, _, command = shop.status(review)["no_reviewer"]["remedy"].partition("Wait: tandem ")
    shell = Shell(shop.url, tmp_path)
    # It waits, and does not end with 14 as where a person is needed.
    assert finish(shell.start(*command.split(), "--timeout", "0.5", CLAUDECODE="1")).status == 12
    waiting = shell.start(*command.split(), CLAUDECODE="1")
    shop.approve(review)
    assert finish(waiting).status == 0


def test_a_wait_that_is_not_named_grows_until_there_is_a_verdict_and_asks_no_person(
    shop: Desk, steward: Steward
) -> None:
    review = shop.put_up()
    waits: list[str] = []
    for outcome in ("crashed", "no_verdict", "unreadable", "timeout", *["crashed"] * 3):
        assert limited(steward, 0, outcome)["attention"] is None
        waits.append(said_wait(steward))
    assert waits == ["1 min", "2 min", "4 min", "8 min", "16 min", "32 min", "1 h"]
    shop.do("resume_reviewers")
    steward.beat(*map(ended, steward.known))
    reviewer = steward.one()
    # A failure of its own still counts.
    assert steward.fail(reviewer)["attempts"] == 1
    shop.approve(review, reviewer)
    shop.put_up()
    waits.clear()
    # Nor does it grow from one that was named.
    for seconds in (0, 1800, 0):
        limited(steward, seconds)
        waits.append(said_wait(steward))
    assert waits == ["1 min", "30 min", "2 min"]


def test_several_runs_that_fail_at_once_wait_for_the_longest_wait(shop: Desk, steward: Steward) -> None:
    shop.put_up()
    shop.put_up()
    reviewer = steward.one()
    claims = [shop.do("claim_review", reviewer_id=reviewer) for _ in range(2)]
    for claim, seconds in zip(claims, (700, 0), strict=True):
        steward.report(reviewer, claim, "crashed", retry_after_s=seconds)
    assert said_wait(steward) == "12 min"


def test_it_outlasts_a_restart_but_not_another_program(steward: Steward) -> None:
    limited(steward, 700)
    steward.register()
    assert steward.pool()["state"] == "rate_limited"
    steward.register(provider="claude")
    assert steward.pool()["state"] == "running"


def test_what_an_agent_held_is_given_back_without_a_try(shop: Desk, steward: Steward) -> None:
    steward.register(mode="agent")
    review = shop.put_up()
    reviewer = steward.one()
    shop.claim(review, reviewer)
    steward.beat(ended(reviewer, WorkerExit.RATE_LIMITED, error=SAID) | {"retry_after_s": 700})
    assert shop.status(review)["status"] == "pending"
    assert "attempts" not in shop.events(review)[-1]["data"]
    assert said_wait(steward) == "12 min"


def _seconds(earlier: dict[str, Any], later: dict[str, Any]) -> float:
    return (datetime.fromisoformat(later["at"]) - datetime.fromisoformat(earlier["at"])).total_seconds()
