"""`/you`: the one question that a person is asked, their name; and what somebody is logged in with."""

from __future__ import annotations

from dataclasses import replace
from urllib.parse import quote, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from tandem.domain.access import ROLES
from tandem.errors import Forbidden, InvalidInput
from tandem.faces.web.page import PageRequest, PageResponse, PageRoute, local, see
from tandem.faces.web.person import checked_name

PATH = "/you"


def address(request: PageRequest) -> str:
    """The question, and the way back to where it came up."""
    return f"{PATH}?next={quote(where(request.http))}"


def where(request: Request) -> str:
    """The page that somebody is on; for a form, the one that it was on."""
    there = request.headers.get("referer", "") if request.method == "POST" else str(request.url)
    parts = urlsplit(there)
    return local(parts.path + (f"?{parts.query}" if parts.query else ""))


async def show(request: PageRequest) -> PageResponse:
    """The form; for somebody whose token has a name, that and what it is for."""
    return _form(request, name=request.person.name)


async def save(request: PageRequest) -> PageResponse | Response:
    """Remember the name, and go back.

    Raises:
        Forbidden: The name is that of the person's token.
    """
    if not request.person.names_itself:
        raise Forbidden(
            "Your name is that of the token you are logged in with. For another, log out and use a token of that name.",
            field="name",
        )
    try:
        name = checked_name(request.form.get("name", ""))
    except InvalidInput as error:
        return _form(request, name=request.form.get("name", ""), error=error, status=error.status)
    response = see(local(request.form.get("next", "")))
    request.remember(response, replace(request.person, name=name))
    return response


def _form(request: PageRequest, *, name: str, error: InvalidInput | None = None, status: int = 200) -> PageResponse:
    following = local(request.form.get("next") or request.query("next") or "")
    access = request.person.access
    roles = [role for role in ROLES if access is not None and role in access.roles]
    values = {"name": name, "next": following, "problem": error, "roles": roles}
    return PageResponse("you.html", values, status=status)


ROUTES = (PageRoute(PATH, show, save),)
