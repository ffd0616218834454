"""Who is let in by a broker that needs access tokens, and who is not."""

from __future__ import annotations

import secrets
import time
from typing import Any

import httpx
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared._httpx_utils import create_mcp_http_client

from tandem.server.catalogue import REGISTRY
from tests.acceptance.accessing import TOKEN, Bearer, owner_token
from tests.acceptance.reviewing import PROPOSAL
from tests.broker import BrokerProcess, StartBroker

pytest_plugins = ["tests.acceptance.accessing_brokers"]

REVIEW = "/api/v1/list_reviews"
GUARDED = [REVIEW, "/api/v1/create_token", "/mcp", "/mcp/reviewer"]


def refusal(response: httpx.Response) -> dict[str, Any]:
    """The error of a 401, which is an envelope and says how to come in."""
    assert response.status_code == 401
    assert response.headers["www-authenticate"] == 'Bearer realm="tandem"'
    error = response.json()["error"]
    assert error["code"] == "UNAUTHENTICATED"
    assert not error["retryable"]
    return error


def posted(broker: BrokerProcess, path: str, *headers: tuple[str, str]) -> httpx.Response:
    return httpx.post(f"{broker.url}{path}", json={}, headers=list(headers), timeout=60)


@pytest.mark.parametrize("path", GUARDED)
def test_without_a_token_nothing_is_answered(guarded: BrokerProcess, path: str):
    assert refusal(posted(guarded, path))["details"] == {"reason": "missing"}


@pytest.mark.parametrize("path", ["/healthz", "/api/v1/openapi.json"])
def test_what_says_nothing_of_reviews_stays_open(guarded: BrokerProcess, path: str):
    assert httpx.get(f"{guarded.url}{path}").status_code == 200


@pytest.mark.parametrize(
    ("header", "reason"),
    [
        ("Basic b3duZXI6", "malformed"),
        ("Bearer", "malformed"),
        ("Bearer wrong", "unknown"),
        ("Bearer " + "x" * 8000, "unknown"),
        ("Bearer tdm_o_" + "A" * 43, "unknown"),
        ("Bearer tdm_" + "0" * 18 + "_" + "A" * 43, "unknown"),
        ("Bearer tdm_r_WyJjb2RleC1yMSIsImEiLDldg." + "0" * 64, "unknown"),
        ("Bearer \u00e9", "unknown"),
    ],
)
def test_what_is_no_token_is_refused_and_not_repeated(guarded: BrokerProcess, header: str, reason: str):
    response = httpx.post(f"{guarded.url}{REVIEW}", json={}, headers=[(b"Authorization", header.encode("latin-1"))])
    assert refusal(response)["details"] == {"reason": reason}
    word = header.partition(" ")[2].strip()
    assert len(word) < 4 or word not in response.text


def test_the_scheme_is_of_any_case_and_the_header_comes_once(guarded: BrokerProcess):
    token = owner_token(guarded)
    for scheme in ("bearer", "BEARER", "Bearer "):
        assert posted(guarded, REVIEW, ("Authorization", f"{scheme} {token}")).status_code == 200
    twice = [("Authorization", f"Bearer {token}")] * 2
    for path in (REVIEW, "/mcp"):
        assert refusal(posted(guarded, path, *twice))["details"] == {"reason": "repeated"}


def test_a_body_is_not_read_before_its_sender_is_known(guarded: BrokerProcess):
    # As long as declared it would be too large, if anybody had looked at it.
    response = httpx.post(f"{guarded.url}{REVIEW}", content=b"x" * 17_000_000, timeout=60)
    refusal(response)


def test_a_token_works_until_it_is_revoked(owner: Bearer):
    with owner.give("alice", "proposer", "operator") as alice:
        created = alice.put_up_whole()
        assert alice.do("get_review_status", review_id=created["review_id"])["status"] == "pending"
        revoked = owner.do("revoke_token", token_id=alice.token_id)
        assert revoked["token_id"] == alice.token_id
        details = alice.refused("UNAUTHENTICATED", "list_reviews")
        assert details == {"reason": "revoked", "token_id": alice.token_id}
        assert refusal(alice.post_mcp("tools/list", {}))["details"]["reason"] == "revoked"
    assert owner.do("revoke_token", token_id=alice.token_id) == revoked
    owner.refused("NOT_FOUND", "revoke_token", token_id="tok_" + "0" * 18)


def test_who_knows_a_revoked_tokens_id_learns_nothing_of_it(owner: Bearer):
    with owner.give("alice", "operator") as alice:
        owner.do("revoke_token", token_id=alice.token_id)
        guess = alice.token[:-43] + secrets.token_urlsafe(32)
        with Bearer(owner.url, owner.project, guess) as guessing:
            assert guessing.refused("UNAUTHENTICATED", "list_reviews") == {"reason": "unknown"}


def test_a_token_expires(owner: Bearer):
    with owner.give("alice", "operator", days=3 / 86_400) as alice:
        alice.do("list_reviews")
        deadline = time.monotonic() + 60
        while (answer := alice.call("list_reviews"))["ok"]:
            assert time.monotonic() < deadline
            time.sleep(0.1)
        assert answer["error"]["details"] == {"reason": "expired", "token_id": alice.token_id}
        [seen] = [one for one in tokens_of(owner) if one["token_id"] == alice.token_id]
        assert seen["state"] == "expired"
        assert seen["expires_at"] > seen["created_at"]


def tokens_of(owner: Bearer, limit: int = 200) -> list[dict[str, Any]]:
    """All tokens, page by page."""
    found: list[dict[str, Any]] = []
    page = None
    while True:
        answer = owner.plain("list_tokens", limit=limit, page=page)["data"]
        assert len(answer["tokens"]) <= limit
        found += answer["tokens"]
        page = answer["next_page"]
        if page is None:
            return found


def test_tokens_are_listed_by_pages_newest_first_and_without_what_proves_them(owner: Bearer):
    made = [owner.give(f"person-{number}", "reviewer", bound=True) for number in range(5)]
    owner.do("revoke_token", token_id=made[2].token_id)
    ids = [one.token_id for one in made]
    seen = [one for one in tokens_of(owner, limit=2) if one["token_id"] in ids]
    assert {one["token_id"] for one in seen} == set(ids)
    assert [one["created_at"] for one in seen] == sorted((one["created_at"] for one in seen), reverse=True)
    [revoked] = [one for one in seen if one["token_id"] == ids[2]]
    assert (revoked["state"], revoked["name"], revoked["roles"]) == ("revoked", "person-2", ["reviewer"])
    assert revoked["project"] == owner.project
    assert {one["state"] for one in seen if one is not revoked} == {"valid"}
    assert not any(one.token[-43:] in str(seen) for one in made)
    for page in ("nonsense", "WzFd"):
        assert owner.plain("list_tokens", page=page)["error"]["code"] == "INVALID_INPUT"
    for one in made:
        one.close()


def test_making_a_token_twice_under_one_key_makes_one_and_shows_it_once(owner: Bearer):
    asked = {"name": "alice", "roles": ["reviewer"], "project": None, "idempotency_key": secrets.token_hex(8)}
    first, again = (owner.do("create_token", **asked) for _ in range(2))
    assert again == {**first, "token": "(shown once, when it was made)"}
    assert len([one for one in tokens_of(owner) if one["token_id"] == first["token_id"]]) == 1
    owner.refused("IDEMPOTENCY_CONFLICT", "create_token", **{**asked, "roles": ["proposer"]})


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "SDK"])
def test_tools_are_called_with_a_token(owner: Bearer, fast: bool):
    with owner.give("alice", "proposer") as alice, owner.give("bob", "reviewer") as bob:
        asked = {**PROPOSAL, "description": "# Plan\n", "project": owner.project}
        created = alice.over_mcp("create_review", asked, fast=fast)
        assert created["ok"], created
        review = created["data"]["review_id"]
        assert bob.over_mcp("get_proposal", {"review_id": review}, "reviewer", fast=fast)["ok"]
        refused = alice.over_mcp("claim_review", {"reviewer_id": "x", "review_id": review}, "reviewer", fast=fast)
        assert refused["error"]["code"] == "FORBIDDEN"
        claimed = bob.over_mcp("claim_review", {"review_id": review}, fast=fast)
        assert claimed["data"]["reviewer_id"] == "bob"
        owner.do("revoke_token", token_id=bob.token_id)
        refused = refusal(bob.post_mcp("tools/call", {"name": "list_reviews"}, fast=fast))
        assert refused["details"]["reason"] == "revoked"


@pytest.mark.anyio
async def test_the_official_client_works_with_a_token_and_its_resources_are_within_the_project(owner: Bearer):
    mine, other = owner.put_up(), owner.put_up(project=f"{owner.project}-b")
    token = owner.give("alice", "operator", "reviewer", bound=True)
    headers = {"Authorization": f"Bearer {token.token}"}
    async with (
        create_mcp_http_client(headers=headers) as http,
        Client(streamable_http_client(f"{owner.url}/mcp", http_client=http)) as client,
    ):
        listed = {str(resource.uri) for resource in (await client.list_resources()).resources}
        assert f"tandem://reviews/{mine}" in listed
        assert f"tandem://reviews/{other}" not in listed
        assert mine in str(await client.read_resource(f"tandem://reviews/{mine}"))
        with pytest.raises(Exception, match="There is no review"):
            await client.read_resource(f"tandem://reviews/{other}")
    token.close()


@pytest.mark.parametrize("role", ["proposer", "reviewer", "operator", "handoff", "supervisor", "admin", "monitor"])
def test_a_token_is_for_the_operations_of_its_roles(owner: Bearer, role: str):
    wrong: list[str] = []
    with owner.give("alice", role) as alice:
        for operation in REGISTRY:
            if role in operation.roles:
                continue
            error = alice.plain(operation.name).get("error", {})
            if error.get("code") != "FORBIDDEN" or error["details"]["allowed"] != sorted(operation.roles):
                wrong.append(operation.name)
            assert error["details"]["actual"] == [role]
    assert not wrong


def test_tokens_are_no_tools(owner: Bearer):
    for name in ("create_token", "list_tokens", "revoke_token", "create_login", "list_projects", "report_outcome"):
        for role in (None, "operator", "reviewer"):
            answer = owner.over_mcp(name, {}, role)
            assert answer["error"]["code"] == "NOT_FOUND", name


def test_a_login_is_for_whoever_asks(owner: Bearer, broker: BrokerProcess):
    with owner.give("alice", "operator", bound=True) as alice:
        paths = {alice.plain("create_login")["data"]["path"] for _ in range(2)}
        assert len(paths) == 2
        assert all(path.startswith("/login?code=") for path in paths)
    trusted = httpx.post(f"{broker.url}/api/v1/create_login", json={}).json()["data"]
    assert trusted == {"path": "/", "expires_in_s": 0}


def test_a_trusted_broker_publishes_no_token_and_asks_for_none(start_broker: StartBroker):
    broker_of_all = start_broker()
    assert owner_token(broker_of_all) is None
    anything = ("Authorization", "Bearer anything")
    assert posted(broker_of_all, REVIEW, anything, anything).status_code == 200
    # Tokens can be made before they are needed.
    with Bearer(broker_of_all.url, "any", "anything") as anybody:
        made = anybody.do("create_token", name="alice", roles=["operator"], project=None)
    broker_of_all.stop()
    later = BrokerProcess(broker_of_all.folder, **TOKEN)
    with later, Bearer(later.url, "any", made["token"]) as alice:
        alice.do("list_reviews")
