"""The server of a reviewer process in its own tests: it answers as the broker does, and can be away.

It is the other end of a real socket, not the broker: reviews come from a list, and each answer can be scripted.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, cast

from tandem.contract.request import WORK
from tests.ports import HeldPort
from tests.reviewers.running import PATIENCE_SECONDS

DIGEST = "5f" * 32
DIFF = "diff --git a/src/a.py b/src/a.py\n--- a/src/a.py\n+++ b/src/a.py\n@@ -1 +1 @@\n-one\n+two\n"

Answer = dict[str, Any]


class Refusal(Exception):
    """The refusal with which the peer answers a call."""

    def __init__(self, code: str, message: str = "No.", *, retryable: bool = False, **details: Any) -> None:
        super().__init__(code)
        self.error = {"code": code, "message": message, "details": details, "retryable": retryable}


class Garbage(Exception):
    """An answer that is none of a broker's."""


def proposal(**changes: Any) -> dict[str, Any]:
    """A round, as `claim_review` answers it."""
    affected = [{"path": "src/a.py", "operation": "modified", "added": 1, "removed": 1, "old_path": None}]
    return {
        "review_id": "rv_1",
        "project": "shop",
        "status": "claimed",
        "round": 1,
        "current_round": 1,
        "intent": "Rename one",
        "category": "code_change",
        "priority": "normal",
        "agent_type": "gsd-executor",
        "agent_role": "proposer",
        **dict.fromkeys(WORK),
        "proposer_id": "session-7",
        "author": "session-7",
        "origin": "proposal",
        "description": "So that it names itself.",
        "diff": DIFF,
        "base": "HEAD",
        "base_commit": "1" * 40,
        "path": None,
        "metadata": {},
        "digest": DIGEST,
        "validated": True,
        "affected_files": affected,
        "parent_id": None,
        "child_ids": [],
        "counter_patch": None,
        "created_at": "2026-11-22T10:00:00Z",
        "interdiff": None,
        "submitter": "codex-1",
        "accepted_by": None,
        "drawn": True,
        "notes": [],
        "ground": None,
        **changes,
    }


class Peer:
    """A broker's place, as far as a reviewer sees it.

    Attributes:
        lease_seconds: How long a claim and a renewal last.
        deadline_seconds: From its claim on, nothing lasts longer.
        script: Answers to give first, by operation: a dict, an exception, or a function of the arguments.
        files: The texts of files of every round, by path and side.
        calls: Every call that came, in order.
    """

    def __init__(self) -> None:
        self.lease_seconds = 60.0
        self.deadline_seconds = 3600.0
        self.script: dict[str, list[Any]] = defaultdict(list)
        self.files: dict[tuple[str, str], str] = {}
        self.calls: list[tuple[str, Answer]] = []
        self._waiting: list[dict[str, Any]] = []
        self._known: dict[str, Answer] = {}
        self._changed = threading.Condition()
        self._generation = 0
        self._claimed_at = datetime.now(UTC)
        self._events = 0
        self._server: _Server | None = None
        self._port = HeldPort()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._port.number}"

    def start(self) -> None:
        self._server = _Server(self, self._port.hold())
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()

    def stop(self) -> None:
        """Goes away, with every connection."""
        server, self._server = self._server, None
        with self._changed:
            self._changed.notify_all()
        if server is not None:
            server.shutdown()
            server.close_all()

    @property
    def is_there(self) -> bool:
        return self._server is not None

    def put_up(self, **changes: Any) -> None:
        """A review for the queue."""
        with self._changed:
            self._waiting.append(proposal(**changes))
            self._events += 1
            self._changed.notify_all()

    def wait_for(self, operation: str, count: int = 1) -> Answer:
        """The arguments of a call, once it has come so many times."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        with self._changed:
            while len(found := [sent for name, sent in self.calls if name == operation]) < count:
                if not self._changed.wait(deadline - time.monotonic()):
                    raise AssertionError(f"{operation} did not come; there were {[name for name, _ in self.calls]}")
            return found[count - 1]

    def all(self, operation: str) -> list[Answer]:
        with self._changed:
            return [sent for name, sent in self.calls if name == operation]

    def answer(self, operation: str, sent: Answer) -> Answer:
        """Returns the answer to a call; the same key gets the same answer."""
        with self._changed:
            self.calls.append((operation, sent))
            self._changed.notify_all()
            key = sent.get("idempotency_key")
            if key in self._known:
                return self._known[key]
            scripted = self.script[operation].pop(0) if self.script[operation] else None
        if isinstance(scripted, Exception):
            raise scripted
        said = cast("Answer | None", scripted(sent) if callable(scripted) else scripted)
        found = said if said is not None else self._usual(operation, sent)
        if key is not None:
            self._known[key] = found
        return found

    def _usual(self, operation: str, sent: Answer) -> Answer:
        usual: dict[str, Callable[[Answer], Answer]] = {
            "list_reviews": self._list,
            "claim_review": self._claim,
            "renew_claim": lambda _: {"lease_expires_at": self._lease()},
            "list_checks": lambda _: {"checks": [], "cursor": "c"},
            "list_findings": lambda _: {"findings": [], "counts": None, "next_page": None},
            "list_lessons": lambda _: {"lessons": [], "next_page": None},
            "get_discussion": lambda _: {"entries": [], "next_page": None},
            "get_proposal": lambda _: proposal(),
            "get_round_file": self._file,
            "submit_verdict": lambda _: {"status": sent["verdict"], "verdict": sent["verdict"]},
            "report_outcome": lambda _: {"status": "pending", "attempts": 1},
            "release_claim": lambda _: {"status": "pending"},
        }
        return usual[operation](sent)

    def _file(self, sent: Answer) -> Answer:
        text = self.files.get((sent["path"], sent["side"]), "")
        lines = text.splitlines()
        return {"exists": bool(text), "binary": False, "lines": lines[:2000], "total_lines": len(lines)}

    def _list(self, sent: Answer) -> Answer:
        deadline = time.monotonic() + sent.get("timeout_s", 0)
        with self._changed:
            place = int(sent.get("cursor", self._events))
            while sent.get("wait") and self._events == place and self.is_there and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())
            return {
                "reviews": [{"review_id": one["review_id"]} for one in self._waiting[: sent["limit"]]],
                "next_page": None,
                "cursor": str(self._events),
                "changed": self._events != place,
            }

    def _claim(self, sent: Answer) -> Answer:
        with self._changed:
            if not self._waiting:
                return {"review": None}
            found = self._waiting.pop(0)
            self._generation += 1
            self._claimed_at = datetime.now(UTC)
            return {
                "review": found,
                "review_id": found["review_id"],
                "status": "claimed",
                "reviewer_id": sent["reviewer_id"],
                "claim_generation": self._generation,
                "lease_expires_at": self._lease(),
                "round": found["round"],
            }

    def _lease(self) -> str:
        ends = min(
            datetime.now(UTC) + timedelta(seconds=self.lease_seconds),
            self._claimed_at + timedelta(seconds=self.deadline_seconds),
        )
        return ends.isoformat().replace("+00:00", "Z")


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    allow_reuse_address = True

    def __init__(self, peer: Peer, port: int) -> None:
        self.peer = peer
        self._open: set[socket.socket] = set()
        self._lock = threading.Lock()
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._lock:
            self._open.add(request)
        super().process_request(request, client_address)

    def shutdown_request(self, request: Any) -> None:
        with self._lock:
            self._open.discard(request)
        super().shutdown_request(request)

    def close_all(self) -> None:
        self.server_close()
        with self._lock:
            for request in self._open:
                with suppress(OSError):
                    request.shutdown(socket.SHUT_RDWR)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        operation = self.path.removeprefix("/api/v1/")
        assert self.headers["Content-Type"] == "application/json"
        sent = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert isinstance(self.server, _Server)
        try:
            self._send(200, json.dumps({"ok": True, "data": self.server.peer.answer(operation, sent)}).encode())
        except Refusal as refusal:
            self._send(409, json.dumps({"ok": False, "error": refusal.error}).encode())
        except Garbage as garbage:
            self._send(502, str(garbage).encode())

    def _send(self, status: int, body: bytes) -> None:
        with suppress(OSError):
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Says nothing."""


@contextmanager
def running_peer() -> Generator[Peer]:
    """A peer that is there, and gone afterwards."""
    peer = Peer()
    peer.start()
    try:
        yield peer
    finally:
        peer.stop()
        peer._port.release()
