"""The bridge as a process of its own, and a peer for it whose answers a test decides."""

from __future__ import annotations

import json
import os
import queue
import subprocess
import threading
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx

from tests.forked import start_tandem

PATIENCE_SECONDS = 60.0
"""How long a test waits for a message that must come; only a failing test waits that long."""

MODERN = "2026-07-28"


def modern(params: dict[str, Any] | None = None) -> dict[str, Any]:
    """Parameters as the sessionless revision has them."""
    meta = {
        "io.modelcontextprotocol/protocolVersion": MODERN,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    }
    return {**(params or {}), "_meta": meta}


class BridgeProcess:
    """`tandem mcp` with its pipes."""

    def __init__(self, *options: str, folder: Path, **environment: str) -> None:
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        self._process = start_tandem(["mcp", *options], folder, {**os.environ, **environment}, **pipes)
        assert self._process.stdin is not None
        self._input = self._process.stdin
        self._lines: queue.Queue[bytes] = queue.Queue()
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        self._numbers = iter(range(1, 10_000))

    def send_line(self, line: bytes) -> None:
        self._input.write(line + b"\n")
        self._input.flush()

    def send(self, method: str, params: dict[str, Any] | None = None, *, message_id: Any = None) -> Any:
        """Send a request; gives its id."""
        number = next(self._numbers) if message_id is None else message_id
        body: dict[str, Any] = {"jsonrpc": "2.0", "id": number, "method": method}
        self.send_line(json.dumps(body | ({} if params is None else {"params": params})).encode())
        return number

    def notify(self, method: str, params: dict[str, Any]) -> None:
        self.send_line(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode())

    def receive(self) -> dict[str, Any]:
        """The next message of any kind."""
        return json.loads(self._lines.get(timeout=PATIENCE_SECONDS))

    def call(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request and give its answer, which must be the next message."""
        number = self.send(method, params)
        answer = self.receive()
        assert answer["id"] == number
        return answer

    def tool(self, name: str, **arguments: Any) -> dict[str, Any]:
        """Call a tool; gives the envelope."""
        return self.call("tools/call", {"name": name, "arguments": arguments})["result"]["structuredContent"]

    def has_nothing_more(self) -> bool:
        return self._lines.empty()

    def close_input(self) -> None:
        self._input.close()

    def end(self) -> tuple[int, str]:
        """Close the input if it is open, and wait; gives the exit status and standard error."""
        self._input.close()
        status = self._process.wait(PATIENCE_SECONDS)
        self._reader.join(PATIENCE_SECONDS)
        assert self._process.stderr is not None
        with self._process.stderr as errors:
            return status, errors.read().decode()

    def kill(self) -> None:
        """Make sure that it is gone."""
        self._process.kill()
        self._process.wait(PATIENCE_SECONDS)
        self._input.close()
        for pipe in (self._process.stdout, self._process.stderr):
            if pipe is not None:
                pipe.close()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self._lines.put(line)


@contextmanager
def bridge(*options: str, folder: Path, **environment: str) -> Generator[BridgeProcess]:
    """A bridge that ends with the test."""
    process = BridgeProcess(*options, folder=folder, **environment)
    try:
        yield process
    finally:
        process.kill()


@dataclass
class Request:
    """What reached the peer."""

    method: str
    path: str
    headers: dict[str, str]
    text: bytes

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.text)

    @property
    def arguments(self) -> dict[str, Any]:
        return self.body["params"]["arguments"]


class Hangup(Exception):
    """Raised by a script to close the connection instead of answering."""


@dataclass
class Reply:
    """The peer's answer."""

    body: bytes
    status: int = 200
    content_type: str = "application/json"
    chunks: Iterable[bytes] | None = None
    """Pieces of an event stream, each made when it is its turn."""


def answered(request: Request, result: dict[str, Any]) -> Reply:
    """A JSON-RPC answer."""
    return Reply(json.dumps({"jsonrpc": "2.0", "id": request.body["id"], "result": result}).encode())


def enveloped(request: Request, data: dict[str, Any]) -> Reply:
    """A tool's answer."""
    return answered(request, {"content": [], "structuredContent": {"ok": True, "data": data}})


def event(message: dict[str, Any]) -> bytes:
    return f"event: message\r\ndata: {json.dumps(message)}\r\n\r\n".encode()


Script = Callable[[Request], Reply]


class Peer:
    """A real HTTP server that answers as its script says, and records the requests."""

    def __init__(self, script: Script, port: int = 0) -> None:
        self.requests: queue.Queue[Request] = queue.Queue()
        self.abandoned = threading.Event()
        """Set when somebody closed a connection under a stream."""
        peer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                peer.serve(self, script)

            do_GET = do_POST

            def log_message(self, format: str, *args: Any) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True
            allow_reuse_address = True

            def handle_error(self, request: Any, client_address: Any) -> None:
                pass

        self._server = Server(("127.0.0.1", port), Handler)
        self.port: int = self._server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def serve(self, handler: BaseHTTPRequestHandler, script: Script) -> None:
        text = handler.rfile.read(int(handler.headers.get("content-length", 0)))
        head = {name.lower(): value for name, value in handler.headers.items()}
        request = Request(handler.command, handler.path, head, text)
        self.requests.put(request)
        try:
            reply = script(request)
        except Hangup:
            handler.close_connection = True
            return
        handler.send_response(reply.status)
        handler.send_header("Content-Type", reply.content_type)
        if reply.chunks is None:
            handler.send_header("Content-Length", str(len(reply.body)))
            handler.end_headers()
            handler.wfile.write(reply.body)
            return
        handler.send_header("Transfer-Encoding", "chunked")
        handler.end_headers()
        try:
            for piece in reply.chunks:
                handler.wfile.write(f"{len(piece):x}\r\n".encode() + piece + b"\r\n")
                handler.wfile.flush()
            handler.wfile.write(b"0\r\n\r\n")
        except OSError:
            handler.close_connection = True
            self.abandoned.set()

    def next(self) -> Request:
        """The next request, in the order in which they came."""
        return self.requests.get(timeout=PATIENCE_SECONDS)

    def posts(self) -> int:
        """How many calls have come that no test has looked at."""
        return [one.method for one in self.requests.queue].count("POST")

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def peer(script: Script, port: int = 0) -> Generator[Peer]:
    """A peer that ends with the test."""
    running = Peer(script, port)
    try:
        yield running
    finally:
        running.stop()


@contextmanager
def losing(url: str, answers: int, operation: str = "") -> Generator[Peer]:
    """A peer that passes calls on to a broker, and hangs up in place of its first answers to an operation."""
    left = iter(range(answers))

    def script(request: Request) -> Reply:
        head = {name: value for name, value in request.headers.items() if name not in {"host", "content-length"}}
        answer = httpx.request(request.method, f"{url}{request.path}", content=request.text, headers=head)
        if f"/api/v1/{operation}" in request.path and next(left, None) is not None:
            raise Hangup
        return Reply(answer.content, answer.status_code)

    with peer(script) as between:
        yield between
