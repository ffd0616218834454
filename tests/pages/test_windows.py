"""The windows report forbidden events, and axe reports inaccessible elements: other tests rely on that."""

from __future__ import annotations

import pytest
from playwright.sync_api import Browser

from tests.pages.accessibility import assert_accessible
from tests.pages.elsewhere import serving_elsewhere
from tests.pages.windows import Windows

RESTLESS = """<!doctype html><html lang="en"><title>Restless</title>
<meta http-equiv="Content-Security-Policy" content="style-src 'none'">
<p style="color: red">red</p>
<img src="http://other.rebound.test:1/pixel.png" alt="">
<script>console.error("a remark"); alert("an alert"); setTimeout(() => { throw new Error("a fault"); });</script>
<button></button>"""
TROUBLE = (
    "console error: a remark",
    "console error: policy: style-src-attr refused inline",
    "dialog: alert an alert",
    "request to another host: GET http://other.rebound.test:1/pixel.png",
    "script error: a fault",
)


def test_windows_notice_everything_that_must_not_happen(browser: Browser) -> None:
    with serving_elsewhere() as site:
        site.pages["/"] = RESTLESS
        windows = Windows(browser, site.at("127.0.0.1", ""))
        page = windows.open(None, at="/")
        with pytest.raises(AssertionError, match="button-name"):
            assert_accessible(page)
        windows.close()
    with pytest.raises(AssertionError) as noticed:
        windows.check()
    told = str(noticed.value)
    assert [one for one in TROUBLE if one not in told] == [], told
    windows.allow("console error", "dialog", "request to another host", "script error")
    windows.check()
