"""Who sits at the browser: a name that is asked once, kept in a sealed cookie, and the token of its forms.

On a trusted broker a name attributes, it does not authorise. The seal keeps names from being made up by a
page elsewhere, and the token keeps such a page from sending a form on the person's behalf.
"""

from __future__ import annotations

import base64
import binascii
import hmac
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from tandem.domain.texts import storable_text
from tandem.errors import Forbidden, InvalidInput

COOKIE = "tandem_person"
TOKEN_FIELD = "form_token"  # noqa: S105 - a field's name
NAME_LENGTH = 60
_MAX_AGE_SECONDS = 400 * 86_400
_SESSION_BYTES = 16
SAME_SITE = ("same-origin", "none")

Seal = Callable[[str], str]
"""A text's keyed hash, by the broker's secret."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who a browser belongs to.

    Attributes:
        name: As the log shows it; empty until it was asked.
        session: Random; ties the forms' token to this browser.
        is_new: Whether the request came without a cookie of ours.
    """

    name: str
    session: str
    is_new: bool = False

    @property
    def known(self) -> bool:
        """Whether the name was asked already."""
        return bool(self.name)


class Persons:
    """Reads and writes the cookie, and guards the forms."""

    def __init__(self, seal: Seal) -> None:
        self._seal = seal

    def read(self, request: Request) -> Person:
        """Who asks; somebody without a name if the cookie is missing or not one of ours."""
        body, _, seal = request.cookies.get(COOKIE, "").rpartition(".")
        if body and hmac.compare_digest(seal.encode(), self._seal(f"person {body}").encode()):
            try:
                session, _, name = base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode().partition(" ")
            except (binascii.Error, UnicodeDecodeError):
                session, name = "", ""
            if session:
                return Person(name, session)
        return Person("", secrets.token_urlsafe(_SESSION_BYTES), is_new=True)

    def write(self, response: Response, person: Person, *, secure: bool) -> None:
        """Have the browser remember who it belongs to."""
        body = base64.urlsafe_b64encode(f"{person.session} {person.name}".encode()).decode().rstrip("=")
        value = f"{body}.{self._seal(f'person {body}')}"
        # Lax: a link from elsewhere finds the person known; what a form from elsewhere brings is refused by `check`.
        response.set_cookie(
            COOKIE, value, max_age=_MAX_AGE_SECONDS, httponly=True, samesite="lax", secure=secure, path="/"
        )

    def form_token(self, person: Person) -> str:
        """What the forms of this browser carry."""
        return self._seal(f"form {person.session}")

    def check(self, request: Request, person: Person, token: str) -> None:
        """Let a form through that one of our own pages sent, or say what to do.

        Raises:
            Forbidden: It comes from elsewhere, or from a page that is too old.
        """
        origin = request.headers.get("origin")
        if origin is not None and urlsplit(origin).netloc.lower() != request.headers.get("host", "").lower():
            raise Forbidden("Pages of other sites may not send forms to this broker.", header="Origin")
        if request.headers.get("sec-fetch-site", "none") not in SAME_SITE:
            raise Forbidden("Pages of other sites may not send forms to this broker.", header="Sec-Fetch-Site")
        if not hmac.compare_digest(token.encode(), self.form_token(person).encode()):
            raise Forbidden(
                "This page was opened before the browser's cookie changed. Copy what you typed, load the page again "
                "and repeat it; cookies must be allowed for this address.",
                field=TOKEN_FIELD,
            )


def checked_name(text: str) -> str:
    """A person's name as it is kept.

    Raises:
        InvalidInput: It is empty, too long, or has characters that cannot be shown.
    """
    name = " ".join(text.split())
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise InvalidInput(f"Give a name of 1 to {NAME_LENGTH} visible characters.", field="name")
    try:
        return storable_text(name)
    except ValueError:
        raise InvalidInput("This name has characters that cannot be stored.", field="name") from None
