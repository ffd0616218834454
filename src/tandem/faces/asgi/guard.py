"""Refuses requests that a foreign web page had a browser send (DNS rebinding, cross-site calls)."""

from __future__ import annotations

from collections.abc import Iterable

from tandem.errors import Forbidden
from tandem.faces.asgi.exchange import Exchange

LOOPBACK_NAMES = ("127.0.0.1", "localhost", "[::1]")


class HostGuard:
    """Knows the names under which the broker may be addressed.

    A browser that a foreign name was rebound to sends that name as `Host`, and a foreign page's
    script sends its own site as `Origin`; programs that are not browsers send no `Origin` at all.
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
            Forbidden: `Host` is missing, repeated or foreign, or `Origin` is foreign.
        """
        host = exchange.headers.get(b"host", b"").decode("latin-1")
        if exchange.repeats(b"host") or not self._is_ours(host):
            raise Forbidden(
                "This broker does not answer to that Host. Use 127.0.0.1 or localhost, or allow the name in the "
                "broker's settings (allowed_hosts).",
                header="Host",
                actual=host[:200],
            )
        origin = exchange.headers.get(b"origin")
        if origin is not None and not self._is_our_origin(origin.decode("latin-1")):
            raise Forbidden(
                "Pages of other sites may not call this broker.",
                header="Origin",
                actual=origin.decode("latin-1")[:200],
            )

    def _is_our_origin(self, origin: str) -> bool:
        scheme, separator, host = origin.partition("://")
        return bool(separator) and scheme.lower() in {"http", "https"} and self._is_ours(host)

    def _is_ours(self, host: str) -> bool:
        host = host.lower()
        if host in self._names:
            return True
        name, separator, port = host.rpartition(":")
        return bool(separator) and port.isascii() and port.isdigit() and name in self._names


def _bracketed(name: str) -> str:
    """An IPv6 address as it stands in a `Host` header."""
    return f"[{name}]" if name.count(":") > 1 and not name.startswith("[") else name
