"""The request of a page, its response, and its address."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, ParamSpec, TypeVar
from urllib.parse import urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from tandem.contract.caller import Access, Caller
from tandem.core.clock import Clock
from tandem.core.wanted import in_thread
from tandem.errors import InvalidInput, Unauthenticated
from tandem.inbox.contract import Inbox
from tandem.reviews.answers import AuditPage
from tandem.server.asgi.calls import bearer_of
from tandem.server.asgi.exchange import Exchange
from tandem.server.authorisation import Authenticator
from tandem.server.dispatch import Dispatcher
from tandem.web.diffs.markdown import laid_out_together
from tandem.web.person import Person, PersonCookie

P = ParamSpec("P")
T = TypeVar("T")

THREADS = 2
"""More of them would not render faster: they take turns with each other, and with the event loop."""
INBOX_ROWS = 50
"""Of each list: what the navigation counts."""
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="tandem-page")

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
    "connect-src 'self'; form-action 'self'; frame-ancestors 'none'; base-uri 'none'"
)
HEADERS = {
    "content-security-policy": POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
"""On every answer of the pages, refusals included."""


@dataclass(frozen=True, slots=True)
class PageResponse:
    """A template and its values, rendered by the site.

    Attributes:
        template: A file under `templates/`.
        values: What the template is given, besides the person, the form's token and the inbox's counts.
        status: The HTTP status.
        heavy: Whether it takes long enough to be rendered in a thread.
        is_part: Whether it is a part of a page, which has no navigation.
        headers: In the place of those that every page has.
    """

    template: str
    values: Mapping[str, Any] = field(default_factory=dict[str, Any])
    status: int = 200
    heavy: bool = False
    is_part: bool = False
    headers: Mapping[str, str] = field(default_factory=dict[str, str])


def local(address: str) -> str:
    """An address of ours; never another site's."""
    parts = urlsplit(address)
    is_ours = address.startswith("/") and not address.startswith(("//", "/\\")) and not parts.netloc
    return address if is_ours and address.isprintable() else "/"


def address(path: str, /, **query: str | int | None) -> str:
    """A path with a query string of the given values."""
    given = urlencode({name: value for name, value in query.items() if value})
    return f"{path}?{given}" if given else path


DONE = {
    "resume_reviewers": "The pool takes reviews again.",
    "pause_reviewers": "The pool is paused.",
    "spawn_reviewer": "A reviewer starts.",
    "kill_reviewer": "The reviewer was told to end.",
    "retry_review": "The reviews are in the queue again.",
    "see_override": "Seen. The log keeps the override.",
}
"""What a page says of an operation that a form on it did."""


def back(request: PageRequest, done: str, default: str) -> Response:
    """To the page that a form stood on, which names the operation that it did."""
    place = local(request.form.get("next") or default)
    return see(f"{place}{'&' if '?' in place else '?'}done={done}")


def see(address: str) -> Response:
    """Send the browser on after a form was done, so that reloading does not send it again."""
    return RedirectResponse(address, status_code=303)


@dataclass(frozen=True, slots=True)
class Backend:
    """What every page is made with.

    Attributes:
        dispatcher: Runs the operations.
        clock: Tells how long ago something was, and gives reference ids for unknown faults.
        authenticator: Tells what a token or a login's link lets somebody do.
        cookie: Who a browser belongs to.
        check_ready: Raises Unavailable unless the broker takes new work.
        body_limit_bytes: The largest form.
        charge: Charges a request to who sends it; raises RateLimited.
        person_key: What commands seal with that a person runs.
    """

    dispatcher: Dispatcher
    clock: Clock
    authenticator: Authenticator
    cookie: PersonCookie
    check_ready: Callable[[], None]
    body_limit_bytes: int
    charge: Callable[[Exchange, Access | None], None]
    person_key: str


@dataclass(frozen=True, slots=True)
class PageRequest:
    """One request for a page.

    Attributes:
        http: Starlette's own.
        exchange: The same below Starlette.
        person: Who asks.
        backend: What answers are made with.
        lists: The fields of a POST with all their values; empty for a GET.
        inbox: What the navigation shows; None for a part of a page, and for somebody whose name is not known.
        cursor: The log's cursor before anything was read for the page, which has to hear of all later events.
    """

    http: Request
    exchange: Exchange
    person: Person
    backend: Backend
    lists: Mapping[str, list[str]] = field(default_factory=dict[str, list[str]])
    inbox: Inbox | None = None
    cursor: str = ""

    @property
    def form(self) -> dict[str, str]:
        """The fields of a POST, each with its last value."""
        return {name: values[-1] for name, values in self.lists.items()}

    @property
    def have(self) -> frozenset[str] | None:
        """The marks of the rows that the page has which is brought up to date; None for a whole page."""
        stated = self.http.headers.get("tandem-have")
        return None if stated is None else frozenset(stated.split(","))

    @property
    def authenticator(self) -> Authenticator:
        """Tells what a token or a login's link lets somebody do."""
        return self.backend.authenticator

    @property
    def is_shut(self) -> bool:
        """Whether the person has to log in first."""
        return self.authenticator.required and self.person.access is None

    async def admitted(self) -> PageRequest:
        """The same with what the person may do now: by the request's own token, or by the login of their browser.

        Raises:
            Unauthenticated: The request's own token is not valid.
            RateLimited: Too many requests came from there.
        """
        if not self.authenticator.required:
            return self
        try:
            asked = await self._admitted()
        except Unauthenticated:
            self.backend.charge(self.exchange, None)
            raise
        self.backend.charge(self.exchange, asked.person.access)
        return asked

    async def _admitted(self) -> PageRequest:
        bearer = bearer_of(self.exchange)
        if bearer is not None:
            return replace(self, person=self.person.admitted(await self.authenticator.admit(bearer)))
        login_id = self.backend.cookie.login_of(self.person)
        access = None if login_id is None else await self.authenticator.logged_in(self.person.session, login_id)
        if access is not None and self.backend.cookie.home(self.http, access) is not None:
            access = None
        return replace(self, person=self.person.admitted(access))

    def remember(self, response: Response, person: Person) -> None:
        """Have the browser that a response goes to remember somebody."""
        self.backend.cookie.write(response, person, secure=_came_by_tls(self.http))

    async def call(self, operation: str, **arguments: Any) -> Any:
        """An operation's typed answer, called as the person; arguments that are None are left out.

        Of rows it asks for no more than the settings allow.

        Raises:
            TandemError: The broker refuses, with the code's own subclass.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        known = self.person
        caller = Caller(agent=known.name or None, access=known.access, is_page=known.is_proved, keeps_refusals=False)
        return await self.backend.dispatcher.call(operation, given, caller)

    def may(self, operation: str) -> bool:
        """Whether an operation is for the person's roles, so that it is offered to them."""
        access = self.person.access
        return access is None or not access.roles.isdisjoint(self.backend.dispatcher.registry.get(operation).roles)

    async def newest(self) -> str:
        """The log's cursor now, for a page that goes on from there."""
        found: AuditPage = await self.call("get_audit_log", limit=1)
        return found.cursor

    def path(self, name: str) -> str:
        """A part of the address, by its name in the route."""
        return str(self.http.path_params[name])

    def query(self, name: str) -> str | None:
        """A value of the query string; None if it is missing or empty."""
        return self.http.query_params.get(name) or None

    def number(self, name: str) -> int | None:
        """A whole number of the query string or form; None if it is missing.

        Raises:
            InvalidInput: It is something else.
        """
        text = self.form.get(name) or self.query(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < len("2147483648")):
            raise InvalidInput(f"{name} must be a whole number.", field=name)
        return int(text)


Handler = Callable[[PageRequest], Awaitable[PageResponse | Response]]
"""Answers a page of ours, or a response that is ready."""


@dataclass(frozen=True, slots=True)
class PageRoute:
    """An address and who answers it.

    Attributes:
        path: As Starlette writes them, e.g. `/reviews/{review_id}`.
        get: Answers GET and HEAD.
        post: Answers POST.
        needs_broker: Whether it waits until the broker takes new work.
        is_open: Whether it answers people who are not logged in, too.
        inbox_rows: How many rows of each of the inbox's lists are read before it is answered; none for a part of a
            page, which has no navigation.
    """

    path: str
    get: Handler | None = None
    post: Handler | None = None
    needs_broker: bool = True
    is_open: bool = False
    inbox_rows: int = INBOX_ROWS


async def in_worker(work: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
    """Do some of a page's work in a thread, until the request is cancelled.

    The threads are the pages' own, so that what renders long keeps no validation waiting.
    """
    return await in_thread(_pool, partial(laid_out_together()(work), *args, **kwargs))


def _came_by_tls(request: Request) -> bool:
    """Whether a cookie is only ever to be sent back by TLS.

    A browser also says so with a form, where a proxy in front that is not trusted does the TLS; who makes it up harms
    no one but themselves, as their browser then keeps the cookie back.
    """
    return request.url.scheme == "https" or request.headers.get("origin", "").startswith("https://")
