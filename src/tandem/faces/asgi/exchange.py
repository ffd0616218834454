"""One HTTP request and the response to it."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.types import Message, Receive, Scope, Send

from tandem.domain.access import Access


class Exchange:
    """What a route needs to know of a request, and the way back.

    Attributes:
        scope: The ASGI scope.
        path: The path without a trailing slash.
        headers: By lower-case name; of a repeated one, the last.
        receive: The ASGI `receive`.
        started: Whether the response has begun.
        access: What the caller was let in with; null on a trusted broker.
    """

    __slots__ = ("_send", "access", "headers", "path", "receive", "scope", "started")

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        path: str = scope["path"]
        self.scope = scope
        self.path = path[:-1] if path.endswith("/") and len(path) > 1 else path
        self.headers: Mapping[bytes, bytes] = dict(scope["headers"])
        self.receive = receive
        self.started = False
        self.access: Access | None = None
        self._send = send

    @property
    def method(self) -> str:
        """The HTTP method, upper case."""
        return self.scope["method"]

    @property
    def query(self) -> bytes:
        """The query string as it was sent."""
        return self.scope["query_string"]

    @property
    def has_repeated_headers(self) -> bool:
        """Whether any header came more than once."""
        return len(self.headers) != len(self.scope["headers"])

    def repeats(self, name: bytes) -> bool:
        """Whether that header came more than once."""
        return self.has_repeated_headers and sum(key == name for key, _ in self.scope["headers"]) > 1

    async def send(self, message: Message) -> None:
        """The ASGI `send`."""
        self.started = True
        await self._send(message)
