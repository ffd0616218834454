"""Every operation's answer is as declared, on HTTP and on MCP alike."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mcp import Client
from mcp_types import Implementation
from pydantic import TypeAdapter

from tandem.contract.operation import MCP_ROLES
from tandem.server.catalogue import REGISTRY
from tests.acceptance.furnishing import REQUESTS, Shop
from tests.acceptance.reviewing import OTHER, PROPOSAL, REVIEWER, WHY, Desk
from tests.broker import BrokerProcess, fresh_project
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION


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


CASES = [(name, number) for name, requests in REQUESTS.items() for number in range(len(requests))]
WRITES = {operation.name for operation in REGISTRY if not operation.hints.read_only}


def passes(operation: str, number: int) -> bool:
    """Whether the request is about what does not last: the end of a cycle, a pool, of which one has to hear, or a
    webhook, which is tried again and again once something happens.
    """
    return (
        re.search(r"\$(?:archived|archiving|completing|refined|staff|webhook)", str(REQUESTS[operation][number]))
        is not None
    )


WRITING = [case for case in CASES if case[0] in WRITES]
PASSING = [case for case in CASES if case[0] not in WRITES and passes(*case)]
LASTING = [case for case in CASES if case[0] not in WRITES and not passes(*case)]
"""Reads that can share a shop, as the things that they need last."""


def of_each(cases: list[tuple[str, int]]) -> pytest.MarkDecorator:
    """A test of each of these requests."""
    return pytest.mark.parametrize(("operation", "number"), cases, ids=[f"{name}-{number}" for name, number in cases])


def test_no_operation_is_left_out():
    # Brokers without tokens take no reports on checks; see `test_checks`.
    listed = REQUESTS.keys() | {"report_check"}
    assert sorted(listed ^ {operation.name for operation in REGISTRY}) == [], "each is in requests.yaml once"


@of_each(WRITING)
def test_the_answer_of_a_write_is_of_the_declared_type_and_the_same_over_mcp(own: Shop, operation: str, number: int):
    is_the_same_over_mcp(own, *is_as_declared(own, operation, number))


@of_each(PASSING)
def test_so_is_that_of_a_read_of_what_does_not_last(own: Shop, operation: str, number: int):
    is_the_same_over_mcp(own, *is_as_declared(own, operation, number))


# Every statement runs on both databases somewhere.
ON_POSTGRESQL = pytest.mark.parametrize("broker", ["postgresql"], indirect=True)


def test_and_that_of_every_other_read(looked_at: Shop):
    for case in LASTING:
        is_the_same_over_mcp(looked_at, *is_as_declared(looked_at, *case))


@VARIATION
@ON_POSTGRESQL
@of_each(PASSING)
def test_postgresql_answers_a_read_of_what_does_not_last(own: Shop, operation: str, number: int):
    is_as_declared(own, operation, number)


@VARIATION
@ON_POSTGRESQL
def test_postgresql_answers_every_other_read(looked_at: Shop):
    for case in LASTING:
        is_as_declared(looked_at, *case)


@cache
def declared(operation: str) -> TypeAdapter[Any]:
    """What reads an operation's answers."""
    return TypeAdapter(REGISTRY.get(operation).answer)


def is_as_declared(shop: Shop, operation: str, number: int) -> tuple[str, dict[str, Any], dict[str, Any]]:
    """Ask over HTTP: the answer is of the declared type; the operation, its request and the envelope."""
    request = shop.request(operation, number)
    envelope = shop.asker.envelope_unscoped(operation, **request)
    assert envelope["ok"], envelope
    typed = declared(operation).validate_json(json.dumps(envelope["data"]), strict=True)
    # Written again it is the same: nothing came that is not declared.
    assert declared(operation).dump_python(typed, mode="json") == envelope["data"]
    return operation, request, envelope


def is_the_same_over_mcp(shop: Shop, operation: str, request: dict[str, Any], envelope: dict[str, Any]) -> None:
    """A read is asked once more; a write has a key, and so is answered once more by any face."""
    found = REGISTRY.get(operation)
    if found.over_mcp:
        for role in (None, *sorted(found.roles.intersection(MCP_ROLES))):
            answer = shop.asker.over_mcp(operation, request, role)
            if (role, operation) == ("reviewer", "get_review_status"):
                # What the proposer does next is nothing to a reviewer.
                assert not answer["data"].pop("message")
                envelope = {**envelope, "data": {**envelope["data"]}}
                del envelope["data"]["message"]
            assert answer == envelope


def test_a_refusal_is_the_same_over_mcp(desk: Desk):
    request = {"project": desk.project, "review_id": "rv_nothing", "reviewer_id": "x" * 300, "surprise": 1}
    for operation in (one.name for one in REGISTRY if one.over_mcp):
        envelope = desk.envelope_unscoped(operation, **request)
        assert not envelope["ok"], operation
        assert desk.over_mcp(operation, request) == envelope


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
