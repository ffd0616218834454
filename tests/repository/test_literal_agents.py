"""An agent that does only what the last message says reaches an approved commit, or stops and tells its person why.

The situations, each played by an agent with a shell and by one with the tools of `tandem mcp`. A change of a message
that breaks the way on fails one of these.
"""

from __future__ import annotations

from collections.abc import Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from tests.interfaces.bridging import bridge
from tests.repository.gating import Gated
from tests.repository.literal_agents import LiteralAgent, ToolAgent
from tests.repository.literal_scenes import AGENT, DIGITS, SCENES, Reviewer, Scene, Stage, played


@pytest.fixture
def stage(request: pytest.FixtureRequest, tmp_path: Path, config_dir: Path) -> Stage:
    """Where the situations are set."""
    assert config_dir.is_dir()
    return Stage(lambda: request.getfixturevalue("gated"), lambda: request.getfixturevalue("project"), tmp_path)


@contextmanager
def reviewed(scene: Scene) -> Generator[None]:
    """The scene with its reviewer at work."""
    with scene.gated.caller() as caller, ThreadPoolExecutor(1) as pool:
        reviewer = Reviewer(caller)
        work = pool.submit(scene.reviews, reviewer)
        try:
            yield
        finally:
            reviewer.is_over.set()
    # A step that the reviewer left out shows in how the agent ended.
    assert isinstance(work.exception(), AssertionError | None), work.exception()


def plays(scene: Scene, agent: LiteralAgent) -> None:
    """Check how the agent ended."""
    if scene.stops:
        assert agent.stopped is not None, agent.told("it did not stop")
        return
    assert agent.has_committed, agent.told("it did not commit")
    under_way = [name for name in ("rebase-merge", "MERGE_HEAD", "sequencer") if (agent.root / ".git" / name).exists()]
    assert under_way == [], agent.told(f"it left {under_way}")
    with suppress(StopIteration):
        raise AssertionError(agent.told(f"never told to change: {next(agent.edit)}"))
    is_commit = scene.is_staged or "commit" in agent.said[-1]
    assert scene.gated.trailers() or not is_commit, agent.told("the commit names no review")
    assert scene.gated.git("diff", "--cached", "--name-only") == scene.leaves


READS = ("tandem review discussion", "tandem review proposal", "tandem checks list")
DECIDES = ("tandem review message", "tandem review patch", "git stash", "git merge", "tandem checks run")
"""Beside the command itself: commands that answer a question or a counter-patch, or take in the base branch."""


# Of a broker that is not known to be its own the hook only says how to start it.
@pytest.mark.parametrize("situation", played("shell"))
def test_an_agent_with_a_shell_gets_there_by_the_last_message(stage: Stage, situation: str) -> None:
    with stage.scene(situation) as scene:
        agent = LiteralAgent(scene.gated.root, scene.edits(), {**AGENT, **scene.environment}, prefers=scene.prefers)
        with reviewed(scene):
            agent.begins(scene.attempt)
        plays(scene, agent)
        if SCENES[situation].section == "anywhere":
            # After the refusal `tandem commit` alone sees it through, run again as it says.
            commands = [one.partition("\n")[0].removeprefix("$ ") for one in agent.said[1:]]
            others = [one for one in commands if not one.startswith(("tandem commit", *READS, *DECIDES))]
            assert others == [], agent.told("it needed other commands")


@pytest.mark.parametrize("situation", played("tools", "commits_from_before_the_gate"))
def test_an_agent_with_tools_gets_there_by_the_last_answer(stage: Stage, situation: str) -> None:
    with stage.scene(situation) as scene:
        agent = ToolAgent(scene.gated.root, scene.edits(), {**AGENT, **scene.environment})
        agent.attempt = scene.attempt
        options = ("--role", "proposer", "--project", scene.gated.project)
        content = {} if scene.path == "a.txt" else {"path": scene.path, "description": ""}
        with bridge(*options, folder=agent.root, **agent.environment) as agent.client, reviewed(scene):
            agent.begins_with("create_review", **content)
        plays(scene, agent)
        # The review keeps its kind, a text or a diff.
        assert (":" in agent.last["digest"]) is (scene.path != "a.txt")


def test_a_closed_review_says_why_on_every_way(gated: Gated) -> None:
    gated.stage({"a.txt": DIGITS})
    review_id, why = gated.put_up(), "We do not want digits."
    gated.call("close_review", review_id=review_id, reason=why)
    assert f"{review_id} of exactly this was closed without approval: '{why}'" in gated.refused(
        "commit", "-m", "Digits"
    )
    waited, shown = gated.tandem("review", "status", review_id, "--wait"), gated.tandem("review", "show", review_id)
    assert (waited.status, shown.status) == (13, 0)
    assert why in waited.stdout
    assert why in shown.stdout
    assert f"tandem submit --parent {review_id}" in waited.stdout


def test_an_agent_withdraws_only_its_own_approval(gated: Gated) -> None:
    gated.stage({"a.txt": DIGITS})
    review_id = gated.approve()
    withdraw = ("review", "withdraw", review_id, "--reason", "It loses data.")
    refused = gated.tandem(*withdraw, CLAUDECODE="1")
    assert (refused.status, "FORBIDDEN" in refused.stderr, "rev-1 approved this" in refused.stderr) == (1, True, True)
    assert gated.call("get_review_status", review_id=review_id)["status"] == "approved"
    assert gated.tandem(*withdraw, "--agent", "rev-1", CLAUDECODE="1").status == 0
