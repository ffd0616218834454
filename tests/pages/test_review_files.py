"""The files of a change: viewed or not, loaded when they are wanted, and there at once."""

from __future__ import annotations

import httpx
from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk, drawn, edited
from tests.broker import BrokerProcess
from tests.git.sandbox import Sandbox
from tests.pages.changes import every_kind, staged
from tests.pages.conftest import Check
from tests.pages.windows import Windows


def test_viewed_files_are_folded_in_every_window(page: Page, shop: Desk, repo: Sandbox, axe: Check) -> None:
    review = shop.put_up(diff=every_kind(repo))
    page.goto(f"/reviews/{review}")
    other = page.context.new_page()
    other.goto(f"/reviews/{review}")
    for window in (page, other):
        expect(window.get_by_text("0 of 7 viewed")).to_be_visible()
    page.get_by_role("checkbox", name="a.txt").click()
    for window in (page, other):
        expect(window.get_by_text("1 of 7 viewed")).to_be_visible()
        expect(window.get_by_role("checkbox", name="a.txt")).to_be_checked()
        expect(window.locator('.file[data-path="a.txt"] table')).to_be_hidden()
    axe(page)
    # It is still so when the page is opened again; the file can be looked at all the same.
    other.reload()
    expect(other.get_by_role("checkbox", name="a.txt")).to_be_checked()
    other.get_by_role("button", name="Lines of a.txt").click()
    expect(other.locator('.file[data-path="a.txt"] table')).to_be_visible()
    other.get_by_role("checkbox", name="a.txt").click()
    for window in (page, other):
        expect(window.get_by_role("checkbox", name="a.txt")).not_to_be_checked()
        expect(window.locator('.file[data-path="a.txt"] table')).to_be_visible()
    # A new round is to be looked at anew.
    page.get_by_role("checkbox", name="a.txt").click()
    expect(page.get_by_text("1 of 7 viewed")).to_be_visible()
    shop.revise(review, diff=every_kind(repo).replace("a better", "the best"))
    page.goto(f"/reviews/{review}")
    expect(page.get_by_text("0 of 7 viewed")).to_be_visible()


def test_viewed_by_keyboard_and_in_another_browser(windows: Windows, shop: Desk, repo: Sandbox) -> None:
    review = shop.put_up(diff=every_kind(repo))
    one, other = windows.open("ada"), windows.open("ada")
    for window in (one, other):
        window.goto(f"/reviews/{review}")
        expect(window.get_by_text("0 of 7 viewed")).to_be_visible()
    one.keyboard.press("n")
    for told in ("1 of 7 viewed", "0 of 7 viewed", "1 of 7 viewed"):
        # The page says so at once; the other browser can know when the broker does.
        with one.expect_response(lambda answer: answer.request.method == "POST"):
            one.keyboard.press("v")
        expect(one.get_by_text(told)).to_be_visible()
    expect(one.get_by_role("checkbox").first).to_be_checked()
    # The other browser is told when somebody comes back to it.
    with other.expect_response(lambda answer: "/viewed?" in answer.url):
        other.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(other.get_by_text("1 of 7 viewed")).to_be_visible()


def test_viewed_without_scripts(windows: Windows, shop: Desk) -> None:
    page = windows.open(javascript=False)
    page.goto(f"/reviews/{shop.put_up(diff=edited())}")
    page.get_by_role("checkbox", name="a.txt").click()
    expect(page.get_by_role("checkbox", name="a.txt")).to_be_checked()
    expect(page.locator("table.diff")).to_have_count(0)
    page.get_by_role("link", name="lines of a.txt").click()
    expect(page.locator("table.diff")).to_be_visible()


def test_a_long_file_goes_on_where_it_was_cut(page: Page, shop: Desk, repo: Sandbox) -> None:
    repo.write("long.txt", "".join(f"number {line}\n" for line in range(1, 2501)))
    page.goto(f"/reviews/{shop.put_up(diff=staged(repo))}")
    lines = page.locator("tr.line")
    expect(lines).to_have_count(1000)
    page.get_by_role("link", name="Show more: 1500 of 2500 lines are left").click()
    expect(lines).to_have_count(2000)
    page.get_by_role("link", name="Show more: 500 of 2500 lines are left").click()
    expect(lines).to_have_count(2500)
    expect(lines.last).to_contain_text("number 2500")
    expect(page.get_by_role("link", name="Show more")).to_have_count(0)


def test_exports_are_downloads(page: Page, broker: BrokerProcess, shop: Desk) -> None:
    review = shop.put_up(diff=edited(), intent="Take it away")
    page.goto(f"/reviews/{review}")
    for name, ending in (("Markdown", ".md"), ("Patch", ".patch"), ("HTML", ".html")):
        with page.expect_download() as download:
            page.get_by_role("link", name=name, exact=True).click()
        assert download.value.suggested_filename.endswith(ending)
        if name == "Patch":
            assert download.value.path().read_text("utf-8") == drawn()
        else:
            assert "Take it away" in download.value.path().read_text("utf-8")
    assert httpx.get(f"{broker.url}/reviews/{review}/export.exe").status_code == httpx.codes.NOT_FOUND
