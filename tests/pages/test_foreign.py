"""Pages of other sites in the person's own browser, cookies and all: they change nothing and read nothing."""

from __future__ import annotations

import html
import itertools
import json
from typing import Any

import httpx
import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess
from tests.modes import VARIATION
from tests.pages.elsewhere import Elsewhere
from tests.pages.windows import Windows

# Another site; the same site by another port, to which the browser does send the cookie; a foreign name.
HOSTS = ("localhost", "127.0.0.1", "evil.rebound.test")
KINDS = ("text/plain", "application/json")

_SUBMIT = "document.forms[0].submit()"
_TRY = """async ([address, options]) => {
  try {
    const answer = await fetch(address, options);
    return answer.type === "opaque" ? "opaque" : await answer.text();
  } catch (error) {
    return "refused";
  }
}"""
_LISTEN = """(address) => new Promise((resolve) => {
  const source = new EventSource(address, {withCredentials: true});
  source.onopen = () => resolve("open");
  source.onerror = () => { source.close(); resolve("refused"); };
})"""


@pytest.fixture
def reckless(windows: Windows) -> Page:
    """Ada's window, in which she opens any page that she finds; the browser's complaints about it are expected."""
    windows.allow(r"^console error", r"^request to another host: GET http://[a-z0-9.]+:\d+/")
    return windows.open("ada")


def form(action: str, fields: dict[str, str], enctype: str = "application/x-www-form-urlencoded") -> str:
    inputs = "".join(
        f'<input type="hidden" name="{html.escape(name)}" value="{html.escape(value)}">'
        for name, value in fields.items()
    )
    return f'<!doctype html><form method="post" action="{action}" enctype="{enctype}">{inputs}</form>'


def token_of(page: Page, url: str) -> str:
    """The forms' token of a window: what a page elsewhere never gets to see, given to it to make things hard."""
    page.goto(f"{url}/you")
    return page.locator("[name=form_token]").first.input_value()


def assert_still_ada(page: Page, url: str) -> None:
    page.goto(f"{url}/you")
    expect(page.get_by_label("Name")).to_have_value("ada")


def test_a_form_from_elsewhere_is_refused_even_with_the_right_token(
    reckless: Page, elsewhere: Elsewhere, broker: BrokerProcess
) -> None:
    fields = {"form_token": token_of(reckless, broker.url), "name": "mallory", "next": "/"}
    elsewhere.pages["/form"] = form(f"{broker.url}/you", fields)
    for host in HOSTS:
        reckless.goto(elsewhere.at(host, "/form"))
        with reckless.expect_response(f"{broker.url}/you") as answered:
            reckless.evaluate(_SUBMIT)
        assert answered.value.status == httpx.codes.FORBIDDEN, host
        expect(reckless.locator("body")).to_contain_text("Pages of other sites may not")
    assert_still_ada(reckless, broker.url)


@VARIATION
def test_a_link_from_elsewhere_finds_the_person_known(
    reckless: Page, elsewhere: Elsewhere, broker: BrokerProcess
) -> None:
    elsewhere.pages["/link"] = f'<!doctype html><a href="{broker.url}/you?next=/queue">Look at this</a>'
    for host in HOSTS:
        reckless.goto(elsewhere.at(host, "/link"))
        reckless.get_by_role("link", name="Look at this").click()
        expect(reckless.get_by_label("Name")).to_have_value("ada")


def test_operations_called_from_elsewhere_are_refused(reckless: Page, elsewhere: Elsewhere, shop: Desk) -> None:
    review_id = shop.put_up()
    elsewhere.pages["/call"] = "<!doctype html><title>a fine page</title>"
    closing = json.dumps({"review_id": review_id, "reason": "because I can"})
    called = {"name": "close_review", "arguments": json.loads(closing)}
    over_mcp = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": called})
    bodies = (("/api/v1/close_review", closing), ("/mcp", over_mcp))
    # A form's body may happen to be JSON: a field's name, the equals sign, and its value.
    trick = {closing[:-1] + ', "x": "': '"}'}
    elsewhere.pages["/trick"] = form(f"{shop.url}/api/v1/close_review", trick, "text/plain")
    with shop.unchanged(review_id):
        for host in HOSTS:
            reckless.goto(elsewhere.at(host, "/call"))
            for (path, body), mode, kind in itertools.product(bodies, ("no-cors", "cors"), KINDS):
                options: dict[str, Any] = {"method": "POST", "mode": mode, "body": body, "credentials": "include"}
                options["headers"] = {"Content-Type": kind}
                assert reckless.evaluate(_TRY, [shop.url + path, options]) in {"opaque", "refused"}
            reckless.goto(elsewhere.at(host, "/trick"))
            with reckless.expect_response(f"{shop.url}/api/v1/close_review") as answered:
                reckless.evaluate(_SUBMIT)
            assert answered.value.status in {httpx.codes.FORBIDDEN, httpx.codes.UNSUPPORTED_MEDIA_TYPE}
            reckless.wait_for_url(f"{shop.url}/api/v1/close_review")


def test_nothing_can_be_read_from_elsewhere(reckless: Page, elsewhere: Elsewhere, broker: BrokerProcess) -> None:
    elsewhere.pages["/read"] = "<!doctype html><title>a fine page</title>"
    for host in HOSTS:
        reckless.goto(elsewhere.at(host, "/read"))
        for path in ("/", "/you", "/events", "/healthz", "/api/v1/openapi.json"):
            assert reckless.evaluate(_TRY, [broker.url + path, {"credentials": "include"}]) == "refused", path
        assert reckless.evaluate(_LISTEN, f"{broker.url}/events") == "refused"


def test_no_page_can_be_framed(reckless: Page, elsewhere: Elsewhere, broker: BrokerProcess) -> None:
    elsewhere.pages["/frame"] = f'<!doctype html><iframe src="{broker.url}/you"></iframe><p>Win a prize</p>'
    for host in HOSTS:
        reckless.goto(elsewhere.at(host, "/frame"))
        expect(reckless.get_by_text("Win a prize")).to_be_visible()
        [framed] = reckless.main_frame.child_frames
        expect(framed.locator("body")).not_to_contain_text("Your name stands beside your verdicts")
        assert framed.get_by_label("Name").count() == 0


def test_a_foreign_name_for_the_broker_is_refused(reckless: Page, broker: BrokerProcess) -> None:
    """DNS rebinding: the name of a page elsewhere suddenly leads to the broker."""
    port = httpx.URL(broker.url).port
    for path in ("/", "/you", "/static/x/site.css", "/events", "/healthz"):
        answer = reckless.goto(f"http://evil.rebound.test:{port}{path}")
        assert answer is not None
        assert answer.status == httpx.codes.FORBIDDEN, path
        assert "Use 127.0.0.1 or localhost" in answer.text()
