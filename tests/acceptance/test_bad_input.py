"""Whatever is sent: the contract's code, a message that says what to do, and nothing changed."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx
import pytest

from tests.acceptance.reviewing import PROPOSAL, REVIEWER, WHY, Desk, edited
from tests.broker import BrokerProcess, fresh_project
from tests.databases import ON_BOTH_DATABASES

HUGE = 10**30
NAME = "x" * 201
ID = "x" * 65
REVIEW = object()
"""Stands for the id of a claimed review."""

CREATE = {**PROPOSAL, "description": "So."}
VERDICT = {"review_id": REVIEW, "verdict": "comment", "reason": WHY, "claim_generation": 1}
MESSAGE = {"review_id": REVIEW, "sender_role": "proposer", "body": "A word."}
WRONG: list[tuple[str, dict[str, Any], str]] = [
    # What is missing, unknown or of another type.
    ("create_review", {}, "intent"),
    ("create_review", {**CREATE, "surprise": 1}, "surprise"),
    ("create_review", {**CREATE, "intent": 7}, "intent"),
    ("create_review", {**CREATE, "intent": None}, "intent"),
    ("create_review", {**CREATE, "metadata": []}, "metadata"),
    ("create_review", {**CREATE, "metadata": "{}"}, "metadata"),
    ("create_review", {**CREATE, "skip_diff_validation": "perhaps"}, "skip_diff_validation"),
    ("create_review", {**CREATE, "category": "gossip"}, "category"),
    ("create_review", {**CREATE, "category": "code_change"}, "diff"),
    ("list_reviews", {"status": "lost"}, "status"),
    ("list_reviews", {"priority": "highest"}, "priority"),
    ("get_review_status", {"review_id": REVIEW, "wake_on": "never"}, "wake_on"),
    ("get_proposal", {"review_id": REVIEW, "files": "a.txt"}, "files"),
    ("add_message", {**MESSAGE, "sender_role": "operator"}, "sender_role"),
    ("submit_verdict", {**VERDICT, "verdict": "perfect"}, "verdict"),
    ("submit_verdict", {**VERDICT, "comments": [{"file": "a.txt"}]}, "comments.0.body"),
    # Texts that are empty, too long, or no text that can be kept.
    ("create_review", {**CREATE, "intent": ""}, "intent"),
    ("create_review", {**CREATE, "intent": " \n\t"}, "intent"),
    ("create_review", {**CREATE, "agent_type": ""}, "agent_type"),
    ("create_review", {**CREATE, "agent_type": NAME}, "agent_type"),
    ("create_review", {**CREATE, "phase": NAME}, "phase"),
    ("create_review", {**CREATE, "proposer_id": " "}, "proposer_id"),
    ("create_review", {**CREATE, "intent": "a\0b"}, "intent"),
    ("create_review", {**CREATE, "description": "\0"}, "description"),
    ("create_review", {**CREATE, "metadata": {"a": [{"b\0": 1}]}}, "metadata"),
    ("create_review", {**CREATE, "idempotency_key": NAME}, "idempotency_key"),
    ("create_review", {**CREATE, "idempotency_key": ""}, "idempotency_key"),
    ("create_review", {**CREATE, "project": NAME}, "project"),
    ("add_message", {**MESSAGE, "body": ""}, "body"),
    ("add_message", {**MESSAGE, "body": "a\0b"}, "body"),
    ("get_review_status", {"review_id": ID}, "review_id"),
    ("get_review_status", {"review_id": ""}, "review_id"),
    # Numbers out of range.
    ("list_reviews", {"limit": 0}, "limit"),
    ("list_reviews", {"limit": -1}, "limit"),
    ("list_reviews", {"limit": 1.5}, "limit"),
    ("list_reviews", {"limit": "many"}, "limit"),
    ("get_proposal", {"review_id": REVIEW, "round": 0}, "round"),
    ("get_proposal", {"review_id": REVIEW, "round": HUGE}, "round"),
    ("get_proposal", {"review_id": REVIEW, "since_round": 1}, "since_round"),
    ("renew_claim", {"review_id": REVIEW, "claim_generation": -1}, "claim_generation"),
    ("renew_claim", {"review_id": REVIEW, "claim_generation": HUGE}, "claim_generation"),
    ("submit_verdict", {**VERDICT, "comments": [{"file": "a", "line": 0, "body": "x"}]}, "comments.0.line"),
    ("get_review_status", {"review_id": REVIEW, "wait": True, "timeout_s": -1}, "timeout_s"),
    ("get_review_status", {"review_id": REVIEW, "wait": True, "timeout_s": HUGE}, "timeout_s"),
    # Tokens that are not ours, or another list's.
    ("list_reviews", {"page": "x"}, "page"),
    ("list_reviews", {"page": "W10"}, "page"),
    ("list_reviews", {"page": "WzEsMl0"}, "page"),
    ("get_discussion", {"review_id": REVIEW, "page": "WzEsMiwiYSJd"}, "page"),
    ("get_activity_feed", {"page": "WzFlMzBd"}, "page"),
    ("get_activity_feed", {"page": "ä"}, "page"),
    # Fields that do not go together.
    ("create_review", {**PROPOSAL, "base": "HEAD", "description": "x"}, "base"),
    ("create_review", {**CREATE, "diff": edited(), "path": "a.txt"}, "path"),
    ("create_review", {**PROPOSAL, "path": "a.txt"}, "path"),
    ("create_review", {**CREATE, "review_id": REVIEW, "parent_id": REVIEW}, "parent_id"),
    ("create_review", {**CREATE, "review_id": REVIEW, "category": "verification"}, "category"),
    ("create_review", {**CREATE, "path": "../out.md"}, "path"),
    ("create_review", {**CREATE, "path": "/etc/out.md"}, "path"),
    ("create_review", {**CREATE, "path": ".git/config"}, "path"),
    ("get_review_stats", {"since": "yesterday"}, "since"),
    ("get_review_stats", {"since": "0001-01-01T00:00:00+14:00"}, "since"),
    ("check_gate", {"changes": [{"path": "a", "mode_after": "rwx"}]}, "changes.0.mode_after"),
    ("check_gate", {"changes": [{"path": "a", "blob_after": "abc"}]}, "changes.0.blob_after"),
    ("check_gate", {"changes": [], "signed": ["x"] * 11}, "signed"),
    ("set_gate", {"enabled": True, "signers": ["ann=short"]}, "signers.0"),
]
UNKNOWN: list[tuple[str, dict[str, Any]]] = [
    (operation, {"review_id": "rv_nothing", **more})
    for operation, more in [
        ("create_review", CREATE),
        ("get_review_status", {}),
        ("get_proposal", {}),
        ("get_review", {}),
        ("claim_review", {"reviewer_id": REVIEWER}),
        ("renew_claim", {"claim_generation": 1}),
        ("release_claim", {"claim_generation": 1}),
        ("submit_verdict", {"verdict": "approved", "claim_generation": 1}),
        ("submit_verdict", {"verdict": "comment", "reason": WHY, "claim_generation": 1, "counter_patch": "So."}),
        ("accept_counter_patch", {"counter_patch_id": "cp_nothing"}),
        ("reject_counter_patch", {"counter_patch_id": "cp_nothing"}),
        ("add_message", {"sender_role": "proposer", "body": "x"}),
        ("get_discussion", {}),
        ("close_review", {}),
        ("get_review_timeline", {}),
    ]
]


@pytest.fixture
def review(desk: Desk) -> str:
    """A claimed review."""
    put_up = desk.put_up()
    desk.claim(put_up)
    return put_up


def test_what_no_state_could_accept_names_its_field(desk: Desk, review: str):
    with desk.unchanged(review):
        for operation, arguments, field in WRONG:
            sent = {name: review if value is REVIEW else value for name, value in arguments.items()}
            # The standard library's encoder: ours sends no number of more than 64 bits.
            response = desk.send(operation, json.dumps({"project": desk.project, **sent}).encode())
            error = response.json()["error"]
            assert (response.status_code, error["code"]) == (400, "INVALID_INPUT"), (operation, arguments, error)
            assert error["details"]["field"].startswith(field), (operation, arguments, error)
            assert not error["retryable"]


def test_other_unknown_things_are_not_found(desk: Desk, review: str):
    with desk.unchanged(review):
        desk.refused("NOT_FOUND", "get_proposal", review_id=review, round=2)
        desk.refused("NOT_FOUND", "create_review", **CREATE, parent_id="rv_nothing")
        desk.refused("NOT_FOUND", "add_message", **{**MESSAGE, "review_id": review}, resolves="ms_nothing")
    assert desk.envelope_unscoped("remove_project", name=fresh_project())["error"]["code"] == "NOT_FOUND"


def test_neither_an_unknown_review_nor_another_projects_is_found(broker: BrokerProcess, desk: Desk, review: str):
    with Desk(broker.url, fresh_project()) as elsewhere, desk.unchanged(review):
        for operation, arguments in UNKNOWN:
            desk.refused("NOT_FOUND", operation, **arguments)
            elsewhere.refused("NOT_FOUND", operation, **{**arguments, "review_id": review})
        elsewhere.refused("INVALID_INPUT", "create_review", **CREATE, parent_id=review)


def test_a_verdict_that_is_no_approval_needs_a_reason(desk: Desk, review: str):
    with desk.unchanged(review):
        for verdict, reason in itertools.product(("comment", "changes_requested", "rejected"), (None, "", "  \n")):
            sent = {"review_id": review, "verdict": verdict, "reason": reason, "claim_generation": 1}
            desk.refused("REASON_REQUIRED", "submit_verdict", **sent)


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"\xff\xfe{}",
        b'{"intent": "\xff"}',
        b'{"intent": "\\ud800"}',
        b'{"intent": NaN}',
        b'{"metadata": ' + b"[" * 20_000 + b"]" * 20_000 + b"}",
        b'{"a": 1e999}',
    ],
    ids=["cut off", "null", "list", "text", "utf-16", "bytes", "surrogate", "NaN", "deep", "infinite"],
)
def test_a_body_that_is_no_json_object_is_refused(desk: Desk, body: bytes):
    response = desk.send("create_review", body)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_INPUT")


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


@ON_BOTH_DATABASES
@pytest.mark.parametrize("depth", [100, 300, 600, 900, 1000])
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


@ON_BOTH_DATABASES
def test_what_is_too_large_is_refused_with_the_limit(desk: Desk, review: str):
    text = "ä" * 128_001
    remark = {"file": "a.txt", "body": text}
    too_large: list[tuple[str, dict[str, Any]]] = [
        ("create_review", {**CREATE, "description": text}),
        ("create_review", {**CREATE, "intent": text}),
        ("create_review", {**CREATE, "metadata": {"text": text}}),
        ("create_review", {**CREATE, "diff": "x" * 5_000_001}),
        ("add_message", {**MESSAGE, "review_id": review, "body": text}),
        ("add_message", {**MESSAGE, "review_id": review, "metadata": {"text": text}}),
        ("submit_verdict", {**VERDICT, "review_id": review, "reason": text}),
        ("submit_verdict", {**VERDICT, "review_id": review, "comments": [remark]}),
        ("submit_verdict", {**VERDICT, "review_id": review, "counter_patch": text}),
        ("close_review", {"review_id": review, "reason": text}),
        ("release_claim", {"review_id": review, "claim_generation": 1, "reason": text}),
        ("list_reviews", {"limit": 201}),
        ("get_discussion", {"review_id": review, "limit": 2**40}),
        ("get_activity_feed", {"limit": 201}),
        ("get_audit_log", {"limit": 201}),
    ]
    with desk.unchanged(review):
        for operation, arguments in too_large:
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
    arguments = {"review_id": review, "project": desk.project}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": operation, "arguments": arguments}}
    headers = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": "2025-06-18"}
    with desk.unchanged(review):
        answer = httpx.post(f"{desk.url}/mcp/{role}", json=message, headers=headers)
        data = next(line for line in answer.text.splitlines() if line.startswith("data: "))
        result = json.loads(data.removeprefix("data: "))["result"]
    assert result["isError"]
    assert result["structuredContent"]["error"]["code"] == "FORBIDDEN"
