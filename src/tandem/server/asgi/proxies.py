"""What proxies in front of the broker say of a request's client; believed from those alone that the settings name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

_HOST = b"host"
_FORWARDED_HOST = b"x-forwarded-host"
_MAPPED = "::ffff:"
"""Before an address of IPv4 where one socket listens for both."""

NAMED_HOST = "tandem.named_host"
"""In the scope: the host by which a trusted proxy says that it was called."""


class TrustedProxies:
    """Applies `X-Forwarded-For`, `-Proto` and `-Host` of trusted proxies, and nobody else's.

    The first two are uvicorn's to read: the client is the right-most address that is no trusted proxy's. It does not
    know the third, and would take an address of IPv4 for another at a socket that listens for both kinds.
    """

    def __init__(self, app: ASGIApp, addresses: Iterable[str]) -> None:
        """Make it.

        Args:
            app: Is given the requests, as the proxies' clients sent them.
            addresses: Addresses and networks.
        """
        self._app = ProxyHeadersMiddleware(cast("Any", app), list(addresses))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Hand one request on."""
        client = scope.get("client")
        if client is not None:
            peer: str = client[0].removeprefix(_MAPPED)
            scope["client"] = (peer, client[1])
            if peer in self._app.trusted_hosts:
                named = [value for name, value in scope["headers"] if name == _FORWARDED_HOST]
                if named:
                    # Of several, the nearest proxy's word.
                    scope[NAMED_HOST] = named[-1].rpartition(b",")[2].strip()
        await self._app(cast("Any", scope), cast("Any", receive), cast("Any", send))
