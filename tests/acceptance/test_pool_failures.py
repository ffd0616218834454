"""What becomes of reviews whose reviewers fail (P5, P7). A supervisor on paper, a real broker, both databases."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Any

import pytest

from tests.acceptance.pooling import Steward, broker, ended, started
from tests.acceptance.reviewing import Desk
from tests.broker import StartBroker
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION

__all__ = ["broker"]


@pytest.fixture
def steward(shop: Desk) -> Steward:
    """A pool that has just started."""
    return started(shop)


def failed_for_good(steward: Steward) -> str:
    """A review at which three runs have failed; its id."""
    review = steward.desk.put_up()
    reviewer = steward.one()
    for _ in range(3):
        steward.fail(reviewer)
    return review


@ON_BOTH_DATABASES
def test_p7_after_two_more_tries_a_person_is_asked_and_nobody_else_gets_it(shop: Desk, steward: Steward) -> None:
    review = shop.put_up()
    reviewer = steward.one()
    cursor = shop.status(review)["cursor"]
    assert [steward.fail(reviewer)["attention"] is None for _ in range(3)] == [True, True, False]
    status = shop.do("get_review_status", review_id=review, wait=True, cursor=cursor, timeout_s=20)
    # Who waits for the verdict is told at once that there will be none.
    assert status["changed"]
    assert (status["status"], status["turn"], status["next_action"]) == ("pending", "proposer", "escalate")
    assert "it took too long" in status["attention"]
    assert shop.do("claim_review", reviewer_id=reviewer)["review"] is None
    assert shop.do("claim_review", reviewer_id="a-person-without-a-name")["review"] is None
    assert [one["review_id"] for one in shop.do("list_reviews", attention=True)["reviews"]] == [review]
    # It is no reason to start anybody, either.
    steward.beat(ended(reviewer))
    assert steward.beat()["reviewers"] == []
    assert shop.kinds(review)[-1] == "attention_raised"


def test_a_person_who_claims_it_has_looked(shop: Desk, steward: Steward) -> None:
    review = failed_for_good(steward)
    generation = shop.claim(review, "a-person")
    assert shop.status(review)["attention"] is None
    assert shop.kinds(review)[-2:] == ["attention_cleared", "review_claimed"]
    shop.verdict(review, "approved", generation)
    assert shop.status(review)["status"] == "approved"


def test_a_retry_by_hand_gives_it_out_again(shop: Desk, steward: Steward) -> None:
    review = failed_for_good(steward)
    answer = shop.do("retry_review", review_id=review)
    assert (answer["attention"], answer["turn"], answer["next_action"]) == (None, "reviewer", "wait")
    reviewer = next(iter(steward.known))
    # All tries are there again.
    assert steward.fail(reviewer)["attempts"] == 1
    assert [shop.do("retry_review", review_id=review)["changed"] for _ in range(2)] == [True, False]
    shop.approve(review)
    refusal = shop.refused("INVALID_TRANSITION", "retry_review", review_id=review)
    assert refusal["allowed"] == ["pending"]


@pytest.mark.parametrize("how", ["revise", "close"])
def test_a_revision_and_a_close_need_nobodys_attention(shop: Desk, steward: Steward, how: str) -> None:
    review = failed_for_good(steward)
    if how == "revise":
        shop.revise(review)
        assert shop.status(review)["next_action"] == "wait"
        assert steward.fail(next(iter(steward.known)))["attempts"] == 1
    else:
        shop.do("close_review", review_id=review)
    assert shop.status(review)["attention"] is None
    assert shop.do("list_reviews", attention=True)["reviews"] == []


def test_a_later_try_waits_longer_each_time_and_a_hand_makes_it_now(shop: Desk) -> None:
    steward = started(shop, retry_delay_seconds=100)
    review = shop.put_up()
    reviewer = steward.one()
    waits: list[float] = []
    for _ in range(2):
        generation = shop.claim(review, reviewer)
        before = time.time()
        claim = {"review_id": review, "claim_generation": generation}
        waits.append(
            datetime.fromisoformat(steward.report(reviewer, claim, "timeout")["not_before"]).timestamp() - before
        )
        assert shop.do("claim_review", reviewer_id=reviewer)["review"] is None
    assert 99 < waits[0] < 130
    assert 399 < waits[1] < 430
    shop.do("retry_review", review_id=review)
    assert shop.do("claim_review", reviewer_id=reviewer)["review_id"] == review


def test_p1_a_late_report_changes_nothing_for_who_holds_it_now(shop: Desk, steward: Steward) -> None:
    review = shop.put_up()
    reviewer = steward.one()
    claim = shop.do("claim_review", reviewer_id=reviewer)
    shop.do("release_claim", review_id=review, claim_generation=claim["claim_generation"])
    holder = shop.do("claim_review", reviewer_id="another")
    with shop.unchanged(review):
        steward.report(reviewer, claim, "timeout")
    assert shop.status(review)["claim_generation"] == holder["claim_generation"]
    assert steward.seen(reviewer)["outcomes"] == {"timeout": 1}


def test_reports_of_nobodys_reviewers_are_refused(shop: Desk, steward: Steward) -> None:
    review = shop.put_up()
    steward.one()
    claim = shop.do("claim_review", review_id=review, reviewer_id="a-person")
    with shop.unchanged(review):
        shop.refused(
            "UNKNOWN_REVIEWER",
            "report_outcome",
            reviewer_id="a-person",
            review_id=review,
            claim_generation=claim["claim_generation"],
            outcome="crashed",
        )


def test_p5_a_new_start_takes_back_what_the_one_before_held_and_nothing_else(shop: Desk, steward: Steward) -> None:
    ours, persons, strangers = (shop.put_up() for _ in range(3))
    other = started(shop)
    reviewer = steward.one()
    shop.claim(persons, "a-person")
    shop.claim(ours, reviewer)
    steward.beat()
    for _ in range(4):
        shop.put_up()
    stranger = other.one()
    shop.claim(strangers, stranger)
    steward.register()
    assert shop.status(ours)["status"] == "pending"
    assert shop.status(ours)["attention"] is None
    assert [shop.status(one)["status"] for one in (persons, strangers)] == ["claimed", "claimed"]
    assert steward.seen(reviewer)["state"] == "terminated"


@ON_BOTH_DATABASES
def test_p7_too_many_quick_exits_open_the_circuit_loudly_and_a_hand_closes_it(shop: Desk, steward: Steward) -> None:
    review = shop.put_up()
    for _ in range(4):
        reviewer = steward.one()
        steward.beat(ended(reviewer, 3, quick=True, error="Its program cannot be started: there is no 'codex'."))
    orders = steward.beat()
    assert orders["reviewers"] == []
    assert orders["circuit_open_until"] is not None
    pool = steward.pool()
    assert pool["state"] == "circuit_open"
    assert "there is no 'codex'" in pool["why"]
    assert shop.refused("SPAWN_COOLDOWN", "spawn_reviewer")["retry_after_s"] > 200
    assert (shop.status(review)["status"], shop.status(review)["verdict"]) == ("pending", None)
    resumed = shop.do("resume_reviewers", supervisor_id=steward.supervisor_id)["pools"]
    assert [one["state"] for one in resumed] == ["running"]
    assert len(steward.beat()["reviewers"]) == 1
    kinds = [event["kind"] for event in steward.log(f"pool:{steward.supervisor_id}")]
    assert kinds == ["pool_registered", "circuit_opened", "circuit_closed"]


def test_one_that_lasts_between_quick_exits_keeps_the_circuit_closed(shop: Desk, steward: Steward) -> None:
    shop.put_up()
    for number in range(8):
        reviewer = steward.one()
        steward.beat(ended(reviewer, 3 if number % 4 else 0, quick=bool(number % 4), error="no"))
    assert len(steward.beat()["reviewers"]) == 1


def test_quick_exits_make_starts_rarer(shop: Desk) -> None:
    steward = started(shop, spawn_cooldown_seconds=30)
    shop.put_up()
    reviewer = steward.one()
    orders = steward.beat(ended(reviewer, 3, quick=True, error="no"))
    assert orders["reviewers"] == []
    # Twice the cooldown after the first of them.
    assert 50 < orders["again_s"] <= 60


def test_a_paused_pool_starts_nothing_and_its_reviewers_finish(shop: Desk, steward: Steward) -> None:
    review = shop.put_up()
    reviewer = steward.one()
    claim = shop.do("claim_review", reviewer_id=reviewer)
    paused = shop.do("pause_reviewers", supervisor_id=steward.supervisor_id, reason="the model is too dear")["pools"]
    assert [(one["state"], one["supervisor_id"]) for one in paused] == [("paused", steward.supervisor_id)]
    assert "too dear" in paused[0]["why"]
    orders = steward.beat()
    assert orders["paused"] == "the model is too dear"
    assert orders["reviewers"][0]["wanted"] == "drain"
    shop.do("submit_verdict", review_id=review, verdict="approved", claim_generation=claim["claim_generation"])
    steward.beat(ended(reviewer))
    shop.put_up()
    assert steward.beat()["reviewers"] == []
    assert "too dear" in shop.refused("POOL_DISABLED", "spawn_reviewer")["why"]
    # A restart is no reason to go on.
    steward.register()
    assert steward.beat()["reviewers"] == []
    shop.do("resume_reviewers", supervisor_id=steward.supervisor_id)
    assert len(steward.beat()["reviewers"]) == 1
    assert shop.refused("NOT_FOUND", "pause_reviewers", supervisor_id="no-such-pool")["allowed"]


def test_quiet_hours_pause_and_end_by_themselves(shop: Desk, steward: Steward) -> None:
    shop.put_up()
    assert steward.beat(quiet=True)["reviewers"] == []
    assert steward.pool()["state"] == "paused"
    assert len(steward.beat()["reviewers"]) == 1
    kinds = [event["kind"] for event in steward.log(f"pool:{steward.supervisor_id}")]
    assert kinds == ["pool_registered", "pool_paused", "pool_resumed"]


@ON_BOTH_DATABASES
@pytest.mark.usefixtures("within_a_day")
@pytest.mark.parametrize(
    ("budget", "spending"),
    [
        ({"budget_per_review": 0.5}, {"cost_usd": 0.6}),
        pytest.param({"token_budget_per_review": 1000}, {"tokens_in": 900, "tokens_out": 200}, marks=VARIATION),
        pytest.param({"budget_per_day": 0.5}, {"cost_usd": 0.5}, marks=VARIATION),
        ({"token_budget_per_day": 1000}, {"tokens_in": 900, "tokens_out": 200}),
    ],
)
def test_a_budget_that_is_used_up_pauses_the_pool(shop: Desk, budget: dict[str, Any], spending: dict[str, Any]) -> None:
    steward = started(shop, **budget)
    review = shop.put_up()
    reviewer = steward.one()
    claim = shop.do("claim_review", reviewer_id=reviewer)
    shop.do("submit_verdict", review_id=review, verdict="approved", claim_generation=claim["claim_generation"])
    assert "budget" in steward.report(reviewer, claim, "verdict", reason=None, **spending)["paused"]
    assert steward.beat()["reviewers"][0]["wanted"] == "drain"
    pool, shown = steward.pool(), steward.seen(reviewer)
    assert pool["state"] == "paused"
    assert "budget" in pool["why"]
    assert (pool["spent_today_usd"], pool["tokens_today"]) == (
        spending.get("cost_usd"),
        spending.get("tokens_in", 0) + spending.get("tokens_out", 0),
    )
    assert shown["cost_usd"] == pytest.approx(spending.get("cost_usd", 0))
    assert shown["outcomes"] == {"verdict": 1}


def test_what_a_reviewer_did_is_counted(shop: Desk, steward: Steward) -> None:
    reviews = [shop.put_up() for _ in range(3)]
    reviewer = steward.one()
    for review, verdict in zip(reviews, ("approved", "changes_requested", "rejected"), strict=True):
        claim = shop.do("claim_review", review_id=review, reviewer_id=reviewer)
        assert steward.seen(reviewer)["review_id"] == review
        shop.verdict(review, verdict, claim["claim_generation"])
    shown = steward.seen(reviewer)
    assert (shown["reviews_completed"], shown["approvals"], shown["rejections"]) == (3, 1, 1)
    assert shown["approval_rate"] == pytest.approx(1 / 3)
    assert shown["mean_review_seconds"] > 0
    assert shown["outcomes"] == {"verdict": 3}
    assert shown["review_id"] is None


def test_p5_who_lets_a_lease_run_out_is_ended_and_replaced(start_broker: StartBroker, repo: Sandbox) -> None:
    broker = start_broker(claim_timeout_seconds=1, sweep_interval_seconds=0.1)
    with Desk(broker.url, "stuck") as desk:
        desk.register(repo.root)
        steward = started(desk)
        review = desk.put_up()
        reviewer = steward.one()
        cursor = desk.do("claim_review", reviewer_id=reviewer)["cursor"]
        assert desk.do("get_audit_log", kind="review_reclaimed", wait=True, cursor=cursor, timeout_s=50)["changed"]
        orders = {one["reviewer_id"]: one["wanted"] for one in steward.beat()["reviewers"]}
        assert orders.pop(reviewer) == "kill"
        assert steward.seen(reviewer)["drain_reason"] == "stuck"
        # It does not count as one who works: somebody else is started for the review.
        assert list(orders.values()) == ["run"]
        assert desk.status(review)["status"] == "pending"


def test_quick_exits_of_those_who_had_worked_do_not_open_the_circuit(shop: Desk, steward: Steward) -> None:
    for _ in range(6):
        review = shop.put_up()
        reviewer = steward.one()
        shop.approve(review, reviewer)
        steward.beat(ended(reviewer, 3, quick=True, error="its program crashed"))
    assert steward.pool()["state"] == "running"


def test_a_resume_forgets_the_failures_before_one_that_runs(shop: Desk) -> None:
    steward = started(shop, max_pool_size=1)
    shop.put_up()
    for _ in range(3):
        steward.beat(ended(steward.one(), 3, quick=True, error="no"))
    reviewer = steward.one()
    shop.do("resume_reviewers", supervisor_id=steward.supervisor_id)
    steward.beat(ended(reviewer, 3, quick=True, error="no"))
    assert steward.pool()["state"] == "running"


def test_p4_a_start_that_is_registered_again_is_the_same_start(shop: Desk, steward: Steward) -> None:
    """A supervisor that did not get the answer repeats the call, with another key or none; its reviewers go on."""
    shop.put_up()
    start, reviewer = steward.incarnation, steward.one()
    log = steward.log(f"pool:{steward.supervisor_id}")
    steward.register(incarnation=start)
    assert steward.log(f"pool:{steward.supervisor_id}") == log
    assert [one["reviewer_id"] for one in steward.beat()["reviewers"]] == [reviewer]
    steward.register()
    assert [event["kind"] for event in steward.log(f"pool:{steward.supervisor_id}")] == ["pool_registered"] * 2
    assert steward.seen(reviewer)["state"] == "terminated"
