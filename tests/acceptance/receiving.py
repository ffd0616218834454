"""A program that events are posted to, and the webhooks that lead to it."""

from __future__ import annotations

import json
import ssl
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Self

from tandem.rulings import proof
from tandem.webhooks.rules import proof_facts
from tests.acceptance.reviewing import Desk
from tests.architecture.pages import Page
from tests.architecture.source import ROOT
from tests.broker import DATA_DIRS

SECONDS = 60
NOBODY = "http://127.0.0.1:9/hooks"
"""Nothing listens there."""
GUIDE = Page(ROOT / "docs" / "guide" / "webhooks.md")
PERSONS = {"project": None, "events": None, "format": "json", "allow_private": False}


@dataclass(frozen=True)
class Posted:
    """One POST as it came."""

    path: str
    headers: dict[str, str]
    body: bytes

    @property
    def id(self) -> str:
        return self.headers["webhook-id"]

    @property
    def event(self) -> dict[str, Any]:
        return json.loads(self.body)["data"]

    def is_signed_with(self, secret: str) -> bool:
        """Checks the signature with the guide's code, which is all that a receiver has."""
        assert abs(time.time() - int(self.headers["webhook-timestamp"])) < 300
        return _guide()(secret, self.headers, self.body)


@cache
def _guide() -> Callable[[str, dict[str, str], bytes], bool]:
    (code,) = [block.text for block in GUIDE.blocks if block.language == "python"]
    names: dict[str, Any] = {}
    exec(code, names)
    return names["is_genuine"]


class Receiver:
    """A real server on a real socket.

    Attributes:
        answer: Returns the status with which it answers a post.
        taken: The posts that it answered with 200, in order.
        tried: All posts.
        headers: Those of its answers.
    """

    def __init__(
        self, answer: Callable[[Posted], int] = lambda _posted: 200, tls: ssl.SSLContext | None = None
    ) -> None:
        self.answer: Callable[[Posted], int] = answer
        self.taken: list[Posted] = []
        self.tried: list[Posted] = []
        self.headers = {"location": "/elsewhere"}
        self._news = threading.Condition()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status = receiver.take(Posted(self.path, headers, body))
                self.send_response(status)
                for header in receiver.headers.items():
                    self.send_header(*header)
                self.end_headers()
                self.wfile.write(b"as you like" if status == 200 else b"not <now>\x00" + b"!" * 100_000)

            def log_message(self, format: str, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._server.daemon_threads = True
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.port = self._server.server_port
        self.url = f"http://127.0.0.1:{self.port}/hooks/s3cret"

    def __enter__(self) -> Self:
        threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, posted: Posted) -> int:
        status = self.answer(posted)
        with self._news:
            self.tried.append(posted)
            if status == 200:
                self.taken.append(posted)
            self._news.notify_all()
        return status

    def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is so; it is looked at after every post."""
        with self._news:
            assert self._news.wait_for(condition, SECONDS), [one.event for one in self.tried]

    def kinds_tried(self, subject: str) -> list[str]:
        """The kinds of a subject's events at each try."""
        return [one.event["kind"] for one in self.tried if one.event.get("subject") == subject]

    def of(self, subject: str) -> list[str]:
        """The kinds of a subject's events in the order in which they were first taken."""
        return list({one.id: one.event["kind"] for one in self.taken if one.event.get("subject") == subject}.values())


def added(desk: Desk, url: str, **options: Any) -> dict[str, Any]:
    """A new webhook of the desk's project, added as a person does."""
    envelope = desk.envelope_unscoped("add_webhook", **proved(desk, url, **{"project": desk.project, **options}))
    assert envelope["ok"], envelope
    return envelope["data"]


def proved(desk: Desk, url: str, **options: Any) -> dict[str, Any]:
    """The request of a webhook, with the proof that a command makes."""
    stated = {**PERSONS, **options, "url": url}
    keys = {proof.PERSON: (DATA_DIRS[desk.url] / proof.FILE).read_text().strip()}
    return {**stated, "proof": proof.prove(keys, proof_facts(stated))}


def standing(desk: Desk, webhook_id: str) -> dict[str, Any]:
    """How a webhook stands."""
    (found,) = [one for one in desk.do_unscoped("list_webhooks")["webhooks"] if one["webhook_id"] == webhook_id]
    return found
