"""What comes back for a request, as lines for the client: plain JSON, an event stream, or a refusal."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from tandem.bridge import messages
from tandem.bridge.credentials import REFUSED_CODE, TOKEN_VARIABLE
from tandem.bridge.http import Lost, NotSent

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tandem.bridge.http import Answer
    from tandem.bridge.messages import Message

_WHERE_TOKENS_GO = f"{TOKEN_VARIABLE} belongs in the environment in which the agent's client starts 'tandem mcp'."
_OK = 200
_UNAVAILABLE = 503
_BAD_GATEWAYS = frozenset({502, 504})


def replies(answer: Answer, message: Message) -> Iterator[bytes]:
    """Notifications as they arrive, then the one answer that ends them.

    Raises:
        NotSent: The broker has not acted on the request: not now, or it is no broker at all.
        Lost: The answer did not arrive whole.
        Aborted: It was given up.
    """
    if answer.status in _BAD_GATEWAYS:
        answer.close()
        raise Lost(f"HTTP {answer.status}")
    if answer.status == _UNAVAILABLE:
        answer.close()
        raise NotSent("it is starting, stopping or without its database (HTTP 503)")
    if answer.status != _OK:
        yield _refused(answer.status, answer.read(), message)
    elif answer.content_type == "text/event-stream":
        yield from _until_answered(_events(answer.lines()))
    elif answer.content_type == "application/json":
        yield _one_line(answer.read())
    else:
        answer.close()
        raise NotSent(f"something else answers there, with {answer.content_type or 'no content type'}")


def protocol_version(reply: bytes) -> str | None:
    """The revision that an answer to `initialize` settles on; null if it settles nothing."""
    version = _dig(reply, "result", "protocolVersion")
    return version if isinstance(version, str) else None


def cursor_to_pin(reply: bytes) -> str | None:
    """Where to wait on from, if the answer to a wait of no length found nothing new; else null."""
    data = messages.as_object(_dig(reply, "result", "structuredContent", "data"))
    if data.get("changed") is not False:
        return None
    cursor = data.get("cursor")
    return cursor if isinstance(cursor, str) else None


def _dig(reply: bytes, *path: str) -> Any:
    found: Any = json.loads(reply)
    for key in path:
        found = messages.as_object(found).get(key)
    return found


def _events(lines: Iterable[bytes]) -> Iterator[bytes]:
    """The data of each server-sent event; comments (pings) and events without data are passed over."""
    data: list[bytes] = []
    for line in lines:
        if line.startswith(b"data:"):
            data.append(line[5:].lstrip(b" "))
        elif not line and data:
            yield b" ".join(data)
            data = []


def _until_answered(events: Iterable[bytes]) -> Iterator[bytes]:
    answered = False
    for event in events:
        if event.strip():
            answered = answered or "method" not in json.loads(event)
            yield event
    if not answered:
        raise Lost("the stream ended without an answer")


def _refused(status: int, body: bytes, message: Message) -> bytes:
    """A refusal in HTTP's terms as one in the protocol's."""
    try:
        parsed = messages.as_object(json.loads(body))
    except ValueError:
        parsed = {}
    inner = messages.as_object(parsed.get("error"))
    if not inner:
        raise NotSent(f"something else answers there, with HTTP {status}")
    if inner.get("code") == REFUSED_CODE:
        parsed["error"] = inner = {**inner, "message": f"{inner.get('message', '')} {_WHERE_TOKENS_GO}".strip()}
    if "jsonrpc" in parsed:
        # The broker could not always read the id; here it is known.
        return messages.encode({**parsed, "id": message.id})
    return messages.refusal(message, inner)


def _one_line(body: bytes) -> bytes:
    """JSON has line ends between its tokens only, where a space does as well."""
    return body.replace(b"\r", b" ").replace(b"\n", b" ")
