"""`/you`, the one question that a person is asked: their name. `/login` and `/logout`, where tokens are required.

A browser is logged in by a token that somebody pastes, or by the link that `tandem open` makes, which works once
within a minute. From then on it has a cookie, never the token; each request looks whether the token still counts.

On this machine the cookie is kept under a host name of the person's own (`PersonCookie.home`). Who logs in elsewhere
is sent there with a code. So is, with another link, who opens a trusted broker's pages by `tandem open`.
"""

from __future__ import annotations

import hmac
from dataclasses import replace
from urllib.parse import quote, urlencode, urlsplit

from starlette.requests import Request
from starlette.responses import Response

from tandem.contract.caller import OWNER_ACCESS, ROLES, Access
from tandem.contract.operation import Role
from tandem.core.clock import MICROSECONDS
from tandem.errors import Forbidden, InvalidInput, TandemError, Unauthenticated
from tandem.rulings import proof
from tandem.server.asgi.guard import is_local
from tandem.web.page import HEADERS, PageRequest, PageResponse, PageRoute, local, see
from tandem.web.person import LOGIN_SECONDS, SAME_SITE, TOKEN_FIELD, checked_name, fresh

PATH = "/login"
YOU = "/you"
_OUT = "/logout"
_LINK_SECONDS = 60
_AT_DIGITS = 16
"""Of the microseconds since the epoch in such a link."""
_FIND_NAMES = ("Chrome/", "Firefox/")
_TO_ANOTHER_ORIGIN = {"referrer-policy": "strict-origin-when-cross-origin"}
"""By it the broker knows that one of its own login pages sent somebody on."""
_OF_THE_PAGE = frozenset(
    f"{TOKEN_FIELD} form_name seen idempotency_key on_round claim_generation held side next mode round index viewed "
    "quiet answers counter_patch_id quote review_id supervisor_id original ends exists do then".split()
)
"""Fields that say something of the page that a form was on; no one has typed them."""
_REFUSED = {"revoked": "This access token was revoked.", "expired": "This access token has expired."}
_ADVICE = "tandem token create NAME --role operator --role reviewer --role proposer"


def address(back: str) -> str:
    """The login, and the way back; not to the login itself, whose address may have a link's code in it."""
    return PATH if back == "/" or urlsplit(back).path == PATH else f"{PATH}?to={quote(back)}"


async def show(request: PageRequest) -> PageResponse | Response:
    """The form; a login's link is redeemed, and who is logged in already goes on."""
    to = local(request.query("to") or "")
    code = request.query("code")
    if not request.authenticator.required:
        return see(to)
    # HEAD must not use a link up.
    if code and request.http.method == "GET":
        return await _by_link(request, code, to)
    return _form(request, to) if request.person.access is None else see(to)


async def enter(request: PageRequest) -> PageResponse | Response:
    """Log in by a token."""
    to = local(request.form.get("to", ""))
    if not request.authenticator.required:
        return see(to)
    token = request.form.get("token", "").strip()
    try:
        access = await request.authenticator.admit(token if token.isascii() else "")
    except Unauthenticated as error:
        # What the authenticator says is for programs, and advises a variable of their environment.
        reason: str = error.details.get("reason", "")
        told = _REFUSED.get(reason, "This broker knows no such access token; look whether all of it was copied.")
        return _form(
            request, to, Unauthenticated(f"{told} You get one from the person who runs the broker.", reason=reason)
        )
    return await _logged_in(request, access, to)


async def leave(request: PageRequest) -> Response:
    """Log out: the browser forgets its login."""
    if not request.authenticator.required:
        return see("/")
    response = see(PATH)
    await _end(request)
    request.remember(response, fresh())
    return response


def lead(request: Request) -> Response:
    """Take somebody who is not logged in from a page to the login.

    Raises:
        Unauthenticated: A script asked, or the stream of events, which would not know what to do with a form.
    """
    is_page = request.headers.get("sec-fetch-dest", "document") == "document" and "hx-request" not in request.headers
    if request.method == "POST" or not is_page:
        raise over()
    return see(address(where(request)))


def over() -> Unauthenticated:
    """The refusal of somebody who is not logged in."""
    return Unauthenticated("You are not logged in, or no longer. Log in, then do it again.", reason="missing")


def kept(request: PageRequest) -> PageResponse:
    """The answer to a form of somebody whose login is over: their words, to be copied."""
    said = ((name, value) for name, values in request.lists.items() for value in values)
    # The files of a counter-patch have their place behind the name.
    typed = [(name, value) for name, value in said if name.partition(":")[0] not in _OF_THE_PAGE]
    values = {"typed": [(name, value) for name, value in typed if value.strip() not in ("", "[]")], "problem": over()}
    return PageResponse("login_kept.html", values, status=Unauthenticated.status)


async def _by_link(request: PageRequest, code: str, to: str) -> PageResponse | Response:
    if request.http.headers.get("sec-fetch-site", "none") not in SAME_SITE and not _is_from_login(request.http):
        # Another site's page must not log somebody in as whom it likes.
        elsewhere = "Another site's page opened this link, which it may not. Run `tandem open` again."
        return _form(request, to, Forbidden(elsewhere, header="Sec-Fetch-Site"))
    access = await request.authenticator.redeem(code)
    if access is not None:
        return await _logged_in(request, access, to)
    if request.person.access is not None:
        return see(to)
    return _form(request, to, _used())


def _used() -> Unauthenticated:
    told = "This link was used already, or is older than a minute. Run `tandem open` again."
    return Unauthenticated(told, reason="code")


def _is_from_login(request: Request) -> bool:
    """Whether the login under another name of this machine sent the browser here: no one else has our port there."""
    there, host = urlsplit(request.headers.get("referer", "")), request.headers.get("host", "")
    return there.scheme == "http" and all(map(is_local, (there.netloc, host))) and _port(there.netloc) == _port(host)


def _port(netloc: str) -> int | None:
    return urlsplit(f"//{netloc}").port


async def _end(request: PageRequest) -> None:
    """End what the browser was logged in with, if it was."""
    if request.person.access_id:
        await request.authenticator.end_login(request.person.session, LOGIN_SECONDS)


async def _logged_in(request: PageRequest, access: Access | None, to: str) -> PageResponse | Response:
    if access is not None and Role.OPERATOR not in access.roles:
        told = ", ".join(sorted(access.roles))
        return _form(
            request,
            to,
            Forbidden(
                f"The token of {access.name} is for: {told}. Pages are for operators, who see everything of their "
                f"projects; with reviewer and proposer they take part. PageRequest for another: {_ADVICE}.",
                allowed=[Role.OPERATOR],
            ),
        )
    if access is None:
        return see(to)
    home = request.backend.cookie.home(request.http, access)
    if home is not None:
        sent_on = see(f"{home}{PATH}?{urlencode({'code': request.authenticator.login_code(access), 'to': to})}")
        sent_on.headers.update(_TO_ANOTHER_ORIGIN)
        return sent_on
    # The owner's name is asked once, also if the login was over meanwhile.
    name = request.person.name if access.is_owner and request.person.was_owner else ""
    response = see(to)
    await _end(request)
    # Another session than before: a person who planted a cookie in this browser has nothing of the login.
    request.remember(response, fresh(name, access_id=access.id))
    return response


def _form(request: PageRequest, to: str, problem: TandemError | None = None) -> PageResponse:
    was_here = bool(request.person.access_id) and request.person.access is None and problem is None
    values = {"to": to, "problem": problem, "was_here": was_here, "advice": _ADVICE}
    headers: dict[str, str] = {}
    host = request.http.headers.get("host", "")
    if is_local(host):
        names = "http://*.localhost" + (f":{port}" if (port := _port(host)) else "")
        policy = HEADERS["content-security-policy"].replace("form-action 'self'", f"form-action 'self' {names}")
        headers = {"content-security-policy": policy, **_TO_ANOTHER_ORIGIN}
    return PageResponse("login.html", values, status=problem.status if problem else 200, headers=headers)


def you_address(request: PageRequest) -> str:
    """The question, and the way back to where it came up."""
    return f"{YOU}?next={quote(where(request.http))}"


def where(request: Request) -> str:
    """The page that somebody is on; for a form, the one that it was on."""
    there = request.headers.get("referer", "") if request.method == "POST" else str(request.url)
    parts = urlsplit(there)
    return local(parts.path + (f"?{parts.query}" if parts.query else ""))


async def _show_name(request: PageRequest) -> PageResponse | Response:
    """The form; for somebody whose token has a name, that and its roles. A link of `tandem open` is taken first."""
    sealed = request.query("proof")
    # HEAD must not use a link up.
    if sealed is None or request.http.method != "GET":
        return _name_form(request, request.person.name)
    to = local(request.query("next") or "")
    if await _opens(request, sealed):
        return _opened(request, to)
    if request.person.is_proved:
        return see(to)
    return _name_form(request, request.person.name, _used())


def _opened(request: PageRequest, to: str) -> Response:
    """Have a browser known to be a person's, under the host name where that counts; there they say their name, too."""
    backend = request.backend
    home = backend.cookie.home(request.http, request.person.access or OWNER_ACCESS)
    if home is None:
        response = see(to if request.person.known else f"{YOU}?next={quote(to)}")
        request.remember(response, backend.cookie.opened(request.http, request.person))
        return response
    if not _finds_names(request.http):
        return see(to)
    return see(f"{home}{YOU}?{urlencode({**proof.opening(backend.person_key, backend.clock.now_us()), 'next': to})}")


def _finds_names(request: Request) -> bool:
    """Whether a browser finds names under `localhost` by itself; another one stays where it is, without a proof."""
    return any(one in request.headers.get("user-agent", "") for one in _FIND_NAMES)


async def _opens(request: PageRequest, sealed: str) -> bool:
    """Whether a command that a person runs made this link within the last minute, and no one used it."""
    stated = (request.query("at") or "")[:_AT_DIGITS]
    at = int(stated) if stated.isascii() and stated.isdecimal() else 0
    expected = proof.opening(request.backend.person_key, at)["proof"]
    is_new = abs(request.backend.clock.now_us() - at) <= _LINK_SECONDS * MICROSECONDS
    if not is_new or not hmac.compare_digest(sealed.encode(), expected.encode()):
        return False
    return await request.authenticator.end_login(sealed, 2 * _LINK_SECONDS)


async def _save_name(request: PageRequest) -> PageResponse | Response:
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
        return _name_form(request, request.form.get("name", ""), error)
    response = see(local(request.form.get("next", "")))
    request.remember(response, replace(request.person, name=name))
    return response


def _name_form(request: PageRequest, name: str, error: TandemError | None = None) -> PageResponse:
    following = local(request.form.get("next") or request.query("next") or "")
    access = request.person.access
    roles = [role for role in ROLES if access is not None and role in access.roles]
    values = {"name": name, "next": following, "problem": error, "roles": roles}
    return PageResponse("you.html", values, status=error.status if error else 200)


ROUTES = (
    PageRoute(YOU, _show_name, _save_name),
    PageRoute(PATH, show, enter, is_open=True),
    PageRoute(_OUT, post=leave, is_open=True),
)
