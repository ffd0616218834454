"""Counts what a person does on a page, beside the words that they type."""

from __future__ import annotations

from playwright.sync_api import Locator, Page


class Actions:
    """Keys and clicks of one person; typed words do not count.

    Args:
        page: The page that they are on.
    """

    def __init__(self, page: Page) -> None:
        self.count = 0
        self._page = page

    def click(self, place: Locator) -> None:
        """Click something."""
        self.count += 1
        place.click()

    def press(self, key: str) -> None:
        """Press a key."""
        self.count += 1
        self._page.keyboard.press(key)

    def type(self, text: str) -> None:
        """Type into the field that has the focus."""
        self._page.keyboard.type(text)
