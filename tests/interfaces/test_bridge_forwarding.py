"""What passes through the bridge, and how: framing, headers, streams, cancellation."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.interfaces.bridging import (
    MODERN,
    PATIENCE_SECONDS,
    Hangup,
    Reply,
    Request,
    answered,
    bridge,
    event,
    modern,
    peer,
)


def echo(request: Request) -> Reply:
    return answered(request, {"path": request.path, "params": request.body.get("params")})


def test_a_request_reaches_the_role_and_project_that_were_asked_for(tmp_path: Path) -> None:
    with (
        peer(echo) as broker,
        bridge("--role=reviewer", "--project", "pä & co", "--broker", broker.url, folder=tmp_path) as client,
    ):
        answer = client.call("tools/list", {"cursor": "é\u2028"})
    assert answer["result"]["path"] == "/mcp/reviewer?project=p%C3%A4%20%26%20co"
    assert answer["result"]["params"] == {"cursor": "é\u2028"}


def test_the_environment_names_the_broker_and_the_agent(tmp_path: Path) -> None:
    with peer(echo) as broker:
        named = {"TANDEM_BROKER": broker.url + "/", "TANDEM_AGENT": "agent-7"}
        with bridge(folder=tmp_path, **named) as client:
            assert client.call("tools/list")["result"]["path"] == "/mcp"
        assert broker.next().headers["tandem-agent"] == "agent-7"


def test_a_session_based_client_states_the_negotiated_revision_from_then_on(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return answered(request, {"protocolVersion": "2025-06-18"} if request.body["method"] == "initialize" else {})

    with peer(script) as broker, bridge("--broker", broker.url, folder=tmp_path) as client:
        client.call("initialize", {"protocolVersion": "2025-11-25"})
        client.call("tools/list")
        first, second = broker.next(), broker.next()
    assert "mcp-protocol-version" not in first.headers
    assert second.headers["mcp-protocol-version"] == "2025-06-18"
    assert "mcp-method" not in second.headers
    assert second.headers["accept"] == "application/json, text/event-stream"
    assert second.headers["content-type"] == "application/json"


def test_a_sessionless_client_states_revision_method_and_name_with_each_request(tmp_path: Path) -> None:
    # A name outside ASCII is wrapped as the protocol has it.
    with peer(echo) as broker, bridge("--broker", broker.url, "--project", "p", folder=tmp_path) as client:
        for method, params, name in (
            ("tools/call", {"name": "get_proposal"}, "get_proposal"),
            ("prompts/get", {"name": "überprüfen"}, "=?base64?w7xiZXJwcsO8ZmVu?="),
            ("prompts/get", {"name": "review_next_change"}, "review_next_change"),
            ("resources/read", {"uri": "tandem://reviews/rv_1"}, "tandem://reviews/rv_1"),
            ("tools/list", {}, None),
            ("server/discover", {}, None),
        ):
            client.call(method, modern(params))
            head = broker.next().headers
            assert (head["mcp-protocol-version"], head["mcp-method"], head.get("mcp-name")) == (MODERN, method, name)


def test_progress_in_a_stream_arrives_before_the_answer_does(tmp_path: Path) -> None:
    progress = {"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progress": 1}}
    seen = threading.Event()

    def script(request: Request) -> Reply:
        def stream() -> Iterator[bytes]:
            yield b": ping\r\n\r\n" + event(progress)
            assert seen.wait(PATIENCE_SECONDS)
            yield event({"jsonrpc": "2.0", "id": request.body["id"], "result": {"done": True}})

        return Reply(b"", content_type="text/event-stream", chunks=stream())

    with peer(script) as broker, bridge("--broker", broker.url, "--project", "p", folder=tmp_path) as client:
        number = client.send("tools/call", {"name": "get_proposal", "arguments": {}})
        assert client.receive() == progress
        seen.set()
        assert client.receive() == {"jsonrpc": "2.0", "id": number, "result": {"done": True}}


def test_every_message_is_one_line_however_the_answer_is_laid_out(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        body = {"jsonrpc": "2.0", "id": request.body["id"], "result": {"text": "a\nb"}}
        return Reply(json.dumps(body, indent=2).replace("\n", "\r\n").encode())

    with peer(script) as broker, bridge("--broker", broker.url, folder=tmp_path) as client:
        assert client.call("tools/list")["result"] == {"text": "a\nb"}
        assert client.has_nothing_more()


def test_a_call_that_waits_holds_up_no_other(tmp_path: Path) -> None:
    go = threading.Event()

    def script(request: Request) -> Reply:
        if request.body["method"] == "tools/call":
            assert go.wait(PATIENCE_SECONDS)
        return echo(request)

    with peer(script) as broker, bridge("--broker", broker.url, "--project", "p", folder=tmp_path) as client:
        slow = [client.send("tools/call", {"name": "get_proposal", "arguments": {}}) for _ in range(20)]
        client.call("tools/list")
        go.set()
        assert sorted(client.receive()["id"] for _ in slow) == slow


def test_a_cancelled_call_frees_the_broker_and_is_not_answered(tmp_path: Path) -> None:
    begun = threading.Event()

    def endless_pings() -> Iterator[bytes]:
        while True:
            yield b": ping\r\n\r\n"
            begun.set()

    def script(request: Request) -> Reply:
        if request.body["method"] != "tools/call":
            return echo(request)
        return Reply(b"", content_type="text/event-stream", chunks=endless_pings())

    with peer(script) as broker, bridge("--broker", broker.url, "--project", "p", folder=tmp_path) as client:
        waiting = client.send("tools/call", {"name": "get_proposal", "arguments": {}}, message_id="a-call")
        assert begun.wait(PATIENCE_SECONDS)
        client.notify("notifications/cancelled", {"requestId": waiting, "reason": "changed my mind"})
        assert broker.abandoned.wait(PATIENCE_SECONDS)
        client.call("tools/list")
        assert client.has_nothing_more()


def test_cancelling_what_has_ended_or_never_was_is_no_error(tmp_path: Path) -> None:
    with peer(echo) as broker, bridge("--broker", broker.url, folder=tmp_path) as client:
        number = client.send("tools/list")
        client.receive()
        client.notify("notifications/cancelled", {"requestId": number})
        client.notify("notifications/cancelled", {"requestId": "never"})
        client.notify("notifications/cancelled", {})
        client.call("tools/list")


def test_notifications_are_passed_on_and_not_answered(tmp_path: Path) -> None:
    def script(request: Request) -> Reply:
        return echo(request) if "id" in request.body else Reply(b"", status=202)

    with peer(script) as broker, bridge("--broker", broker.url, folder=tmp_path) as client:
        client.notify("notifications/initialized", {})
        assert broker.next().body["method"] == "notifications/initialized"
        client.call("tools/list")
        assert client.has_nothing_more()


def test_what_is_no_message_is_answered_with_an_error_and_the_next_one_is_served(tmp_path: Path) -> None:
    with peer(echo) as broker, bridge("--broker", broker.url, folder=tmp_path) as client:
        for line, code in (
            (b"{nonsense", -32700),
            (b'"\xff"', -32700),
            (b"[]", -32600),
            (b'{"jsonrpc":"2.0"}', -32600),
            (b'{"jsonrpc":"2.0","id":1.5,"method":"tools/list"}', -32600),
        ):
            client.send_line(line)
            answer = client.receive()
            assert (answer["id"], answer["error"]["code"]) == (None, code)
        client.send_line(b"  ")
        client.call("tools/list")


def test_a_ping_asks_for_the_bridge_and_needs_no_broker(tmp_path: Path) -> None:
    with bridge("--broker", "http://127.0.0.1:9", folder=tmp_path) as client:
        assert client.call("ping")["result"] == {}


@pytest.mark.parametrize("era", [{}, modern()], ids=["sessions", "sessionless"])
def test_a_refusal_in_http_becomes_one_in_the_protocol(tmp_path: Path, era: dict[str, object]) -> None:
    error = {"code": "TOO_LARGE", "message": "The body is too large.", "details": {"limit": 1}, "retryable": False}

    def script(_request: Request) -> Reply:
        return Reply(json.dumps({"ok": False, "error": error}).encode(), status=413)

    with peer(script) as broker, bridge("--broker", broker.url, "--project", "p", folder=tmp_path) as client:
        result = client.call("tools/call", {"name": "create_review", "arguments": {}, **era})["result"]
        listed = client.call("tools/list", {**era})
    assert result["isError"] is True
    assert result["structuredContent"] == {"ok": False, "error": error}
    assert json.loads(result["content"][0]["text"]) == result["structuredContent"]
    assert ("resultType" in result) == bool(era)
    assert listed["error"]["data"] == error


def test_a_protocol_error_keeps_its_code_and_gets_the_id_of_its_request(tmp_path: Path) -> None:
    def script(_request: Request) -> Reply:
        inner = {"code": -32602, "message": "no"}
        return Reply(json.dumps({"jsonrpc": "2.0", "id": None, "error": inner}).encode(), status=400)

    with peer(script) as broker, bridge("--broker", broker.url, folder=tmp_path) as client:
        assert client.call("tools/list")["error"] == {"code": -32602, "message": "no"}


def test_calls_in_flight_are_finished_after_the_client_closed_its_end(tmp_path: Path) -> None:
    closed = threading.Event()

    def script(request: Request) -> Reply:
        assert closed.wait(PATIENCE_SECONDS)
        return echo(request)

    with peer(script) as broker, bridge("--broker", broker.url, folder=tmp_path) as client:
        number = client.send("tools/list")
        broker.next()
        client.close_input()
        closed.set()
        assert client.receive()["id"] == number
        assert client.end() == (0, "")


def test_a_call_that_does_not_end_does_not_keep_the_bridge(tmp_path: Path) -> None:
    never = threading.Event()

    def script(_request: Request) -> Reply:
        never.wait(PATIENCE_SECONDS)
        raise Hangup

    with peer(script) as broker, bridge("--broker", broker.url, folder=tmp_path) as client:
        client.send("tools/list")
        broker.next()
        assert client.end()[0] == 0
        never.set()


@pytest.mark.parametrize(
    ("options", "complaint"),
    [
        (["--rolle", "x"], "there is no option '--rolle'"),
        (["--role"], "--role needs a value"),
        (["--role", "../up"], "'../up' is not a role"),
        (["--broker", "ftp://x"], "'ftp://x' is not a URL"),
        (["--broker", "http://user:secret@x"], "is not a URL"),
    ],
)
def test_wrong_options_are_refused_with_what_to_write_instead(options: list[str], complaint: str) -> None:
    ended = subprocess.run(
        [sys.executable, "-m", "tandem", "mcp", *options], capture_output=True, text=True, check=False, timeout=60
    )
    assert ended.returncode == 2
    assert complaint in ended.stderr
    assert "Usage: tandem mcp" in ended.stderr
    assert ended.stdout == ""
