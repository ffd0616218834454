"""JSON-RPC messages of MCP as the bridge needs them: the message, the headers that it takes, and the reply."""

from __future__ import annotations

import binascii
import json
import re
from typing import TYPE_CHECKING, Any, cast

from tandem.bridge.credentials import REFUSED_CODE, TOKEN_VARIABLE
from tandem.bridge.location import NotSent, ResponseLost

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from tandem.bridge.http import HttpResponse
    from tandem.bridge.messages import Message


_META_VERSION = "io.modelcontextprotocol/protocolVersion"
_NAMING_PARAMETER = {
    "tools/call": "name",
    "prompts/get": "name",
    "resources/read": "uri",
    **dict.fromkeys(("tasks/get", "tasks/update", "tasks/cancel"), "taskId"),
}
_PLAIN_HEADER = re.compile(r"[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?")
_WRAPPED = re.compile(r"=\?base64\?.*\?=")

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
INTERNAL_ERROR = -32603
ODD_ID = "The id of a request is a string or an integer; a notification has none"


class Message:
    """One message from the client.

    Attributes:
        raw: Its line as it came, UTF-8.
        body: The parsed object.
        method: None for an answer.
        id: None for a notification.
        is_request: Whether an answer is owed.
    """

    __slots__ = ("body", "id", "is_request", "method", "raw")

    def __init__(self, raw: bytes, body: dict[str, Any]) -> None:
        self.raw = raw
        self.body = body
        method = body.get("method")
        self.method = method if isinstance(method, str) else None
        self.id: Any = body.get("id")
        self.is_request = self.method is not None and "id" in body

    @property
    def params(self) -> dict[str, Any]:
        """The parameters; empty if there are none or they are no object."""
        return as_object(self.body.get("params"))

    @property
    def modern_version(self) -> str | None:
        """The revision that a sessionless message states for itself; None for the session-based ones."""
        version = as_object(self.params.get("_meta")).get(_META_VERSION)
        return version if isinstance(version, str) else None

    @property
    def arguments(self) -> dict[str, Any]:
        """The arguments of a tool call; empty if there are none."""
        return as_object(self.params.get("arguments"))

    @property
    def tool(self) -> str | None:
        """The operation that a tool call names, without dots; None for anything else."""
        name = self.params.get("name") if self.method == "tools/call" else None
        return name.replace(".", "_") if isinstance(name, str) else None

    def with_arguments(self, **changes: Any) -> bytes:
        """The message as a line, with some arguments of its tool call set."""
        arguments = {**self.arguments, **changes}
        return encode({**self.body, "params": {**self.params, "arguments": arguments}})


class Malformed(ValueError):
    """A line that is no message.

    Attributes:
        code: The JSON-RPC error code to answer with.
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def parse(line: bytes) -> Message:
    """Read one line.

    Raises:
        Malformed: It is not JSON, or not one JSON-RPC message.
    """
    try:
        body = json.loads(line.decode())
    except (ValueError, RecursionError):
        raise Malformed(PARSE_ERROR, "Parse error: a message is one line of JSON in UTF-8") from None
    found = as_object(body)
    if not (isinstance(found.get("method"), str) or "id" in found):
        raise Malformed(INVALID_REQUEST, "A message must be a single JSON-RPC object")
    if has_odd_id(found):
        raise Malformed(INVALID_REQUEST, ODD_ID)
    return Message(line.strip(), found)


def has_odd_id(message: dict[str, Any]) -> bool:
    """Whether it is a request whose id is none: an answer could not be matched to it."""
    stated = message.get("id", "")
    return "method" in message and (isinstance(stated, bool) or not isinstance(stated, (str, int)))


def as_object(value: Any) -> dict[str, Any]:
    """A JSON object; empty for every other value."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def headers(message: Message, negotiated: str | None) -> dict[str, str]:
    """What the HTTP transport wants to see in the head: version, and for sessionless revisions method and name."""
    found: dict[str, str] = {}
    modern = message.modern_version
    if modern is None:
        if negotiated is not None and message.method != "initialize":
            found["MCP-Protocol-Version"] = negotiated
        return found
    found["MCP-Protocol-Version"] = _header_value(modern)
    if message.method is not None:
        found["Mcp-Method"] = _header_value(message.method)
        name = message.params.get(_NAMING_PARAMETER.get(message.method, ""))
        if isinstance(name, str):
            found["Mcp-Name"] = _header_value(name)
    return found


def _header_value(text: str) -> str:
    """As it is where HTTP can carry it, else in the protocol's base64 wrapping."""
    if _PLAIN_HEADER.fullmatch(text) and not _WRAPPED.fullmatch(text):
        return text
    wrapped = binascii.b2a_base64(text.encode(errors="replace"), newline=False).decode()
    return f"=?base64?{wrapped}?="


def encode(body: Any) -> bytes:
    """One line; ASCII, so that lone surrogates pass as they came."""
    return json.dumps(body, separators=(",", ":")).encode()


def error(message_id: Any, code: int, text: str, data: Any = None) -> bytes:
    """A JSON-RPC error answer."""
    inner = {"code": code, "message": text} | ({} if data is None else {"data": data})
    return encode({"jsonrpc": "2.0", "id": message_id, "error": inner})


def refusal(message: Message, refused: dict[str, Any]) -> bytes:
    """An answer that carries an error of the envelope: a failed result for a tool call, else an error."""
    if message.method != "tools/call":
        return error(message.id, INTERNAL_ERROR, f"{refused['code']}: {refused['message']}", refused)
    envelope = {"ok": False, "error": refused}
    result: dict[str, Any] = {
        "content": [{"type": "text", "text": encode(envelope).decode()}],
        "structuredContent": envelope,
        "isError": True,
    }
    if message.modern_version is not None:
        result["resultType"] = "complete"
    return encode({"jsonrpc": "2.0", "id": message.id, "result": result})


def welcome(message: Message, trouble: str) -> bytes:
    """The bridge's own answer to `initialize` while no broker gives one: the tools come with the broker."""
    return encode(
        {
            "jsonrpc": "2.0",
            "id": message.id,
            "result": {
                "protocolVersion": message.params.get("protocolVersion"),
                "capabilities": {"tools": {}, "prompts": {}, "resources": {}},
                "serverInfo": {"name": "tandem", "title": "Tandem", "version": "unknown"},
                "instructions": f"Tandem's tools work once its broker answers. {trouble}",
            },
        }
    )


_WHERE_TOKENS_GO = f"{TOKEN_VARIABLE} belongs in the environment in which the agent's client starts 'tandem mcp'."
_OK = 200
_UNAVAILABLE = 503
_BAD_GATEWAYS = frozenset({502, 504})


def replies(answer: HttpResponse, message: Message) -> Iterator[bytes]:
    """Notifications as they arrive, then the one answer that ends them.

    Raises:
        NotSent: The broker has not acted on the request: not now, or it is no broker at all.
        Lost: The answer did not arrive whole.
        Aborted: It was given up.
    """
    if answer.status in _BAD_GATEWAYS:
        answer.close()
        raise ResponseLost(f"HTTP {answer.status}")
    if answer.status == _UNAVAILABLE:
        answer.close()
        raise NotSent("it is starting, stopping or without its database (HTTP 503)")
    if answer.status != _OK:
        yield _refused(answer.status, answer.read(), message)
    elif answer.content_type == "text/event-stream":
        yield from _until_answered(_events(answer.lines()))
    elif answer.content_type == "application/json":
        # JSON has line ends between its tokens only, where a space does as well.
        yield answer.read().replace(b"\r", b" ").replace(b"\n", b" ")
    else:
        answer.close()
        raise NotSent(f"something else answers there, with {answer.content_type or 'no content type'}")


def protocol_version(reply: bytes) -> str | None:
    """The revision that an answer to `initialize` settles on; None if it settles nothing."""
    version = _dig(reply, "result", "protocolVersion")
    return version if isinstance(version, str) else None


def cursor_to_pin(reply: bytes) -> str | None:
    """Where to wait on from, if the answer to a wait of no length found nothing new; else None."""
    data = data_of(reply)
    if data.get("changed") is not False:
        return None
    cursor = data.get("cursor")
    return cursor if isinstance(cursor, str) else None


def data_of(reply: bytes) -> dict[str, Any]:
    """The data that a tool has answered; nothing if it has not."""
    return as_object(_dig(reply, "result", "structuredContent", "data"))


def _dig(reply: bytes, *path: str) -> Any:
    found: Any = json.loads(reply)
    for key in path:
        found = as_object(found).get(key)
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
        raise ResponseLost("the stream ended without an answer")


def _refused(status: int, body: bytes, message: Message) -> bytes:
    """A refusal in HTTP's terms as one in the protocol's."""
    try:
        parsed = as_object(json.loads(body))
    except ValueError:
        parsed = {}
    inner = as_object(parsed.get("error"))
    if not inner:
        raise NotSent(f"something else answers there, with HTTP {status}")
    if inner.get("code") == REFUSED_CODE:
        parsed["error"] = inner = {**inner, "message": f"{inner.get('message', '')} {_WHERE_TOKENS_GO}".strip()}
    if "jsonrpc" in parsed:
        # The broker could not always read the id; here it is known.
        return encode({**parsed, "id": message.id})
    return refusal(message, inner)
