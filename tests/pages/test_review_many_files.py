"""A large change is loaded file by file; many that come into view at once all get their lines."""

from __future__ import annotations

from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.git.sandbox import Sandbox
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
