"""Who sends a request, by the bearer token in it. On a trusted broker nothing of this runs."""

from __future__ import annotations

from starlette.types import Scope

from tandem.domain.access import Access
from tandem.errors import Unauthenticated
from tandem.faces.asgi.exchange import Exchange
from tandem.faces.asgi.replies import Headers
from tandem.operations.authorisation import Gatekeeper

CHALLENGE: Headers = ((b"www-authenticate", b'Bearer realm="tandem"'),)
"""What an answer says that asks for a token."""

_HEADER = b"authorization"
_IN_SCOPE = "tandem.access"


async def admit(exchange: Exchange, gatekeeper: Gatekeeper) -> None:
    """Let a request in, and note on it who sends it.

    Raises:
        Unauthenticated: It has no token, or one that is not valid (any more).
    """
    exchange.access = exchange.scope[_IN_SCOPE] = await gatekeeper.admit(bearer_of(exchange))


def access_in(scope: Scope) -> Access | None:
    """Who sends the request of a scope that went on to an application behind; null on a trusted broker."""
    return scope.get(_IN_SCOPE)


def bearer_of(exchange: Exchange) -> str | None:
    """The token in the header `Authorization`; null if there is no such header.

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
