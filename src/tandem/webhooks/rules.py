"""What a webhook is told, how it is signed, and when it is tried again."""

from __future__ import annotations

import base64
import hashlib
import hmac
import secrets
from collections.abc import Mapping
from typing import Any, Final, NamedTuple
from urllib.parse import urlsplit

import orjson

from tandem.core.clock import MICROSECONDS, isoformat
from tandem.core.visible import visible_line
from tandem.store.event import Event, EventKind

SECRET_PREFIX: Final = "whsec_"  # noqa: S105 - begins secrets, as Standard Webhooks has it
_SECRET_BYTES: Final = 32
_GROWTH: Final = 4
_LONGEST_DELAY_SECONDS: Final = 21_600
GONE: Final = 410
"""The HTTP status by which a receiver says that it wants nothing any more."""
_SAID: Final = ("intent", "reason", "outcome")
"""Facts of events that a line of text can have, the first that there is."""
_SAID_LENGTH: Final = 300


class Webhook(NamedTuple):
    """One webhook as it is stored. Field order is the column order of its table."""

    id: str
    project: str | None
    url: str
    kinds: str
    format: str
    allow_private: int
    secret: str
    created_at: int
    created_by: str
    removed_at: int | None = None
    scanned_seq: int = 0
    event_seq: int = 0
    event_hash: str = ""

    @property
    def subject(self) -> str:
        """What its events are about."""
        return f"webhook:{self.id}"

    @property
    def beginnings(self) -> tuple[str, ...]:
        """How the kinds of its events begin; empty for all."""
        return tuple(self.kinds.split(",")) if self.kinds else ()

    @property
    def place(self) -> str:
        """Where it posts to, as everybody may see it: a path is a secret at many receivers."""
        parts = urlsplit(self.url)
        return f"{parts.scheme}://{parts.netloc}/" + ("…" if parts.path.strip("/") or parts.query else "")

    def wants(self, event: Event) -> bool:
        """Whether an event is for it."""
        if self.project not in {None, event.project}:
            return False
        return event.kind.startswith(self.beginnings) if self.kinds else event.kind != EventKind.CHECKPOINT


class Message(NamedTuple):
    """A posted message.

    Attributes:
        id: The same at each try, so that a receiver can tell a repetition.
        body: UTF-8 JSON.
    """

    id: str
    body: bytes

    def headers(self, secret: str, now_us: int) -> dict[str, str]:
        """Those of Standard Webhooks: id, time and signature of this try."""
        seconds = now_us // MICROSECONDS
        key = base64.b64decode(secret.removeprefix(SECRET_PREFIX))
        signed = hmac.new(key, f"{self.id}.{seconds}.".encode() + self.body, hashlib.sha256).digest()
        return {
            "webhook-id": self.id,
            "webhook-timestamp": str(seconds),
            "webhook-signature": f"v1,{base64.b64encode(signed).decode()}",
        }


def new_secret() -> str:
    """What signs a webhook's messages."""
    return SECRET_PREFIX + base64.b64encode(secrets.token_bytes(_SECRET_BYTES)).decode()


def message(webhook: Webhook, event: Event) -> Message:
    """An event as a webhook is told of it."""
    # With the hash: a log that was restored from a copy gives its numbers again.
    name = f"{webhook.id}_{event.seq}_{event.hash[:8]}"
    if webhook.format == "slack":
        return Message(name, _slack(_line(event)))
    told: dict[str, Any] = {name: value for name, value in event._asdict().items() if name not in {"delta", "previous"}}
    told.update(at=isoformat(event.at), data=orjson.loads(event.data))
    return Message(name, orjson.dumps({"type": event.kind, "timestamp": told["at"], "data": told}))


def ping(webhook: Webhook, now_us: int) -> Message:
    """What a receiver is tried with."""
    name = f"{webhook.id}_ping_{now_us}"
    if webhook.format == "slack":
        return Message(name, _slack("Tandem: a test of this webhook."))
    told = {"type": "ping", "timestamp": isoformat(now_us), "data": {"webhook_id": webhook.id}}
    return Message(name, orjson.dumps(told))


def delay_us(attempts: int, first_seconds: float, asked_seconds: float) -> int:
    """How long after so many failed tries the next one is; up to a fifth longer at random, so that they spread.

    Args:
        attempts: How many there were.
        first_seconds: The delay after the first.
        asked_seconds: The least that the receiver asked for.
    """
    grown_seconds = first_seconds * _GROWTH ** min(attempts - 1, 20)
    seconds = min(max(grown_seconds, asked_seconds), _LONGEST_DELAY_SECONDS)
    return round(seconds * (1 + secrets.randbelow(200) / 1000) * MICROSECONDS)


def proof_facts(request: Mapping[str, Any]) -> list[object]:
    """What a person seals who adds a webhook."""
    return ["add_webhook", *(request.get(name) for name in ("project", "url", "events", "format", "allow_private"))]


def _line(event: Event) -> str:
    facts: dict[str, Any] = orjson.loads(event.data)
    said = next((text for name in _SAID if isinstance(text := facts.get(name), str) and text), "")
    change = f": {event.old} → {event.new}" if event.old and event.new and event.old != event.new else ""
    where = f" in {event.project}" if event.project else ""
    words = f"{event.kind.replace('_', ' ')} {event.subject}{where} by {event.actor}{change}"
    return f"{words}: {said[:_SAID_LENGTH]}" if said else words


def _slack(line: str) -> bytes:
    text = visible_line(line).replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return orjson.dumps({"text": text})
