"""Any bad request gets the contract's code and a message that says what to do, and changes nothing."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx
import pytest

from tests.acceptance.furnishing import filled
from tests.acceptance.reviewing import PROPOSAL, WHY, Desk, edited
from tests.acceptance.tables import table
from tests.broker import BrokerProcess, fresh_project
from tests.databases import ON_BOTH_DATABASES

HUGE = 10**30
CREATE = {**PROPOSAL, "description": "So."}
MESSAGE = {"sender_role": "proposer", "body": "A word."}
VERDICT = {"verdict": "comment", "reason": WHY, "claim_generation": 1}
CHANGE = {"path": "a.txt", "mode_after": "100644", "blob_after": "2" * 40}
VALUES: dict[str, Any] = {
    "proposal": PROPOSAL,
    "create": CREATE,
    "diff": edited(),
    "huge": HUGE,
    "long_name": "x" * 201,
    "long_id": "x" * 65,
    "long_plan": "p" * 501,
    "too_many": ["b"] * 501,
    "commit": "1" * 40,
    "changes": [CHANGE],
    "twice": [CHANGE, CHANGE],
    "message": MESSAGE,
    "verdict": VERDICT,
    "large_text": "ä" * 128_001,
    "large_diff": "x" * 5_000_001,
}
WRONG: dict[str, dict[str, list[Any]]] = table("wrong_requests")


@pytest.fixture
def review(desk: Desk) -> str:
    """A claimed review."""
    return desk.put_up_claimed()


def test_what_no_state_could_accept_names_its_field(shop: Desk):
    review = shop.put_up_claimed()
    named = {"message": {**MESSAGE, "review_id": review}, "verdict": {**VERDICT, "review_id": review}}
    values = {**VALUES, **named, "review": review}
    with shop.unchanged(review):
        for operation, field, request in (
            (operation, field, one) for operation, rows in WRONG.items() for field, ones in rows.items() for one in ones
        ):
            sent = {"project": shop.project, **filled(request, values.__getitem__)}
            # The standard library's encoder: ours sends no number of more than 64 bits.
            response = shop.send(operation, json.dumps(sent).encode())
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (400, "INVALID_INPUT"), (operation, request, error)
            assert error["details"]["field"].startswith(field), (operation, request, error)
            assert not error["retryable"]
    assert (shop.do("get_gate")["enabled"], shop.do("list_commits")["commits"]) == (False, [])
    assert not shop.do("check_gate", changes=[CHANGE])["allowed"]


def test_other_unknown_things_are_not_found(desk: Desk, review: str):
    with desk.unchanged(review):
        desk.refused("NOT_FOUND", "get_proposal", review_id=review, round=2)
        desk.refused("NOT_FOUND", "create_review", **CREATE, parent_id="rv_nothing")
        desk.refused("NOT_FOUND", "add_message", **{**MESSAGE, "review_id": review}, resolves="ms_nothing")
    assert desk.envelope_unscoped("remove_project", name=fresh_project())["error"]["code"] == "NOT_FOUND"


def test_neither_an_unknown_review_nor_another_projects_is_found(broker: BrokerProcess, desk: Desk, review: str):
    with Desk(broker.url, fresh_project()) as elsewhere, desk.unchanged(review):
        for operation, arguments in filled(table("unknown_reviews"), VALUES.__getitem__):
            desk.refused("NOT_FOUND", operation, **arguments, review_id="rv_nothing")
            elsewhere.refused("NOT_FOUND", operation, **arguments, review_id=review)
        elsewhere.refused("INVALID_INPUT", "create_review", **CREATE, parent_id=review)


def test_a_verdict_that_is_no_approval_needs_a_reason(desk: Desk, review: str):
    with desk.unchanged(review):
        for verdict, reason in itertools.product(("comment", "changes_requested", "rejected"), (None, "", "  \n")):
            sent = {"review_id": review, "verdict": verdict, "reason": reason, "claim_generation": 1}
            desk.refused("REASON_REQUIRED", "submit_verdict", **sent)


MANY = b"{" + b",".join(b'"k%d" : 0' % number for number in range(60_000)) + b"}"
SDK = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-06-18"}


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/v1/create_review", MANY),
        ("/api/v1/create_review", b'{"metadata":{"a":[' + b"[]," * 60_000 + b"0]}}"),
        ("/api/v1/create_review", b'{"intent":"\\\\","metadata":' + MANY + b"}"),
        (
            "/mcp",
            b'{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"get_inbox","arguments":' + MANY + b"}}",
        ),
        ("/mcp", b'{"jsonrpc":"2.0","id":1,"method":"prompts/list","params":' + MANY + b"}"),
    ],
    ids=["keys", "lists", "behind an escape", "tool", "sdk"],
)
def test_more_values_than_any_request_has_are_refused_before_they_are_read(
    broker: BrokerProcess, path: str, body: bytes
):
    sent = {"content-type": "application/json", **SDK}
    response = httpx.post(broker.url + path, content=body, headers=sent, timeout=60, trust_env=False)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "TOO_LARGE")
    assert response.json()["error"]["details"]["limit"] == "json_values"


def test_commas_of_a_text_and_changes_of_a_large_commit_are_not_too_many(desk: Desk):
    text = 'a,"[\\{' * 30_000
    assert desk.do("create_review", **{**PROPOSAL, "description": text})["status"] == "pending"
    changes = [{"path": f"{number}.txt", "mode_after": "100644"} for number in range(20_000)]
    assert desk.do("check_gate", changes=changes)["allowed"] is False


def test_a_name_of_any_length_is_cut_in_the_refusal_of_it(desk: Desk, review: str):
    for arguments in ({"y" * 50_000: 1}, {"comments": [{"x" * 50_000: 1}]}):
        sent = {"review_id": review, "verdict": "comment", "reason": WHY, **arguments}
        response = desk.send("submit_verdict", json.dumps(sent).encode())
        assert response.json()["error"]["code"] == "INVALID_INPUT"
        assert len(response.content) < 3000


def test_thousands_of_unknown_names_are_refused_in_few_words(desk: Desk):
    response = desk.send("create_review", json.dumps(dict.fromkeys(map(str, range(10_000)), 0)).encode())
    error = response.json()["error"]
    assert (error["code"], len(response.content) < 3000) == ("INVALID_INPUT", True)
    assert "intent" in error["details"]["allowed_fields"]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (b"a=1&" * 3000, "application/x-www-form-urlencoded"),
        (
            b'--x\r\nContent-Disposition: form-data; name="a"\r\n\r\n1\r\n' * 3000 + b"--x--\r\n",
            "multipart/form-data; boundary=x",
        ),
        (b"--y", "multipart/form-data"),
    ],
)
def test_a_form_of_thousands_of_fields_is_refused(broker: BrokerProcess, body: bytes, kind: str):
    response = httpx.post(
        f"{broker.url}/you", content=body, headers={"content-type": kind}, timeout=60, trust_env=False
    )
    assert (response.status_code, "INVALID_INPUT" in response.text) == (400, True)


@pytest.mark.parametrize("depth", [100, 600, 1000])
@pytest.mark.parametrize("key", [None, "key-1"])
def test_deep_metadata_is_kept_or_refused(desk: Desk, review: str, depth: int, key: str | None):
    # By hand: no encoder goes so deep.
    metadata = '{"in":' * depth + '"core"' + "}" * depth
    head = json.dumps({**MESSAGE, "review_id": review, "idempotency_key": key})
    envelope = desk.send("add_message", f'{head[:-1]}, "metadata": {metadata}}}'.encode()).json()
    if envelope["ok"]:
        kept = desk.discussion(review)[0]["metadata"]
        assert json.dumps(kept, separators=(",", ":")) == metadata
    else:
        assert (envelope["error"]["code"], envelope["error"]["details"]["field"]) == ("INVALID_INPUT", "metadata")
        assert desk.discussion(review) == []


@ON_BOTH_DATABASES
def test_the_largest_numbers_that_are_allowed_work(desk: Desk, review: str):
    remark = {"file": "a.txt", "line": 2**31 - 1, "body": "Far down."}
    desk.verdict(review, "comment", comments=[remark])
    assert desk.discussion(review)[-1]["line"] == 2**31 - 1
    for line in (2**31, 2**31 + 1, 2**63, HUGE):
        body = json.dumps({**VERDICT, "review_id": review, "comments": [{**remark, "line": line}]}).encode()
        error = desk.send("submit_verdict", body).json()["error"]
        assert error["code"] == "INVALID_INPUT", (line, error)
    desk.refused("STALE_CLAIM", "renew_claim", review_id=review, claim_generation=2**31 - 1)
    desk.refused("NOT_FOUND", "get_proposal", review_id=review, round=2**31 - 1)


def test_what_is_too_large_is_refused_with_the_limit(desk: Desk, review: str):
    with desk.unchanged(review):
        for operation, arguments in filled(table("too_large_requests"), {**VALUES, "review": review}.__getitem__):
            error = desk.send(operation, json.dumps({"project": desk.project, **arguments}).encode()).json()["error"]
            assert error["code"] == "TOO_LARGE"
            assert error["details"]["actual"] > error["details"]["limit"]
            # It says which setting raises the limit.
            assert error["details"]["setting"] in ("text_limit_bytes", "diff_limit_bytes", "page_limit")
            assert error["details"]["setting"] in error["message"]
    response = desk.send("create_review", b" " * 16_000_001)
    assert (response.status_code, response.json()["error"]["code"]) == (413, "TOO_LARGE")
    # Right at the limit is still fine.
    desk.do("create_review", **{**CREATE, "description": "ä" * 128_000})
    desk.do("list_reviews", limit=200)


@pytest.mark.parametrize(
    ("role", "operation"),
    [
        ("proposer", "claim_review"),
        ("proposer", "submit_verdict"),
        ("proposer", "get_review_timeline"),
        ("reviewer", "create_review"),
        ("reviewer", "close_review"),
        ("operator", "add_message"),
    ],
)
def test_p1_a_role_endpoint_refuses_the_others_work(desk: Desk, review: str, role: str, operation: str):
    with desk.unchanged(review):
        answer = desk.over_mcp(operation, {"review_id": review, "project": desk.project}, role)
    assert answer["error"]["code"] == "FORBIDDEN"
