"""What a request asks for and on whose behalf: JSON within a limit, the operation, the caller, the bearer token."""

from __future__ import annotations

from functools import lru_cache
from typing import Any
from urllib.parse import parse_qs

import orjson
from starlette.types import Scope

from tandem.contract.caller import Access, Caller
from tandem.contract.operation import Operation, Registry
from tandem.errors import InvalidInput, TooLarge, Unauthenticated
from tandem.server.asgi.exchange import Exchange, Headers
from tandem.server.authorisation import Authenticator


def find_operation(registry: Registry, name: str) -> Operation | None:
    """The operation of that name, or of its dotted spelling (`session.open` for `session_open`)."""
    found = registry.find(name)
    if found is None and is_dotted(name):
        found = registry.find(name.replace(".", "_"))
    return found


def is_dotted(name: str) -> bool:
    """Whether a name has the spelling in which hand-off cycles were first published."""
    return "." in name


MOST_VALUES = 50_000
MOST_LONG_LIST_VALUES = 1_000_000
"""For operations that take the changes of a whole commit."""


def parse_json(body: bytes, most_values: int = MOST_VALUES) -> Any:
    """A body's JSON.

    Raises:
        JSONDecodeError: It is not JSON.
        TooLarge: It holds more values than that.
    """
    if len(body) > most_values and _separators(body) > most_values:  # most of a diff's are within its text
        _check(body, most_values)
    return orjson.loads(body)


def _separators(text: bytes) -> int:
    """How many values a text can hold outside of strings: each stands behind one of these."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _check(body: bytes, most_values: int) -> None:
    # Without escapes, every other part between quotes is outside of strings.
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    count = plain.count(b'"') // 2
    if count <= 2 * most_values:
        count = _separators(b"".join(plain.split(b'"')[::2]))
    if count > most_values:
        raise TooLarge(
            f"The JSON holds more than {most_values} values; send fewer at once.", limit="json_values", most=most_values
        )


AGENT_HEADER = b"tandem-agent"
_NAME_LENGTH = 200
_CACHED_CALLERS = 1024
_QUERY_LENGTH = 4000


@lru_cache(_CACHED_CALLERS)
def identify(
    role: str | None,
    query: bytes,
    agent: bytes | None,
    client_name: str | None = None,
    access: Access | None = None,
) -> Caller:
    """The caller of a request; the same facts give the same object.

    Args:
        role: The role endpoint's role.
        query: The query string as sent; `project` is read from it.
        agent: The `Tandem-Agent` header.
        client_name: What an MCP client calls itself, used when there is no such header.
        access: What the caller was let in with; None on a trusted broker.

    Raises:
        InvalidInput: A name that is too long or is not text.
    """
    named = _agent(agent) or _cut(client_name)
    return Caller(role=role, project=_project(query), agent=named, access=access)


def _project(query: bytes) -> str | None:
    if not query:
        return None
    if len(query) > _QUERY_LENGTH:
        raise InvalidInput(f"The query string is over {_QUERY_LENGTH} bytes.", field="project")
    try:
        values = parse_qs(query.decode("ascii"), errors="strict", max_num_fields=50).get("project")
    except ValueError:
        raise InvalidInput("The query string must be percent-encoded UTF-8.", field="project") from None
    return _name(values[0], "project") if values else None


def _agent(header: bytes | None) -> str | None:
    if header is None:
        return None
    try:
        return _name(header.decode(), "Tandem-Agent")
    except UnicodeDecodeError:
        raise InvalidInput("The header Tandem-Agent must be UTF-8.", field="Tandem-Agent") from None


def _name(text: str, field: str) -> str | None:
    text = text.strip()
    if len(text) > _NAME_LENGTH or "\x00" in text:
        raise InvalidInput(f"{field} must be at most {_NAME_LENGTH} characters, without NUL.", field=field)
    return text or None


def _cut(client_name: str | None) -> str | None:
    """A client's own name is not the caller's to choose, so it is fitted rather than refused."""
    return (client_name or "").replace("\x00", "").strip()[:_NAME_LENGTH] or None


CHALLENGE: Headers = ((b"www-authenticate", b'Bearer realm="tandem"'),)
"""What an answer says that asks for a token."""

_HEADER = b"authorization"
_IN_SCOPE = "tandem.access"


async def admit(exchange: Exchange, authenticator: Authenticator) -> None:
    """Let a request in, and note on it who sends it.

    Raises:
        Unauthenticated: It has no token, or one that is not valid (any more).
    """
    exchange.access = exchange.scope[_IN_SCOPE] = await authenticator.admit(bearer_of(exchange))


def access_in(scope: Scope) -> Access | None:
    """Who sends the request of a scope that went on to an application behind; None on a trusted broker."""
    return scope.get(_IN_SCOPE)


def bearer_of(exchange: Exchange) -> str | None:
    """The token in the header `Authorization`; None if there is no such header.

    Raises:
        Unauthenticated: The header is repeated, or is of another scheme.
    """
    header = exchange.headers.get(_HEADER)
    if header is None:
        return None
    if exchange.repeats(_HEADER):
        raise Unauthenticated("Send the header Authorization once.", reason="repeated")
    scheme, _, token = header.decode("latin-1").strip().partition(" ")
    if scheme.lower() != "bearer" or not token.strip():
        raise Unauthenticated("Send the access token as 'Authorization: Bearer …'.", reason="malformed")
    return token.strip()
