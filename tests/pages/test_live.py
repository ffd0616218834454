"""P6 on the pages: a window misses nothing, whatever happens to its broker, and windows share one connection."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.acceptance.reviewing import Desk
from tests.broker import StartBroker, fresh_project
from tests.pages.conftest import OpenWindows

GONE = r"ERR_CONNECTION_REFUSED|ERR_INCOMPLETE_CHUNKED_ENCODING|ERR_CONNECTION_RESET|ERR_EMPTY_RESPONSE|status of 503"


def test_p6_a_window_goes_on_after_its_broker_was_killed_and_started_again(
    start_broker: StartBroker, browser_windows: OpenWindows
):
    broker = start_broker()
    project = fresh_project()
    with browser_windows(broker.url) as windows:
        windows.allow(GONE, "Failed to fetch")
        page = windows.open()
        page.goto("/")
        expect(page.get_by_role("status")).to_have_text("live")
        broker.kill()
        expect(page.get_by_role("status")).to_have_text("offline")
        broker.start()
        # Before the window is back, so that no event of it is heard as it happens.
        with Desk(broker.url, project) as desk:
            review = desk.put_up(intent="Put up meanwhile")
        expect(page.get_by_role("status")).to_have_text("live")
        expect(page.get_by_role("region", name="Your turn")).to_contain_text("Put up meanwhile")
        with Desk(broker.url, project) as desk:
            desk.claim(review, "rita")
        expect(page.get_by_role("region", name="Waiting on others")).to_contain_text("Being reviewed: rita")


def test_windows_of_one_browser_share_one_connection_and_the_next_takes_over(
    start_broker: StartBroker, browser_windows: OpenWindows
):
    broker = start_broker()
    with Desk(broker.url, fresh_project()) as desk, browser_windows(broker.url) as windows:
        first = windows.open()
        pages = [first, *(first.context.new_page() for _ in range(7))]
        for page in pages:
            page.goto("/")
            expect(page.get_by_role("status")).to_have_text("live")
        assert broker.health()["waiting"] == 1
        desk.put_up(intent="Seen by all")
        for page in pages:
            expect(page.get_by_role("region", name="Your turn")).to_contain_text("Seen by all")
        first.close()
        desk.put_up(intent="Seen by the rest")
        for page in pages[1:]:
            expect(page.get_by_role("region", name="Your turn")).to_contain_text("Seen by the rest")
