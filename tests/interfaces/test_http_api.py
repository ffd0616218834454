"""The JSON API: operations by POST, envelopes with their HTTP status."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest

from tests.interfaces.serving import Served, serving

pytestmark = pytest.mark.anyio
JSON = {"content-type": "application/json"}


@pytest.fixture(scope="module")
async def served() -> AsyncGenerator[Served]:
    async with serving() as served:
        yield served


async def test_an_operation_answers_with_its_envelope(served: Served):
    response = await served.http.post("/api/v1/echo?project=shop", json={"text": "hä"}, headers={"Tandem-Agent": "me"})
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert response.headers["cache-control"] == "no-store"
    said = {"text": "hä", "role": None, "project": "shop", "agent": "me"}
    assert response.json() == {"ok": True, "data": said}


async def test_an_unknown_fault_has_a_reference_and_no_inner_text(served: Served):
    response = await served.http.post("/api/v1/explode", json={})
    assert response.status_code == 500
    assert "secret" not in response.text


async def test_a_dotted_name_is_the_same_operation(served: Served):
    response = await served.http.post("/api/v1/session.open", json={"role": "gemini"})
    assert response.json()["data"] == {"role": "gemini"}


async def test_no_body_is_a_request_without_fields(served: Served):
    assert (await served.http.post("/api/v1/administer", headers=JSON)).status_code == 200


@pytest.mark.parametrize(
    "body",
    [b"{", b"\xff", b'{"text":"\xc3\x28"}', b'{"text":NaN}', b"[" * 5000 + b"]" * 5000, b'{"text":"\\ud800"}', b"nul"],
    ids=["open", "not UTF-8", "bad sequence", "NaN", "deep", "surrogate", "cut"],
)
async def test_what_is_not_json_is_invalid_input(served: Served, body: bytes):
    response = await served.http.post("/api/v1/echo", content=body, headers=JSON)
    assert (response.status_code, response.json()["error"]["code"]) == (400, "INVALID_INPUT")


async def test_of_a_repeated_key_the_last_counts(served: Served):
    response = await served.http.post("/api/v1/echo", content=b'{"text":"a","text":"b"}', headers=JSON)
    assert response.json()["data"]["text"] == "b"


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-www-form-urlencoded", "", "application/jsonp"])
async def test_what_a_foreign_form_can_send_is_refused(served: Served, content_type: str):
    response = await served.http.post("/api/v1/administer", content=b"{}", headers={"content-type": content_type})
    assert (response.status_code, response.json()["error"]["code"]) == (415, "INVALID_INPUT")


async def test_json_with_a_charset_is_json(served: Served):
    headers = {"content-type": "Application/JSON; charset=utf-8"}
    assert (await served.http.post("/api/v1/administer", content=b"{}", headers=headers)).status_code == 200


@pytest.mark.parametrize(
    ("body", "key"),
    [({}, "of-the-header"), ({"idempotency_key": "own"}, "own"), ({"idempotency_key": None}, "of-the-header")],
)
async def test_the_idempotency_header_fills_a_missing_key(served: Served, body: dict[str, str | None], key: str):
    response = await served.http.post("/api/v1/keyed", json=body, headers={"Idempotency-Key": "of-the-header"})
    assert response.json()["data"] == {"key": key}


async def test_health_is_told_with_the_facts(served: Served):
    response = await served.http.get("/healthz")
    assert response.status_code == 200
    assert response.json() == {"ok": True, "data": {"phase": "ready", "version": "1.2.3", "pid": 4711}}
    head = await served.http.head("/healthz")
    assert (head.status_code, head.content) == (200, b"")
