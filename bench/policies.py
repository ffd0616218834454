"""What a policy adds: to `create_review`, and to the gate's answer."""

from __future__ import annotations

import asyncio
import itertools
from statistics import median
from typing import Any

from bench.checks import commit_file
from bench.processes import Broker
from bench.report import quartiles
from bench.repositories import SMALL, make_diff, make_repository
from bench.run import Run
from bench.wire import Agent, api_call, timed
from tandem.rulings.policy import FILE

MEASURE = "policy: what 50 rules add"
CREATE_MS = 1.0
GATE_MS = 2.0
_RULES = 50
_FILES = 3
_WARM_UP = 3
_POLICY = (
    "".join(
        f"[[rule]]\nname = 'part {number}'\npaths = ['part{number}/**', '**/*{number}.sql']\nneeds = ['person']\n"
        for number in range(1, _RULES)
    )
    + "[[rule]]\nname = 'all'\nneeds = ['agent']\n"
)


async def measure(run: Run) -> None:
    """The same proposals and questions in a project without a policy and in one with it, by turns."""
    record = run.recorder(MEASURE)
    with Broker(run.scratch / "policies") as broker:
        agent = await Agent.connect(broker.port)
        for name in ("without", "with"):
            root = await asyncio.to_thread(make_repository, run.scratch / f"{name}-policy", SMALL)
            if name == "with":
                await asyncio.to_thread(commit_file, root, FILE, _POLICY)
            await api_call(broker.port, "register_project", root=str(root), name=name)
            await api_call(broker.port, "set_gate", project=name, enabled=True, branches=["main"])
        taken: dict[tuple[str, str], list[float]] = {}
        numbers = itertools.count()
        for turn in range(run.times(60, 10) + _WARM_UP):
            for name in ("without", "with"):
                for what, milliseconds in (
                    await _one(broker.port, agent, name, make_diff(numbers, _FILES, SMALL))
                ).items():
                    if turn >= _WARM_UP:
                        taken.setdefault((what, name), []).append(milliseconds)
        await agent.connection.close()
    for what, target in (("create_review", CREATE_MS), ("check_gate", GATE_MS)):
        added = median(taken[what, "with"]) - median(taken[what, "without"])
        record.add(f"a policy adds to {what}", added, "ms", target, detail=quartiles(taken[what, "with"]))


async def _one(port: int, agent: Agent, project: str, diff: str) -> dict[str, float]:
    """A review, approved, and what the gate says of it: how long both took, in milliseconds."""
    found: dict[str, Any] = {}

    async def create() -> None:
        asked = {"project": project, "diff": diff, "intent": "Measure policies", "agent_type": "gsd-executor"}
        found.update(await agent.call("create_review", **asked))

    async def ask() -> None:
        decision = await agent.call("check_gate", project=project, digest=found["digest"], branch="main")
        assert decision["allowed"], decision

    created = await timed(create)
    asked = {"review_id": found["review_id"], "reviewer_id": "codex", "claim": True}
    await api_call(port, "submit_verdict", **asked, verdict="approved")
    return {"create_review": created, "check_gate": await timed(ask)}
