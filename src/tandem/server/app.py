"""The broker's ASGI application: guards every route, finds it, and answers every fault on the way."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Protocol

from starlette.types import Receive, Scope, Send

from tandem.core.clock import Clock
from tandem.errors import NotFound, RateLimited, TandemError, Unauthenticated, Unavailable
from tandem.server.asgi.calls import CHALLENGE, admit
from tandem.server.asgi.exchange import (
    ClientGone,
    Exchange,
    Headers,
    MethodNotAllowed,
    read_body,
    send_refusal,
)
from tandem.server.asgi.guard import HostGuard, RateLimits, TrustedProxies
from tandem.server.authorisation import Authenticator
from tandem.server.dispatch import TRACEPARENT, Dispatcher, unexpected
from tandem.server.http.api import PREFIX, JsonApi, OpenApiDocument
from tandem.server.http.health import RETRY_AFTER, Health
from tandem.server.mcp.endpoint import McpEndpoints
from tandem.server.measurements import Measurements
from tandem.server.mirrors import PREFIX as GIT_PREFIX
from tandem.server.mirrors import MirrorRoutes
from tandem.settings.workflows import BUILT_IN, Workflow

HEALTH_PATH = "/healthz"
METRICS_PATH = "/metrics"
OPENAPI_PATH = PREFIX + "openapi.json"
BODY_LIMIT_BYTES = 16_000_000
# So much of the body of a refused request is taken off the line, and so long is waited for it.
_UNREAD_BYTES = 64_000
_UNREAD_SECONDS = 5

Answer = Callable[[Exchange], Awaitable[None]]
_READ = ("GET", "HEAD")


class Pages(Protocol):
    """What the application asks of the pages, which it does not import."""

    def has(self, path: str) -> bool:
        """Whether an address is one of the pages'."""
        ...

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request for a page."""
        ...


class Application:
    """All routes. The server's lifespan messages start and stop the MCP endpoints."""

    def __init__(  # noqa: PLR0913 - the settings of all routes, each by its name
        self,
        dispatcher: Dispatcher,
        *,
        clock: Clock,
        health: Health,
        version: str,
        authenticator: Authenticator | None = None,
        workflows: Mapping[str, Workflow] | None = None,
        pages: Pages | None = None,
        measurements: Measurements | None = None,
        mirrors: MirrorRoutes | None = None,
        limits: RateLimits | None = None,
        allowed_hosts: Iterable[str] = (),
        trusted_proxies: Iterable[str] = (),
        body_limit_bytes: int = BODY_LIMIT_BYTES,
        fast_path: bool = True,
    ) -> None:
        """Make the application; nothing is started yet.

        Args:
            dispatcher: Runs the operations.
            clock: Gives reference ids for unknown faults.
            health: The broker's phase of life; new work is refused unless it is ready.
            version: The broker's version.
            authenticator: Tells who calls; everybody is trusted if it is left out.
            workflows: The workflows of hand-off cycles by name; only the built-in one if left out.
            pages: The pages for people; there are none if it is left out.
            measurements: What monitoring is told; nothing if it is left out.
            mirrors: Gives mirrors of projects to git; there are none if it is left out.
            limits: How many requests a principal may send; any number if it is left out.
            allowed_hosts: Names, beside the loopback ones, by which clients may address the broker.
            trusted_proxies: Addresses and networks of proxies whose word on their clients is believed.
            body_limit_bytes: The largest request body.
            fast_path: Whether MCP tool calls are answered without the SDK where possible.
        """
        self._gatekeeper = authenticator if authenticator is not None and authenticator.required else None
        self._guard = HostGuard(allowed_hosts)
        self._limits = limits or RateLimits(0, 1)
        self._entry = TrustedProxies(self._answer, proxies) if (proxies := tuple(trusted_proxies)) else self._answer
        self._api = JsonApi(dispatcher)
        self._mcp = McpEndpoints(
            dispatcher,
            version=version,
            workflows={BUILT_IN.name: BUILT_IN} if workflows is None else workflows,
            fast_path=fast_path,
        )
        self._pages = pages
        self._mirrors = mirrors
        self._health = health
        self._clock = clock
        self._body_limit_bytes = body_limit_bytes
        self._routes = self._named_routes(dispatcher, version, measurements)

    def _named_routes(
        self, dispatcher: Dispatcher, version: str, measurements: Measurements | None
    ) -> dict[str, tuple[tuple[str, ...], Answer]]:
        routes: dict[str, tuple[tuple[str, ...], Answer]] = {
            **dict.fromkeys(self._mcp.paths, (("POST",), partial(self._answer_body, self._mcp.serve))),
            HEALTH_PATH: (_READ, self._health.serve),
            OPENAPI_PATH: (_READ, OpenApiDocument(dispatcher.registry, version).serve),
        }
        if measurements is not None:
            routes[METRICS_PATH] = (_READ, partial(self._answer_admitted, measurements.serve))
        return routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or follow the server's life."""
        if scope["type"] == "http":
            await self._entry(scope, receive, send)
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        exchange = Exchange(scope, receive, send)
        traceparent = exchange.headers.get(b"traceparent")
        if traceparent is not None:
            TRACEPARENT.set(traceparent.decode("latin-1"))
        try:
            self._guard.check(exchange)
            methods, answer = self._find(exchange)
            if exchange.method not in methods:
                raise MethodNotAllowed(*methods)
            await answer(exchange)
        except ClientGone:
            return
        except TandemError as error:
            await _refuse(error, exchange)
        except Exception as error:  # noqa: BLE001 - the edge: every other fault becomes an answer, and is logged
            await _refuse(unexpected(error, self._clock, "request failed", path=exchange.path), exchange)

    def _find(self, exchange: Exchange) -> tuple[tuple[str, ...], Answer]:
        """The methods that an address takes, and what answers them; a browser gets a page wherever it goes.

        Raises:
            NotFound: There is nothing.
        """
        path = exchange.path
        found = self._routes.get(path)
        if found is not None:
            return found
        if path.startswith(PREFIX):
            return ("POST",), partial(self._answer_body, partial(self._api.serve, self._api.find(path)))
        if self._mirrors is not None and path.startswith(GIT_PREFIX):
            return ("GET", "POST"), partial(self._answer_admitted, self._mirrors.serve)
        is_browser = exchange.method in _READ and b"text/html" in exchange.headers.get(b"accept", b"")
        if self._pages is not None and (is_browser or self._pages.has(path)):
            return (*_READ, "POST"), self._pages.serve
        path = path[:200]
        allowed = [PREFIX + "<operation>", *sorted(self._routes)]
        raise NotFound(f"There is nothing at {path}.", path=path, allowed=allowed)

    async def _answer_admitted(self, answer: Answer, exchange: Exchange) -> None:
        await self._admit(exchange)
        await answer(exchange)

    async def _answer_body(self, answer: Callable[[Exchange, bytes], Awaitable[None]], exchange: Exchange) -> None:
        """Have a request answered with its body, of which nothing is looked at before the caller is let in."""
        try:
            await self._admit(exchange)
        except TandemError:
            # A proxy that is still sending a body loses the answer to it.
            with suppress(TandemError, ClientGone, TimeoutError):
                async with asyncio.timeout(_UNREAD_SECONDS):
                    await read_body(exchange, _UNREAD_BYTES)
            raise
        await answer(exchange, await read_body(exchange, self._body_limit_bytes))

    async def _admit(self, exchange: Exchange) -> None:
        self._health.check()
        if self._gatekeeper is None:
            return
        try:
            await admit(exchange, self._gatekeeper)
        except Unauthenticated:
            self._limits.charge(exchange, None)
            raise
        self._limits.charge(exchange, exchange.access)

    async def _live(self, receive: Receive, send: Send) -> None:
        while True:
            message = await receive()
            if message["type"] == "lifespan.startup":
                self._mcp.start()
                await send({"type": "lifespan.startup.complete"})
            else:
                await self._mcp.stop()
                await send({"type": "lifespan.shutdown.complete"})
                return


async def _refuse(error: TandemError, exchange: Exchange) -> None:
    if exchange.started:
        raise error  # too late for an answer: the server ends the connection
    headers: Headers = RETRY_AFTER if isinstance(error, Unavailable) else ()
    if isinstance(error, MethodNotAllowed):
        headers = ((b"allow", error.allow.encode()),)
    elif isinstance(error, Unauthenticated):
        headers = CHALLENGE
    elif isinstance(error, RateLimited):
        headers = ((b"retry-after", b"%d" % error.retry_after_seconds),)
    await send_refusal(exchange.send, error, headers=headers)
