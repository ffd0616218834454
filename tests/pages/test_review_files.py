"""The files of a change: viewed or not, loaded when they are wanted, however many there are, and there at once."""

from __future__ import annotations

import html
import re

import httpx
from playwright.sync_api import Page, expect

from tandem.web.review.offers import MOST_FILES
from tests.acceptance.reviewing import Desk, drawn, edited
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.git.sandbox import Sandbox, new_file
from tests.modes import VARIATION
from tests.pages.changes import every_kind, held, line, many_files, shown, staged
from tests.pages.conftest import Check, OpenWindows
from tests.pages.plain import Plain
from tests.pages.test_live import GONE
from tests.pages.windows import Windows, write


def test_viewed_files_are_folded_in_every_window(page: Page, shop: Desk, repo: Sandbox, axe: Check) -> None:
    review = shown(page, shop, diff=every_kind(repo))
    other = page.context.new_page()
    other.goto(f"/reviews/{review}")
    for window in (page, other):
        expect(window.get_by_text("0 of 6 viewed")).to_be_visible()
    page.get_by_role("checkbox", name="a.txt").click()
    for window in (page, other):
        expect(window.get_by_text("1 of 6 viewed")).to_be_visible()
        expect(window.get_by_role("checkbox", name="a.txt")).to_be_checked()
        expect(window.locator('.file[data-path="a.txt"] table')).to_be_hidden()
    axe(page, "#change")
    # It is still so when the page is opened again; the file can be looked at all the same.
    other.reload()
    expect(other.get_by_role("checkbox", name="a.txt")).to_be_checked()
    fold = other.get_by_role("button", name="Lines of a.txt")
    expect(fold).to_have_attribute("aria-expanded", "false")
    fold.click()
    expect(fold).to_have_attribute("aria-expanded", "true")
    expect(other.locator('.file[data-path="a.txt"] table')).to_be_visible()
    other.get_by_role("checkbox", name="a.txt").click()
    for window in (page, other):
        expect(window.get_by_role("checkbox", name="a.txt")).not_to_be_checked()
        expect(window.locator('.file[data-path="a.txt"] table')).to_be_visible()
    # The files of a new round are not viewed yet.
    page.get_by_role("checkbox", name="a.txt").click()
    expect(page.get_by_text("1 of 6 viewed")).to_be_visible()
    shop.revise(review, diff=every_kind(repo).replace("a better", "the best"))
    page.goto(f"/reviews/{review}")
    expect(page.get_by_text("0 of 6 viewed")).to_be_visible()


def test_viewed_by_keyboard_and_in_another_browser(windows: Windows, shop: Desk, repo: Sandbox) -> None:
    review = shop.put_up(diff=every_kind(repo))
    one, other = windows.open("ada"), windows.open("ada")
    for window in (one, other):
        window.goto(f"/reviews/{review}")
        expect(window.get_by_text("0 of 6 viewed")).to_be_visible()
    one.keyboard.press("n")
    for told in ("1 of 6 viewed", "0 of 6 viewed", "1 of 6 viewed"):
        # The page says so at once; the other browser can know when the broker does.
        with one.expect_response(lambda answer: answer.request.method == "POST"):
            one.keyboard.press("v")
        expect(one.get_by_text(told)).to_be_visible()
    expect(one.get_by_role("checkbox").first).to_be_checked()
    # The other browser is told when somebody comes back to it.
    with other.expect_response(lambda answer: "/viewed?" in answer.url):
        other.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
    expect(other.get_by_text("1 of 6 viewed")).to_be_visible()


@VARIATION
def test_viewed_without_scripts(plain: Plain, shop: Desk) -> None:
    plain.goto(f"/reviews/{shop.put_up(diff=edited())}").press("Viewed a.txt")
    assert plain.all("table.diff") == []
    assert plain.follow("lines of a.txt").all("table.diff")


def test_a_long_file_goes_on_where_it_was_cut(page: Page, shop: Desk, repo: Sandbox) -> None:
    repo.write("long.txt", "".join(f"number {line}\n" for line in range(1, 2501)))
    shown(page, shop, diff=staged(repo))
    lines = page.locator("tr.line")
    expect(lines).to_have_count(1000)
    page.get_by_role("link", name="Show more: 1500 of 2500 lines are left").click()
    expect(lines).to_have_count(2000)
    page.get_by_role("link", name="Show more: 500 of 2500 lines are left").click()
    expect(lines).to_have_count(2500)
    expect(lines.last).to_contain_text("number 2500")
    expect(page.get_by_role("link", name="Show more")).to_have_count(0)


def test_exports_are_downloads(page: Page, broker: BrokerProcess, shop: Desk) -> None:
    review = shown(page, shop, diff=edited(), intent="Take it away")
    for name, ending in (("Markdown", ".md"), ("Patch", ".patch"), ("HTML", ".html")):
        with page.expect_download() as download:
            page.get_by_role("link", name=name, exact=True).click()
        assert download.value.suggested_filename.endswith(ending)
        if name == "Patch":
            assert download.value.path().read_text("utf-8") == drawn()
        else:
            assert "Take it away" in download.value.path().read_text("utf-8")
    assert httpx.get(f"{broker.url}/reviews/{review}/export.exe").status_code == httpx.codes.NOT_FOUND


FILES = 30
CHANGED = 20
"""Lines that are replaced in each."""
LOADED_SECONDS = 60

# One step a frame, each shorter than the distance that is loaded ahead, so that every file is near the window once.
_SCROLL = """
() => new Promise((done) => {
  const step = () => {
    const before = window.scrollY;
    window.scrollBy(0, 3 * window.innerHeight);
    if (window.scrollY === before) done();
    else requestAnimationFrame(step);
  };
  step();
})
"""


@VARIATION
def test_of_many_files_those_scrolled_past_fast_or_while_the_broker_is_away_get_their_lines(
    start_broker: StartBroker, browser_windows: OpenWindows, repo: Sandbox, axe: Check
) -> None:
    broker = start_broker()
    with Desk(broker.url, fresh_project()) as desk, browser_windows(broker.url) as windows:
        windows.allow(GONE, "Failed to fetch")
        desk.register(repo.root)
        page = windows.open()
        shown(page, desk, diff=many_files(repo, FILES, CHANGED))
        files = page.locator(".file")
        last = files.last
        expect(files).to_have_count(FILES)
        expect(files.first.locator("table")).to_be_visible()
        expect(last.locator("table")).to_have_count(0)
        axe(page, "#change")
        fold = page.get_by_role("button", name="Lines of src/part_2/module_29.py")
        expect(fold).to_have_attribute("aria-expanded", "true")
        expect(page.locator("#live")).to_have_text("live")
        broker.kill()
        expect(page.locator("#live")).to_have_text("offline")
        page.keyboard.press("End")
        expect(last).to_contain_text("Not loaded: the broker did not answer. Its lines come when it is back.")
        broker.start()
        expect(last.locator("table.diff")).to_be_visible()
        expect(page.get_by_text("Not loaded")).to_have_count(0)
        # It names its action, before and after.
        expect(fold).to_have_attribute("aria-expanded", "true")
        fold.click()
        expect(last.locator("table.diff")).to_be_hidden()
        expect(fold).to_have_attribute("aria-expanded", "false")
        fold.click()
        # In the order of the tree, which leads to each of them.
        expect(last).to_have_attribute("data-path", "src/part_2/module_29.py")
        page.locator("#file-tree").get_by_role("link", name="module_15.py").click()
        expect(page.locator('.file[data-path$="module_15.py"] table')).to_be_visible()
        page.keyboard.press("Home")  # who scrolls is not led to the file any more
        page.evaluate("scrollTo({top: 0, behavior: 'instant'})")
        page.evaluate(_SCROLL)
        expect(page.locator(".file a[data-load]")).to_have_count(0, timeout=LOADED_SECONDS * 1000)
        expect(page.locator(".file.loading")).to_have_count(0)
        expect(page.locator(".file > .file-body table.diff")).to_have_count(FILES)
        # Each its own lines, and whole.
        expect(page.locator(".file tr.added")).to_have_count(FILES * CHANGED)
        wrong = "els => els.filter((el) => el.querySelector('table').dataset.path !== el.dataset.path).length"
        assert files.evaluate_all(wrong) == 0


def test_p12_a_page_lists_some_of_very_many_files_and_leads_to_the_others(page: Page, shop: Desk) -> None:
    """No one approves files that were not listed for them: beside Approve are the number of files, and a link."""
    rest = 5
    diff = "".join(new_file(f"src/{number:05}.py", f"value = {number}") for number in range(MOST_FILES + rest))
    review = shop.put_up(diff=diff)
    shop.claim(review, "ada")
    # A browser without a graphics card needs more than a minute to lay the first page out.
    first = html.unescape(page.request.get(f"/reviews/{review}").text())
    assert len(re.findall(r'class="file[ "]', first)) == MOST_FILES
    assert f"{MOST_FILES + rest} files" in first.partition('id="change-title"')[2].partition("</h")[0]
    assert f"{MOST_FILES + rest:,} files, of which a page lists" in first
    others = re.findall(r'href="([^"]*)"', first.partition('aria-label="Pages of files"')[2].partition("</nav>")[0])
    page.goto(others[-1])
    files = page.locator(".file")
    expect(files).to_have_count(rest)
    expect(page.locator(".remarks")).to_contain_text(f"{MOST_FILES + rest:,} files, of which a page lists")
    expect(files.first).to_have_attribute("data-path", f"src/{MOST_FILES:05}.py")
    expect(files.first.locator("table.diff")).to_contain_text(f"value = {MOST_FILES}")


@VARIATION
def test_the_lines_of_a_file_that_was_only_moved_are_opened_also_below_a_long_change(
    page: Page, shop: Desk, repo: Sandbox, plain: Plain
) -> None:
    for name in ("moved.txt", "run.sh"):
        repo.write(name, "".join(f"{name} {number}\n" for number in range(1, 31)))
    repo.commit("more")
    (repo.root / "moved.txt").rename(repo.root / "to.txt")
    (repo.root / "run.sh").unlink()
    repo.write("tool.sh", "".join(f"run.sh {number}\n" for number in range(1, 31)), executable=True)
    # More than comes with the page.
    repo.write("first.txt", "".join(f"{number}\n" for number in range(500)))
    review = held(page, shop, diff=staged(repo))
    for path in ("to.txt", "tool.sh"):
        file = page.locator(f'.file[data-path="{path}"]')
        expect(file.get_by_role("heading")).to_contain_text("content unchanged")
        file.scroll_into_view_if_needed()
        file.get_by_role("link", name="Show what follows").click()
        expect(file.locator("tr.line")).to_have_count(30)
    line(file.page, 20).last.click()
    write(page, "Finding on tool.sh:20", "Why?", "Send now")
    expect(page.locator("table.diff .thread").get_by_text("Why?")).to_be_visible()
    # As a file that is viewed, too.
    head = page.locator('.file[data-path="to.txt"]')
    head.get_by_role("checkbox", name="Viewed").click()
    expect(head.get_by_role("checkbox", name="Viewed")).to_be_checked()
    page.reload()
    head.get_by_role("button", name="Lines of to.txt").click()
    head.get_by_role("link", name="Show what follows").click()
    expect(head.locator("tr.line")).to_have_count(30)
    # Without scripts on a page of its own.
    plain.goto(f"/reviews/{review}").follow("Show the unchanged lines of to.txt").follow("Show what follows")
    assert len(plain.all("tr.line")) == 30
