"""Where requests come from: refuses what a foreign web page had a browser send, and reads what trusted proxies say."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tandem.errors import Forbidden
from tandem.server.asgi.exchange import Exchange

_FORWARDED_HOST = b"x-forwarded-host"
_MAPPED = "::ffff:"
"""Before an address of IPv4 where one socket listens for both."""

NAMED_HOST = "tandem.named_host"
"""In the scope: the host by which a trusted proxy says that it was called."""

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_OWN_ORIGIN = re.compile(r"[0-9a-f]{32}\.localhost")
"""A name of somebody's own under which they are logged in; browsers find it at the loopback by themselves."""
_OUR_SITES = (b"same-origin", b"none")


class HostGuard:
    """Knows the names under which the broker may be addressed.

    A browser that a foreign name was rebound to sends that name as `Host`. A foreign page's script sends its own site
    as `Origin`, or the browser says in `Sec-Fetch-Site` that it is none of ours; a page on another port of this host
    is foreign, too. Programs that are not browsers send neither.
    """

    def __init__(self, allowed: Iterable[str] = (), *, with_logins: bool = False) -> None:
        """Make a guard.

        Args:
            allowed: Names beside the loopback ones; with a port, only that port is allowed.
            with_logins: Whether people log in, each under a name of their own.
        """
        self._with_logins = with_logins
        names = [name.strip().lower() for name in allowed]
        self._names = frozenset([*LOOPBACK_NAMES, *(_bracketed(name) for name in names if name)])

    def check(self, exchange: Exchange) -> None:
        """Let the request pass, or say why not.

        Raises:
            Forbidden: `Host` is missing, repeated or foreign, or `Origin` is foreign; so is what a trusted proxy names.
        """
        host = exchange.headers.get(b"host", b"").decode("latin-1").lower()
        if exchange.repeats(b"host") or not self._is_ours(host):
            raise _foreign(host, "Host")
        named = exchange.scope.get(NAMED_HOST)
        if named is not None:
            # Both: a proxy that passes on what its client says of this header still says by Host how it was called.
            host = named.decode("latin-1").lower()
            if not self._is_ours(host):
                raise _foreign(host, "X-Forwarded-Host")
            exchange.rename(b"host", named)
        origin = exchange.headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() not in {f"http://{host}", f"https://{host}"}:
            raise Forbidden(
                "Pages of other sites may not call this broker.",
                header="Origin",
                actual=origin.decode("latin-1")[:200],
            )
        site = exchange.headers.get(b"sec-fetch-site")
        if site is not None and site not in _OUR_SITES and not _is_visit(exchange):
            raise Forbidden("Pages of other sites may not call this broker.", header="Sec-Fetch-Site")

    def _is_ours(self, host: str) -> bool:
        if host in self._names:
            return True
        name, separator, port = host.rpartition(":")
        if not (separator and port.isascii() and port.isdigit()):
            name = host
        return name in self._names or (self._with_logins and _OWN_ORIGIN.fullmatch(name) is not None)


def _foreign(host: str, header: str) -> Forbidden:
    return Forbidden(
        f"This broker does not answer to that {header}. Use 127.0.0.1 or localhost, or allow the name in the "
        "broker's settings (allowed_hosts).",
        header=header,
        actual=host[:200],
    )


def is_local(host: str) -> bool:
    """Whether a `Host` that was let in leads to the loopback by every browser's own knowledge."""
    name, _, port = host.lower().rpartition(":")
    name = name if name and port.isdigit() else host.lower()
    return name in LOOPBACK_NAMES or _OWN_ORIGIN.fullmatch(name) is not None


def _is_visit(exchange: Exchange) -> bool:
    """Whether a person follows a link: they may see the answer, and no page can read it."""
    return exchange.method in {"GET", "HEAD"} and exchange.headers.get(b"sec-fetch-mode") == b"navigate"


def _bracketed(name: str) -> str:
    """An IPv6 address as it stands in a `Host` header."""
    return f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name


class TrustedProxies:
    """Applies `X-Forwarded-For`, `-Proto` and `-Host` of trusted proxies, and of no others.

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
