"""The site: every page's address, and what is done around each of them."""

from __future__ import annotations

import logging
from binascii import a2b_qp
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, Router

from tandem.clock import Clock
from tandem.errors import InternalError, InvalidInput, NotFound, TandemError, TooLarge, Unauthenticated
from tandem.faces.asgi.admission import bearer_of
from tandem.faces.asgi.body import ClientGone, read_body, replaying
from tandem.faces.asgi.exchange import Exchange
from tandem.faces.asgi.replies import MethodNotAllowed
from tandem.faces.asgi.watching import run_watched
from tandem.faces.web import activity, cycles, exports, inbox, login, projects, queue, reviewers, statistics, you
from tandem.faces.web.page import HEADERS, INBOX_ROWS, Gatekeeper, PageRequest, PageResponse, PageRoute, in_worker, see
from tandem.faces.web.person import SAME_SITE, TOKEN_FIELD, Person, PersonCookie, Seal
from tandem.faces.web.rendering import environment
from tandem.faces.web.review import actions, binary, context, drafts, files, line_comment, page
from tandem.faces.web.static import StaticFiles
from tandem.faces.web.stream import events
from tandem.operations.dispatch import Dispatcher
from tandem.operations.inbox_contract import Inbox

_log = logging.getLogger("tandem.faces")
_FIELDS = 2_000
_URL_ENCODED, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
_EXCHANGE = "tandem.exchange"

ROUTES: tuple[PageRoute, ...] = (
    *inbox.ROUTES,
    *queue.ROUTES,
    *reviewers.ROUTES,
    *cycles.ROUTES,
    *page.ROUTES,
    *files.ROUTES,
    *binary.ROUTES,
    *context.ROUTES,
    *line_comment.ROUTES,
    *drafts.ROUTES,
    *exports.ROUTES,
    *actions.ROUTES,
    *activity.ROUTES,
    *statistics.ROUTES,
    *projects.ROUTES,
    *you.ROUTES,
    *login.ROUTES,
    PageRoute("/events", events, inbox_rows=0),
)


class Site:
    """Answers every request for a page."""

    def __init__(
        self,
        *,
        dispatcher: Dispatcher,
        clock: Clock,
        seal: Seal,
        gatekeeper: Gatekeeper,
        version: str,
        check_ready: Callable[[], None],
        body_limit_bytes: int,
    ) -> None:
        """Read the templates and static files.

        Args:
            dispatcher: Runs the operations.
            clock: Tells how long ago something was, and gives reference ids for unknown faults.
            seal: A text's keyed hash, by the broker's secret.
            gatekeeper: Tells who calls.
            version: The broker's version.
            check_ready: Raises Unavailable unless the broker takes new work.
            body_limit_bytes: The largest form.
        """
        self._dispatcher = dispatcher
        self._clock = clock
        self._version = version
        self._check_ready = check_ready
        self._body_limit_bytes = body_limit_bytes
        self._cookie = PersonCookie(seal, clock, with_logins=gatekeeper.required)
        self._gatekeeper = gatekeeper
        self._static = StaticFiles()
        self._templates = environment(self._static, clock)
        static = PageRoute(
            "/static/{stamp}/{name:path}", self._static.serve, needs_broker=False, is_open=True, inbox_rows=0
        )
        self._router = Router([self._route(one) for one in (*ROUTES, static)], redirect_slashes=False)

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request.

        Raises:
            ClientGone: The client hung up; what it asked for is not made.
        """
        # With an application in the scope, the router raises what else it would answer in plain text.
        scope = exchange.scope
        scope.update({"app": self, "path": exchange.path, _EXCHANGE: exchange})
        try:
            await self._router(scope, exchange.receive, exchange.send)
        except HTTPException as error:
            request = Request(scope, exchange.receive)
            response = self._finished(
                self._refusal(_not_routed(error, exchange.path), request, self._cookie.read(request))
            )
            await response(scope, exchange.receive, exchange.send)

    def _route(self, route: PageRoute) -> Route:
        async def respond(request: Request) -> Response:
            return await self._respond(route, request)

        methods = [name for name, handler in (("GET", route.get), ("POST", route.post)) if handler is not None]
        return Route(route.path, respond, methods=methods)

    async def _respond(self, route: PageRoute, request: Request) -> Response:
        exchange: Exchange = request.scope[_EXCHANGE]
        person = self._cookie.read(request)
        try:
            if route.needs_broker:
                self._check_ready()
                person = await self._admitted(exchange, person)
            answer = self._answer(route, exchange, request, person)
            # What nobody waits for is not made; a form is done all the same.
            response = await (answer if request.method == "POST" else run_watched(answer, exchange.receive))
        except ClientGone:
            raise
        except TandemError as error:
            response = self._refusal(error, request, person)
        except Exception:  # noqa: BLE001 - the edge: every other fault becomes a page, and is logged
            response = self._fault(request, person)
        return self._finished(response)

    @staticmethod
    def _finished(response: Response) -> Response:
        """The response with what every one of them has."""
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if response.status_code == Unauthenticated.status:
            response.headers.setdefault("www-authenticate", 'Bearer realm="tandem"')
        return response

    async def _admitted(self, exchange: Exchange, person: Person) -> Person:
        """The person with what they may do: by the request's own token, or by the login of their browser.

        Raises:
            Unauthenticated: The request's own token is not valid.
        """
        if not self._gatekeeper.required:
            return person
        bearer = bearer_of(exchange)
        if bearer is not None:
            return person.admitted(await self._gatekeeper.admit(bearer))
        login_id = self._cookie.login_of(person)
        access = None if login_id is None else await self._gatekeeper.logged_in(person.session, login_id)
        if access is not None and self._cookie.home(Request(exchange.scope), access) is not None:
            access = None
        return person.admitted(access)

    async def _answer(self, route: PageRoute, exchange: Exchange, request: Request, person: Person) -> Response:
        is_stranger = self._is_shut_to(person)
        is_shut = is_stranger and not route.is_open
        if is_shut and not (request.method == "POST" and person.access_id):
            # What a form of somebody holds who never was logged in is not even read.
            return login.lead(request)
        asked = await self._page_request(exchange, request, person)
        if request.method == "POST":
            self._cookie.check(request, person, asked.form.get(TOKEN_FIELD, ""))
            if is_shut:
                return await self._page(login.kept(asked), asked)
            if not person.known and not route.is_open and route.path != you.PATH:
                return see(you.address(asked))
            if not is_stranger:
                asked = replace(asked, cursor=await asked.newest())
        elif route.inbox_rows and not is_stranger:
            # Read before everything else, so that the page hears of what comes after it.
            found = await self._inbox(asked, route.inbox_rows)
            asked = replace(asked, inbox=found, cursor=found.cursor if found else await asked.newest())
        handler = route.post if request.method == "POST" else route.get
        if handler is None:
            raise LookupError(request.method)  # the router lets none through
        answer = await handler(asked)
        return await self._page(answer, asked) if isinstance(answer, PageResponse) else answer

    def _is_shut_to(self, person: Person) -> bool:
        return self._gatekeeper.required and person.access is None

    async def _page_request(self, exchange: Exchange, request: Request, person: Person) -> PageRequest:
        form: dict[str, list[str]] = {}
        if request.method == "POST":
            body = await read_body(exchange, self._body_limit_bytes)
            for name, value in await self._fields(exchange, request, body):
                form.setdefault(name, []).append(_text(name, value))

        async def is_still_admitted() -> bool:
            return not self._is_shut_to(await self._admitted(exchange, person))

        return PageRequest(
            http=request,
            person=person,
            dispatcher=self._dispatcher,
            form={name: values[-1] for name, values in form.items()},
            lists=form,
            gatekeeper=self._gatekeeper,
            remember=lambda response, somebody: self._remember(response, somebody, request),
            home=lambda access: self._cookie.home(request, access),
            is_still_admitted=is_still_admitted,
            check_ready=self._check_ready,
        )

    async def _fields(self, exchange: Exchange, request: Request, body: bytes) -> Sequence[tuple[str, object]]:
        """A form's fields.

        Raises:
            InvalidInput: It cannot be read, or has too many fields.
        """
        kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            if kind == _URL_ENCODED:
                return _url_decoded(body)
            if kind != _MULTIPART:
                return ()
            sent = Request(exchange.scope, replaying(body, exchange.receive))
            async with sent.form(max_fields=_FIELDS, max_files=0, max_part_size=self._body_limit_bytes) as fields:
                return fields.multi_items()
        except (ValueError, MultiPartException, HTTPException) as error:
            told = f"This form cannot be read; it has at most {_FIELDS} fields and no files."
            raise InvalidInput(told, field="form") from error

    async def _page(self, answer: PageResponse, asked: PageRequest) -> Response:
        found = asked.inbox
        if found is None and not answer.is_part:  # after a form
            found = await self._inbox(asked, INBOX_ROWS)
        values = self._values(asked.http, asked.person) | dict(answer.values)
        values |= {"may": asked.may, "cursor": asked.cursor, "waiting": inbox.waiting(found)}
        template = self._templates.get_template(answer.template)
        body = await in_worker(template.render, values) if answer.heavy else template.render(values)
        response = self._html(body, answer.status, asked.http, asked.person)
        response.headers.update(answer.headers)
        return response

    async def _inbox(self, asked: PageRequest, rows: int) -> Inbox | None:
        """What the navigation says on every page; nothing for somebody whose name is not known."""
        if not asked.person.known or self._is_shut_to(asked.person):
            return None
        return await asked.call("get_inbox", person=asked.person.name, limit=rows)

    def _values(self, request: Request, person: Person) -> dict[str, Any]:
        return {
            "person": person,
            "form_token": self._cookie.form_token(person),
            "token_field": TOKEN_FIELD,
            "version": self._version,
            "path": request.url.path,
            "address": request.url.path + (f"?{request.url.query}" if request.url.query else ""),
            "waiting": inbox.waiting(None),
            "cursor": "",
            "is_shut": self._is_shut_to(person),
            # Where a page goes when its login is over; null where there are no logins.
            "login": login.address(you.where(request)) if self._gatekeeper.required else None,
            "is_answer": request.method == "POST",
        }

    def _html(self, body: str, status: int, request: Request, person: Person) -> Response:
        response = HTMLResponse(body, status, headers={"cache-control": "no-store"})
        if person.is_new and _brings_cookies(request):
            self._remember(response, person, request)
        return response

    def _remember(self, response: Response, person: Person, request: Request) -> None:
        self._cookie.write(response, person, secure=_came_by_tls(request))

    def _refusal(self, error: TandemError, request: Request, person: Person) -> Response:
        values = self._values(request, person) | {"error": error, "status": error.status}
        body = self._templates.get_template("error.html").render(values)
        response = self._html(body, error.status, request, person)
        if isinstance(error, MethodNotAllowed):
            response.headers["allow"] = error.allow
        if error.retryable:
            response.headers["retry-after"] = "1"
        return response

    def _fault(self, request: Request, person: Person) -> Response:
        reference = self._clock.new_id("err")
        _log.exception("page failed", extra={"path": request.url.path, "reference": reference})
        message = f"Something went wrong inside the broker. Its log has the reason under {reference}."
        return self._refusal(InternalError(message, reference=reference), request, person)


def _not_routed(error: HTTPException, path: str) -> TandemError:
    """The router's refusal as ours."""
    if error.status_code == MethodNotAllowed.status and error.headers is not None:
        return MethodNotAllowed(*sorted({*error.headers["Allow"].split(", ")} - {"HEAD"}))
    return NotFound("There is no page at this address.", path=path[:200])


def _brings_cookies(request: Request) -> bool:
    """Whether the browser sent the cookies that it has: one that it has must not be replaced."""
    is_visit = request.method == "GET" and request.headers.get("sec-fetch-mode") == "navigate"
    is_window = request.headers.get("sec-fetch-dest") == "document"
    return request.headers.get("sec-fetch-site", "none") in SAME_SITE or (is_visit and is_window)


def _came_by_tls(request: Request) -> bool:
    """Whether a cookie is only ever to be sent back by TLS.

    The broker itself speaks none. The browser says so with a form, and a proxy in front may with every request; who
    makes it up harms nobody but themselves, as their browser then keeps the cookie back.
    """
    headers = request.headers
    return headers.get("origin", "").startswith("https://") or headers.get("x-forwarded-proto") == "https"


def _url_decoded(body: bytes) -> list[tuple[str, object]]:
    """The fields of a form; `urllib` takes seconds for megabytes, in which nobody else would be answered.

    Raises:
        ValueError: There are too many.
    """
    if body.count(b"&") >= _FIELDS:
        raise ValueError("too many fields")
    # Quoted-printable is the same encoding with another sign, and decoded in C.
    parts = (part.replace(b"+", b" ").partition(b"=") for part in body.split(b"&") if part)
    return [(_percent_decoded(name), _percent_decoded(value)) for name, _, value in parts]


def _percent_decoded(text: bytes) -> str:
    return a2b_qp(text.replace(b"=", b"=3D").replace(b"%", b"=")).decode(errors="replace")


def _text(name: str, value: object) -> str:
    if isinstance(value, str):
        return value.replace("\r\n", "\n")
    raise TooLarge(f"{name[:60]}: files cannot be sent here.", field=name[:60], limit=0)
