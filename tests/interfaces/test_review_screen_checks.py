"""Checks on the screen of `tandem review`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandem.rulings.trust import CHECKS_FILE
from tests.acceptance.checking import check, checked, toml
from tests.commandline import git
from tests.interfaces.screen_stage import stage

pytestmark = pytest.mark.anyio


async def test_the_head_of_a_review_and_its_verdict_say_what_the_checks_came_to(tmp_path: Path) -> None:
    folder = tmp_path / "shop"
    with checked(tmp_path, confined=False) as project:
        async with stage(project.broker.url, folder) as at:
            root = folder / "shop"
            (root / CHECKS_FILE).parent.mkdir()
            (root / CHECKS_FILE).write_text(toml(check("tests", "exit(1)"), check("lint", "")), "utf-8")
            git(root, "add", "--all")
            git(root, "commit", "--quiet", "--message", "checks")
            project.trust(root, unconfined=True)
            review_id = await at.create(base="HEAD")
            await at.opened(review_id)
            await at.shows(
                "checks: tests failed, lint passed", "A required check has not passed: the gate stays closed."
            )
            await at.press("a")
            await at.shows("Your verdict on round 1", "You have not claimed it", "the gate stays closed")
