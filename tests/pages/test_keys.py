"""The keyboard: everything can be reached by it, and `?` says how."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tandem.present.keys import KEYS, of_screens
from tests.acceptance.reviewing import Desk
from tests.modes import VARIATION
from tests.pages.conftest import Check


@VARIATION
def test_the_keys_are_listed_and_work(page: Page, shop: Desk, axe: Check):
    first, second = (shop.put_up(intent=intent) for intent in ("The first", "The second"))
    page.goto(f"/?project={shop.project}")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("The queue")
    axe(page, "dialog[open]")
    page.keyboard.press("Escape")
    expect(keys).to_be_hidden()
    page.keyboard.press("j")
    expect(page.locator(f"#unclaimed-{first}")).to_be_focused()
    page.keyboard.press("j")
    expect(page.locator(f"#unclaimed-{second}")).to_be_focused()
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile(f"/reviews/{first}$"))
    page.wait_for_load_state()  # the address is there before the scripts are
    page.keyboard.press("g")
    page.keyboard.press("i")
    expect(page).to_have_url(re.compile("/$"))
    page.wait_for_load_state()
    page.keyboard.press("R")
    expect(page).to_have_url(re.compile("/reviewers$"))


def test_every_key_of_a_page_is_in_the_table_and_in_the_help(page: Page, shop: Desk):
    review = shop.put_up()
    shop.claim(review, "ada")
    told = {key for one in KEYS if one.page for key in one.parts}
    keys = page.get_by_role("dialog", name="Keys")
    for path in ("/", "/queue", "/reviewers", "/activity", f"/reviews/{review}"):
        page.goto(path)
        pressed = page.locator("[data-key]").evaluate_all("all => all.map(one => one.dataset.key)")
        assert set(pressed) - told == set(), path
        page.keyboard.press("?")
        expect(keys.get_by_role("heading", name="Go to", exact=True)).to_be_visible()
        shown = keys.locator("[data-named]:visible").evaluate_all("all => all.map(one => one.dataset.named)")
        assert set(pressed) - set(shown) == set(), path
        # From its top.
        assert keys.evaluate("one => one.scrollTop") == 0, path
    for words in (
        "Approve at once",
        "Request changes: say why",
        "Reject: say why",
        "Write a message",
        "Offer a counter",
    ):
        expect(keys.get_by_text(words)).to_be_visible()


def test_the_same_key_is_never_two_things_on_one_page_or_screen():
    for screen in {name for one in KEYS for name in one.screens.split()}:
        keys = [key for one in of_screens(screen) for key, _ in one.bound()]
        assert len(keys) == len(set(keys)), screen
    on_pages = [(key, one.page) for one in KEYS if one.page for key in one.parts]
    assert len(on_pages) == len(set(on_pages))


@VARIATION
def test_the_theme_is_chosen_and_kept_and_typing_is_not_taken_for_keys(page: Page):
    page.goto("/you")
    theme = page.get_by_role("button", name="Theme")
    for chosen in ("light", "dark"):
        theme.click()
        expect(page.locator("html")).to_have_attribute("data-theme", chosen)
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    theme.click()
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")
    page.get_by_label("Name").fill("")
    page.keyboard.type("gi?jk")
    expect(page.get_by_label("Name")).to_have_value("gi?jk")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
