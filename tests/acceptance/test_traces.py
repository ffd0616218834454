"""What a collector of OpenTelemetry is sent, over its own protocol."""

from __future__ import annotations

import queue
import socket
from collections.abc import Iterator
from pathlib import Path

import httpx
import orjson
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from tests.acceptance.receiving import Posted, Receiver
from tests.acceptance.reviewing import PROPOSAL, Desk
from tests.broker import BrokerProcess, fresh_project
from tests.forked import run_tandem
from tests.git.sandbox import Sandbox

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
TRACEPARENT = f"00-{TRACE}-{PARENT}-01"
CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "list_reviews", "arguments": {}, "_meta": {"traceparent": TRACEPARENT}},
}
SECRET = "this-must-stay-secret"


class Collector(Receiver):
    """Receives spans over HTTP as OpenTelemetry's own collector does."""

    def __init__(self) -> None:
        super().__init__()
        self._arrived: queue.Queue[Span] = queue.Queue()

    def take(self, posted: Posted) -> int:
        assert posted.path == "/v1/traces"
        message = ExportTraceServiceRequest.FromString(posted.body)
        for resource in message.resource_spans:
            for scope in resource.scope_spans:
                for span in scope.spans:
                    self._arrived.put(span)
        return super().take(posted)

    def spans(self, name: str) -> list[Span]:
        """What arrives up to the first span of that name."""
        found: list[Span] = []
        while not found or found[-1].name != name:
            found.append(self._arrived.get(timeout=60))
        return found


@pytest.fixture(scope="module")
def collector() -> Iterator[Collector]:
    with Collector() as opened:
        yield opened


@pytest.fixture(scope="module")
def traced(collector: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that sends its spans to the collector."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.port}")
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        with BrokerProcess(tmp_path_factory.mktemp("traced")) as started:
            yield started


def parent_of(span: Span) -> tuple[str, str]:
    return span.trace_id.hex(), span.parent_span_id.hex()


def attribute(span: Span, name: str) -> str:
    return next(one.value.string_value for one in span.attributes if one.key == name)


def test_a_callers_trace_goes_on_through_the_database_and_git(
    traced: BrokerProcess, collector: Collector, repo: Sandbox
):
    with Desk(traced.url, fresh_project()) as desk:
        desk.register(repo.root)
        collector.spans("register_project")
        repo.write("a.txt", f"{SECRET}\n")
        content = {**PROPOSAL, "diff": repo.diff(), "project": desk.project, "intent": SECRET}
        response = httpx.post(
            f"{traced.url}/api/v1/create_review", json=content, headers={"traceparent": TRACEPARENT}, timeout=60
        )
        assert response.json()["ok"], response.text
        *inner, outer = collector.spans("create_review")
        assert parent_of(outer) == (TRACE, PARENT)
        assert attribute(outer, "tandem.outcome") == "OK"
        names = {span.name for span in inner if span.parent_span_id == outer.span_id}
        assert "store.write" in names
        assert any(name.startswith("git ") for name in names)
    secrets = SECRET.encode(), str(repo.root).encode()
    assert not any(secret in posted.body for secret in secrets for posted in collector.tried)


@pytest.mark.parametrize("fast", [True, False], ids=["fast path", "SDK"])
def test_an_agents_trace_goes_on_from_the_message(traced: BrokerProcess, collector: Collector, *, fast: bool):
    headers = [("accept", "application/json, text/event-stream"), ("mcp-protocol-version", "2025-06-18")]
    headers += [] if fast else [("x-twice", "1"), ("x-twice", "2")]
    httpx.post(f"{traced.url}/mcp", json=CALL, headers=headers, timeout=60).raise_for_status()
    assert parent_of(collector.spans("list_reviews")[-1]) == (TRACE, PARENT)


def test_the_bridge_hands_a_trace_on(traced: BrokerProcess, collector: Collector):
    line = orjson.dumps(CALL) + b"\n"
    command = ["mcp", "--broker", traced.url, "--project", "any"]
    ended = run_tandem(command, traced.folder, traced.environment, told=line, seconds=60)
    assert '"id":1' in ended.stdout, ended.stderr
    assert parent_of(collector.spans("list_reviews")[-1]) == (TRACE, PARENT)


@pytest.mark.parametrize("parent", ["", "nonsense", "00-" + "0" * 32 + "-" + "0" * 16 + "-01", "é"])
def test_a_parent_that_is_none_begins_a_trace(traced: BrokerProcess, collector: Collector, parent: str):
    response = httpx.post(
        f"{traced.url}/api/v1/claim_review",
        json={"review_id": "rv_4k2m8q0x7c1d5n3p", "reviewer_id": "rev-1"},
        headers=[(b"traceparent", parent.encode("latin-1"))],
        timeout=60,
    )
    code = response.json()["error"]["code"]
    span = collector.spans("claim_review")[-1]
    assert (attribute(span, "tandem.outcome"), span.parent_span_id) == (code, b"")


def test_a_collector_that_is_away_delays_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    with socket.socket() as away:
        # No program listens there, and no other test is given the port meanwhile.
        away.bind(("127.0.0.1", 0))
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{away.getsockname()[1]}")
        with BrokerProcess(tmp_path) as broker, Desk(broker.url, fresh_project()) as desk:
            desk.put_up()
