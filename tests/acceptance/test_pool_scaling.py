"""How many reviewers there are: starts, the cap, the cooldown, drains. A supervisor on paper, a real broker."""

from __future__ import annotations

import json
import secrets
import threading
import time
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import Any

from tests.acceptance.pooling import PID, Steward, broker, ended, started
from tests.acceptance.reviewing import Desk, at_once
from tests.acceptance.staffed import until
from tests.databases import ON_BOTH_DATABASES

__all__ = ["broker"]

PATIENCE_SECONDS = 40.0
IDLE_SECONDS = 2.0


@contextmanager
def hearing(steward: Steward) -> Generator[list[dict[str, Any]]]:
    """The answer to a call that waits while the block runs."""
    heard: list[dict[str, Any]] = []
    waiting = threading.Thread(target=lambda: heard.append(steward.beat(wait=True, timeout_s=45)))
    waiting.start()
    yield heard
    waiting.join(PATIENCE_SECONDS)


def test_a_proposal_with_nobody_in_sight_starts_one_reviewer(shop: Desk) -> None:
    steward = started(shop)
    assert steward.beat()["reviewers"] == []
    shop.put_up()
    [order] = steward.beat()["reviewers"]
    assert order["reviewer_id"] == f"codex-r1-{steward.incarnation}"
    assert (order["name"], order["project"], order["wanted"]) == ("codex-r1", shop.project, "run")
    assert order["root"]
    assert steward.seen(order["reviewer_id"])["pid"] is None
    # Told of it, the broker wants no second one for the same proposal.
    assert [one["reviewer_id"] for one in steward.beat()["reviewers"]] == [order["reviewer_id"]]
    assert steward.seen(order["reviewer_id"])["pid"] == PID
    kinds = [event["kind"] for event in steward.log(f"reviewer:{order['reviewer_id']}")]
    assert kinds == ["reviewer_requested", "reviewer_spawned"]


def test_a_supervisor_that_waits_hears_of_a_proposal_at_once(shop: Desk) -> None:
    steward = started(shop)
    began = time.monotonic()
    with hearing(steward) as heard:
        shop.put_up()
    assert [one["wanted"] for one in heard[0]["reviewers"]] == ["run"]
    assert heard[0]["changed"]
    assert time.monotonic() - began < PATIENCE_SECONDS


def test_one_more_is_started_when_more_wait_than_three_for_each(shop: Desk) -> None:
    steward = started(shop, max_pool_size=10)
    sizes: list[int] = []
    for _ in range(10):
        shop.put_up()
        steward.beat()
        sizes.append(len(steward.beat()["reviewers"]))
    # 1 to 3 pending: one. 4 to 6: two, as 4 > 3 x 1. 7 to 9: three. 10: four.
    assert sizes == [1, 1, 1, 2, 2, 2, 3, 3, 3, 4]


def test_what_nobody_can_claim_now_does_not_count(shop: Desk) -> None:
    steward = started(shop, retry_delay_seconds=3600)
    shop.put_up()
    reviewer = steward.one()
    assert steward.fail(reviewer)["not_before"] is not None
    steward.beat(ended(reviewer))
    assert steward.beat()["reviewers"] == []


@ON_BOTH_DATABASES
def test_many_proposals_at_once_never_pass_the_cap(shop: Desk) -> None:
    steward = started(shop, max_pool_size=3)
    sizes: list[int] = []

    def beat() -> None:
        found = shop.envelope_unscoped("supervisor_heartbeat", **steward.saying())
        sizes.append(len(found["data"]["reviewers"]))

    by_hand = [threading.Thread(target=partial(shop.call, "spawn_reviewer")) for _ in range(6)]
    at_once([*[shop.put_up] * 20, *[beat] * 6, *[thread.start for thread in by_hand]])
    # Those that were let through wait until their reviewers run.
    until(lambda: steward.beat() and not any(thread.is_alive() for thread in by_hand), "it comes")
    beat()
    assert max(sizes) == 3
    requested = shop.do("get_audit_log", kind="reviewer_requested", limit=200)["events"]
    assert len(requested) == 3
    assert {event["subject"] for event in requested} == {
        f"reviewer:codex-r{number}-{steward.incarnation}" for number in (1, 2, 3)
    }


@ON_BOTH_DATABASES
def test_two_pools_do_not_both_answer_the_same_proposal(shop: Desk) -> None:
    first, second = started(shop), started(shop)
    shop.put_up()
    at_once([first.beat, second.beat] * 2)
    assert len(first.beat()["reviewers"]) + len(second.beat()["reviewers"]) == 1


def test_starts_by_hand_respect_cooldown_and_cap(shop: Desk) -> None:
    assert "tandem reviewers" in shop.call("spawn_reviewer")["error"]["message"]
    assert shop.refused("POOL_DISABLED", "spawn_reviewer")["why"]
    steward = started(shop, spawn_cooldown_seconds=3600, max_pool_size=2)
    spawned = _spawned(shop, steward)
    assert spawned["pid"] == PID
    assert 3500 < shop.refused("SPAWN_COOLDOWN", "spawn_reviewer")["retry_after_s"] <= 3600
    steward.rules |= {"spawn_cooldown_seconds": 0, "max_pool_size": 1}
    steward.register()
    _spawned(shop, steward)
    assert shop.refused("POOL_CAP_REACHED", "spawn_reviewer")["limit"] == 1
    assert shop.refused("UNKNOWN_REVIEWER", "kill_reviewer", reviewer_id="rev-1") == {"reviewer_id": "rev-1"}


def _spawned(shop: Desk, steward: Steward) -> dict[str, Any]:
    answers: list[dict[str, Any]] = []
    asking = threading.Thread(target=lambda: answers.append(shop.do("spawn_reviewer")))
    asking.start()
    until(lambda: steward.beat()["reviewers"], "it comes")
    steward.beat()
    asking.join(PATIENCE_SECONDS)
    return answers[0]


def test_some_are_kept_although_nothing_waits(shop: Desk) -> None:
    steward = started(shop, min_pool_size=2, idle_timeout_seconds=0)
    for _ in range(4):
        steward.beat()
    assert list(steward.known.values()) == ["run", "run"]


def test_the_idle_clock_starts_at_the_last_work(shop: Desk) -> None:
    steward = started(shop, idle_timeout_seconds=IDLE_SECONDS)
    review = shop.put_up()
    reviewer = steward.one()
    claim = shop.do("claim_review", reviewer_id=reviewer)
    time.sleep(IDLE_SECONDS + 0.2)
    # It has been at work since its start, longer than it may idle.
    assert steward.beat()["reviewers"][0]["wanted"] == "run"
    assert steward.known == {reviewer: "run"}
    # Not when the answer is here: on a busy machine it comes late.
    last = time.monotonic()
    shop.do("submit_verdict", review_id=review, verdict="approved", claim_generation=claim["claim_generation"])
    orders = until(lambda: (found := steward.beat()["reviewers"])[0]["wanted"] == "drain" and found, "it comes")
    assert time.monotonic() - last > IDLE_SECONDS - 0.1
    assert orders[0]["drain_reason"] == "idle"
    steward.beat(ended(reviewer))
    assert steward.seen(reviewer)["state"] == "terminated"
    assert steward.beat()["reviewers"] == []


def test_an_old_reviewer_finishes_its_review_and_takes_nothing_new(shop: Desk) -> None:
    steward = started(shop, max_ttl_seconds=3)
    review = shop.put_up()
    reviewer = steward.one()
    claim = shop.do("claim_review", review_id=review, reviewer_id=reviewer)
    orders = until(lambda: (found := steward.beat()["reviewers"])[0]["wanted"] == "drain" and found, "it comes")
    assert (orders[0]["drain_reason"], orders[0]["review_id"]) == ("ttl", review)
    shop.put_up()
    shop.do("submit_verdict", review_id=review, verdict="approved", claim_generation=claim["claim_generation"])
    assert shop.do("claim_review", reviewer_id=reviewer)["review"] is None
    assert shop.do("claim_review", reviewer_id="somebody-else")["review"] is not None


def test_a_kill_drains_and_a_forced_one_does_not_wait(shop: Desk) -> None:
    steward = started(shop)
    review = shop.put_up()
    reviewer = steward.one()
    shop.do("claim_review", reviewer_id=reviewer)
    assert shop.do("kill_reviewer", reviewer_id=reviewer)["state"] == "draining"
    assert steward.beat()["reviewers"][0]["wanted"] == "drain"
    assert shop.do("kill_reviewer", reviewer_id=reviewer, force=True)["drain_reason"] == "manual"
    assert steward.beat()["reviewers"][0]["wanted"] == "kill"
    steward.beat(ended(reviewer, -9))
    # Any reviewer may claim its review again, and the stop does not count as a failure.
    status = shop.status(review)
    assert (status["status"], status["claim_generation"], status["attention"]) == ("pending", 2, None)
    assert shop.do("kill_reviewer", reviewer_id=reviewer)["state"] == "terminated"
    assert shop.do("claim_review", reviewer_id="another")["review_id"] == review


def test_an_agent_that_drains_is_ended_when_it_holds_nothing(shop: Desk) -> None:
    steward = Steward(shop)
    steward.register(mode="agent")
    review = shop.put_up()
    reviewer = steward.one()
    claim = shop.do("claim_review", reviewer_id=reviewer)
    shop.do("kill_reviewer", reviewer_id=reviewer)
    assert steward.beat()["reviewers"][0]["wanted"] == "drain"
    with hearing(steward) as heard:
        shop.do("submit_verdict", review_id=review, verdict="approved", claim_generation=claim["claim_generation"])
    assert heard[0]["reviewers"][0]["wanted"] == "kill"


def test_when_a_supervisor_stops_all_of_its_reviewers_end(shop: Desk) -> None:
    steward = started(shop)
    shop.put_up()
    reviewer = steward.one()
    [order] = steward.beat(closing=True)["reviewers"]
    assert (order["wanted"], order["drain_reason"]) == ("drain", "shutdown")
    steward.beat(ended(reviewer), closing=True)
    assert steward.pool()["state"] == "ended"
    assert shop.refused("POOL_DISABLED", "spawn_reviewer")


def test_a_supervisor_of_an_earlier_start_is_told_so(shop: Desk) -> None:
    steward = started(shop)
    old = steward.saying()
    steward.register()
    refusal = shop.envelope_unscoped("supervisor_heartbeat", **old)["error"]
    assert refusal["code"] == "INVALID_SESSION"
    assert steward.incarnation not in json.dumps(refusal)
    # The incarnation, which is in each reviewer's id, proves nothing without the secret.
    forged = {**steward.saying(closing=True), "secret": secrets.token_hex(32)}
    assert shop.envelope_unscoped("supervisor_heartbeat", **forged)["error"]["code"] == "INVALID_SESSION"
    assert steward.pool()["state"] == "running"


def test_supervisors_that_call_their_starts_the_same_have_reviewers_of_their_own(shop: Desk, desk: Desk) -> None:
    first, second = Steward(shop), Steward(shop, max_pool_size=1)
    for one in (first, second):
        one.register(incarnation="twice1")
    started: list[str] = []
    asking = [
        threading.Thread(target=lambda: started.append(shop.do("spawn_reviewer", project=shop.project)["reviewer_id"]))
        for _ in range(2)
    ]
    for one in asking:
        one.start()
    # Each is answered once its reviewer runs.
    while any(one.is_alive() for one in asking):
        for steward in (first, second):
            steward.beat()
    assert len(set(started)) == 2


def test_names_begin_anew_with_each_start_and_ids_do_not(shop: Desk) -> None:
    steward = Steward(shop)
    ids: list[str] = []
    for _ in range(2):
        steward.register()
        shop.put_up()
        ids.append(steward.one())
    assert [one.rsplit("-", 1)[0] for one in ids] == ["codex-r1", "codex-r1"]
    assert len(set(ids)) == 2
    steward.beat(ended(ids[-1], 1))
    assert next(iter(steward.beat()["reviewers"]))["name"] == "codex-r2"
