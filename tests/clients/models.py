"""A scripted model behind the four interfaces that the clients speak, on a port of this machine.

The script is a list of tool calls and an answer. Which step is due is read from the tool results that the
request brings along, so that retries and title generators change nothing.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.clients import dialects


class Seen(NamedTuple):
    """A request as it came."""

    path: str
    headers: dict[str, str]
    body: str


@dataclass
class ScriptedModel:
    """A model that follows a script, and notes its requests.

    Attributes:
        steps: The tools that it calls, one after the other: the name and the arguments.
        answer: Its last answer.
        seen: Every request.
        address: Where it listens.
        refusal: The message with which it refuses every request as one too many, if it does.
    """

    steps: Sequence[tuple[str, dict[str, Any]]]
    answer: dict[str, Any]
    seen: list[Seen] = field(default_factory=list[Seen])
    results: list[str] = field(default_factory=list[str])
    tools: set[str] = field(default_factory=set[str])
    address: str = ""
    refusal: str = ""

    def say(self, path: str, text: str) -> tuple[str, bytes] | None:
        """The type and content of the answer to a request; None if the path is none of a model's."""
        dialect = next((one for one in dialects.ALL if one.speaks(path)), None)
        if dialect is None:
            return None
        body: dict[str, Any] = json.loads(text)
        results = dialect.results(body)
        offered = dialect.tools(body)
        self.tools |= offered
        if len(results) > len(self.results):
            self.results = results
        if offered and len(results) < len(self.steps):
            name, arguments = self.steps[len(results)]
            return dialect.call(body, len(results), name, arguments)
        return dialect.answer(body, self.answer)

    def requests(self) -> str:
        """All requests, bodies and headers, so that tests can search them for secrets and traps."""
        return json.dumps(self.seen)


@contextmanager
def serving(model: ScriptedModel) -> Generator[ScriptedModel]:
    """Serves a model on 127.0.0.1."""

    class Handler(_Handler):
        pass

    Handler.model = model
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    model.address = f"http://127.0.0.1:{server.server_address[1]}"
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        yield model
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    model: ScriptedModel

    def do_GET(self) -> None:
        self._answer("application/json", b"{}", 404)

    def do_HEAD(self) -> None:
        self._answer("application/json", b"", 200)

    def do_POST(self) -> None:
        text = self._body().decode("utf-8", "replace")
        headers = {name.lower(): value for name, value in self.headers.items()}
        self.model.seen.append(Seen(self.path, headers, text))
        said = self.model.say(self.path, text)
        if self.model.refusal:
            error = {"type": "rate_limit_error", "code": 429, "status": "RESOURCE_EXHAUSTED"}
            body = {"type": "error", "error": {**error, "message": self.model.refusal}}
            self._answer("application/json", json.dumps(body).encode(), 429)
        elif said is None:
            self._answer("application/json", b"{}", 404)
        else:
            self._answer(*said, 200)

    def _body(self) -> bytes:
        if "chunked" not in self.headers.get("transfer-encoding", ""):
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        chunks = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            chunks += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return chunks

    def _answer(self, kind: str, content: bytes, status: int) -> None:
        self.send_response(status)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass
