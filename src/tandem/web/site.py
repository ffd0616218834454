"""The site: every page's address, and the work around each of them."""

from __future__ import annotations

from binascii import a2b_qp
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from starlette.exceptions import HTTPException
from starlette.formparsers import MultiPartException
from starlette.middleware.gzip import GZipMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route, Router

from tandem.errors import InvalidInput, NotFound, RateLimited, TandemError, TooLarge, Unauthenticated
from tandem.inbox.contract import Inbox
from tandem.present.keys import grouped
from tandem.server.asgi.exchange import (
    ClientGone,
    Exchange,
    MethodNotAllowed,
    read_body,
    replaying,
    run_watched,
)
from tandem.server.dispatch import unexpected
from tandem.web import exports, login, overviews, queue, statistics
from tandem.web.page import (
    DONE,
    HEADERS,
    INBOX_ROWS,
    Backend,
    PageRequest,
    PageResponse,
    PageRoute,
    in_worker,
    see,
)
from tandem.web.person import SAME_SITE, TOKEN_FIELD, PersonCookie, Seal
from tandem.web.rendering import StaticFiles, environment, when
from tandem.web.review import actions, checks, drafts, files, line_comment, page

_FIELDS = 2_000
_URL_ENCODED, _MULTIPART = "application/x-www-form-urlencoded", "multipart/form-data"
_EXCHANGE = "tandem.exchange"

ROUTES: tuple[PageRoute, ...] = (
    *queue.ROUTES,
    *overviews.ROUTES,
    *page.ROUTES,
    *files.ROUTES,
    *line_comment.ROUTES,
    *checks.ROUTES,
    *drafts.ROUTES,
    *exports.ROUTES,
    *actions.ROUTES,
    *statistics.ROUTES,
    *login.ROUTES,
)

_COMPRESSION = 3
"""It takes 4 ms to make a page of 620 kB one of 33; the highest takes thrice as long, for 27."""


class PagesApp:
    """Answers every request for a page."""

    def __init__(self, *, seal: Seal, **backend: Any) -> None:
        """Read the templates and static files.

        Args:
            seal: A text's keyed hash, by the broker's secret.
            backend: The rest of `Backend`.
        """
        cookie = PersonCookie(seal, backend["clock"], with_logins=backend["authenticator"].required)
        self._backend = Backend(cookie=cookie, **backend)
        files = StaticFiles()
        self._templates = environment()
        names: dict[str, Any] = self._templates.globals
        names |= {"static": files.address, "key_groups": grouped()}
        filters: dict[str, Callable[..., Any]] = self._templates.filters
        filters["when"] = partial(when, self._backend.clock)
        static = PageRoute("/static/{stamp}/{name:path}", files.serve, needs_broker=False, is_open=True, inbox_rows=0)
        router = Router([self._route(one) for one in (*ROUTES, static)], redirect_slashes=False)
        # What could be guessed by the length of an answer opens no form: `check` asks where each comes from.
        self._router = GZipMiddleware(router, compresslevel=_COMPRESSION)

    async def serve(self, exchange: Exchange) -> None:
        """Answer one request.

        Raises:
            ClientGone: The client hung up; its page is not made.
        """
        # With an application in the scope, the router raises what else it would answer in plain text.
        scope = exchange.scope
        scope.update({"app": self, "path": exchange.path, _EXCHANGE: exchange})
        try:
            await self._router(scope, exchange.receive, exchange.send)
        except HTTPException as error:
            response = self._refusal(_not_routed(error, exchange.path), self._asked(Request(scope, exchange.receive)))
            await response(scope, exchange.receive, exchange.send)

    def _asked(self, http: Request) -> PageRequest:
        return PageRequest(http, http.scope[_EXCHANGE], self._backend.cookie.read(http), self._backend)

    def _route(self, route: PageRoute) -> Route:
        methods = [name for name, handler in (("GET", route.get), ("POST", route.post)) if handler is not None]
        return Route(route.path, partial(self._respond, route), methods=methods)

    async def _respond(self, route: PageRoute, http: Request) -> Response:
        asked = self._asked(http)
        try:
            if route.needs_broker:
                self._backend.check_ready()
                asked = await asked.admitted()
            answer = self._answer(route, asked)
            # What no one waits for is not made; a form is done all the same.
            response = await (answer if http.method == "POST" else run_watched(answer, asked.exchange.receive))
        except ClientGone:
            raise
        except TandemError as error:
            return self._refusal(error, asked)
        except Exception as error:  # noqa: BLE001 - the edge: every other fault becomes a page, and is logged
            return self._refusal(unexpected(error, self._backend.clock, "request failed", path=http.url.path), asked)
        return _finished(response)

    async def _answer(self, route: PageRoute, asked: PageRequest) -> Response:
        is_post = asked.http.method == "POST"
        is_shut = asked.is_shut and not route.is_open
        if is_shut and not (is_post and asked.person.access_id):
            # What a form of somebody holds who never was logged in is not even read.
            return login.lead(asked.http)
        if is_post:
            asked = replace(asked, lists=await self._form(asked))
            self._backend.cookie.check(asked.http, asked.person, asked.form.get(TOKEN_FIELD, ""))
            if is_shut:
                return await self._page(login.kept(asked), asked)
            if not asked.person.known and not route.is_open and route.path != login.YOU:
                return see(login.you_address(asked))
            if not asked.is_shut:
                asked = replace(asked, cursor=await asked.newest())
        elif route.inbox_rows and not asked.is_shut:
            # Read before everything else, so that the page hears of all later events.
            found = await _inbox(asked, route.inbox_rows)
            asked = replace(asked, inbox=found, cursor=found.cursor if found else await asked.newest())
        handler = route.post if is_post else route.get
        if handler is None:
            raise LookupError(asked.http.method)  # the router lets none through
        answer = await handler(asked)
        return await self._page(answer, asked) if isinstance(answer, PageResponse) else answer

    async def _form(self, asked: PageRequest) -> dict[str, list[str]]:
        body = await read_body(asked.exchange, self._backend.body_limit_bytes)
        form: dict[str, list[str]] = {}
        for name, value in await self._fields(asked, body):
            form.setdefault(name, []).append(_text(name, value))
        return form

    async def _fields(self, asked: PageRequest, body: bytes) -> Sequence[tuple[str, object]]:
        """A form's fields.

        Raises:
            InvalidInput: It cannot be read, or has too many fields.
        """
        kind = asked.http.headers.get("content-type", "").partition(";")[0].strip().lower()
        try:
            if kind == _URL_ENCODED:
                return _url_decoded(body)
            if kind != _MULTIPART:
                return ()
            sent = Request(asked.exchange.scope, replaying(body, asked.exchange.receive))
            async with sent.form(max_fields=_FIELDS, max_files=0, max_part_size=len(body)) as fields:
                return fields.multi_items()
        except (ValueError, MultiPartException, HTTPException) as error:
            told = f"This form cannot be read; it has at most {_FIELDS} fields and no files."
            raise InvalidInput(told, field="form") from error

    async def _page(self, answer: PageResponse, asked: PageRequest) -> Response:
        found = asked.inbox
        if found is None and not answer.is_part:  # after a form
            found = await _inbox(asked, INBOX_ROWS)
        values = self._values(asked) | dict(answer.values)
        values |= {"may": asked.may, "cursor": asked.cursor, "waiting": queue.waiting(found)}
        template = self._templates.get_template(answer.template)
        body = await in_worker(template.render, values) if answer.heavy else template.render(values)
        response = _html(body, answer.status, asked)
        response.headers.update(answer.headers)
        return response

    def _values(self, asked: PageRequest) -> dict[str, Any]:
        return {
            "person": asked.person,
            "form_token": self._backend.cookie.form_token(asked.person),
            "token_field": TOKEN_FIELD,
            "path": asked.http.url.path,
            "waiting": queue.waiting(None),
            "cursor": "",
            "is_shut": asked.is_shut,
            "done": DONE.get(asked.query("done") or ""),
            # A script fetches the content only, and says which of its rows it has.
            "layout": "base.html" if asked.have is None else "part.html",
            # Where a page goes when its login is over; None where there are no logins.
            "login": login.address(login.where(asked.http)) if asked.authenticator.required else None,
            "is_answer": asked.http.method == "POST",
        }

    def _refusal(self, error: TandemError, asked: PageRequest) -> Response:
        values = self._values(asked) | {"error": error, "status": error.status}
        response = _html(self._templates.get_template("error.html").render(values), error.status, asked)
        if isinstance(error, MethodNotAllowed):
            response.headers["allow"] = error.allow
        if error.retryable:
            seconds = error.retry_after_seconds if isinstance(error, RateLimited) else 1
            response.headers["retry-after"] = str(seconds)
        return _finished(response)


async def _inbox(asked: PageRequest, rows: int) -> Inbox | None:
    """What the navigation says on every page; nothing for somebody whose name is not known."""
    if not asked.person.known or asked.is_shut:
        return None
    return await asked.call("get_inbox", person=asked.person.name, limit=rows)


def _html(body: str, status: int, asked: PageRequest) -> Response:
    response = HTMLResponse(body, status, headers={"cache-control": "no-store"})
    if asked.person.is_new and _brings_cookies(asked.http):
        asked.remember(response, asked.person)
    return response


def _finished(response: Response) -> Response:
    """The response with what every one of them has."""
    for name, value in HEADERS.items():
        response.headers.setdefault(name, value)
    if response.status_code == Unauthenticated.status:
        response.headers.setdefault("www-authenticate", 'Bearer realm="tandem"')
    return response


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


def _url_decoded(body: bytes) -> list[tuple[str, object]]:
    """The fields of a form; `urllib` takes seconds for megabytes, in which no one else would be answered.

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
