"""Who may send requests, and how many.

Refuses what a foreign web page had a browser send, reads what trusted proxies say, and limits each principal's rate.
"""

from __future__ import annotations

import ipaddress
import logging
import re
import time
from collections import Counter, OrderedDict
from collections.abc import Iterable
from typing import Any, cast

from starlette.types import ASGIApp, Receive, Scope, Send
from uvicorn.middleware.proxy_headers import ProxyHeadersMiddleware

from tandem.contract.caller import Access
from tandem.errors import Forbidden, RateLimited
from tandem.server.asgi.exchange import Exchange

_FORWARDED_HOST = b"x-forwarded-host"
_MAPPED = "::ffff:"
"""Before an address of IPv4 where one socket listens for both."""

NAMED_HOST = "tandem.named_host"
"""In the scope: the host by which a trusted proxy says that it was called."""

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")
_OWN_ORIGIN = re.compile(r"[0-9a-f]{32}\.localhost")
"""A name of somebody's own under which they are known; browsers find it at the loopback by themselves."""
_OUR_SITES = (b"same-origin", b"none")


class HostGuard:
    """Knows the names under which the broker may be addressed.

    A browser that a foreign name was rebound to sends that name as `Host`. A foreign page's script sends its own site
    as `Origin`, or the browser says in `Sec-Fetch-Site` that it is none of ours; a page on another port of this host
    is foreign, too. Programs that are not browsers send neither.
    """

    def __init__(self, allowed: Iterable[str] = ()) -> None:
        """Make a guard.

        Args:
            allowed: Names beside the loopback ones; with a port, only that port is allowed.
        """
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
        return name in self._names or _OWN_ORIGIN.fullmatch(name) is not None


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


_MOST_BUCKETS = 10_000
_NETWORK_BITS = 64
"""What one holder of IPv6 addresses has at the least."""

_log = logging.getLogger("tandem.limits")


class RateLimits:
    """Charges each request to who sends it: the token's principal, else the client's address.

    A wait is one request, however long. Of a bucket is kept when it will be full again, and whether its last request
    was refused; one that is full by now need not be kept.

    Attributes:
        refused: How many requests were refused, by the kind of bucket: `principal` or `address`.
    """

    def __init__(self, per_minute: float, burst: int) -> None:
        """Make it.

        Args:
            per_minute: How many requests a bucket gets back; 0 for no limit.
            burst: How many it has at the most.
        """
        self.refused: Counter[str] = Counter({"principal": 0, "address": 0})
        self._per_minute = per_minute
        self._seconds = 60 / per_minute if per_minute else 0.0
        self._burst_seconds = self._seconds * burst
        self._buckets: dict[str, OrderedDict[str, tuple[float, bool]]] = {kind: OrderedDict() for kind in self.refused}

    def charge(self, exchange: Exchange, access: Access | None) -> None:
        """Charge one request.

        Args:
            exchange: The request.
            access: Its access; None if it was not let in.

        Raises:
            RateLimited: There were too many; `details.retry_after_s` says when the next may come.
        """
        if not self._seconds:
            return
        if access is None:
            self._charge("address", _origin(exchange))
        elif not access.is_owner:  # who runs the broker can set this limit
            self._charge("principal", access.name)

    def _charge(self, kind: str, who: str) -> None:
        buckets, now = self._buckets[kind], time.monotonic()
        full_at, was_refused = buckets.get(who, (now, False))
        full_at = max(full_at, now) + self._seconds
        wait = full_at - now - self._burst_seconds
        if wait <= 0:
            buckets[who] = (full_at, False)
            buckets.move_to_end(who)
            if len(buckets) > _MOST_BUCKETS:
                buckets.popitem(last=False)
            return
        self.refused[kind] += 1
        if not was_refused:
            buckets[who] = (full_at - self._seconds, True)
            _log.warning("too many requests from the %s %s", kind, who, extra={kind: who})
        raise RateLimited(
            f"More than {self._per_minute:g} requests a minute came from here. Send the same again in {wait:.1f} s; to"
            " wait for something, ask with wait in place of asking again.",
            retry_after_s=round(wait, 3),
            per_minute=self._per_minute,
        )


def _origin(exchange: Exchange) -> str:
    """Where a request without a token comes from: an address, of IPv6 the network."""
    client = exchange.scope.get("client")
    host = str(client[0]) if client else "unknown"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host[:100]
    if isinstance(address, ipaddress.IPv4Address):
        return host
    return str(ipaddress.ip_network((address, _NETWORK_BITS), strict=False))
