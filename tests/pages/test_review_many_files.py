"""A large change is loaded file by file; many that come into view at once all get their lines."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tandem.web.review.offers import MOST_FILES
from tests.acceptance.reviewing import Desk
from tests.git.sandbox import Sandbox, new_file
from tests.pages.changes import many_files

FILES = 50
CHANGED = 20
"""Lines that are replaced in each."""
LOADED_SECONDS = 60

# One step a frame, each shorter than what is loaded ahead, so that every file is near the window once.
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


def test_files_that_are_scrolled_past_fast_get_their_lines(page: Page, shop: Desk, repo: Sandbox) -> None:
    page.goto(f"/reviews/{shop.put_up(diff=many_files(repo, FILES, CHANGED))}")
    files = page.locator(".file")
    expect(files).to_have_count(FILES)
    expect(files.first.locator("table")).to_be_visible()
    expect(files.last.locator("table")).to_have_count(0)
    # In the order of the tree, which leads to each of them.
    expect(files.last).to_have_attribute("data-path", "src/part_4/module_49.py")
    page.locator("#file-tree").get_by_role("link", name="module_25.py").click()
    expect(page.locator('.file[data-path$="module_25.py"] table')).to_be_visible()
    expect(files.last.locator("table")).to_have_count(0)
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
    """Nobody approves what was never listed for them: beside Approve it says how many files there are, and where."""
    rest = 5
    diff = "".join(new_file(f"src/{number:05}.py", f"value = {number}") for number in range(MOST_FILES + rest))
    review = shop.put_up(diff=diff)
    shop.claim(review, "ada")
    page.goto(f"/reviews/{review}")
    files = page.locator(".file")
    expect(files).to_have_count(MOST_FILES)
    expect(page.locator("#change-title")).to_contain_text(f"{MOST_FILES + rest} files")
    expect(page.locator(".remarks")).to_contain_text(f"{MOST_FILES + rest:,} files, of which a page lists")
    page.get_by_role("navigation", name="Pages of files").get_by_role("link").last.click()
    expect(files).to_have_count(rest)
    expect(files.first).to_have_attribute("data-path", f"src/{MOST_FILES:05}.py")
    expect(files.first.locator("table.diff")).to_contain_text(f"value = {MOST_FILES}")
