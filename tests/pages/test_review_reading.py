"""Reading a review: its head, and its diff."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.pages.changes import every_kind, held, long_edited, shown, staged, with_long_file
from tests.pages.conftest import Check, Shot
from tests.pages.plain import Plain, words_of


def test_what_a_review_says_of_itself(page: Page, shop: Desk, repo: Sandbox, axe: Check, shot: Shot) -> None:
    parent = shop.put_up(intent="The first try", diff=every_kind(repo))
    shop.verdict(parent, "rejected", shop.claim(parent))
    whole = shop.put_up_whole(
        intent="Keep claims in the table",
        diff=every_kind(repo),
        description="## Why\n\nThe queue *forgot* `claims`.\n\n<script>alert(1)</script>\n",
        phase="04-claims",
        plan="04-02",
        task="3",
        parent_id=parent,
        metadata={"tests": "412 passed", "risks": {"level": "low"}},
    )
    page.goto(f"/reviews/{whole['review_id']}")

    expect(page.get_by_role("heading", level=1, name="Keep claims in the table")).to_be_visible()
    head = page.locator("#review-head")
    for text in ("prop-1", "claude-code", "04-claims", "04-02", "validated", whole["digest"][:16]):
        expect(head).to_contain_text(text)
    about = page.locator("#about")
    expect(about.get_by_role("heading", name="Why")).to_be_visible()
    expect(about.locator("em")).to_have_text("forgot")
    expect(about).to_contain_text("<script>alert(1)</script>")
    expect(about).to_contain_text("412 passed")
    axe(page, "#about")
    shot(page, "review-light")
    page.get_by_role("link", name="an earlier review").click()
    expect(page.get_by_role("heading", level=1, name="The first try")).to_be_visible()
    expect(page.get_by_role("link", name="a later review")).to_be_visible()


def test_every_kind_of_file_is_told_for_what_it_is(page: Page, shop: Desk, repo: Sandbox) -> None:
    shown(page, shop, diff=every_kind(repo))

    def file(name: str) -> str:
        return page.locator(f'.file[data-path="{name}"]').inner_text()

    assert "Added" in file("docs/new.md")
    assert "# New" in file("docs/new.md")
    assert "Deleted" in file("gone.txt")
    assert "old name.txt → new name.txt" in file("new name.txt")
    assert "content unchanged" in file("new name.txt")
    assert page.locator('.file[data-path="old name.txt"]').count() == 0
    assert "binary content" in file("logo.png")
    assert "100644 (file) → 100755 (program)" in file("tool.sh")
    # Within a line that was changed, only the new words are marked.
    changed = page.locator('.file[data-path="a.txt"]')
    expect(changed.locator("tr.added ins")).to_have_text(re.compile("^a better ?$"))
    # The tree leads to each of them.
    tree = page.get_by_role("navigation", name="Files of the change")
    expect(tree.get_by_role("link")).to_have_count(6)
    tree.get_by_role("link", name="gone.txt").click()
    expect(page.locator('.file[data-path="gone.txt"] .file-head')).to_be_in_viewport()


@VARIATION
def test_side_by_side_is_remembered(page: Page, shop: Desk, repo: Sandbox, shot: Shot) -> None:
    review = shown(page, shop, diff=every_kind(repo))
    expect(page.locator("table.diff-unified").first).to_be_visible()
    page.keyboard.press("s")
    expect(page.locator('.file[data-path="a.txt"] table.diff-split')).to_be_visible()
    page.goto(f"/reviews/{review}")
    expect(page.locator('.file[data-path="a.txt"] table.diff-split')).to_be_visible()
    shot(page, "review-side-by-side")
    page.get_by_role("link", name="Unified").click()
    expect(page.locator('.file[data-path="a.txt"] table.diff-unified')).to_be_visible()


@VARIATION
def test_a_printed_review_has_the_change_over_the_whole_width(page: Page, shop: Desk) -> None:
    shown(page, shop)
    expect(page.locator("table.diff")).to_be_visible()
    page.emulate_media(media="print")
    for selector in ("nav", "#review-bar", "#acts button", ".file-tools"):
        expect(page.locator(selector).first).to_be_hidden()
    change, main = page.locator("#change").bounding_box(), page.locator("main").bounding_box()
    assert change is not None
    assert main is not None
    assert change["width"] >= 0.9 * main["width"]
    expect(page.locator("#stream")).to_be_visible()
    page.emulate_media(media="screen")  # the window serves other tests, too


def test_lines_around_a_change_open_in_place_or_without_scripts_on_a_page_of_their_own(
    page: Page, shop: Desk, repo: Sandbox, plain: Plain
) -> None:
    with_long_file(repo)
    review = shown(page, shop, diff=long_edited(repo))
    diff = page.locator('.file[data-path="long.py"] table')
    expect(diff).not_to_contain_text("value_50 = 50")
    # A long gap can be opened from either of its ends.
    page.get_by_role("button", name="Show 20 lines below the change above").click()
    expect(diff).to_contain_text("value_43 = 43")
    expect(diff).not_to_contain_text("value_50 = 50")
    page.get_by_role("button", name="Show 20 lines above the change below").click()
    expect(diff).to_contain_text("value_77 = 77")
    page.get_by_role("link", name="Show 33 unchanged lines").click()
    expect(diff).to_contain_text("value_50 = 50")
    page.get_by_role("link", name="Show 16 unchanged lines").click()
    page.get_by_role("link", name="Show what follows").click()
    expect(diff.locator("tr.line")).to_have_count(122)
    expect(diff.get_by_role("link", name="Show")).to_have_count(0)
    numbers = diff.locator("tr.line:not(.deleted) td:nth-child(2)").all_inner_texts()
    assert numbers == [str(number) for number in range(1, 121)]
    plain.goto(f"/reviews/{review}").follow("Show 73 unchanged lines")
    assert "value_50 = 50" in plain.text("table.diff")
    assert len(plain.all("table.diff tr.added")) == 2
    assert "value_50 = 50" not in plain.follow("Back to the review").text("table.diff")


def test_findings_stand_below_their_lines(page: Page, shop: Desk, repo: Sandbox) -> None:
    with_long_file(repo)
    review = shop.put_up(diff=long_edited(repo))
    findings = [
        {"file": "long.py", "line": 20, "severity": "nit", "claim": "Why this *number*?"},
        {"file": "long.py", "line": 60, "severity": "nit", "claim": "And this one, which did not change?"},
        {"file": "long.py", "severity": "nit", "claim": "A word on all of it."},
        {"severity": "major", "claim": "A word on the whole change."},
    ]
    shop.verdict(review, "comment", shop.claim(review), findings=findings)
    page.goto(f"/reviews/{review}")
    file = page.locator('.file[data-path="long.py"]')
    below = file.locator("tr:has(a[data-line='20']):not(.deleted) + tr.threads")
    expect(below).to_contain_text("Why this number?")
    # Findings on lines that the diff leaves out, or on the file, stand above its lines.
    expect(file.locator(".unplaced")).to_contain_text(["A word on all of it.", "Line 60:"])
    expect(page.locator("#findings-above")).to_contain_text("A word on the whole change.")
    expect(page.locator("#file-tree")).to_contain_text("3 findings")


@VARIATION
def test_a_project_without_a_repository(page: Page, desk: Desk, repo: Sandbox) -> None:
    with_long_file(repo)
    shown(page, desk, diff=long_edited(repo))
    expect(page.get_by_text("not validated")).to_be_visible()
    # There is nowhere to read the lines between from, so they are counted only.
    expect(page.get_by_text("73 unchanged lines")).to_be_visible()
    expect(page.get_by_role("link", name="unchanged lines")).to_have_count(0)


def test_what_stands_outside_of_a_diff_is_not_hidden(page: Page, shop: Desk) -> None:
    odd = "diff --git a/x b/x\n--- a/x\n+++ b/x\n@@ -1 +1 @@\n-a\n+b\n-- \nwhat <b>is</b> this\n"
    shown(page, shop, diff=odd, skip_diff_validation=True)
    expect(page.locator("tr.stray").last).to_contain_text("what <b>is</b> this")
    expect(page.get_by_text("not validated")).to_be_visible()


def test_a_hand_off_is_shown_field_by_field(page: Page, desk: Desk) -> None:
    payload = '{"todos": ["Say how far an upload <is>."], "shapes": [{"sent": "bytes"}]}'
    shown(page, desk, category="handoff", description=payload)
    expect(page.get_by_role("definition").filter(has_text="Say how far an upload <is>.")).to_be_visible()
    expect(page.get_by_role("definition").filter(has_text='"sent": "bytes"')).to_be_visible()
    page.get_by_role("link", name="Source").click()
    expect(page.locator("table.diff")).to_contain_text('"todos": ["Say how far an upload <is>."]')


@VARIATION
def test_the_keyboard_goes_through_a_change(page: Page, shop: Desk, repo: Sandbox) -> None:
    with_long_file(repo)
    repo.write("a.txt", "line 1\nline two\n")
    lines = repo.read("long.py").decode().replace("value_20 = 20", "value_20 = 21").replace("value_100 = 100", "gone")
    repo.write("long.py", lines)
    shown(page, shop, diff=staged(repo))
    heads = page.locator(".file-head")
    page.keyboard.press("n")
    expect(heads.nth(0)).to_be_focused()
    page.keyboard.press("n")
    expect(heads.nth(1)).to_be_focused()
    page.keyboard.press("p")
    expect(heads.nth(0)).to_be_focused()
    page.keyboard.press("j")
    rows = page.locator("tr.line")
    expect(rows.nth(0)).to_be_focused()
    page.keyboard.press("j")
    expect(rows.nth(1)).to_be_focused()
    page.keyboard.press("k")
    expect(rows.nth(0)).to_be_focused()
    page.keyboard.press("N")
    expect(page.locator("tr.deleted").first).to_be_focused()
    page.keyboard.press("N")
    expect(page.locator("tr.deleted", has_text="value_20 = 20")).to_be_focused()
    page.keyboard.press("o")
    expect(page.locator('.file[data-path="long.py"] table')).to_be_hidden()
    page.keyboard.press("t")
    # The file that is current by then, which is whichever the page has been scrolled to.
    expect(page.locator("#file-tree a:focus")).to_have_count(1)
    page.keyboard.press("?")
    for words in ("previous file", "previous change", "Side by side or unified", "Mark the file as viewed, or not"):
        expect(page.get_by_role("dialog").get_by_text(words)).to_be_visible()


def test_a_renamed_file_is_one_file_with_the_lines_that_changed(
    page: Page, shop: Desk, repo: Sandbox, plain: Plain, axe: Check
) -> None:
    body = [f"value_{number} = {number}\n" for number in range(1, 101)]
    repo.write("lib/old.py", "".join(body))
    repo.write("moved.py", "".join(f"moved_{number}\n" for number in range(50)))
    repo.commit("before")
    (repo.root / "lib/old.py").unlink()
    repo.write("lib/new.py", "".join([*body[:49], "value_50 = 'fifty'\n", *body[50:]]))
    (repo.root / "moved.py").rename(repo.root / "lib/moved.py")
    review = held(page, shop, diff=staged(repo))
    file = page.locator('.file[data-path="lib/new.py"]')
    expect(page.locator(".file")).to_have_count(2)
    # Its numbers are the same in the queue, the inbox and the terminal, which count its affected files.
    counted = [(one["added"], one["removed"]) for one in shop.do("get_proposal", review_id=review)["affected_files"]]
    assert sorted(counted) == [(0, 0), (1, 1)]
    inbox = shop.do("get_inbox", person="ada")
    [row] = [one for one in inbox["your_turn"] if one["review"]["review_id"] == review]
    assert (row["files"], row["added"], row["removed"]) == (2, 1, 1)
    expect(page.get_by_role("heading", name="2 files +1 −1")).to_be_visible()
    told = r"renamed\s+lib/old.py → lib/new.py\s+\+1 −1"
    expect(file.get_by_role("heading")).to_have_text(re.compile(told, re.IGNORECASE))
    expect(file.locator("tr.line")).to_have_count(8)
    # Everything that it brings along can be seen, and that it is not seen at once is told where one approves.
    expect(page.locator(".remarks")).to_contain_text("2 renamed files, whose unchanged lines are folded")
    file.get_by_role("link", name="Show 46 unchanged lines").click()
    expect(file.locator("tr.line").first).to_contain_text("value_1 = 1")
    whole = page.locator('.file[data-path="lib/moved.py"]')
    expect(whole.get_by_role("heading")).to_contain_text("content unchanged")
    whole.get_by_role("link", name="Show what follows").click()
    expect(whole.locator("tr.line")).to_have_count(50)
    axe(page, "#change")
    # A finding on the removed line is one on the file that it was removed from.
    file.locator('a[data-side="before"][data-line="50"]').click()
    page.get_by_label("Finding on lib/old.py:50").fill("Why?")
    page.get_by_role("button", name="Send now").click()
    expect(file.locator(".thread")).to_contain_text("Why?")
    [one] = shop.do("list_findings", review_id=review)["findings"]
    assert (one["file"], one["line"], one["side"], one["lines"]) == ("lib/old.py", 50, "old", "value_50 = 50")
    plain.goto(f"/reviews/{review}")
    assert ["Why?" in words_of(one) for one in plain.all(".thread")] == [True]
    assert "Finding on lib/old.py:50" in plain.at(50, side="before").text("h1")
    assert "Why?" in plain.text()
