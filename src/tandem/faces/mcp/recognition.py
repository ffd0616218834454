"""Recognises tool calls that need nothing but their answer.

Only what the SDK would certainly accept is recognised; everything else, right or wrong, goes to the SDK,
which finds the words for what is wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard, cast

from tandem.faces.mcp.envelope import CLIENT_INFO, REVISION, is_plain

Headers = Mapping[bytes, bytes]
# Says whether a request of revision 2026-07-28 passes the SDK's own checks.
ModernCheck = Callable[[dict[str, Any], dict[str, str]], bool]

_HANDSHAKE_REVISIONS = frozenset({b"2024-11-05", b"2025-03-26", b"2025-06-18", b"2025-11-25"})
_MODERN_REVISION = REVISION.encode()
_ROUTING_HEADERS = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
_MESSAGE_KEYS = frozenset({"jsonrpc", "id", "method", "params"})
_PARAMETER_KEYS = frozenset({"name", "arguments", "_meta"})
_NAME_LENGTH = 200
_CACHED_ACCEPTS = 64


@dataclass(slots=True)
class ToolCall:
    """One well-formed `tools/call`.

    Attributes:
        request_id: The JSON-RPC id.
        name: The tool.
        arguments: Its arguments, unchecked; None when there were none.
        modern: Whether the revision is 2026-07-28, which decides the form of the answer.
        client_name: What the client calls itself, where the revision says so with each request.
    """

    request_id: int | str
    name: str
    arguments: dict[str, Any] | None
    modern: bool
    client_name: str | None


def recognise(message: Any, headers: Headers, modern_check: ModernCheck | None) -> ToolCall | None:
    """The call in a request, if it is one that the fast path can answer.

    Args:
        message: The parsed body.
        headers: The request's headers, lower case, none of the routing headers repeated.
        modern_check: The SDK's checks, for what is not plain; None while the SDK is not there yet.
    """
    if not _is_call(message) or not _accepts_both(headers.get(b"accept", b"")):
        return None
    if headers.get(b"content-type", b"").partition(b";")[0].strip() != b"application/json":
        return None
    revision = headers.get(b"mcp-protocol-version")
    modern = revision == _MODERN_REVISION
    parameters: dict[str, Any] = message["params"]
    if modern:
        if not is_plain(parameters, headers) and not _passes(modern_check, message, headers):
            return None
    elif revision is not None and revision not in _HANDSHAKE_REVISIONS:
        return None
    return ToolCall(
        request_id=message["id"],
        name=parameters["name"],
        arguments=parameters.get("arguments"),
        modern=modern,
        client_name=client_name(parameters) if modern else None,
    )


def client_name(parameters: Mapping[str, Any] | None) -> str | None:
    """What the client calls itself in a request's `_meta`, if it does; cut where no name is that long."""
    node: Any = parameters
    for key in ("_meta", CLIENT_INFO, "name"):
        if not isinstance(node, Mapping):
            return None
        node = cast("Mapping[str, Any]", node).get(key)
    return node[:_NAME_LENGTH] if isinstance(node, str) else None


def _is_call(message: Any) -> TypeGuard[dict[str, Any]]:
    if not isinstance(message, dict):
        return False
    fields = cast("dict[str, Any]", message)
    parameters: Any = fields.get("params")
    return (
        fields.get("method") == "tools/call"
        and fields.get("jsonrpc") == "2.0"
        and type(fields.get("id")) in {int, str}
        and fields.keys() <= _MESSAGE_KEYS
        and isinstance(parameters, dict)
        and _are_call_parameters(cast("dict[str, Any]", parameters))
    )


def _are_call_parameters(parameters: dict[str, Any]) -> bool:
    return (
        parameters.keys() <= _PARAMETER_KEYS
        and isinstance(parameters.get("name"), str)
        and isinstance(parameters.get("arguments"), dict | None)
        and _is_plain_meta(parameters.get("_meta"))
    )


def _is_plain_meta(meta: Any) -> bool:
    """None, or an object whose progress token is usable; the older revisions ignore whatever else is in it."""
    if meta is None:
        return True
    return isinstance(meta, dict) and type(cast("dict[str, Any]", meta).get("progressToken", 0)) in {int, str}


@lru_cache(_CACHED_ACCEPTS)
def _accepts_both(accept: bytes) -> bool:
    """Whether the client takes JSON and server-sent events, wildcards counted."""
    types = {part.partition(b";")[0].strip().lower() for part in accept.split(b",")}
    if b"*/*" in types:
        return True
    return bool(types & {b"application/json", b"application/*"}) and bool(types & {b"text/event-stream", b"text/*"})


def _passes(modern_check: ModernCheck | None, message: dict[str, Any], headers: Headers) -> bool:
    return modern_check is not None and modern_check(message, _routing(headers))


def _routing(headers: Headers) -> dict[str, str]:
    return {name.decode(): headers[name].decode("latin-1") for name in _ROUTING_HEADERS if name in headers}
