"""P6 on the pages: a window misses nothing when its broker ends or restarts, and windows share one connection."""

from __future__ import annotations

import re
import time
from collections.abc import Generator
from contextlib import contextmanager

import pytest
from playwright.sync_api import Page, Route, expect

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.modes import VARIATION
from tests.pages.conftest import OpenWindows
from tests.pages.windows import Windows

PATIENCE_SECONDS = 60
MOST_CALLS = 6
"""Operations by which an open review, its navigation and its stream of events follow one event."""
GONE = r"ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|status of 503"


def test_p6_a_window_goes_on_after_its_broker_was_killed_and_started_again(
    start_broker: StartBroker, browser_windows: OpenWindows
):
    broker = start_broker()
    project = fresh_project()
    with browser_windows(broker.url) as windows:
        windows.allow(GONE, "Failed to fetch")
        page = windows.open(at="/")
        expect(page.get_by_role("status")).to_have_text("live")
        broker.kill()
        expect(page.get_by_role("status")).to_have_text("offline")
        broker.start()
        # Before the window is back, so that no event of it is heard as it happens.
        with Desk(broker.url, project) as desk:
            review = desk.put_up(intent="Proposed meanwhile")
        expect(page.get_by_role("status")).to_have_text("live")
        expect(page.get_by_role("region", name="Unclaimed")).to_contain_text("Proposed meanwhile")
        with Desk(broker.url, project) as desk:
            desk.claim(review, "rita")
        expect(page.get_by_role("region", name="Waiting on others")).to_contain_text("Being reviewed: rita")


def test_an_event_refreshes_an_open_review_with_few_operations(page: Page, desk: Desk, broker: BrokerProcess):
    review = desk.put_up(intent="To be talked about")
    desk.claim(review)
    page.goto(f"/reviews/{review}")
    expect(page.get_by_role("status").filter(has_text="live")).to_be_visible()
    desk.say(review, "reviewer", "The first word.")
    expect(page.locator("#stream")).to_contain_text("The first word.")
    with page.expect_response("**/parts*"), page.expect_response("**/you"):
        before = broker.health()["calls"]
        desk.say(review, "proposer", "The second word.")
    expect(page.locator("#stream")).to_contain_text("The second word.")
    assert broker.health()["calls"] - before - 1 <= MOST_CALLS


def test_an_event_has_only_the_changed_row_of_an_inbox_sent_again(page: Page, shop: Desk):
    review, other = shop.put_up(intent="To be claimed"), shop.put_up(intent="Stays as it is")
    page.goto(f"/?project={shop.project}")
    expect(page.locator("#live")).to_have_text("live")
    row = page.locator(f"#unclaimed-{other}")
    row.focus()
    with page.expect_response(lambda one: "tandem-have" in one.request.headers) as sent:
        shop.claim(review, "rita")
    told = sent.value.text().partition("</main>")[0]
    assert "To be claimed" in told
    assert "Stays as it is" not in told
    expect(page.get_by_role("region", name="Waiting on others")).to_contain_text("To be claimed")
    expect(row).to_contain_text("Stays as it is")
    expect(row).to_be_focused()


def test_windows_of_one_browser_share_one_connection_and_the_next_takes_over(
    start_broker: StartBroker, browser_windows: OpenWindows
):
    broker = start_broker()
    with Desk(broker.url, fresh_project()) as desk, browser_windows(broker.url) as windows:
        first = windows.open()
        pages = [first, *(first.context.new_page() for _ in range(6))]  # one more than may have a connection
        for page in pages:
            page.goto("/")
            expect(page.get_by_role("status")).to_have_text("live")
        assert broker.health()["waiting"] == 1
        desk.put_up(intent="Seen by all")
        for page in pages:
            expect(page.get_by_role("region", name="Unclaimed")).to_contain_text("Seen by all")
        first.close()
        desk.put_up(intent="Seen by the rest")
        for page in pages[1:]:
            expect(page.get_by_role("region", name="Unclaimed")).to_contain_text("Seen by the rest")


@pytest.mark.parametrize("path", ["/", pytest.param("/statistics", marks=VARIATION)])
def test_p6_what_happens_before_a_page_listens_is_on_it(windows: Windows, shop: Desk, path: str):
    shop.put_up(intent="Was there")
    page = windows.open()
    with held(page, "**/events*") as listening:
        page.goto(f"{path}?project={shop.project}")
        before = page.locator("#inbox-count").get_attribute("data-reviews") or ""
        review = shop.put_up(intent="Came in between")
        assert review not in before
        listening.go_on()
        expect(page.locator("#inbox-count")).to_have_attribute("data-reviews", re.compile(review))


def test_p6_a_place_in_the_log_that_is_looked_at_misses_nothing_either(windows: Windows, shop: Desk):
    review = shop.put_up()
    page = windows.open(at=f"/activity?project={shop.project}")
    with held(page, "**/events*") as listening:
        page.get_by_role("link", name="Only what happens from here on").click()
        expect(page.get_by_text("Nothing has happened since.")).to_be_visible()
        shop.claim(review, "rita")
        listening.go_on()
        expect(page.get_by_role("region", name="Events").get_by_role("row").nth(1)).to_contain_text("review claimed")


def test_p6_a_second_window_has_what_the_first_heard_before_it_was_there(windows: Windows, shop: Desk):
    first = windows.open(at="/")
    expect(first.get_by_role("status")).to_have_text("live")
    second = first.context.new_page()
    with held(second, "**/live.js*") as script:
        second.goto("/", wait_until="commit")
        script.is_asked_for()
        review = shop.put_up(intent="Heard by the first")
        expect(first.locator("#inbox-count")).to_have_attribute("data-reviews", re.compile(review))
        script.go_on()
        expect(second.locator("#inbox-count")).to_have_attribute("data-reviews", re.compile(review))


class Held:
    """Requests of a page that are not sent yet."""

    def __init__(self, page: Page) -> None:
        self._page = page
        self._routes: list[Route] = []
        self._goes_on = False

    def hold(self, route: Route) -> None:
        """Keep a request back, unless they may go on."""
        if self._goes_on:
            route.continue_()
        else:
            self._routes.append(route)

    def is_asked_for(self) -> None:
        """Wait until there is one."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not self._routes:
            assert time.monotonic() < deadline, "the page asks for nothing"
            self._page.wait_for_timeout(20)  # only so are requests seen meanwhile

    def go_on(self) -> None:
        """Send the requests that were kept back."""
        self.is_asked_for()
        self._goes_on = True
        for route in self._routes:
            route.continue_()


@contextmanager
def held(page: Page, pattern: str) -> Generator[Held]:
    """Keep requests back, until they are told to go on."""
    requests = Held(page)
    page.route(pattern, requests.hold)
    yield requests
    page.unroute(pattern)
