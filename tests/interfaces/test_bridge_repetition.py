"""The requests that the bridge sends again after an outage, and those that it never repeats."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tandem.bridge import forward
from tandem.bridge.messages import Message, encode
from tests.interfaces.bridging import Hangup, Peer, Reply, Request, bridge, enveloped, peer


def hang_up_on_the_first(answer: Callable[[Request], Reply]) -> Callable[[Request], Reply]:
    """Read one request whole, and close the connection; answer all others."""
    first = threading.Lock()

    def script(request: Request) -> Reply:
        if first.acquire(blocking=False):
            raise Hangup
        return answer(request)

    return script


def done(request: Request) -> Reply:
    return enveloped(request, {"changed": False, "cursor": "c.2"})


def call_through(script: Callable[[Request], Reply], folder: Path, name: str, **arguments: Any) -> tuple[Peer, Any]:
    with peer(script) as broker, bridge("--broker", broker.url, "--project", "p", folder=folder) as client:
        return broker, client.tool(name, **arguments)


def test_a_read_is_sent_again_as_it_was(tmp_path: Path) -> None:
    broker, envelope = call_through(hang_up_on_the_first(done), tmp_path, "get_proposal", review_id="r")
    assert envelope["ok"] is True
    assert broker.next().text == broker.next().text


def test_a_write_is_sent_again_under_the_key_that_it_was_given(tmp_path: Path) -> None:
    broker, envelope = call_through(hang_up_on_the_first(done), tmp_path, "create_review", intent="x")
    assert envelope["ok"] is True
    first, second = broker.next(), broker.next()
    assert first.arguments == second.arguments
    assert len(first.arguments["idempotency_key"]) > 20


def test_a_key_of_the_clients_own_is_left_alone(tmp_path: Path) -> None:
    broker, _ = call_through(
        hang_up_on_the_first(done), tmp_path, "close_review", review_id="r", idempotency_key="mine"
    )
    assert [broker.next().arguments["idempotency_key"] for _ in range(2)] == ["mine", "mine"]


def test_two_calls_never_share_a_key(tmp_path: Path) -> None:
    with peer(done) as broker, bridge("--broker", broker.url, "--project", "p", folder=tmp_path) as client:
        for _ in range(2):
            client.tool("close_review", review_id="r")
        keys = {broker.next().arguments["idempotency_key"] for _ in range(2)}
    assert len(keys) == 2


def test_a_tool_that_the_bridge_does_not_know_is_not_repeated_when_its_fate_is_unknown(tmp_path: Path) -> None:
    broker, envelope = call_through(hang_up_on_the_first(done), tmp_path, "launch_rocket", target="moon")
    assert envelope["ok"] is False
    assert envelope["error"]["details"]["outcome"] == "unknown"
    assert envelope["error"]["retryable"] is False
    assert broker.next().arguments == {"target": "moon"}
    assert broker.requests.empty()


def test_a_tool_that_the_bridge_does_not_know_is_repeated_under_a_key(tmp_path: Path) -> None:
    broker, envelope = call_through(hang_up_on_the_first(done), tmp_path, "launch_rocket", idempotency_key="k")
    assert envelope["ok"] is True
    assert broker.next().text == broker.next().text


def test_a_broker_that_is_not_ready_is_asked_again(tmp_path: Path) -> None:
    answers = iter([503, 503, 200])

    def script(request: Request) -> Reply:
        reply = done(request)
        reply.status = next(answers)
        return reply

    broker, envelope = call_through(script, tmp_path, "launch_rocket")
    assert envelope["ok"] is True
    assert len([broker.next() for _ in range(3)]) == 3


def test_an_answer_that_is_cut_off_counts_as_none(tmp_path: Path) -> None:
    answers = iter([False, True])

    def script(request: Request) -> Reply:
        if next(answers):
            return done(request)
        return Reply(b"", content_type="text/event-stream", chunks=[b": ping\r\n\r\n", b"data: {"])

    _, envelope = call_through(script, tmp_path, "get_proposal", review_id="r")
    assert envelope["ok"] is True


@pytest.mark.parametrize("tool", ["list_reviews", "cycle_status", "cycle.status"])
def test_a_wait_without_a_cursor_is_pinned_before_it_begins_and_asks_for_the_time_that_is_left(
    tmp_path: Path, tool: str
) -> None:
    waits = iter([False, True])

    def script(request: Request) -> Reply:
        if request.arguments["timeout_s"] == 0:
            return enveloped(request, {"changed": False, "cursor": "c.1"})
        if next(waits):
            return enveloped(request, {"changed": True, "cursor": "c.2"})
        raise Hangup

    broker, envelope = call_through(script, tmp_path, tool, wait=True, timeout_s=30)
    glance, wait, again = (broker.next().arguments for _ in range(3))
    assert envelope["data"]["cursor"] == "c.2"
    assert glance == {"wait": True, "timeout_s": 0}
    assert wait == {"wait": True, "timeout_s": 30, "cursor": "c.1"}
    assert (again["cursor"], again["wait"]) == ("c.1", True)
    assert 0 < again["timeout_s"] < 30


def test_a_wait_that_would_be_answered_at_once_is_answered_at_once(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return enveloped(request, {"changed": True, "cursor": "c.9"})

    broker, envelope = call_through(script, tmp_path, "get_review_status", review_id="r", wait=True)
    assert envelope["data"] == {"changed": True, "cursor": "c.9"}
    broker.next()
    assert broker.requests.empty()


def test_a_refused_wait_is_refused_once(tmp_path: Path) -> None:
    refusal: dict[str, Any] = {
        "ok": False,
        "error": {"code": "NOT_FOUND", "message": "no", "details": {}, "retryable": False},
    }

    def script(request: Request) -> Reply:
        body: dict[str, Any] = {
            "jsonrpc": "2.0",
            "id": request.body["id"],
            "result": {"structuredContent": refusal, "isError": True},
        }
        return Reply(json.dumps(body).encode())

    broker, envelope = call_through(script, tmp_path, "get_review_status", review_id="r", wait=True)
    assert envelope == refusal
    broker.next()
    assert broker.requests.empty()


def test_a_wait_that_the_broker_keeps_shorter_is_answered_as_the_broker_answers_it(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        if request.method == "GET":
            return Reply(b'{"ok":true,"data":{}}')
        return done(request)

    broker, envelope = call_through(script, tmp_path, "get_audit_log", wait=True, cursor="c.1", timeout_s=40)
    assert envelope["data"] == {"changed": False, "cursor": "c.2"}
    assert [broker.next().path for _ in range(2)] == ["/mcp?project=p", "/healthz"]


@pytest.mark.parametrize(("asked", "longest"), [(None, 25), (10, 10), (86_400, 50)])
def test_a_wait_lasts_as_long_as_the_contract_has_it(asked: float | None, longest: float) -> None:
    arguments = {"wait": True, "timeout_s": asked} if asked is not None else {"wait": True}
    body = {"id": 1, "method": "tools/call", "params": {"name": "list_reviews", "arguments": arguments}}
    call = forward.Call(Message(encode(body), body))
    assert longest - 1 < call.seconds_left() <= longest
