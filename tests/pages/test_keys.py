"""The keyboard: everything can be reached by it, and `?` says how."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from tests.acceptance.reviewing import Desk
from tests.pages.conftest import Check


def test_the_keys_are_listed_and_work(page: Page, shop: Desk, axe: Check):
    first, second = (shop.put_up(intent=intent) for intent in ("The first", "The second"))
    page.goto(f"/?project={shop.project}")
    page.keyboard.press("?")
    keys = page.get_by_role("dialog", name="Keys")
    expect(keys).to_contain_text("Go to the queue")
    axe(page)
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


def test_typing_is_not_taken_for_keys(page: Page):
    page.goto("/you")
    page.get_by_label("Name").fill("")
    page.keyboard.type("gi?jk")
    expect(page.get_by_label("Name")).to_have_value("gi?jk")
    expect(page.get_by_role("dialog")).to_be_hidden()
    page.keyboard.press("Escape")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()


def test_the_theme_is_chosen_and_kept(page: Page):
    page.goto("/you")
    theme = page.get_by_role("button", name="Theme")
    for chosen in ("light", "dark"):
        theme.click()
        expect(page.locator("html")).to_have_attribute("data-theme", chosen)
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    theme.click()
    expect(page.locator("html")).not_to_have_attribute("data-theme", "dark")
