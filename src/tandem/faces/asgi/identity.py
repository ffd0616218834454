"""Who calls, read from a request's address and headers."""

from __future__ import annotations

from functools import lru_cache
from urllib.parse import parse_qs

from tandem.contract.caller import Caller
from tandem.domain.access import Access
from tandem.errors import InvalidInput

AGENT_HEADER = b"tandem-agent"
_NAME_LENGTH = 200
_CACHED_CALLERS = 1024
_QUERY_LENGTH = 4000


@lru_cache(_CACHED_CALLERS)
def identify(
    face: str,
    role: str | None,
    query: bytes,
    agent: bytes | None,
    client_name: str | None = None,
    access: Access | None = None,
) -> Caller:
    """The caller of a request; the same facts give the same object.

    Args:
        face: `mcp` or `http`.
        role: The role endpoint's role.
        query: The query string as sent; `project` is read from it.
        agent: The `Tandem-Agent` header.
        client_name: What an MCP client calls itself, used when there is no such header.
        access: What the caller was let in with; null on a trusted broker.

    Raises:
        InvalidInput: A name that is too long or is not text.
    """
    named = _agent(agent) or _cut(client_name)
    return Caller(role=role, project=_project(query), agent=named, face=face, access=access)


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
