"""What tests of the pages share: one Chromium and one broker in each process of tests, windows of each test's own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Generator, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from tests.acceptance.checking import checking, project
from tests.acceptance.conftest import desk, repo, repo_template, shop
from tests.broker import BrokerProcess, start_broker
from tests.downloads import needing
from tests.pages.accessibility import assert_accessible
from tests.pages.elsewhere import Elsewhere, serving_elsewhere
from tests.pages.guarded import Guarded
from tests.pages.plain import Plain
from tests.pages.windows import Kept, Windows
from tools.browser import BrowserError, find

__all__ = ["checking", "desk", "project", "repo", "repo_template", "shop", "start_broker"]

ROOT = Path(__file__).resolve().parents[2]
# Read now: tests run without anybody's settings for Tandem.
SCREENSHOTS = Path(os.environ.get("TANDEM_SCREENSHOTS") or ROOT / "build" / "screenshots")
_NAMED = os.environ.get("TANDEM_BROWSER")
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    # Names of pages elsewhere, for tests of what these may not do.
    "--host-resolver-rules=MAP *.rebound.test 127.0.0.1",
)

Shot = Callable[[Page, str], None]
Check = Callable[..., None]
OpenWindows = Callable[[str], AbstractContextManager[Windows]]


@dataclass(frozen=True)
class Driven:
    """A browser, and the event loop by which Playwright drives it from this thread."""

    browser: Browser
    loop: asyncio.AbstractEventLoop
    kept: Kept


@pytest.fixture(scope="session")
def driven() -> Iterator[Driven]:
    """Chromium, started by the first test that asks; use `browser` or `windows` instead."""
    with pytest.MonkeyPatch.context() as patch:
        if _NAMED:
            patch.setenv("TANDEM_BROWSER", _NAMED)
        with needing("Chromium", BrowserError):
            program = find()
    with sync_playwright() as playwright:
        # Playwright leaves its sandbox off, which root could not use; nothing but our own pages is shown.
        started = playwright.chromium.launch(executable_path=program, args=FLAGS)
        found = Driven(started, asyncio.get_running_loop(), Kept())
        _let_go()
        yield found
        _take(found)
        started.close()


@pytest.fixture
def browser(driven: Driven) -> Iterator[Browser]:
    """The browser of this process of tests."""
    _take(driven)
    yield driven.browser
    _let_go()


def _take(driven: Driven) -> None:
    # Playwright's loop counts as running in this thread as long as the browser lives.
    asyncio._set_running_loop(driven.loop)


def _let_go() -> None:
    # Other tests of this process begin event loops of their own.
    asyncio._set_running_loop(None)


@pytest.fixture(scope="session")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """One broker, on SQLite, for all tests that need no more than a project of their own."""
    with BrokerProcess(tmp_path_factory.mktemp("broker")) as started:
        yield started
        # P8: the log has every act of people on the pages.
        started.assert_intact()


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """One broker that requires access tokens, for all tests of logins."""
    with BrokerProcess(tmp_path_factory.mktemp("guarded"), auth="token", allowed_hosts="team.example") as started:
        yield Guarded(started)
        started.assert_intact()


@contextmanager
def opened(windows: Windows) -> Generator[Windows]:
    """Close them at the end, and fail if anything went wrong in one of them."""
    try:
        yield windows
    finally:
        windows.close()
    windows.check()


@pytest.fixture
def browser_windows(browser: Browser) -> OpenWindows:
    """Windows on a broker of the test's own: `with browser_windows(own.url) as windows: …`."""
    return lambda url: opened(Windows(browser, url))


@pytest.fixture
def kept_windows(browser: Browser, driven: Driven) -> OpenWindows:
    """The same on a broker that lives on after the test, with windows that earlier tests are done with."""
    return lambda url: opened(Windows(browser, url, driven.kept))


@pytest.fixture
def windows(kept_windows: OpenWindows, broker: BrokerProcess) -> Iterator[Windows]:
    """Opens windows on the shared broker; the test fails if anything goes wrong in one of them."""
    with kept_windows(broker.url) as opened:
        yield opened


@pytest.fixture
def doors(kept_windows: OpenWindows, guarded: Guarded) -> Iterator[Windows]:
    """The same on the broker that requires tokens."""
    with kept_windows(guarded.url) as opened:
        yield opened


@pytest.fixture
def page(windows: Windows) -> Page:
    """A window of Ada's."""
    return windows.open()


@pytest.fixture
def open_plain(broker: BrokerProcess) -> Iterator[Callable[..., Plain]]:
    """Opens browsers without scripts on the shared broker, of Ada's or of somebody else's."""
    with ExitStack() as stack:

        def opened(person: str | None = "ada") -> Plain:
            return stack.enter_context(Plain(broker.url, person))

        yield opened


@pytest.fixture
def plain(open_plain: Callable[..., Plain]) -> Plain:
    """The browser of Ada's without scripts."""
    return open_plain()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    """A web server on another port of this machine."""
    with serving_elsewhere() as site:
        yield site


@pytest.fixture
def axe() -> Check:
    """Holds a page against WCAG 2.2 AA: see `assert_accessible`."""
    return assert_accessible


@pytest.fixture
def shot(pytestconfig: pytest.Config) -> Shot:
    """Keeps a picture of a page for people, if every mode runs: nothing is checked by it."""

    def take(page: Page, name: str) -> None:
        if pytestconfig.getoption("every_mode"):
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            page.screenshot(path=SCREENSHOTS / f"{name}.png")

    return take
