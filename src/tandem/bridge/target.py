"""Where requests to a broker go, and how they fail to get an answer.

Errors:

    HttpFailure
    ├── NotSent     the request did not leave whole: the other side cannot have acted on it
    │   ├── Stranger    who answers has not proved to be this user's broker, and was told nothing
    │   └── Untrusted   who answers has no certificate that is trusted here, and was told nothing
    ├── ResponseLost   it left whole, and the answer did not arrive whole: the other side may have acted
    └── Aborted     this side closed the connection, see `http.Exchange.abort`
"""

from __future__ import annotations

CONNECT_SECONDS = 5.0
_NOT_IN_URL = frozenset("?# \t\n\r\f\v")
_NOT_IN_NAME = frozenset("@[]")
_IN_ADDRESS = frozenset("0123456789abcdefABCDEF:.")
_MOST_PORT_DIGITS = 5
_LARGEST_PORT = 65_535


class HttpFailure(Exception):
    """A request without a whole answer."""


class NotSent(HttpFailure):
    """The request did not leave whole, so that any request can be repeated safely."""


class Stranger(NotSent):
    """Who answers there has not proved that it is this user's broker."""

    def __init__(self) -> None:
        super().__init__("what answers there has not proved that it is this user's broker")


class Untrusted(NotSent):
    """Who answers there has no certificate for that name of a CA that is trusted here."""


class ResponseLost(HttpFailure):
    """The request left whole and its answer did not arrive whole: it may have had its effect."""


class Aborted(HttpFailure):
    """The exchange was given up by this side."""


class Target:
    """Where requests go.

    Attributes:
        url: As it was stated, without a trailing slash.
        host: Name or address.
        port: TCP port.
        secure: Whether to use TLS.
        authority: Host and port as the `Host` header has them.
        prefix: The path that all others are under; empty, or begins with a slash.
    """

    __slots__ = ("authority", "host", "port", "prefix", "secure", "url")

    def __init__(self, url: str) -> None:
        """Parse `http://host:port/prefix`.

        Raises:
            ValueError: The text is not an http or https URL, or holds credentials.
        """
        self.url = url.rstrip("/")
        scheme, _, rest = self.url.partition("://")
        self.authority, slash, path = rest.partition("/")
        self.prefix = slash + path
        if self.authority.startswith("["):
            self.host, bracket, port = self.authority[1:].partition("]")
            is_host = bool(bracket and self.host) and _IN_ADDRESS.issuperset(self.host)
        else:
            self.host, colon, port = self.authority.partition(":")
            is_host, port = bool(self.host) and _NOT_IN_NAME.isdisjoint(self.host), colon + port
        digits = port[1:]
        is_number = digits.isascii() and digits.isdecimal() and len(digits) <= _MOST_PORT_DIGITS
        is_port = not port or (port[0] == ":" and is_number and int(digits) <= _LARGEST_PORT)
        if scheme not in {"http", "https"} or not (is_host and is_port and _NOT_IN_URL.isdisjoint(self.url)):
            raise ValueError(f"'{url}' is not a URL such as http://127.0.0.1:8321")
        self.secure = scheme == "https"
        self.port = int(digits) if port else (443 if self.secure else 80)

    @property
    def is_local(self) -> bool:
        """Whether it is one of this machine's own, which its other users can listen at, too."""
        return self.host in {"localhost", "::1"} or self.host.startswith("127.")


def targets(urls: str) -> list[Target]:
    """The brokers of one database: their URLs, with commas between them.

    Raises:
        ValueError: One of them is not a URL.
    """
    return [Target(url.strip()) for url in urls.split(",")]


def is_url(text: str) -> bool:
    """Whether a text names a broker, or several with commas between them."""
    try:
        targets(text)
    except ValueError:
        return False
    return True


def is_local(url: str) -> bool:
    """Whether an address, or one of several, is this machine's own; an unusable one counts as such."""
    return not is_url(url) or any(target.is_local for target in targets(url))
