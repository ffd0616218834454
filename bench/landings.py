"""How many branches land in a minute: by `tandem land` of several agents at once, and by hand, one after the other."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from bench import checks, machine
from bench.commits import approve, git, working_tree
from bench.processes import Broker, environment, python
from bench.run import Run
from bench.wire import api_call

MEASURE = "landings: branches that land in a minute"
AGENTS = 8
CHECK_SECONDS = 0.5
_CHECK = ["sleep", str(CHECK_SECONDS)]


async def measure(run: Run) -> None:
    """The same approved branches, whose check takes half a second, in two repositories, one of them with the gate."""
    record = run.recorder(MEASURE)
    checks.take_what_the_tests_bring()
    each = run.times(20, 2)
    with Broker(run.scratch / "landing", pinned=False) as broker:
        env = {**environment(broker.data_dir), "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull}
        plain, gated = (working_tree(run.scratch / name, env) for name in ("by-hand", "landed"))
        for root in (plain, gated):
            checks.name_a_check(root, broker.data_dir / "no-config", f"[[check]]\nname = 'tests'\ncommand = {_CHECK}\n")
            git(root, env, "reset", "--quiet", "--hard")
        names = [f"branch-{number}" for number in range(AGENTS * each)]
        for root in (plain, gated):
            for name in names:
                _branch(root, env, name)
        command = [python(), "-m", "tandem", "gate", "on", "--broker", f"http://127.0.0.1:{broker.port}"]
        await asyncio.to_thread(subprocess.run, command, cwd=gated, env=env, check=True, capture_output=True)
        for name in names:
            diff = git(gated, env, "diff", "--binary", "--full-index", f"main...{name}")
            what = {"project": gated.name, "intent": name, "diff": diff}
            created = await api_call(broker.port, "create_review", agent_type="bench", proposer_id="writer", **what)
            await approve(broker.port, created["review_id"])
        by_hand = await asyncio.to_thread(_by_hand, plain, env, names)
        landed = await asyncio.to_thread(_landed, gated, env, names)
    detail = f"{len(names)} branches; the check takes {CHECK_SECONDS:g} s"
    record.add(f"tandem land, {AGENTS} agents at once", landed, "/min", detail=detail)
    record.add("git merge and the check, one after the other", by_hand, "/min", detail=detail)
    record.add("tandem land against that", landed / by_hand, "x")


def _branch(root: Path, env: dict[str, str], name: str) -> None:
    git(root, env, "switch", "--quiet", "--create", name, "main")
    (root / f"{name}.txt").write_text("here\n", "utf-8")
    git(root, env, "add", "--all")
    git(root, env, "commit", "--quiet", "-m", name)
    git(root, env, "switch", "--quiet", "main")


def _by_hand(root: Path, env: dict[str, str], names: list[str]) -> float:
    """Landings a minute of someone who merges, and looks whether the check passes."""
    began = time.perf_counter()
    with machine.starting_a_server(pinned=False):
        for name in names:
            git(root, env, "merge", "--quiet", "--no-ff", "--no-edit", name)
            subprocess.run(_CHECK, cwd=root, env=env, check=True)
    return len(names) * 60 / (time.perf_counter() - began)


def _landed(root: Path, env: dict[str, str], names: list[str]) -> float:
    """Landings a minute of agents that each have a working tree and land their own branches, all at once."""
    trees = [root.parent / f"agent-{agent}" for agent in range(AGENTS)]
    for tree in trees:
        git(root, env, "worktree", "add", "--quiet", "--detach", str(tree))

    def land(agent: int) -> None:
        for name in names[agent::AGENTS]:
            command = [python(), "-m", "tandem", "land", name]
            subprocess.run(command, cwd=trees[agent], env=env, check=True, capture_output=True)

    began = time.perf_counter()
    with machine.starting_a_server(pinned=False), ThreadPoolExecutor(AGENTS) as pool:
        list(pool.map(land, range(AGENTS)))
    took = time.perf_counter() - began
    merged = int(git(root, env, "rev-list", "--count", "--merges", "main"))
    assert merged == len(names), f"{merged} of {len(names)} landed"
    return len(names) * 60 / took
