"""Windows of a real Chromium on the broker's pages, and the errors and requests that no window may have."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from http.cookies import Morsel, SimpleCookie
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Error, Locator, Page, Request, WebError, expect

from tests.broker import NO_TLS

PATIENCE_SECONDS = 60
"""How long anything on a page may take: machines that run tests are busy."""

expect.set_options(timeout=PATIENCE_SECONDS * 1000)

Scheme = Literal["light", "dark"]


@dataclass(frozen=True)
class Kept:
    """What later tests may use.

    Attributes:
        pages: Windows that are free again, by the broker's URL and whether scripts run in them.
        cookies: Those of browsers that are gone, by the broker's URL and the person.
    """

    pages: dict[tuple[str, bool], list[Page]] = field(default_factory=dict[tuple[str, bool], list[Page]])
    cookies: dict[tuple[str, str], list[Morsel[str]]] = field(default_factory=dict[tuple[str, str], list[Morsel[str]]])


# Evaluated in every document before its own scripts. The console has the browser's own words about some
# violations only; the event comes for all of them.
_WATCH_POLICY = """
document.addEventListener("securitypolicyviolation", (event) =>
  console.error(`policy: ${event.effectiveDirective} refused ${event.blockedURI} ${event.sample}`));
"""
_FORM_TOKEN = re.compile(r'name="form_token"\s+value="([^"]+)"')
# Addresses that leave nothing: the browser answers them itself.
_OWN_SCHEMES = {"about", "blob", "data"}


class Windows:
    """Opens windows, each with cookies and storage of its own, and collects what went wrong in all of them.

    A new process of the browser, which reads all scripts and styles first, costs twice as much as the page itself. A
    window is therefore made empty when a test is done with it, and opened by the next one: without cookies, storage,
    routes and further pages. Other additions of a test to a page (scripts, listeners) would stay, and are for brokers
    of the test's own.

    Args:
        browser: The browser.
        url: The broker's.
        kept: Where windows come from and go to; without it, each is a new one.
    """

    def __init__(self, browser: Browser, url: str, kept: Kept | None = None) -> None:
        self.url = url
        self.trouble: list[str] = []
        self._browser = browser
        self._kept = kept
        self._allowed: list[re.Pattern[str]] = []
        self._pages: list[tuple[Page, tuple[str, bool]]] = []
        self._cookies: list[tuple[str, Morsel[str]]] = []
        self._dialogs_are_accepted = False

    def open(
        self,
        person: str | None = "ada",
        *,
        width: int = 1280,
        height: int = 800,
        scheme: Scheme = "light",
        javascript: bool = True,
        url: str | None = None,
        at: str | None = None,
    ) -> Page:
        """A window of somebody who has said their name before, or of a stranger, perhaps at a page."""
        kind = (url or self.url, javascript)
        free = self._kept and self._kept.pages.get(kind)
        page = free.pop() if free else self._new_page(*kind)
        self._pages.append((page, kind))
        context = page.context
        page.set_viewport_size({"width": width, "height": height})
        page.emulate_media(color_scheme=scheme)
        for event, heard in self._heard.items():
            context.on(event, heard)
        if person is not None:
            free = self._kept and self._kept.cookies.get((self.url, person))
            cookie = free.pop() if free else identified(self.url, person)
            self._cookies.append((person, cookie))
            context.add_cookies(
                [
                    {
                        "name": cookie.key,
                        "value": cookie.value,
                        "url": self.url,
                        "httpOnly": bool(cookie["httponly"]),
                        "sameSite": "Lax" if cookie["samesite"].lower() == "lax" else "Strict",
                    }
                ]
            )
        if at is not None:
            page.goto(at)
        return page

    def allow(self, *patterns: str) -> None:
        """What a test brings about on purpose, as regular expressions on the words of `trouble`."""
        self._allowed += map(re.compile, patterns)

    def accept_dialogs(self) -> None:
        """Answer the pages' own questions with yes, from now on; before, one is trouble."""
        self._dialogs_are_accepted = True

    def close(self) -> None:
        """Close them all, or make them empty; all their reports have arrived by then."""
        # No question about text that a test has typed and not sent.
        self.accept_dialogs()
        for page, kind in self._pages:
            if self._kept is not None and self._is_empty_again(page, *kind):
                self._kept.pages.setdefault(kind, []).append(page)
            else:
                page.context.close()
        if self._kept is not None:
            for person, cookie in self._cookies:
                self._kept.cookies.setdefault((self.url, person), []).append(cookie)
        self._pages.clear()
        self._cookies.clear()

    def check(self) -> None:
        """Fail if anything went wrong in a window."""
        wrong = [one for one in self.trouble if not any(pattern.search(one) for pattern in self._allowed)]
        assert wrong == [], "\n".join(["the pages are not as quiet as they must be:", *wrong])

    def _new_page(self, url: str, javascript: bool) -> Page:
        context = self._browser.new_context(
            base_url=url, java_script_enabled=javascript, reduced_motion="reduce", locale="en-GB", timezone_id="UTC"
        )
        context.set_default_timeout(PATIENCE_SECONDS * 1000)
        context.add_init_script(_WATCH_POLICY)
        return context.new_page()

    def _is_empty_again(self, page: Page, url: str, javascript: bool) -> bool:
        context = page.context
        try:
            for other in context.pages:
                if other != page:
                    other.close()
            page.unroute_all()
            # A document of the broker's own keeps the process, and the last writes of the page before have arrived.
            page.goto(f"{url}/static/0/icon.svg")
            if javascript:
                page.evaluate("localStorage.clear(), sessionStorage.clear()")
        except Error:
            return False  # It was closed, or its broker is gone.
        context.clear_cookies()
        for event, heard in self._heard.items():
            context.remove_listener(event, heard)
        return True

    @property
    def _heard(self) -> dict[Any, Callable[[Any], None]]:
        return {
            "console": self._on_console,
            "weberror": self._on_error,
            "request": self._on_request,
            "dialog": self._on_dialog,
        }

    def _on_console(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning", "assert"}:
            where = message.location
            self.trouble.append(f"console {message.type}: {message.text} ({where['url']}:{where['lineNumber']})")

    def _on_error(self, error: WebError) -> None:
        self.trouble.append(f"script error: {error.error}")

    def _on_request(self, request: Request) -> None:
        there = urlsplit(request.url)
        own = urlsplit(self.url)
        is_own = there.netloc == own.netloc or there.netloc.endswith(f".localhost:{own.port}")
        if there.scheme not in _OWN_SCHEMES and not is_own:
            self.trouble.append(f"request to another host: {request.method} {request.url}")

    def _on_dialog(self, dialog: Dialog) -> None:
        if self._dialogs_are_accepted:
            dialog.accept()
            return
        self.trouble.append(f"dialog: {dialog.type} {dialog.message}")
        dialog.dismiss()


def write(page: Page | Locator, label: str, text: str, button: str, *, exact: bool = False) -> None:
    """Fill a field that has a label, and press a button."""
    page.get_by_label(label, exact=exact).fill(text)
    page.get_by_role("button", name=button).click()


def signed_in(url: str, person: str) -> str:
    """The cookie of a browser in which somebody has said their name: `name=value`."""
    cookie = identified(url, person)
    return f"{cookie.key}={cookie.value}"


def identified(url: str, person: str) -> Morsel[str]:
    """The same with everything that the broker says of it."""
    with httpx.Client(base_url=url, timeout=PATIENCE_SECONDS, verify=NO_TLS) as browser:
        token = _FORM_TOKEN.search(browser.get("/you").text)
        assert token, "the page that asks for a name has no form"
        answer = browser.post("/you", data={"form_token": token[1], "name": person, "next": "/"})
        assert answer.status_code == httpx.codes.SEE_OTHER, answer.text
        [cookie] = SimpleCookie(answer.headers["set-cookie"]).values()
    return cookie
