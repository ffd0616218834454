"""A token of one project: the others do not exist for it, in any operation. Checked over the whole registry."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tandem.server.catalogue import REGISTRY
from tandem.server.mcp.recognition import TASKS
from tests.acceptance.accessing import EVERY_ROLE, Bearer
from tests.acceptance.furnishing import Shop
from tests.acceptance.reviewing import PROPOSAL, edited
from tests.acceptance.test_answers import CASES, of_each, passes
from tests.broker import BrokerProcess, fresh_project
from tests.git.sandbox import Sandbox
from tests.interfaces.serving import MODERN, mcp_headers, mcp_message

pytest_plugins = ["tests.acceptance.accessing_brokers"]

KEEPS_TO_CALLER = {"list_projects", "create_login"}
"""Operations without a project that a token of one project is for, as their answers have nothing of others."""

FOR_ALL = {operation.name for operation in REGISTRY if not operation.roles & set(EVERY_ROLE)}
"""Operations of administrators and supervisors, whose tokens are for all projects."""

ID = re.compile(r"(?:rv|ms|cp|vd|whk)_[0-9a-z]{18}|20[0-9]{6}T[0-9]{6}Z_[a-z-]+_[0-9a-z]{6}|codex-r[0-9]+-[a-z0-9]{16}")


@pytest.fixture
def shop(guarded: BrokerProcess, repo: Sandbox) -> Iterator[Bearer]:
    """A registered project of the broker that needs tokens, by its owner."""
    with Bearer.owner(guarded) as desk:
        desk.register(repo.root)
        yield desk


@pytest.fixture(scope="module")
def furnished(guarded: BrokerProcess, repo_template: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shop]:
    """Another one with something of everything in it; nothing that is asked by strangers changes it."""
    root = shutil.copytree(repo_template, tmp_path_factory.mktemp("furnished") / "repository")
    with Bearer.owner(guarded) as desk:
        desk.register(root)
        made = Shop(desk, str(root)).furnished()
        assert made.team
        yield made
        made.settle()


@pytest.fixture
def stranger(guarded: BrokerProcess) -> Iterator[Bearer]:
    """Who has a token with every role that one project can have, of another project."""
    with Bearer.owner(guarded) as theirs, theirs.give("mallory", *EVERY_ROLE, bound=True) as desk:
        yield desk


def test_p6_a_task_of_a_token_is_its_own(shop: Bearer, stranger: Bearer) -> None:
    review = shop.put_up()
    following: dict[str, Any] = {"io.modelcontextprotocol/clientCapabilities": {"extensions": {TASKS: {}}}}
    stated: dict[str, Any] = {**mcp_message(MODERN, "", {})["params"]["_meta"], **following}

    def ask(bearer: Bearer, method: str, **params: Any) -> dict[str, Any]:
        body = mcp_message(MODERN, method, {"_meta": stated, **params})
        headers = {"authorization": f"Bearer {bearer.token}", **mcp_headers(MODERN, method, params.get("name"))}
        return httpx.post(f"{bearer.url}/mcp", json=body, headers=headers, timeout=60).json()

    with shop.give("alice", *EVERY_ROLE, bound=True) as bound, shop.give("bob", *EVERY_ROLE, bound=True) as other:
        waits = {"name": "get_review_status", "arguments": {"review_id": review, "wait": True}}
        # Its cursor is veiled, and fits into the id nevertheless.
        task: str = ask(bound, "tools/call", **waits)["result"]["taskId"]
        for another in (other, stranger, shop):
            assert ask(another, "tasks/get", taskId=task)["error"]["code"] == -32602
        shop.approve(review)
        state = ask(bound, "tasks/get", taskId=task)["result"]
    assert state["result"]["structuredContent"]["data"]["status"] == "approved"


def newest_event(shop: Shop) -> list[dict[str, Any]]:
    return shop.desk.do("get_audit_log", limit=1)["events"]


def as_unknown(request: dict[str, Any]) -> tuple[dict[str, Any], dict[str, str]]:
    """The same request with ids that do not exist; and the new id for each old one."""
    swapped: dict[str, str] = {}

    def swap(found: re.Match[str]) -> str:
        old = found[0]
        return swapped.setdefault(old, old[:-6] + "zzzzzz")

    return json.loads(ID.sub(swap, json.dumps(request))), swapped


def test_what_the_search_for_ids_knows(furnished: Shop):
    known = [furnished.pending, furnished.patch, furnished.team.cycle_id, furnished.staff.reviewer]
    assert all(ID.fullmatch(name) for name in known), known


def test_nothing_is_seen_or_done_of_another_project(furnished: Shop, stranger: Bearer):
    for case in CASES:
        if not passes(*case):
            is_hidden(furnished, stranger, *case)


@of_each([case for case in CASES if passes(*case)])
def test_nor_of_what_does_not_last_in_one(shop: Bearer, repo: Sandbox, stranger: Bearer, operation: str, number: int):
    theirs = Shop(shop, str(repo.root))
    is_hidden(theirs, stranger, operation, number)
    theirs.settle()


def is_hidden(theirs: Shop, stranger: Bearer, operation: str, number: int) -> None:
    """The stranger neither sees nor changes anything; the answer is the same as for ids that do not exist."""
    # No reviewer is started here, so that no supervisor has to stand by.
    request = {} if operation == "spawn_reviewer" else theirs.arguments(operation, number)
    request.pop("project", None)
    unknown, swapped = as_unknown(request)
    before = newest_event(theirs)
    answers = [stranger.raw(operation, asked).text for asked in (request, unknown)]
    assert newest_event(theirs) == before
    seen = answers[0]
    sent = json.dumps(request)
    assert '"INTERNAL_ERROR"' not in seen
    assert theirs.desk.project not in seen
    assert theirs.root not in seen
    told = {*ID.findall(seen)} - {*ID.findall(sent)}
    assert not [name for name in told if name in everything_of(theirs)]
    first, second = (json.loads(answer) for answer in answers)
    assert first["ok"] is second["ok"]
    if not first["ok"]:
        expected = answers[1]
        for old, new in swapped.items():
            expected = expected.replace(new, old)
        assert seen == expected


def everything_of(shop: Shop) -> str:
    """Every id of the other project, somewhere in a text."""
    rows = shop.desk.do("get_audit_log", limit=200)["events"]
    return json.dumps(rows)


def test_another_project_cannot_be_named(stranger: Bearer):
    elsewhere = fresh_project()
    for operation in REGISTRY:
        error = stranger.plain(operation.name, project=elsewhere).get("error", {})
        by_query = stranger.raw(operation.name, {}, project=elsewhere).json().get("error", {})
        assert (error["code"], by_query["code"]) == ("FORBIDDEN", "FORBIDDEN"), operation.name
        if operation.name in FOR_ALL:
            assert error["details"]["allowed"] == sorted(operation.roles)
            continue
        assert error["details"]["allowed"] == by_query["details"]["allowed"] == [stranger.project]
        # Also for tools, by both ways to them.
        for fast in (True, False)[: 2 * operation.over_mcp]:
            over_mcp = stranger.over_mcp(operation.name, {"project": elsewhere}, fast=fast)
            assert over_mcp["error"]["details"] == error["details"]


def test_operations_without_a_project_are_for_tokens_of_all(stranger: Bearer):
    without = {one.name for one in REGISTRY if "project" not in one.request.model_fields} - FOR_ALL
    assert without == KEEPS_TO_CALLER
    assert {one.name for one in REGISTRY if one.request.project_scoped} == KEEPS_TO_CALLER
    for name in KEEPS_TO_CALLER:
        assert stranger.plain(name)["ok"]


def test_without_a_project_it_is_the_tokens(shop: Bearer, stranger: Bearer):
    with shop.give("alice", *EVERY_ROLE, bound=True) as alice, shop.give("bob", "reviewer", bound=True) as bob:
        created = alice.plain("create_review", **PROPOSAL, diff=edited())["data"]
        assert created["project"] == shop.project
        review = created["review_id"]
        assert [row["review_id"] for row in alice.plain("list_reviews")["data"]["reviews"]] == [review]
        assert alice.plain("get_review_status", review_id=review)["ok"]
        assert bob.plain("claim_review")["data"]["review_id"] == review
        assert [one["project"] for one in alice.plain("list_projects")["data"]["projects"]] == [shop.project]
        assert alice.plain("get_project_settings")["ok"]
        assert alice.plain("get_review_stats")["ok"]
        assert alice.raw("list_reviews", {}, project=shop.project).status_code == 200
        # Of the log it sees its project's part.
        projects = {event["project"] for event in alice.plain("get_audit_log", limit=200)["data"]["events"]}
        assert projects == {shop.project}
    # Who has a label of a project, which is registered nowhere, sees no other.
    assert stranger.plain("list_projects")["data"]["projects"] == []


def test_the_parent_of_a_review_is_of_the_project_too(shop: Bearer, stranger: Bearer):
    parent = shop.put_up_claimed(diff=edited())
    shop.verdict(parent, "rejected")
    asked = {**PROPOSAL, "description": "Again."}
    foreign, unknown = (
        stranger.plain("create_review", **asked, parent_id=name)["error"] for name in (parent, "rv_" + "0" * 18)
    )
    assert foreign["code"] == unknown["code"] == "NOT_FOUND"
    assert foreign["message"] == unknown["message"].replace("rv_" + "0" * 18, parent)
    # Not even what else is wrong with the request tells one from the other.
    too_long = {**asked, "intent": "x" * 300_000}
    answers = [stranger.plain("create_review", **too_long, parent_id=name) for name in (parent, "rv_" + "0" * 18)]
    assert {answer["error"]["code"] for answer in answers} == {"NOT_FOUND"}


GIVES_PLACES: dict[str, dict[str, Any]] = {
    "get_audit_log": {"limit": 10},
    "get_activity_feed": {"limit": 1},
    "list_reviews": {"limit": 1},
    "search_reviews": {"limit": 1, "sort": "updated"},
    "get_inbox": {"person": "mallory"},
    "get_review_timeline": {},
    "get_review_status": {},
    "get_review": {},
    "get_discussion": {"limit": 1},
}
"""Operations whose answers say where in the log, or in a list, the caller is."""


def test_no_answer_changes_with_what_happens_in_other_projects(shop: Bearer, stranger: Bearer):
    reviews = [stranger.put_up() for _ in range(3)]
    stranger.say(reviews[0], "proposer")

    def everything() -> dict[str, Any]:
        about = {"review_id": reviews[0]}
        return {
            name: stranger.do(
                name, **asked, **(about if "review_id" in REGISTRY.get(name).request.model_fields else {})
            )
            for name, asked in GIVES_PLACES.items()
        }

    before = everything()
    for _ in range(3):
        shop.put_up()
    assert everything() == before
    # Nor is there a number in them that would have counted the others' events since the last time.
    for name, answer in before.items():
        assert not answer.get("cursor", "").rpartition(".")[2].isdigit(), name
        assert all(event["seq"] is None for event in answer.get("events", [])), name


def test_places_that_say_nothing_can_be_gone_on_from(shop: Bearer, stranger: Bearer):
    cursor = stranger.do("get_audit_log")["cursor"]
    reviews = [stranger.put_up() for _ in range(3) if shop.put_up()]
    seen: list[str] = []
    more = True
    while more:
        page = stranger.do("get_audit_log", cursor=cursor, limit=1)
        seen += [event["subject"] for event in page["events"]]
        cursor, more = page["cursor"], page["more"]
    assert seen == reviews
    listed: list[str] = []
    asked: dict[str, Any] = {"limit": 1}
    while asked:
        page = stranger.do("get_activity_feed", **asked)
        listed += [entry["review"]["review_id"] for entry in page["entries"]]
        asked = {"limit": 1, "page": page["next_page"]} if page["next_page"] else {}
    assert listed == reviews[::-1]
    waited = stranger.do("get_audit_log", cursor=cursor, wait=True, timeout_s=0.1)
    assert (waited["changed"], waited["cursor"]) == (False, cursor)
    last = stranger.put_up()
    assert stranger.do("get_audit_log", cursor=cursor, wait=True, timeout_s=5)["events"][0]["subject"] == last


def test_a_place_is_of_use_to_nobody_else(shop: Bearer, stranger: Bearer):
    cursor = shop.do("get_audit_log")["cursor"]
    stranger.refused("CURSOR_EXPIRED", "get_audit_log", cursor=cursor)
    log_id = cursor.rpartition(".")[0]
    # Not even to ask how far the log has come.
    ahead = [stranger.refused("CURSOR_EXPIRED", "get_audit_log", cursor=f"{log_id}.{place}") for place in (1, 10**9)]
    assert ahead[0] == ahead[1]
    with shop.give("trudy", *EVERY_ROLE, bound=True) as other:
        theirs = stranger.do("get_audit_log")["cursor"]
        other.refused("CURSOR_EXPIRED", "get_audit_log", cursor=theirs)
