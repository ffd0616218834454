"""WCAG 2.2 AA by axe-core, in the page as it stands."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

from playwright.sync_api import Page

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22a", "wcag22aa")
COLOURS = ("color-contrast", "link-in-text-block")
_SOURCE = Path(__file__).with_name("vendor") / "axe-core" / "axe.min.js"
_RUN = """async ([within, runOnly]) => {
  const found = await axe.run(within ?? document, {runOnly, resultTypes: ["violations"], elementRef: false});
  return {violations: found.violations, checked: found.passes.length};
}"""


def assert_accessible(page: Page, within: str | None = None, *, colours_only: bool = False) -> None:
    """Fail with every violation of the page, the elements and what axe says about them.

    Args:
        page: The page.
        within: The part to check, as a selector, where another test checks the page as a whole.
        colours_only: Checks only the rules whose result depends on the theme.
    """
    # Given as a script of the debugger, which the page's Content-Security-Policy does not concern.
    if not page.evaluate("'axe' in window"):
        page.evaluate(_axe())
    chosen = {"type": "rule", "values": COLOURS} if colours_only else {"type": "tag", "values": RULES}
    found: dict[str, Any] = page.evaluate(_RUN, [within, chosen])
    assert found["checked"] > 0, "axe found nothing to look at"
    wrong = [line for violation in found["violations"] for line in _told(violation)]
    assert wrong == [], "\n".join([f"{page.url} is not accessible:", *wrong])


def _told(violation: dict[str, Any]) -> list[str]:
    nodes = [f"    {node['html'][:200]}\n      {node['failureSummary']}" for node in violation["nodes"]]
    return [f"  {violation['id']} ({violation['impact']}): {violation['help']}", *nodes]


@functools.cache
def _axe() -> str:
    return _SOURCE.read_text("utf-8")
