"""P4: the same idempotency key has one effect and one answer."""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.acceptance.reviewing import OTHER, PROPOSAL, REVIEWER, WHY, Desk, at_once, edited
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox

KEY = "key-1"
TTL_SECONDS = 5


def _with_patch(desk: Desk) -> tuple[str, str]:
    review = desk.put_up_claimed()
    return review, desk.verdict(review, "changes_requested", counter_patch="So.")["counter_patch_id"]


def _decision(desk: Desk, operation: str) -> tuple[str, dict[str, Any]]:
    review, patch = _with_patch(desk)
    return operation, {"review_id": review, "counter_patch_id": patch}


WRITES: dict[str, Callable[[Desk], tuple[str, dict[str, Any]]]] = {
    "create": lambda _: ("create_review", {**PROPOSAL, "description": "Once."}),
    "revise": lambda desk: ("create_review", {**PROPOSAL, "description": "Again.", "review_id": desk.put_up()}),
    "claim": lambda desk: ("claim_review", {"review_id": desk.put_up(), "reviewer_id": REVIEWER}),
    "claim next": lambda desk: (desk.put_up(), ("claim_review", {"reviewer_id": REVIEWER}))[1],
    "renew": lambda desk: ("renew_claim", {"review_id": desk.put_up_claimed(), "claim_generation": 1}),
    "release": lambda desk: ("release_claim", {"review_id": desk.put_up_claimed(), "claim_generation": 1}),
    "verdict": lambda desk: (
        "submit_verdict",
        {"review_id": desk.put_up_claimed(), "claim_generation": 1, "verdict": "rejected", "reason": WHY},
    ),
    "accept": lambda desk: _decision(desk, "accept_counter_patch"),
    "reject": lambda desk: _decision(desk, "reject_counter_patch"),
    "message": lambda desk: (
        "add_message",
        {"review_id": desk.put_up_claimed(), "sender_role": "proposer", "body": "Once."},
    ),
    "close": lambda desk: ("close_review", {"review_id": desk.put_up()}),
}
REFUSED: dict[str, Callable[[Desk], tuple[str, dict[str, Any]]]] = {
    "claim": lambda desk: ("claim_review", {"review_id": desk.put_up_claimed(), "reviewer_id": OTHER}),
    "verdict": lambda desk: (
        "submit_verdict",
        {"review_id": desk.put_up(), "claim_generation": 0, "verdict": "approved"},
    ),
    "no sense": lambda desk: (
        "submit_verdict",
        {"review_id": desk.put_up_claimed(), "claim_generation": 1, "verdict": "approved", "counter_patch": "So."},
    ),
    "unknown review": lambda _: ("close_review", {"review_id": "rv_nothing"}),
}


def everything(desk: Desk) -> list[dict[str, Any]]:
    """All events of the project."""
    return desk.do("get_audit_log", limit=200)["events"]


@ON_BOTH_DATABASES
@pytest.mark.parametrize("write", WRITES)
def test_p4_the_same_call_many_times_at_once_has_one_effect_and_one_answer(desk: Desk, write: str):
    operation, arguments = WRITES[write](desk)
    before = everything(desk)
    call = partial(desk.do, operation, **arguments, idempotency_key=KEY)
    answers = at_once([call] * 8)
    assert all(answer == answers[0] for answer in answers)
    grown = len(everything(desk)) - len(before)
    assert grown == (0 if operation == "renew_claim" else 1)


def test_p4_claims_of_a_repositorys_change_have_one_answer_too(shop: Desk):
    for number in range(3):
        shop.put_up(diff=edited(text=f"better {number}"))
        call = partial(shop.do, "claim_review", reviewer_id=REVIEWER, idempotency_key=f"key-{number}")
        answers = at_once([call] * 6)
        assert answers[0]["applies_to_head"] is True
        assert all(answer == answers[0] for answer in answers)


@pytest.mark.parametrize("refusal", REFUSED)
def test_p4_a_refusal_is_an_answer_too(desk: Desk, refusal: str):
    operation, arguments = REFUSED[refusal](desk)
    first = desk.call(operation, **arguments, idempotency_key=KEY)
    assert not first["ok"]
    if refusal == "claim":
        # Without the key it would now be done.
        desk.do("release_claim", review_id=arguments["review_id"], claim_generation=1)
    answers = at_once([partial(desk.call, operation, **arguments, idempotency_key=KEY)] * 4)
    assert answers == [first] * 4


@ON_BOTH_DATABASES
def test_p4_a_refusal_and_a_success_never_share_a_key(desk: Desk):
    """Many tries with one key race with the release that would let them through."""
    for number in range(12):
        review = desk.put_up_claimed()
        claim = partial(desk.call, "claim_review", review_id=review, reviewer_id=OTHER, idempotency_key=f"key-{number}")
        release = partial(desk.call, "release_claim", review_id=review, claim_generation=1)
        _, *answers = at_once([release, *[claim] * 8])
        assert all(answer == answers[0] for answer in answers)
        assert claim() == answers[0]


def test_p4_another_body_is_a_conflict(desk: Desk):
    desk.do("create_review", **PROPOSAL, description="Once.", idempotency_key=KEY)
    before = everything(desk)
    changes: list[dict[str, Any]] = [{"description": "Twice."}, {"metadata": {}}, {"review_id": "rv_nothing"}]
    for changed in changes:
        arguments = {**PROPOSAL, "description": "Once.", **changed}
        details = desk.refused("IDEMPOTENCY_CONFLICT", "create_review", **arguments, idempotency_key=KEY)
        assert details["idempotency_key"] == KEY
    assert everything(desk) == before
    # The conflict took nothing from the first call.
    desk.do("create_review", **PROPOSAL, description="Once.", idempotency_key=KEY)
    assert everything(desk) == before


@ON_BOTH_DATABASES
def test_p4_two_bodies_at_once_have_one_effect(desk: Desk):
    calls = [
        partial(desk.call, "create_review", **PROPOSAL, description=f"Number {number}.", idempotency_key=KEY)
        for number in range(8)
    ]
    answers = at_once(calls)
    assert sum(answer["ok"] for answer in answers) == 1
    assert {answer["error"]["code"] for answer in answers if not answer["ok"]} == {"IDEMPOTENCY_CONFLICT"}
    assert len(everything(desk)) == 1


def test_p4_the_order_of_fields_and_what_is_left_out_is_the_same_body(desk: Desk):
    first = desk.do("create_review", **PROPOSAL, description="Once.", idempotency_key=KEY)
    reordered = dict(reversed(list({**PROPOSAL, "description": "Once."}.items())))
    assert desk.do("create_review", idempotency_key=KEY, **reordered, metadata=None, agent_role="proposer") == first


def test_p4_keys_of_other_projects_operations_and_agents_are_other_keys(broker: BrokerProcess, desk: Desk):
    arguments = {**PROPOSAL, "description": "Once."}
    created = [desk.do("create_review", **arguments, idempotency_key=KEY)["review_id"]]
    with Desk(broker.url, fresh_project()) as elsewhere:
        created.append(elsewhere.do("create_review", **arguments, idempotency_key=KEY)["review_id"])
    for agent in ("agent-1", "agent-2"):
        with Desk(broker.url, desk.project, agent) as other:
            created.append(other.do("create_review", **arguments, idempotency_key=KEY)["review_id"])
    assert len(set(created)) == 4
    closed = desk.do("close_review", review_id=created[0], idempotency_key=KEY)
    assert closed["outcome"] == "withdrawn"


def test_p4_a_key_counts_whatever_project_is_the_default_one(
    start_broker: StartBroker, database_settings: dict[str, object], repo: Sandbox, tmp_path: Path
):
    broker = start_broker(**database_settings)
    others = [Sandbox(tmp_path / name).root for name in ("second", "third")]
    with Desk(broker.url, "first") as first, Desk(broker.url, "second") as second, Desk(broker.url, "third") as third:
        again = partial(first.do_unscoped, "create_review", **PROPOSAL, diff=edited(), idempotency_key=KEY)
        first.register(repo.root)
        created = again()
        assert created["project"] == "first"
        second.register(others[0])
        assert again() == created
        for name in ("first", "second"):
            first.do_unscoped("remove_project", name=name)
        assert again() == created
        third.register(others[1])
        assert again() == created
        assert [len(everything(desk)) for desk in (first, second, third)] == [3, 2, 1]


def test_p4_without_a_key_every_call_counts(desk: Desk):
    arguments = {**PROPOSAL, "description": "Once."}
    assert desk.do("create_review", **arguments)["review_id"] != desk.do("create_review", **arguments)["review_id"]


def test_p4_a_key_is_forgotten_after_its_time_only(start_broker: StartBroker):
    broker = start_broker(
        idempotency_ttl_seconds=TTL_SECONDS, sweep_interval_seconds=0.1, checkpoint_interval_seconds=0.1
    )
    with Desk(broker.url, fresh_project()) as desk:
        call = partial(desk.do, "create_review", **PROPOSAL, description="Once.", idempotency_key=KEY)
        began = time.monotonic()
        first = call()
        # Unless this machine took so long for two calls.
        assert call() == first or time.monotonic() - began > TTL_SECONDS
        cursor = first["cursor"]
        # Each answer has to be asked for again: nothing in the log tells that a key was forgotten.
        while call() == first:
            cursor = desk.do("get_audit_log", wait=True, cursor=cursor, timeout_s=0.2)["cursor"]
        assert len(everything(desk)) == 2


AT_COMMIT = """
    CREATE FUNCTION cut() RETURNS trigger LANGUAGE plpgsql AS
        'BEGIN PERFORM pg_terminate_backend(pg_backend_pid()); RETURN NULL; END';
    CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON reviews DEFERRABLE INITIALLY DEFERRED
        FOR EACH ROW EXECUTE FUNCTION cut();
"""


def test_p4_a_write_whose_commit_was_lost_may_be_sent_again_only_with_its_key(
    start_broker: StartBroker, postgres_url: str
):
    broker = start_broker(database_url=postgres_url)
    arguments = {**PROPOSAL, "description": "Once."}
    with Desk(broker.url, fresh_project()) as desk:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(AT_COMMIT)
            without = desk.call("create_review", **arguments)["error"]
            keyed = desk.call("create_review", **arguments, idempotency_key=KEY)["error"]
            connection.execute("DROP TRIGGER at_commit ON reviews")
        assert [(error["code"], error["retryable"]) for error in (without, keyed)] == [
            ("UNAVAILABLE", False),
            ("UNAVAILABLE", True),
        ]
        assert "lost during the commit" in without["message"]
        created = desk.do("create_review", **arguments, idempotency_key=KEY)
        assert desk.do("create_review", **arguments, idempotency_key=KEY) == created
        assert len(everything(desk)) == 1
