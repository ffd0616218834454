"""Who sits at the browser: a name or a login, kept in a sealed cookie, and the token of its forms.

On a trusted broker a name attributes, it does not authorise. The seal keeps names from being made up by a
page elsewhere, and the token keeps such a page from sending a form on the person's behalf.

Where access tokens are required, the cookie holds the id of the one that somebody logged in with, never the token.
It is sealed for another purpose than a name, so that neither is ever taken for the other.

Browsers send cookies to every port of a host. So on this machine a login has a host name of its own under `localhost`,
which only that person's browsers know, and counts under no other. On a trusted broker that holds for the proof that a
browser is a person's; a name counts under every host name.
"""

from __future__ import annotations

import base64
import hmac
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from urllib.parse import urlsplit

from starlette.requests import Request
from starlette.responses import Response

from tandem.contract.caller import OWNER, Access
from tandem.core.clock import MICROSECONDS, Clock
from tandem.errors import Forbidden, InvalidInput
from tandem.server.asgi.guard import is_local

COOKIE = "tandem_person"
TOKEN_FIELD = "form_token"  # noqa: S105 - a field's name
NAME_LENGTH = 60
LOGIN_SECONDS = 30 * 86_400
"""How long a login holds at most; it ends before that when its token does."""
_MAX_AGE_SECONDS = 400 * 86_400
_SESSION_BYTES = 16
_NAME_ONLY, _WITH_LOGIN = "person", "browser"
"""What a cookie is sealed for."""
_PROVED = "~"
"""Begins the session of a browser that a person has opened by a command; no random one begins with it."""
_NOBODY = "-"
_RUN_BYTES = 8
_LABEL_DIGITS = 32
SAME_SITE = ("same-origin", "none")

Seal = Callable[[str], str]
"""A text's keyed hash, by the broker's secret."""


@dataclass(frozen=True, slots=True)
class Person:
    """Who a browser belongs to.

    Attributes:
        name: As the log shows it; empty until it was asked.
        session: Random; ties the forms' token to this browser, and is another after each login.
        is_new: Whether the request came without a cookie of ours.
        access_id: What the browser was logged in with, whether or not that still counts; empty if it never was.
        since: When it was logged in, in seconds since the epoch; 0 for now.
        access: What the person may do; None on a trusted broker, and for somebody who is not logged in.
        is_opened: Whether a person has opened the browser by a command, in this run of the broker.
    """

    name: str
    session: str
    is_new: bool = False
    access_id: str = ""
    since: int = 0
    access: Access | None = None
    is_opened: bool = False

    @property
    def known(self) -> bool:
        """Whether the name was asked already."""
        return bool(self.name)

    @property
    def is_proved(self) -> bool:
        """Whether the browser is known to be a person's: by the login of a token, or as `tandem open` has opened it.

        Agents find the owner's login where their commands do.
        """
        is_token = self.access is not None and not self.access.is_owner
        return is_token or self.is_opened

    @property
    def was_owner(self) -> bool:
        """Whether the browser was logged in as the owner of the broker, in this run of it or an earlier one."""
        return self.access_id.partition("/")[0] == OWNER

    @property
    def names_itself(self) -> bool:
        """Whether the person chooses the name: a token has one already, but for the owner's."""
        return self.access is None or self.access.is_owner

    def admitted(self, access: Access | None) -> Person:
        """The same person, let in with something; with nothing, if it no longer counts."""
        if access is None or access.is_owner:
            return replace(self, access=access)
        return replace(self, access=access, name=access.name)


class PersonCookie:
    """Reads and writes the cookie, and guards the forms."""

    def __init__(self, seal: Seal, clock: Clock, *, with_logins: bool) -> None:
        """Make one.

        Args:
            seal: A text's keyed hash, by the broker's secret.
            clock: Tells when a login is over.
            with_logins: Whether the cookie holds a login.
        """
        self._seal = seal
        self._clock = clock
        self._purpose = _WITH_LOGIN if with_logins else _NAME_ONLY
        # The owner's logins end with the broker, as the owner's token does: browsers go on sending their cookies to
        # the program on the port while it does not run, and nothing else would ever make this one void. So do proofs.
        self._run = secrets.token_hex(_RUN_BYTES)
        self._owner_id = f"{OWNER}/{self._run}"

    def read(self, request: Request) -> Person:
        """Who asks; somebody without a name if the cookie is missing or not one of ours."""
        body, _, seal = request.cookies.get(COOKIE, "").rpartition(".")
        if body and hmac.compare_digest(seal.encode(), self._seal(f"{self._purpose} {body}").encode()):
            with suppress(ValueError):
                person = self._parsed(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)).decode())
                is_marked = person.session.startswith(self._mark(request)) and not self._is_over(person)
                return replace(person, is_opened=is_marked)
        return fresh()

    def write(self, response: Response, person: Person, *, secure: bool) -> None:
        """Have the browser remember who it belongs to."""
        body = base64.urlsafe_b64encode(self._told(person).encode()).decode().rstrip("=")
        value = f"{body}.{self._seal(f'{self._purpose} {body}')}"
        age = LOGIN_SECONDS if person.access_id else _MAX_AGE_SECONDS
        # Lax: a link from elsewhere finds the person known; what a form from elsewhere brings is refused by `check`.
        response.set_cookie(COOKIE, value, max_age=age, httponly=True, samesite="lax", secure=secure, path="/")

    def opened(self, request: Request, person: Person) -> Person:
        """The same browser, known to be a person's under this host name from now on; it must be their `home`."""
        # The time of a login stays: it does not last longer by this.
        since = person.since if person.access_id else 0
        # Another session than before, of which others may know; that of an earlier link keeps its pages' forms.
        session = person.session if person.is_opened else self._mark(request) + secrets.token_urlsafe(_SESSION_BYTES)
        return replace(person, session=session, since=since)

    def _mark(self, request: Request) -> str:
        """How the sessions begin that prove a person under the host name of a request, in this run of the broker."""
        host = urlsplit(f"//{request.headers.get('host', '')}").hostname
        return f"{_PROVED}{self._seal(f'proof {self._run} {host}')[:_LABEL_DIGITS]}"

    def _is_over(self, person: Person) -> bool:
        return person.since + LOGIN_SECONDS <= self._now()

    def login_of(self, person: Person) -> str | None:
        """The id of what a browser is logged in with; None if it is not, or has been for too long."""
        return None if self._is_over(person) else person.access_id or None

    def home(self, request: Request, access: Access) -> str | None:
        """The origin under which somebody has to be logged in, or a browser's proof counts; None if they are there.

        A broker that is reached by another name than this machine's own has no names to give.
        """
        host = request.headers.get("host", "")
        if not is_local(host):
            return None
        own = f"{self._seal(f'origin {access.name}')[:_LABEL_DIGITS]}.localhost"
        port = urlsplit(f"//{host}").port
        own = own if port is None else f"{own}:{port}"
        return None if host.lower() == own else f"http://{own}"

    def _parsed(self, text: str) -> Person:
        """What `_told` made.

        Raises:
            ValueError: It did not.
        """
        session, since, access_id, name = text.split(" ", 3)
        known = {_NOBODY: "", self._owner_id: OWNER}.get(access_id, access_id)
        return Person(name, session, access_id=known, since=int(since))

    def _told(self, person: Person) -> str:
        access_id = self._owner_id if person.access_id == OWNER else person.access_id or _NOBODY
        return f"{person.session} {person.since or self._now()} {access_id} {person.name}"

    def _now(self) -> int:
        return self._clock.now_us() // MICROSECONDS

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
                "The browser's cookie changed after this page was opened. Load the page again: with scripts it keeps "
                "what you typed, without them copy that first. Cookies must be allowed for this address.",
                field=TOKEN_FIELD,
            )


def fresh(name: str = "", *, access_id: str = "") -> Person:
    """A browser that no one has seen before; also one that was just logged in."""
    return Person(name, secrets.token_urlsafe(_SESSION_BYTES), is_new=not access_id, access_id=access_id)


def checked_name(text: str) -> str:
    """A person's name as it is kept.

    Raises:
        InvalidInput: It is empty, too long, or has characters that cannot be shown.
    """
    name = " ".join(text.split())
    # Every such text can be stored, too: neither NUL nor a lone surrogate is printable.
    if not name or len(name) > NAME_LENGTH or not name.isprintable():
        raise InvalidInput(f"Give a name of 1 to {NAME_LENGTH} visible characters.", field="name")
    return name
