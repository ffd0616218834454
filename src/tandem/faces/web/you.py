"""`/you`: the one question that a person is asked, their name."""

from __future__ import annotations

from urllib.parse import quote, urlsplit

from starlette.responses import Response

from tandem.errors import InvalidInput
from tandem.faces.web.answering import Page, see
from tandem.faces.web.asking import Ask
from tandem.faces.web.persons import checked_name
from tandem.faces.web.routes import PageRoute

PATH = "/you"


def address(ask: Ask) -> str:
    """The question, and the way back to where it came up."""
    back = ask.request.headers.get("referer", "") if ask.request.method == "POST" else str(ask.request.url)
    parts = urlsplit(back)
    return f"{PATH}?next={quote(_local(parts.path + (f'?{parts.query}' if parts.query else '')))}"


async def show(ask: Ask) -> Page:
    """The form."""
    return _form(ask, name=ask.person.name)


async def save(ask: Ask) -> Page | Response:
    """Remember the name, and go back."""
    try:
        name = checked_name(ask.form.get("name", ""))
    except InvalidInput as error:
        return _form(ask, name=ask.form.get("name", ""), error=error, status=error.status)
    response = see(_local(ask.form.get("next", "")))
    ask.remember(response, name)
    return response


def _form(ask: Ask, *, name: str, error: InvalidInput | None = None, status: int = 200) -> Page:
    following = _local(ask.form.get("next") or ask.query("next") or "")
    return Page("you.html", {"name": name, "next": following, "problem": error}, status=status)


def _local(address: str) -> str:
    """An address of ours; never another site's, whatever the query string says."""
    parts = urlsplit(address)
    is_ours = address.startswith("/") and not address.startswith(("//", "/\\")) and not parts.netloc
    return address if is_ours and address.isprintable() else "/"


ROUTES = (PageRoute(PATH, show), PageRoute(PATH, save, "POST"))
