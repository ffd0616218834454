"""Approval mode: a hand-off is a review, and only the approval of its content moves the cycle on."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.acceptance.gated import (
    GATED,
    Team,
    are_adjacent,
    check_story,
    kinds_of,
)
from tests.acceptance.reviewing import OTHER, REVIEWER, WHY
from tests.acceptance.waiting import Waiter, until_waiting
from tests.broker import BrokerProcess
from tests.databases import ON_BOTH_DATABASES

pytest_plugins = ["tests.acceptance.gated_brokers"]

LONG = 45


def test_a_handoff_becomes_a_review_and_the_phase_stays(writers: Team):
    writers.begin()
    payload = writers.payload("writer", "editor", extras={"why": ["ünïcode"]})
    sent: dict[str, Any] = {**writers.handing("writer", "editor"), "payload": payload}
    with writers.unmoved():
        written = writers.do("handoff_write", **sent)
        review = written["review_id"]
        assert (written["phase"], written["active_role"], written["ok"]) == ("draft", "writer", True)
        assert review in written["next_step"]
        proposal = writers.do("get_proposal", review_id=review)
        assert json.loads(proposal["description"]) == payload
        assert (proposal["category"], proposal["proposer_id"]) == ("handoff", "writer")
        assert proposal["digest"] is None
        assert sent["lock_token"] not in json.dumps(proposal)
        waiting = writers.where()["review"]
        shown = {name: waiting[name] for name in ("review_id", "target", "status", "round", "outcome", "reason")}
        facts = {"review_id": review, "target": "editor", "status": "pending"}
        assert shown == {**facts, "round": 1, "outcome": None, "reason": None}
        # No call goes on before it is decided: not with more of the same, not elsewhere, not by completing.
        elsewhere = {**sent, "target": "printer", "payload": writers.payload("writer", "printer")}
        tokens = writers.tokens("writer")
        for claimed in (False, True):
            if claimed:
                writers.claim(review)
            assert writers.refused("INVALID_PHASE", "handoff_write", **sent)["review_id"] == review
            assert writers.refused("INVALID_PHASE", "handoff_write", **elsewhere)["review_id"] == review
            assert writers.refused("INVALID_PHASE", "cycle_complete", **tokens)["review_id"] == review
        writers.refused("ARCHIVE_NOT_ALLOWED", "cycle_archive", **tokens)
        writers.refused("LOCK_DENIED", "lock_acquire", session_token=writers.sessions["editor"])
    assert [one["status"] for one in writers.history()["handoffs"]] == ["claimed"]


@ON_BOTH_DATABASES
def test_approval_advances_in_the_verdicts_own_transaction(team: Team):
    first = team.begin()
    sent = {**team.handing("gemini", "codex", first), "idempotency_key": "once"}
    review = team.do("handoff_write", **sent)["review_id"]
    assert team.do("handoff_write", **sent)["review_id"] == review
    generation = team.claim(review)
    verdict = {"review_id": review, "verdict": "approved", "claim_generation": generation, "idempotency_key": "once"}
    given = team.do("submit_verdict", **verdict)
    status = team.where()
    assert (status["phase"], status["active_role"], status["review"]) == ("backend", "codex", None)
    assert status["handoffs"]["codex"]["status"] == "present"
    assert team.do("handoff_read", target="codex") == sent["payload"]
    # Said again, nothing happens again.
    assert team.do("submit_verdict", **verdict) == given
    events = check_story(team)
    assert kinds_of(events, f"cycle:{team.cycle_id}").count("cycle_advanced") == 1
    assert are_adjacent(events, "verdict_submitted", "cycle_advanced")
    advanced = next(event for event in events if event["kind"] == "cycle_advanced")
    assert advanced["actor"] == REVIEWER
    # The lock has gone to the next role, with another token.
    again = {**team.handing("codex", "gemini"), "lock_token": first}
    team.refused("LOCK_DENIED", "handoff_write", **again)
    team.refused("LOCK_DENIED", "lock_acquire", session_token=team.sessions["gemini"])
    assert team.lock("codex") != first


def test_the_approval_that_a_cycle_has_gone_on_with_is_not_withdrawn(team: Team):
    review = team.do("handoff_write", **team.handing("gemini", "codex", team.begin()))["review_id"]
    team.approve(review)
    with team.unchanged(review):
        details = team.refused("INVALID_TRANSITION", "withdraw_approval", review_id=review, reason=WHY)
    assert details["cycle_id"] == team.where()["cycle_id"]


@pytest.mark.anyio
async def test_requested_changes_wake_the_producer_who_revises_the_same_review(gated: BrokerProcess, team: Team):
    team.begin()
    written = team.hand_over("gemini", "codex")
    review = written["review_id"]
    asked = {"project": team.project, "workflow": GATED, "wait": True, "timeout_s": LONG}
    async with (
        Waiter(gated, "cycle_status", **asked, role="gemini", cursor=written["cursor"]) as producer,
        # Who has seen nothing yet waits too, for it is not its turn while the review is open.
        Waiter(gated, "cycle_status", **asked, role="gemini") as newcomer,
        Waiter(gated, "cycle_status", **asked, role="codex", cursor=written["cursor"]) as consumer,
    ):
        await until_waiting(gated, 3)
        team.request_changes(review)
        told = await producer.answer()
        assert (await newcomer.answer())["review"] == told["review"]
        assert told["changed"]
        assert (told["phase"], told["active_role"]) == ("frontend", "gemini")
        about = told["review"]
        assert (about["review_id"], about["status"], about["reason"]) == (review, "changes_requested", WHY)
        assert review in told["next_step"]
        # The consumer still waits: there is nothing for it to do.
        await until_waiting(gated, 1)
        better = team.payload("gemini", "codex", notes=["Better."])
        again = team.do("handoff_write", **{**team.handing("gemini", "codex"), "payload": better})
        assert again["review_id"] == review
        status = team.status(review)
        assert (status["status"], status["round"]) == ("pending", 2)
        assert team.where()["review"]["round"] == 2
        team.approve(review, OTHER)
        assert (await consumer.answer())["phase"] == "backend"
    assert team.do("handoff_read", target="codex") == better
    first, second = team.history()["handoffs"]
    assert (first["status"], second["status"]) == ("superseded", "advanced")
    assert (first["round"], second["round"], second["payload"]) == (1, 2, better)
    assert json.loads(team.do("get_proposal", review_id=review, round=1)["description"]) == first["payload"]


@pytest.mark.parametrize("outcome", [None, "rejected", "withdrawn"], ids=["rejected", "and closed", "withdrawn"])
def test_a_handoff_that_fails_leaves_the_phase_with_the_producer(team: Team, outcome: str | None):
    team.begin()
    with team.unmoved():
        failed = team.put_forward("gemini", "codex", notes=["Bad."])
        generation = team.claim(failed)
        if outcome != "withdrawn":
            team.verdict(failed, "rejected", generation)
            assert team.where()["review"]["reason"] == WHY
        if outcome is not None:
            team.do("close_review", review_id=failed, reason="I forgot something.")
        assert team.where(wait=True, role="gemini", timeout_s=LONG)["review"]["outcome"] == outcome
        if outcome == "withdrawn":
            # Who was about to approve it comes too late.
            late = {"review_id": failed, "verdict": "approved", "claim_generation": generation}
            team.refused("STALE_CLAIM", "submit_verdict", **late)
        review = team.put_forward("gemini", "codex", notes=["Good."])
        assert review != failed
        parent = None if outcome == "withdrawn" else failed
        assert team.do("get_proposal", review_id=review)["parent_id"] == parent
    # What failed stays readable.
    assert json.loads(team.do("get_proposal", review_id=failed)["description"])["notes"] == ["Bad."]
    status = outcome or "rejected"
    assert [one["status"] for one in team.history()["handoffs"]] == [status, "pending"]
    assert team.history()["handoffs"][0]["payload"]["notes"] == ["Bad."]
    team.approve(review)
    assert team.place() == ("backend", "codex")
    assert team.do("handoff_read", target="codex")["notes"] == ["Good."]
    assert [one["status"] for one in team.history()["handoffs"]] == [status, "advanced"]


def test_the_producing_role_cannot_approve_its_own_handoff(team: Team):
    team.begin()
    review = team.put_forward("gemini", "codex")
    with team.unmoved():
        team.refused("SELF_APPROVAL", "claim_review", review_id=review, reviewer_id="gemini")
    team.approve(review, "codex")
    assert team.place() == ("backend", "codex")


def test_an_approval_needs_nothing_of_the_producer_any_more(newcomers: Team):
    newcomers.begin()
    review = newcomers.put_forward("gemini", "codex")
    newcomers.do("session_close", session_token=newcomers.sessions["gemini"])
    newcomers.do("cycle_revoke", role="gemini")
    newcomers.approve(review)
    assert newcomers.place() == ("backend", "codex")
