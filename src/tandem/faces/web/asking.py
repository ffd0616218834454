"""What a page is given: the request, who asks, and the operations."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import orjson
from starlette.requests import Request
from starlette.responses import Response

from tandem.contract.caller import Caller
from tandem.domain.access import Access
from tandem.errors import InvalidInput
from tandem.faces.web.answering import Page
from tandem.faces.web.persons import Person
from tandem.operations.dispatch import Dispatcher


class Gatekeeper(Protocol):
    """What the pages ask the broker's gatekeeper (`tandem.services.access`)."""

    @property
    def required(self) -> bool:
        """Whether people must log in."""
        ...

    async def admit(self, bearer: str | None) -> Access | None:
        """Who has a token.

        Raises:
            Unauthenticated: Nobody, or nobody any more.
        """
        ...

    async def logged_in(self, login: str, access_id: str) -> Access | None:
        """What a browser is logged in with, if it still counts."""
        ...

    def login_code(self, access: Access) -> str:
        """A code that logs a browser in as somebody, once and soon."""
        ...

    async def end_login(self, login: str, seconds: float) -> None:
        """Take a login for over that could have gone on for so long."""
        ...

    async def redeem(self, code: str) -> Access | None:
        """Whom a login's link is for, once."""
        ...


@dataclass(frozen=True, slots=True)
class Ask:
    """One request for a page.

    Attributes:
        request: Starlette's own.
        person: Who asks.
        form: The fields of a POST, each with its last value; empty for a GET.
        lists: The same fields with all their values.
        gatekeeper: Tells what a token or a login's link lets somebody do.
        remember: Has the browser that a response goes to remember somebody.
        home: The origin under which somebody has to be logged in; null if they are there.
        is_still_admitted: Whether the person would be let in now; a stream outlives its request.
        check_ready: Raises Unavailable unless the broker takes new work.
        place: The log's cursor before anything was read for the page: what comes after it, the page has to hear of.
    """

    request: Request
    person: Person
    dispatcher: Dispatcher
    form: Mapping[str, str]
    lists: Mapping[str, list[str]]
    gatekeeper: Gatekeeper
    remember: Callable[[Response, Person], None]
    home: Callable[[Access], str | None]
    is_still_admitted: Callable[[], Awaitable[bool]]
    check_ready: Callable[[], None]
    place: str = ""

    async def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """The data of an operation's answer, called as the person; arguments that are None are left out.

        Raises:
            TandemError: The broker refuses, with the code's own subclass.
        """
        given = {name: value for name, value in arguments.items() if value is not None}
        caller = Caller(face="web", agent=self.person.name or None, access=self.person.access)
        data: dict[str, Any] = orjson.loads(orjson.dumps(await self.dispatcher.call(operation, given, caller)))
        return data

    def may(self, operation: str) -> bool:
        """Whether an operation is for the person's roles, so that it is offered to them."""
        access = self.person.access
        return access is None or not access.roles.isdisjoint(self.dispatcher.registry.get(operation).roles)

    async def newest(self) -> str:
        """The log's cursor now, for a page that goes on from there."""
        return (await self.call("get_audit_log", limit=1))["cursor"]

    def path(self, name: str) -> str:
        """A part of the address, by its name in the route."""
        return str(self.request.path_params[name])

    def query(self, name: str) -> str | None:
        """A value of the query string; null if it is missing or empty."""
        return self.request.query_params.get(name) or None

    def number(self, name: str) -> int | None:
        """A whole number of the query string or form; null if it is missing.

        Raises:
            InvalidInput: It is something else.
        """
        text = self.form.get(name) or self.query(name)
        if text is None:
            return None
        if not (text.isascii() and text.isdigit() and len(text) < len("2147483648")):
            raise InvalidInput(f"{name} must be a whole number.", field=name)
        return int(text)


Handler = Callable[[Ask], Awaitable[Page | Response]]
"""Answers a page of ours, or a response that is ready."""
