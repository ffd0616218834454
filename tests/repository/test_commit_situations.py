"""Each situation in which a change may be is seen through by `tandem commit` alone, run again as it says."""

from __future__ import annotations

import pytest

from tests.repository.literal_agents import LiteralAgent
from tests.repository.literal_scenes import AGENT, Stage
from tests.repository.test_literal_agents import plays, reviewed, stage

__all__ = ["stage"]

SITUATIONS = (
    *("changes_requested", "counter_patch", "question", "comment", "rejected", "failed_check", "pending_check"),
    *("three_rounds", "conflict_with_the_base", "no_reviewer", "long_quota", "closed"),
    *("closed_three_times", "untrusted_checks", "counter_patch_and_changes", "declined_counter_patch", "merge"),
)
READS = ("tandem review discussion", "tandem review proposal", "tandem checks list")
DECIDES = ("tandem review message", "tandem review patch", "git stash", "git merge", "tandem checks run")
"""Beside the command itself: commands that answer a question or a counter-patch, or take in the base branch."""


@pytest.mark.parametrize("situation", SITUATIONS)
def test_tandem_commit_sees_a_change_through(stage: Stage, situation: str) -> None:
    with stage.scene(situation) as scene:
        agent = LiteralAgent(scene.gated.root, scene.edits(), {**AGENT, **scene.environment}, prefers=scene.prefers)
        with reviewed(scene):
            agent.begins(f"tandem {scene.attempt.removeprefix('git ')}")
        plays(scene, agent)
        commands = [one.partition("\n")[0].removeprefix("$ ") for one in agent.said]
        assert [one for one in commands if not one.startswith(("tandem commit", *READS, *DECIDES))] == [], agent.told(
            "it needed other commands"
        )
