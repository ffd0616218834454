"""How many requests a principal may send: a token bucket for each, in the memory of this broker."""

from __future__ import annotations

import ipaddress
import logging
import time
from collections import Counter, OrderedDict

from tandem.contract.caller import Access
from tandem.errors import RateLimited
from tandem.server.asgi.exchange import Exchange

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
