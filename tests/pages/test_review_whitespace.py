"""Parts of a change that are looked for or left out: whitespace, files by name, one line by its address."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.git.sandbox import Sandbox
from tests.modes import VARIATION
from tests.pages.changes import held, long_edited, many_files, shown, staged, with_long_file
from tests.pages.conftest import Check, Shot
from tests.pages.plain import Plain
from tests.pages.test_live import held as held_requests


def indented(repo: Sandbox) -> str:
    """A change that mostly indents."""
    repo.write("a.py", "".join(f"value_{number} = {number}\n" for number in range(40)))
    repo.write("b.py", "one = 1\ntwo = 2\n")
    repo.commit("before")
    body = [f"{'    ' * (number > 20)}value_{number} = {number}\n" for number in range(40)]
    repo.write("a.py", "".join([*body[:5], "value_5 = 'five'\n", *body[6:20], "if value_1:\n", *body[20:]]))
    repo.write("b.py", "one = 1\ntwo =  2\n")
    return staged(repo)


def test_p9_whitespace_that_is_hidden_is_told_of_where_one_reads_and_where_one_approves(
    page: Page, shop: Desk, repo: Sandbox, plain: Plain, axe: Check, shot: Shot
) -> None:
    review = held(page, shop, diff=indented(repo))
    expect(page.locator("tr.added")).to_have_count(22)
    page.get_by_role("link", name="Hide whitespace").click()
    expect(page.locator("tr.added")).to_have_text([re.compile("'five'"), re.compile("if value_1")])
    expect(page.locator("#change")).to_contain_text("only whitespace differs are hidden: 20 here. An approval covers")
    expect(page.locator('.file[data-path="b.py"]')).to_contain_text("1 line hidden: only whitespace differs")
    expect(page.locator(".remarks")).to_contain_text("20 changed lines hidden on this page")
    axe(page, "#acts")
    shot(page, "review-whitespace-off")
    # So also when the page is brought up to date, and when a script is not there to do anything.
    shop.say(review, "proposer", "Look at line 5.")
    expect(page.locator("#stream")).to_contain_text("Look at line 5.")
    expect(page.locator(".remarks")).to_contain_text("20 changed lines hidden on this page")
    page.locator(".remarks").get_by_role("link", name="show all").click()
    expect(page.locator("tr.added")).to_have_count(22)
    expect(page.locator(".remarks")).to_have_count(0)
    plain.goto(f"/reviews/{review}?whitespace=off&view=split")
    assert len(plain.all("td.code.added")) == 2
    assert len(plain.follow("Show whitespace").all("td.code.added")) == 22
    # The address of a line that is hidden shows it.
    page.goto(f"/reviews/{review}?whitespace=off#f1-R2")
    expect(page).to_have_url(re.compile(f"/reviews/{review}#f1-R2$"))
    expect(page.locator("tr:target, :target")).to_be_in_viewport()


def test_the_address_of_a_line_leads_to_it_though_the_page_is_highlighted_later(
    page: Page, shop: Desk, repo: Sandbox
) -> None:
    # More than is highlighted before the page is sent.
    for name in ("a", "b", "c"):
        lines = (f"{name}_{line} = [{', '.join(map(str, range(line, line + 30)))}]\n" for line in range(125))
        repo.write(f"{name}.py", "".join(lines))
    review = shop.put_up(diff=staged(repo))
    with held_requests(page, "**/part*") as later:
        page.goto(f"/reviews/{review}#f2-R100")
        expect(page.locator("tr:target")).to_be_in_viewport()
        later.go_on()
        expect(page.locator("table[data-plain]")).to_have_count(0)
    expect(page.locator("tr:target")).to_be_in_viewport()
    # In sight, not below the name of its file.
    is_seen = "row => row.contains(document.elementFromPoint(600, row.getBoundingClientRect().top + 8))"
    assert page.locator("tr:target").evaluate(is_seen)


@VARIATION
def test_files_are_found_by_a_part_of_their_path(page: Page, shop: Desk, repo: Sandbox) -> None:
    shown(page, shop, diff=many_files(repo, 12, 1))
    tree = page.get_by_role("navigation", name="Files of the change")
    page.get_by_role("searchbox", name="Filter the files").fill("PART_1/")
    expect(tree.get_by_role("link")).to_have_count(2)
    expect(tree.get_by_text("part_0/")).to_be_hidden()
    page.get_by_role("searchbox", name="Filter the files").fill("")
    expect(tree.get_by_role("link")).to_have_count(12)


@pytest.mark.parametrize("mode", ["unified", pytest.param("split", marks=VARIATION)])
def test_the_address_of_a_line_that_is_folded_opens_the_fold(page: Page, shop: Desk, repo: Sandbox, mode: str) -> None:
    with_long_file(repo)
    review = shop.put_up(diff=long_edited(repo))
    page.goto(f"/reviews/{review}?view={mode}#f0-R60")
    there = page.locator("#f0-R60:target")
    expect(there).to_be_in_viewport()
    expect(there.locator("xpath=ancestor-or-self::tr")).to_contain_text("value_60 = 60")
    # By another address of the same page, and by the number before the change.
    page.evaluate("location.hash = '#f0-L110'")
    expect(page.locator("#f0-R110:target")).to_be_in_viewport()
    # The file has no such line.
    page.evaluate("location.hash = '#f0-R121'")
    expect(page.get_by_role("alert")).to_have_text("There is no line 121 in long.py.")
    expect(page.locator("#f0:target .file-head")).to_be_in_viewport()


@VARIATION
def test_the_address_of_a_folded_line_is_found_in_a_file_that_loads_late_and_is_long(
    page: Page, shop: Desk, repo: Sandbox
) -> None:
    repo.write("z.txt", "".join(f"line {number}\n" for number in range(1, 5001)))
    repo.commit("long")
    repo.write("z.txt", repo.read("z.txt").replace(b"line 20\n", b"line twenty\n"))
    repo.write("a.txt", "".join(f"{number}\n" for number in range(500)))
    review = shop.put_up(diff=staged(repo))
    page.goto(f"/reviews/{review}#f1-R3000")
    expect(page.locator("tr:target")).to_contain_text("line 3000")
    expect(page.locator("tr:target")).to_be_in_viewport()
    # No more than the lines around it; the rest is folded still.
    assert page.locator("#f1 tr.line").count() < 500
    expect(page.get_by_role("link", name="Show 2776 unchanged lines")).to_have_count(1)
    page.goto(f"/reviews/{review}#f1-R9000")
    expect(page.get_by_role("alert")).to_have_text("There is no line 9000 in z.txt.")
    expect(page.locator("#f1:target .file-head")).to_be_in_viewport()
    expect(page.get_by_role("link", name="Show 1801 unchanged lines")).to_have_count(1)
