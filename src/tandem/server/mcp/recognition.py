"""Recognises tool calls that need nothing but their answer.

Only what the SDK would certainly accept is recognised; everything else, right or wrong, goes to the SDK,
which finds the words for the problem.

With each call of revision 2026-07-28 a client states the revision, its name and its capabilities. The SDK's own check
of them takes as long as many a call, and before it can be asked, the SDK has to be imported. Most clients state
very little, and that is recognised here; what more others state is left to the SDK's check.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeGuard

Headers = Mapping[bytes, bytes]
# Says whether a request of revision 2026-07-28 passes the SDK's own checks.
ModernCheck = Callable[[dict[str, Any], dict[str, str]], bool]

_HANDSHAKE_REVISIONS = frozenset({b"2024-11-05", b"2025-03-26", b"2025-06-18", b"2025-11-25"})
MODERN_REVISION = "2026-07-28"
TASKS = "io.modelcontextprotocol/tasks"
"""The extension that a client declares which follows tasks."""

_ROUTING_HEADERS = (b"mcp-protocol-version", b"mcp-method", b"mcp-name")
_MESSAGE_KEYS = frozenset({"jsonrpc", "id", "method", "params"})
_PARAMETER_KEYS = frozenset({"name", "arguments", "_meta"})
_NAME_LENGTH = 200
_CACHED_ACCEPTS = 64

_VERSION = "io.modelcontextprotocol/protocolVersion"
_CAPABILITIES = "io.modelcontextprotocol/clientCapabilities"
_CLIENT_INFO = "io.modelcontextprotocol/clientInfo"
_PLAIN_META = frozenset({_VERSION, _CAPABILITIES, _CLIENT_INFO, "progressToken"})
_PLAIN_CAPABILITIES = frozenset({"elicitation", "extensions", "roots", "sampling"})
_FOLLOWING = ("extensions", {TASKS: dict[str, Any]()})
_PLAIN_CLIENT = frozenset({"name", "title", "version"})
_NAMED = frozenset({"name", "version"})
_ENCODED = b"=?"
"""Begins a header whose value stands there in another form than in the body."""


@dataclass(slots=True)
class ToolCall:
    """One well-formed `tools/call`.

    Attributes:
        request_id: The JSON-RPC id.
        name: The tool.
        arguments: Its arguments, unchecked; None when there were none.
        modern: Whether the revision is 2026-07-28, which decides the form of the answer.
        client_name: What the client calls itself, where the revision says so with each request.
        follows_tasks: Whether a wait may be answered with a task.
    """

    request_id: int | str
    name: str
    arguments: dict[str, Any] | None
    modern: bool
    client_name: str | None
    follows_tasks: bool


def recognise(message: Any, headers: Headers, modern_check: ModernCheck | None) -> ToolCall | None:
    """The call in a request, if it is one that the fast path can answer.

    Args:
        message: The parsed body.
        headers: The request's headers, lower case, none of the routing headers repeated.
        modern_check: The SDK's checks, for calls that are not plain; None while the SDK is not there yet.
    """
    if not _is_call(message) or not _accepts_both(headers.get(b"accept", b"")):
        return None
    if headers.get(b"content-type", b"").partition(b";")[0].strip() != b"application/json":
        return None
    revision = headers.get(b"mcp-protocol-version")
    modern = revision == MODERN_REVISION.encode()
    parameters: dict[str, Any] = message["params"]
    if modern:
        if not _is_plain(parameters, headers) and (
            modern_check is None or not modern_check(message, _routing(headers))
        ):
            return None
    elif revision is not None and revision not in _HANDSHAKE_REVISIONS:
        return None
    return ToolCall(
        request_id=message["id"],
        name=parameters["name"],
        arguments=parameters.get("arguments"),
        modern=modern,
        client_name=client_name(parameters) if modern else None,
        follows_tasks=modern and declares_tasks(parameters),
    )


def traceparent(message: Any) -> str | None:
    """The client's own span, where a request's `_meta` says it."""
    try:
        stated = message["params"]["_meta"]["traceparent"]
    except (LookupError, TypeError):
        return None
    return stated if isinstance(stated, str) else None


def client_name(parameters: Mapping[str, Any] | None) -> str | None:
    """What the client calls itself in a request's `_meta`, if it does; cut where no name is that long."""
    meta: Any = parameters and parameters.get("_meta")
    try:
        stated = meta[_CLIENT_INFO]["name"]
    except (LookupError, TypeError):
        return None
    return stated[:_NAME_LENGTH] if isinstance(stated, str) else None


def declares_tasks(parameters: Mapping[str, Any] | None) -> bool:
    """Whether a client says with a request that it follows tasks."""
    meta: Any = parameters and parameters.get("_meta")
    try:
        return TASKS in meta[_CAPABILITIES]["extensions"]
    except (LookupError, TypeError):
        return False


def _is_object(value: Any) -> TypeGuard[dict[str, Any]]:
    return isinstance(value, dict)


def _is_call(message: Any) -> TypeGuard[dict[str, Any]]:
    if not _is_object(message) or not _is_object(parameters := message.get("params")):
        return False
    return (
        message.get("method") == "tools/call"
        and message.get("jsonrpc") == "2.0"
        and type(message.get("id")) in {int, str}
        and message.keys() <= _MESSAGE_KEYS
        and parameters.keys() <= _PARAMETER_KEYS
        and isinstance(parameters.get("name"), str)
        and isinstance(parameters.get("arguments"), dict | None)
        and _is_meta(parameters.get("_meta"))
    )


def _is_meta(meta: Any) -> bool:
    """None, or an object whose progress token is usable; the older revisions ignore everything else in it."""
    return meta is None or (_is_object(meta) and type(meta.get("progressToken", 0)) in {int, str})


@lru_cache(_CACHED_ACCEPTS)
def _accepts_both(accept: bytes) -> bool:
    """Whether the client takes JSON and server-sent events, wildcards counted."""
    types = {part.partition(b";")[0].strip().lower() for part in accept.split(b",")}
    if b"*/*" in types:
        return True
    return bool(types & {b"application/json", b"application/*"}) and bool(types & {b"text/event-stream", b"text/*"})


def _routing(headers: Headers) -> dict[str, str]:
    return {name.decode(): headers[name].decode("latin-1") for name in _ROUTING_HEADERS if name in headers}


def _is_plain(parameters: dict[str, Any], headers: Headers) -> bool:
    """Whether the SDK would take the `_meta` and headers of a call of 2026-07-28 for sound without a second look."""
    meta: Any = parameters.get("_meta")
    return (
        _is_object(meta)
        and headers.get(b"mcp-method") == b"tools/call"
        and _is_mirrored(parameters["name"], headers.get(b"mcp-name"))
        and meta.keys() <= _PLAIN_META
        and meta.get(_VERSION) == MODERN_REVISION
        and _are_plain_capabilities(meta.get(_CAPABILITIES))
        and (_CLIENT_INFO not in meta or _is_plain_client(meta[_CLIENT_INFO]))
    )


def _is_mirrored(name: str, header: bytes | None) -> bool:
    # Other than ASCII, a name and its header are the same only in the SDK's eyes, or not even there.
    return header is not None and name.isascii() and name.encode() == header and not header.startswith(_ENCODED)


def _are_plain_capabilities(stated: Any) -> bool:
    # Roots may have any value; of the others, only that there are some, and of extensions that of tasks.
    return (
        _is_object(stated)
        and stated.keys() <= _PLAIN_CAPABILITIES
        and all(
            isinstance(value, dict) and (not value or name == "roots" or (name, value) == _FOLLOWING)
            for name, value in stated.items()
        )
    )


def _is_plain_client(stated: Any) -> bool:
    return _is_object(stated) and _NAMED <= stated.keys() <= _PLAIN_CLIENT and set(map(type, stated.values())) <= {str}
