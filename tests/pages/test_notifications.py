"""Desktop notifications: asked for by the person, and only when something has come to wait for them."""

from __future__ import annotations

from playwright.sync_api import expect

from tests.acceptance.reviewing import Desk
from tests.broker import StartBroker, fresh_project
from tests.pages.conftest import OpenWindows

# Headless browsers show no notifications; the page's own words to the browser are what is kept.
_RECORD = """
window.shown = [];
window.Notification = class extends EventTarget {
  static permission = "default";
  static async requestPermission() { return (Notification.permission = "granted"); }
  constructor(title, options) { super(); window.shown.push(`${title}: ${options.body}`); }
};
"""


def test_only_what_is_new_is_told_and_only_once_it_was_asked_for(
    start_broker: StartBroker, browser_windows: OpenWindows
):
    broker = start_broker()
    with Desk(broker.url, fresh_project()) as desk, browser_windows(broker.url) as windows:
        page = windows.open()
        page.add_init_script(_RECORD)
        page.goto("/")
        expect(page.get_by_role("status")).to_have_text("live")
        desk.put_up(intent="Before anybody asked")
        expect(page).to_have_title("(1) Inbox · Tandem")
        page.get_by_role("button", name="Notify").click()
        expect(page.get_by_role("button", name="Notifying")).to_be_visible()
        second = desk.put_up(intent="The second")
        expect(page).to_have_title("(2) Inbox · Tandem")
        desk.claim(second, "rita")
        expect(page).to_have_title("(1) Inbox · Tandem")
        desk.put_up(intent="The third")
        expect(page).to_have_title("(2) Inbox · Tandem")
        assert page.evaluate("window.shown") == ["Tandem: your turn: The second", "Tandem: your turn: The third"]
        page.get_by_role("button", name="Notifying").click()
        desk.put_up(intent="The fourth")
        expect(page).to_have_title("(3) Inbox · Tandem")
        assert len(page.evaluate("window.shown")) == 2
