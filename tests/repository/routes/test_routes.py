"""Ways to get unapproved content into a base branch: each is refused, or found and admitted in the guide."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tandem.rulings.state import REVIEWED
from tests.repository.routes.tables import Row, cases, turns
from tests.repository.routes.world import ATTEMPT, NONE, REFUSED, World

GUIDE = Path(__file__).parents[3] / "docs/reference/gate.md"
ADMITTED = "## What bypasses the hooks"
UNHOOKED = "Commands of git that start no hook"
"""A section of `found.txt`; newer versions of git start one for some of them."""

OF_HOOKS, OF_REMOTES, OF_OBJECTS = "The hooks deleted", "A push without its hook", "An object's bytes replaced"
OF_SHOWN = "Other content shown"
"""Sections of `found.txt` that something else finds than an audit of the base branch alone."""

SILENT = {"filter-branch"}
"""Its update of the base branch is refused, and git keeps to itself why."""


def _attempted(world: World, steps: Sequence[str]) -> tuple[str, str]:
    """Prepare a route and try it; where the base branches were in between."""
    at = steps.index(ATTEMPT) if ATTEMPT in steps else -1
    world.do(steps[: max(at, 0)])
    assert REFUSED not in world.words, world.words
    before = world.tips()
    world.said.clear()
    world.do(steps[at + 1 :])
    return before


@pytest.mark.parametrize(("route", "commits"), turns("refused.txt"))
def test_p2_what_nobody_approved_is_refused(world: World, route: Row, commits: str):
    before = _attempted(world, route.steps)
    # Where other branches are open, a route may end on one.
    stays = commits != REVIEWED and world.tips() == before
    assert REFUSED in world.words or route.name in SILENT or stays, world.words
    assert not world.unapproved(before), world.words
    here, there = world.tips()
    assert there in {before[1], NONE}
    if here not in {before[0], NONE}:
        assert world.audited()["approved"], world.words


@pytest.mark.parametrize("route", cases("found.txt"))
def test_p2_what_bypasses_the_hooks_is_found_and_admitted(world: World, route: Row):
    before = _attempted(world, route.steps)
    admitted = GUIDE.read_text("utf-8").partition(ADMITTED)[2].partition("\n## ")[0]
    assert any(line.startswith(f"| {route.section}") for line in admitted.splitlines()), route.section
    if route.section.startswith(UNHOOKED) and REFUSED in world.words:
        assert not world.unapproved(before)
        return
    if route.section.startswith(OF_OBJECTS):
        assert "hash" in world.run("fsck").stderr
        return
    if route.section.startswith(OF_SHOWN):
        for command in (("gate", "status"), ("doctor",), ("audit", "main")):
            ended = world.gated.tandem(*command)
            said = " ".join((ended.stdout + ended.stderr).split())
            assert (ended.status, "which a base branch holds" in said) == (1, True), said
            assert "git replace -d " in said or "delete its line in that file" in said
        return
    assert world.unapproved(before), world.words
    if is_remote := route.section.startswith(OF_REMOTES):
        world.run("fetch", "--quiet", "origin")
    said = world.audited("origin/main" if is_remote else "main")
    assert not said["approved"]
    assert "unapproved" in {commit["verdict"] for commit in said["commits"]}
    if route.section.startswith(OF_HOOKS):
        assert world.gated.tandem("gate", "status").status == 1


@pytest.mark.parametrize(("route", "commits"), turns("harmless.txt"))
def test_what_is_let_be_brings_nothing_that_was_not_approved(world: World, route: Row, commits: str):
    before = _attempted(world, route.steps)
    assert REFUSED not in world.words, world.words
    assert not world.unapproved(before)
    if world.tip() != NONE:
        assert world.audited()["approved"]
