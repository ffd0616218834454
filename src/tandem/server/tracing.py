"""Traces for OpenTelemetry: a span for each operation, with spans for its database units and git commands below.

Spans name the operation and its outcome, never its subject.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator
from contextlib import contextmanager
from typing import Final

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, get_current_span
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from tandem.server.dispatch import TRACEPARENT

_STOP_SECONDS: Final = 1.0
_FAULTS: Final = frozenset({"INTERNAL_ERROR", "UNAVAILABLE", "TIMEOUT"})
_PROPAGATOR: Final = TraceContextTextMapPropagator()


class Tracing:
    """Sends the spans of one broker to the collector that the standard OTEL_ variables name, from a thread."""

    def __init__(self, version: str, instance_id: str) -> None:
        facts = {
            "service.name": os.environ.get("OTEL_SERVICE_NAME", "tandem"),
            "service.version": version,
            "service.instance.id": instance_id,
        }
        self._provider = TracerProvider(resource=Resource.create(facts), shutdown_on_exit=False)
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
        self._tracer = self._provider.get_tracer("tandem", version)

    @contextmanager
    def operation(self, name: str) -> Generator[Callable[[str], None]]:
        """A span around an operation, below the caller's own; yields a function that notes the outcome."""
        parent = TRACEPARENT.get()
        context = None if parent is None else _PROPAGATOR.extract({"traceparent": parent})
        with self._tracer.start_as_current_span(
            name,
            context=context,
            kind=SpanKind.SERVER,
            attributes={"tandem.operation": name},
            record_exception=False,
            set_status_on_exception=False,
        ) as span:

            def note(outcome: str) -> None:
                span.set_attribute("tandem.outcome", outcome)
                if outcome in _FAULTS:
                    span.set_status(Status(StatusCode.ERROR))

            yield note

    @contextmanager
    def child(self, name: str) -> Generator[None]:
        """A span below the running operation's; chores have none."""
        if not get_current_span().is_recording():
            yield
            return
        with self._tracer.start_as_current_span(name, record_exception=False):
            yield

    def stop(self) -> None:
        """Send the last spans, but do not wait long for a collector that is away. Blocks."""
        last = threading.Thread(target=self._provider.shutdown, name="last-spans", daemon=True)
        last.start()
        last.join(_STOP_SECONDS)
