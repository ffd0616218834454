"""The broker's ASGI application: guards every route, finds it, and answers what goes wrong on the way."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping

from starlette.types import Receive, Scope, Send

from tandem.clock import Clock
from tandem.domain.workflows import BUILT_IN, Workflow
from tandem.errors import InternalError, NotFound, TandemError, Unauthenticated, Unavailable
from tandem.faces.asgi.admission import CHALLENGE, admit
from tandem.faces.asgi.body import ClientGone, read_body
from tandem.faces.asgi.exchange import Exchange
from tandem.faces.asgi.guard import HostGuard
from tandem.faces.asgi.replies import Headers, MethodNotAllowed, send_bytes, send_refusal
from tandem.faces.http.api import PREFIX, JsonApi
from tandem.faces.http.health import RETRY_AFTER, Health
from tandem.faces.http.openapi import OpenApiDocument
from tandem.faces.mcp.endpoint import McpEndpoints
from tandem.faces.mcp.fastpath import PING_SECONDS
from tandem.faces.web.mount import PagesMount, is_page
from tandem.operations.authorisation import Gatekeeper
from tandem.operations.dispatch import Dispatcher

_log = logging.getLogger("tandem.faces")

HEALTH_PATH = "/healthz"
OPENAPI_PATH = PREFIX + "openapi.json"
BODY_LIMIT_BYTES = 16_000_000


def create_app(  # noqa: PLR0913 - the settings of all faces, each by its name
    dispatcher: Dispatcher,
    *,
    clock: Clock,
    seal: Callable[[str], str],
    health: Health,
    version: str,
    gatekeeper: Gatekeeper | None = None,
    workflows: Mapping[str, Workflow] | None = None,
    allowed_hosts: Iterable[str] = (),
    body_limit_bytes: int = BODY_LIMIT_BYTES,
    fast_path: bool = True,
    ping_seconds: float = PING_SECONDS,
) -> Application:
    """The application that a server runs.

    Args:
        dispatcher: Runs the operations.
        clock: Gives reference ids for unknown faults.
        seal: A text's keyed hash by the broker's secret, for the cookies of the pages.
        health: The broker's phase of life; new work is refused unless it is ready.
        version: The broker's version.
        gatekeeper: Tells who calls; everybody is trusted if it is left out.
        workflows: The workflows of hand-off cycles by name; only the built-in one if left out.
        allowed_hosts: Names, beside the loopback ones, by which clients may address the broker.
        body_limit_bytes: The largest request body.
        fast_path: Whether MCP tool calls are answered without the SDK where possible.
        ping_seconds: How long a stream of the fast path may be silent.
    """
    gatekeeper = gatekeeper or Gatekeeper.trusting(clock)
    return Application(
        guard=HostGuard(allowed_hosts, with_logins=gatekeeper.required),
        gatekeeper=gatekeeper,
        api=JsonApi(dispatcher),
        openapi=OpenApiDocument(dispatcher.registry, version),
        mcp=McpEndpoints(
            dispatcher,
            version=version,
            workflows={BUILT_IN.name: BUILT_IN} if workflows is None else workflows,
            body_limit_bytes=body_limit_bytes,
            fast_path=fast_path,
            ping_seconds=ping_seconds,
        ),
        pages=PagesMount(
            dispatcher=dispatcher,
            clock=clock,
            seal=seal,
            gatekeeper=gatekeeper,
            version=version,
            check_ready=health.check,
            body_limit_bytes=body_limit_bytes,
        ),
        health=health,
        clock=clock,
        body_limit_bytes=body_limit_bytes,
    )


Answer = Callable[[Exchange], Awaitable[None]]


class Application:
    """All routes. The server's lifespan messages start and stop the MCP endpoints."""

    def __init__(  # noqa: PLR0913 - the parts of all routes, each by its name
        self,
        *,
        guard: HostGuard,
        gatekeeper: Gatekeeper,
        api: JsonApi,
        openapi: OpenApiDocument,
        mcp: McpEndpoints,
        pages: PagesMount,
        health: Health,
        clock: Clock,
        body_limit_bytes: int,
    ) -> None:
        self._guard = guard
        self._gatekeeper = gatekeeper
        self._api = api
        self._openapi = openapi
        self._mcp = mcp
        self._pages = pages
        self._health = health
        self._clock = clock
        self._body_limit_bytes = body_limit_bytes
        self._routes: dict[str, Answer] = {
            **dict.fromkeys(mcp.paths, self._answer_mcp),
            HEALTH_PATH: self._answer_health,
            OPENAPI_PATH: self._answer_openapi,
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request, or follow the server's life."""
        if scope["type"] == "http":
            await self._answer(Exchange(scope, receive, send))
        elif scope["type"] == "lifespan":
            await self._live(receive, send)

    async def _answer(self, exchange: Exchange) -> None:
        try:
            self._guard.check(exchange)
            await self._find(exchange.path)(exchange)
        except ClientGone:
            return
        except TandemError as error:
            await _refuse(error, exchange)
        except Exception as error:  # noqa: BLE001 - the edge; _give_up logs it
            await self._give_up(error, exchange)

    def _find(self, path: str) -> Answer:
        found = self._routes.get(path)
        if found is not None:
            return found
        if path.startswith(PREFIX):
            return self._answer_api
        return self._answer_page if is_page(path) else self._answer_nothing

    async def _answer_mcp(self, exchange: Exchange) -> None:
        _insist_on(exchange, "POST")
        await self._let_in(exchange)
        await self._mcp.serve(exchange, await read_body(exchange, self._body_limit_bytes))

    async def _answer_api(self, exchange: Exchange) -> None:
        operation = self._api.find(exchange.path)
        _insist_on(exchange, "POST")
        await self._let_in(exchange)
        await self._api.serve(operation, exchange, await read_body(exchange, self._body_limit_bytes))

    async def _let_in(self, exchange: Exchange) -> None:
        """Before any of the body is read."""
        self._health.check()
        if self._gatekeeper.required:
            await admit(exchange, self._gatekeeper)

    async def _answer_page(self, exchange: Exchange) -> None:
        _insist_on(exchange, "GET", "HEAD", "POST")
        await self._pages.serve(exchange)

    async def _answer_health(self, exchange: Exchange) -> None:
        _insist_on(exchange, "GET", "HEAD")
        await self._health.send(exchange.send)

    async def _answer_openapi(self, exchange: Exchange) -> None:
        _insist_on(exchange, "GET", "HEAD")
        await send_bytes(exchange.send, 200, await self._openapi.document())

    async def _answer_nothing(self, exchange: Exchange) -> None:
        path = exchange.path[:200]
        allowed = [PREFIX + "<operation>", *sorted(self._routes)]
        raise NotFound(f"There is nothing at {path}.", path=path, allowed=allowed)

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

    async def _give_up(self, error: Exception, exchange: Exchange) -> None:
        reference = self._clock.new_id("err")
        _log.error("request failed", exc_info=error, extra={"path": exchange.path, "reference": reference})
        message = f"Something went wrong inside the broker. Its log has the reason under {reference}."
        await _refuse(InternalError(message, reference=reference), exchange)


def _insist_on(exchange: Exchange, *methods: str) -> None:
    if exchange.method not in methods:
        raise MethodNotAllowed(*methods)


async def _refuse(error: TandemError, exchange: Exchange) -> None:
    if exchange.started:
        raise error  # too late for an answer: the server ends the connection
    headers: Headers = RETRY_AFTER if isinstance(error, Unavailable) else ()
    if isinstance(error, MethodNotAllowed):
        headers = ((b"allow", error.allow.encode()),)
    elif isinstance(error, Unauthenticated):
        headers = CHALLENGE
    await send_refusal(exchange.send, error, headers=headers)
