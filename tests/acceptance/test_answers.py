"""Every operation's answer is what it declares, on HTTP and on MCP alike."""

from __future__ import annotations

import json
import secrets
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp_types import Implementation

from tandem.contract.operation import MCP_ROLES
from tandem.rulings.trust import CHECKS_FILE
from tandem.server.catalogue import REGISTRY
from tests.acceptance.furnishing import AGENT, CHANGES, Shop
from tests.acceptance.receiving import NOBODY, proved
from tests.acceptance.reviewing import OTHER, PROPOSAL, PROPOSER, REVIEWER, WHY, Desk, edited
from tests.broker import BrokerProcess, fresh_project
from tests.git.sandbox import Sandbox

TO_CALL = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}


@pytest.fixture
def own(shop: Desk, repo: Sandbox) -> Iterator[Shop]:
    """A shop for one test."""
    made = Shop(shop, str(repo.root))
    yield made
    made.settle()


@pytest.fixture(scope="module")
def looked_at(broker: BrokerProcess, repo_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """A furnished shop for all tests that only look at it."""
    root = shutil.copytree(repo_template, tmp_path_factory.mktemp("looked-at") / "repository")
    with Desk(broker.url, fresh_project()) as desk:
        desk.register(root)
        made = Shop(desk, str(root)).furnished()
        yield made
        made.settle()


REQUESTS: dict[str, list[Callable[[Shop], dict[str, Any]]]] = {
    "create_review": [
        lambda _: {**PROPOSAL, "diff": edited()},
        lambda shop: {**PROPOSAL, "diff": edited(text="else"), "review_id": shop.pending},
    ],
    "get_review_status": [
        lambda shop: {"review_id": shop.pending},
        lambda shop: {"review_id": shop.offered, "wait": True, "wake_on": "any", "timeout_s": 0},
        lambda shop: {"review_id": shop.approved},
    ],
    "get_proposal": [
        lambda shop: {"review_id": shop.claimed, "since_round": 1, "files": ["a.txt"]},
        lambda shop: {"review_id": shop.offered},
        lambda shop: {"review_id": shop.pending},
    ],
    "get_review": [
        lambda shop: {"review_id": shop.offered, "person": AGENT},
        lambda shop: {"review_id": shop.claimed, "files": []},
    ],
    "list_reviews": [lambda _: {}, lambda _: {"limit": 1, "status": "pending"}],
    "claim_review": [
        lambda shop: {"reviewer_id": REVIEWER} if shop.pending else {},
        lambda shop: {"reviewer_id": OTHER, "review_id": shop.offered},
        lambda shop: {"reviewer_id": REVIEWER, "category": "handoff"} if shop.pending else {},
    ],
    "renew_claim": [lambda shop: {"review_id": shop.claimed, "claim_generation": 1}],
    "release_claim": [lambda shop: {"review_id": shop.claimed, "claim_generation": 1}],
    "submit_verdict": [
        lambda shop: {"review_id": shop.claimed, "claim_generation": 1, "verdict": "approve"},
        lambda shop: {
            "review_id": shop.claimed,
            "claim_generation": 1,
            "verdict": "comment",
            "reason": WHY,
            "counter_patch": edited(),
        },
    ],
    "withdraw_approval": [lambda shop: {"review_id": shop.approved, "reason": WHY}],
    "accept_counter_patch": [lambda shop: {"review_id": shop.offered, "counter_patch_id": shop.patch}],
    "reject_counter_patch": [lambda shop: {"review_id": shop.offered, "counter_patch_id": shop.patch}],
    "add_message": [lambda shop: {"review_id": shop.claimed, "sender_role": "proposer", "body": "A word."}],
    "get_discussion": [lambda shop: {"review_id": shop.offered}, lambda shop: {"review_id": shop.offered, "limit": 1}],
    "close_review": [lambda shop: {"review_id": shop.approved}, lambda shop: {"review_id": shop.pending}],
    "get_review_timeline": [lambda shop: {"review_id": shop.offered}],
    "get_activity_feed": [lambda _: {}, lambda _: {"limit": 1}],
    "get_audit_log": [lambda _: {}, lambda _: {"limit": 2}],
    "get_review_stats": [lambda _: {}, lambda _: {"since": "2026-01-01"}],
    "list_checks": [lambda shop: {"review_id": shop.checked}, lambda shop: {"round": 1} if shop.checked else {}],
    "run_checks": [lambda shop: {"review_id": shop.checked}],
    "get_check_log": [lambda shop: {"review_id": shop.checked, "name": CHECKS_FILE}],
    "check_gate": [
        lambda _: {"digest": "1" * 64},
        lambda _: {"changes": CHANGES, "sign": True, "signed": ["x"]},
    ],
    "set_gate": [
        lambda _: {"enabled": True, "branches": ["main"]},
        lambda shop: shop.desk.loosening(enabled=False, reason="A pause."),
    ],
    "get_gate": [lambda _: {}, lambda shop: {"plan": shop.rolled_back, "with_key": True}],
    "override_gate": [lambda shop: shop.overriding()],
    "record_commit": [
        lambda _: {"commit": "1" * 40, "plan": "03-02"},
        lambda shop: {"commit": "2" * 40, "parent": "1" * 40, "review_ids": [shop.approved], "changes": CHANGES},
    ],
    "list_commits": [
        lambda _: {"commits": []},
        lambda shop: {"plan": shop.rolled_back, "limit": 1},
    ],
    "record_rollback": [
        lambda shop: {
            "review_id": shop.approved,
            "branch": "feature",
            "head_before": "1" * 40,
            "head_after": "2" * 40,
            "reverted": [{"commit": "1" * 40, "reverted_by": "3" * 40}],
            "carried": [{"commit": "4" * 40, "becomes": "2" * 40}],
            "rework": ["5" * 40],
        },
    ],
    "register_project": [
        lambda shop: {"root": shop.root, "name": shop.desk.project},
        lambda shop: {"name": "mirrored", "mirror": Path(shop.root).as_uri()},
        lambda shop: {"name": "unreachable", "mirror": Path(shop.root, "none").as_uri()},
    ],
    "list_projects": [lambda _: {}],
    "remove_project": [lambda shop: {"name": shop.desk.project}],
    "session_open": [lambda shop: {"role": "codex", "psk": shop.team.keys["codex"]}],
    "session_close": [lambda shop: {"session_token": shop.team.sessions["codex"]}],
    "cycle_start": [lambda shop: {"feature": "More", **shop.team.archived()}],
    "cycle_status": [
        lambda _: {},
        lambda shop: {"role": "gemini", "wait": True, **shop.team.archived(), "timeout_s": 0},
    ],
    "lock_acquire": [lambda shop: {"session_token": shop.team.sessions["gemini"]}],
    "handoff_write": [lambda shop: shop.team.handing("gemini", "codex")],
    "handoff_read": [
        lambda _: {"target": "codex"},
        lambda shop: {"target": "gemini" if shop.team.completing() else ""},
    ],
    "cycle_complete": [lambda shop: shop.team.completing()],
    "cycle_archive": [lambda shop: shop.team.archiving()],
    "cycle_init": [lambda _: {"workflow": "frontend-backend"}, lambda shop: {"workflow": None} if shop.team else {}],
    "cycle_rotate": [lambda shop: {"role": "codex" if shop.team else ""}],
    "cycle_revoke": [lambda shop: {"role": "codex" if shop.team else ""}],
    "list_cycles": [lambda _: {}, lambda shop: {"limit": 1, **shop.team.archived()}],
    "get_cycle": [
        lambda shop: {"cycle_id": shop.team.cycle_id},
        lambda shop: {"workflow": "frontend-backend"} if shop.team.completing() else {},
    ],
    "get_base_files": [lambda shop: {"review_id": shop.claimed}, lambda shop: {"review_id": shop.offered}],
    "get_round_file": [
        lambda shop: {"review_id": shop.claimed, "path": "a.txt", "round": 1, "first_line": 2, "last_line": 3},
        lambda shop: {"review_id": shop.offered, "path": "plan.md", "side": "before"},
    ],
    "draft_counter_patch": [
        lambda shop: {"review_id": shop.claimed, "edits": [{"path": "b.txt", "content": "b\n"}]},
        lambda shop: {"review_id": shop.offered, "text": "# Another plan\n"},
    ],
    "check_counter_patch": [
        lambda shop: {"review_id": shop.claimed, "counter_patch": edited("b.txt")},
        lambda shop: {"review_id": shop.claimed, "counter_patch": "nothing"},
    ],
    "get_reviewer_log": [lambda shop: {"reviewer_id": shop.staff.reviewer, "lines": 1}],
    "get_project_settings": [lambda _: {}],
    "get_inbox": [
        lambda _: {"person": REVIEWER},
        lambda shop: {"person": PROPOSER, "limit": 1} if shop.staff.paused() else {},
    ],
    "search_reviews": [
        lambda _: {},
        lambda shop: {"text": "improve", "path": "a.txt", "sort": "updated", "limit": 1} if shop.offered else {},
        lambda _: {"sort": "newest", "status": "closed"},
    ],
    "mark_viewed": [
        lambda shop: {"review_id": shop.claimed, "round": 1, "path": "a.txt", "viewed": True, "person": AGENT},
    ],
    "list_viewed": [lambda shop: {"review_id": shop.marked(), "round": 1, "person": AGENT}],
    "retry_review": [lambda shop: {"review_id": shop.pending}],
    "list_reviewers": [lambda _: {}, lambda shop: {"project": shop.staff.steward.desk.project}],
    "spawn_reviewer": [lambda shop: shop.staff.hiring()],
    "kill_reviewer": [lambda shop: {"reviewer_id": shop.staff.reviewer}],
    "pause_reviewers": [lambda shop: {"supervisor_id": shop.staff.steward.supervisor_id, "reason": "Enough."}],
    "resume_reviewers": [lambda shop: {"supervisor_id": shop.staff.steward.supervisor_id}],
    "supervisor_register": [
        lambda shop: {
            "secret": secrets.token_hex(32),
            "incarnation": "abc123",
            "host": "a-host",
            "provider": "codex",
            # Not all: the broker is shared with tests of other pools.
            "projects": [shop.desk.project],
        },
        lambda shop: {
            "secret": shop.staff.steward.secret,
            "incarnation": "abc124",
            "host": "a-host",
            "provider": "codex",
            "projects": [shop.desk.project],
        },
    ],
    "create_token": [
        lambda _: {"name": "alice", "roles": ["reviewer", "operator"], "days": 1},
        lambda _: {"name": "ci.bot-1", "roles": ["proposer"]},
    ],
    "list_tokens": [lambda _: {}, lambda shop: {"limit": 1} if shop.token() else {}],
    "revoke_token": [lambda shop: {"token_id": shop.token()}],
    "add_webhook": [
        lambda shop: proved(shop.desk, NOBODY, project=shop.desk.project),
        lambda shop: proved(shop.desk, NOBODY, project=shop.desk.project, events=["review_"], format="slack"),
    ],
    "list_webhooks": [lambda _: {}, lambda shop: (shop.webhook(), dict[str, Any]())[1]],
    "list_deliveries": [lambda shop: {"webhook_id": shop.webhook(), "limit": 5}],
    "remove_webhook": [lambda shop: {"webhook_id": shop.webhook()}],
    "test_webhook": [lambda shop: {"webhook_id": shop.webhook()}],
    "create_login": [lambda _: {}],
    "supervisor_heartbeat": [lambda shop: shop.staff.steward.saying()],
    "report_outcome": [lambda shop: shop.staff.failing()],
}
CASES = [(name, number) for name, requests in REQUESTS.items() for number in range(len(requests))]
WRITES = {operation.name for operation in REGISTRY if operation.writes}


def passes(operation: str, number: int) -> bool:
    """Whether the request is about what does not last: the end of a cycle, a pool, of which one has to hear, or a
    webhook, which is tried again and again once something happens.
    """
    asked = REQUESTS[operation][number].__code__.co_names
    return not {"archived", "archiving", "completing", "staff", "webhook"}.isdisjoint(asked)


WRITING = [case for case in CASES if case[0] in WRITES]
PASSING = [case for case in CASES if case[0] not in WRITES and passes(*case)]
LASTING = [case for case in CASES if case[0] not in WRITES and not passes(*case)]
"""Reads that can share a shop, as what they need may be there for all."""


def of_each(cases: list[tuple[str, int]]) -> pytest.MarkDecorator:
    """A test of each of these requests."""
    return pytest.mark.parametrize(("operation", "number"), cases, ids=[f"{name}-{number}" for name, number in cases])


def request_of(shop: Shop, operation: str, number: int) -> dict[str, Any]:
    """The request, with its project, and a key where it can have one."""
    found = REGISTRY.get(operation)
    request = REQUESTS[operation][number](shop)
    fields = found.request.model_fields
    if "project" in fields:
        request["project"] = shop.desk.project
    if "idempotency_key" in fields:
        request["idempotency_key"] = "key-1"
    return request


def over_http(desk: Desk, operation: str, request: dict[str, Any]) -> dict[str, Any]:
    """The envelope."""
    return desk.send(operation, json.dumps(request).encode(), **{"Tandem-Agent": AGENT}).json()


def over_mcp(url: str, operation: str, request: dict[str, Any], role: str | None = None) -> dict[str, Any]:
    """The envelope of a call by hand-written JSON-RPC."""
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": operation, "arguments": request}}
    path = "/mcp" if role is None else f"/mcp/{role}"
    response = httpx.post(f"{url}{path}", json=message, headers={**TO_CALL, "Tandem-Agent": AGENT}, timeout=60)
    data = next(line for line in response.text.splitlines() if line.startswith("data: "))
    result = json.loads(data.removeprefix("data: "))["result"]
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert result["isError"] is not result["structuredContent"]["ok"]
    return result["structuredContent"]


def test_no_operation_is_left_out():
    # Brokers without tokens believe nobody who reports on a check; see `test_checks`.
    assert REQUESTS.keys() | {"report_check"} == {operation.name for operation in REGISTRY}


@of_each(WRITING)
def test_the_answer_of_a_write_is_of_the_declared_type_and_the_same_over_mcp(own: Shop, operation: str, number: int):
    is_the_same_over_mcp(own, *is_as_declared(own, operation, number))


@of_each(PASSING)
def test_so_is_that_of_a_read_of_what_does_not_last(own: Shop, operation: str, number: int):
    is_the_same_over_mcp(own, *is_as_declared(own, operation, number))


@of_each(LASTING)
def test_and_that_of_every_other_read(looked_at: Shop, operation: str, number: int):
    is_the_same_over_mcp(looked_at, *is_as_declared(looked_at, operation, number))


# Every statement runs on both databases somewhere.
ON_POSTGRESQL = pytest.mark.parametrize("broker", ["postgresql"], indirect=True)


@ON_POSTGRESQL
@of_each(PASSING)
def test_postgresql_answers_a_read_of_what_does_not_last(own: Shop, operation: str, number: int):
    is_as_declared(own, operation, number)


@ON_POSTGRESQL
def test_postgresql_answers_every_other_read(looked_at: Shop):
    for case in LASTING:
        is_as_declared(looked_at, *case)


def is_as_declared(shop: Shop, operation: str, number: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Ask over HTTP: the answer is of the declared type; the operation, its request and the envelope."""
    request = request_of(shop, operation, number)
    envelope = over_http(shop.desk, operation, request)
    assert envelope["ok"], envelope
    adapter = REGISTRY.get(operation).answer_adapter()
    typed = adapter.validate_json(json.dumps(envelope["data"]), strict=True)
    # Written again it is the same: nothing came that is not declared.
    assert adapter.dump_python(typed, mode="json") == envelope["data"]
    return operation, request, envelope


def is_the_same_over_mcp(shop: Shop, operation: str, request: dict[str, Any], envelope: dict[str, Any]) -> None:
    """A read is asked once more; a write has a key, and so is answered once more by any face."""
    found = REGISTRY.get(operation)
    if found.over_mcp:
        for role in (None, *sorted(found.roles.intersection(MCP_ROLES))):
            answer = over_mcp(shop.desk.url, operation, request, role)
            if (role, operation) == ("reviewer", "get_review_status"):
                # What the proposer does next is nothing to a reviewer.
                assert not answer["data"].pop("message")
                envelope = {**envelope, "data": {**envelope["data"]}}
                del envelope["data"]["message"]
            assert answer == envelope


@pytest.mark.parametrize("operation", [operation.name for operation in REGISTRY if operation.over_mcp])
def test_a_refusal_is_the_same_over_mcp(desk: Desk, operation: str):
    request = {"project": desk.project, "review_id": "rv_nothing", "reviewer_id": "x" * 300, "surprise": 1}
    envelope = over_http(desk, operation, request)
    assert not envelope["ok"]
    assert over_mcp(desk.url, operation, request) == envelope


@pytest.mark.anyio
@pytest.mark.parametrize("mode", ["legacy", "auto"])
async def test_the_official_client_goes_the_whole_way(broker: BrokerProcess, desk: Desk, mode: Any):
    async def call(client: Client, operation: str, **arguments: Any) -> dict[str, Any]:
        result = await client.call_tool(operation, arguments)
        assert result.is_error is False, result
        assert result.structured_content is not None
        return result.structured_content["data"]

    address = f"{broker.url}/mcp/{{}}?project={desk.project}"
    async with (
        Client(address.format("proposer"), mode=mode, client_info=Implementation(name="a", version="1")) as proposer,
        Client(address.format("reviewer"), mode=mode, client_info=Implementation(name="b", version="1")) as reviewer,
    ):
        created = await call(proposer, "create_review", **PROPOSAL, description="# Plan\n")
        claim = await call(reviewer, "claim_review", reviewer_id=REVIEWER)
        assert claim["review_id"] == created["review_id"]
        review, generation = created["review_id"], claim["claim_generation"]
        by_holder = {"review_id": review, "claim_generation": generation}
        await call(
            reviewer, "submit_verdict", **by_holder, verdict="changes_requested", reason=WHY, counter_patch="# A plan\n"
        )
        status = await call(
            proposer, "get_review_status", review_id=review, wait=True, cursor=created["cursor"], timeout_s=30
        )
        assert status["next_action"] == "decide_counter_patch"
        await call(proposer, "accept_counter_patch", review_id=review, counter_patch_id=status["counter_patch_id"])
        claim = await call(reviewer, "claim_review", reviewer_id=OTHER)
        await call(
            reviewer, "submit_verdict", review_id=review, claim_generation=claim["claim_generation"], verdict="approved"
        )
        closed = await call(proposer, "close_review", review_id=review)
    assert closed["outcome"] == "approved"
    assert desk.do("get_proposal", review_id=review)["description"] == "# A plan\n"
