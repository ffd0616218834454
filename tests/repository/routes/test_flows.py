"""Daily work with the gate on: it passes, or the refusal names the next step."""

from __future__ import annotations

import pytest

from tandem.rulings.state import REVIEWED
from tests.repository.routes.tables import Row, turns
from tests.repository.routes.world import REFUSED, World

WAYS_ON = ("tandem submit ", "tandem land ", "tandem gate override", "tandem rollback ")


@pytest.mark.parametrize(("flow", "commits"), turns("flows.txt"))
def test_daily_work_passes_or_is_told_what_to_do(world: World, flow: Row, commits: str):
    before = world.tip()
    for step in flow.steps:
        kind, _, rest = step.partition(" ")
        said = world.step(rest if kind in {"!", "?"} else step)
        if said is None:
            continue
        words = said.stdout + said.stderr
        if kind == "!" and said.ok and commits != REVIEWED:
            # On another branch it passes. A commit is undone, so that the row goes on as it is written.
            command, is_commit, _ = rest.partition("commit ")
            if is_commit:
                world.step(f"{command}reset --quiet --soft HEAD^")
            continue
        assert (REFUSED in words) == (kind == "!"), f"{step}\n{words}"
        if kind == "!":
            assert not said.ok, step
            assert any(way in words for way in WAYS_ON), words
        else:
            assert said.ok or kind == "?", f"{step}\n{words}"
    assert not world.unapproved((before, world.tip("../bare.git")))
    assert world.audited()["approved"]
