"""How the gate stands: the switch at both places, whether the hooks live, and what the settings ask for."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from tandem.errors import TandemError
from tandem.hooks import enforcement, pending, planning, state
from tandem.hooks.state import GateUnreadable, Place
from tandem.workflow import gate_switch, githooks
from tandem.workflow.gate_switch import Call
from tandem.workflow.githooks import Installed


@dataclass(frozen=True, slots=True)
class GateStatus:
    """How the gate of a repository stands.

    Attributes:
        enabled: What the repository says; null if it cannot be read.
        project: The project; null if the gate was never on.
        root: The main working tree.
        branches: The base branches.
        accepted: Refs whose commits are taken as they are.
        broker_enabled: What the broker says; null if it was not reached.
        broker_problem: Why not; null if it was.
        hooks: By name, whether git would start it; empty while the gate is off.
        hooks_directory: Where they are.
        previous_hooks_path: The hooks folder that is called first, if another one was set.
        chained: The hooks that are called first, by name.
        tandem_enabled: Whether the workflow's steps put up what they make.
        granularity: `per_task` or `per_plan`, as it holds after trust.
        mode: `blocking` or `optimistic`, as it holds after trust.
        untrusted: Settings that do not hold for want of `tandem trust`.
        pending: How many records wait for the broker.
        problems: What is wrong, each with what to do.
    """

    enabled: bool | None
    project: str | None
    root: str
    branches: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    broker_enabled: bool | None = None
    broker_problem: str | None = None
    hooks: dict[str, bool] = field(default_factory=dict[str, bool])
    hooks_directory: str | None = None
    previous_hooks_path: str | None = None
    chained: tuple[str, ...] = ()
    tandem_enabled: bool = False
    granularity: str = planning.PER_TASK
    mode: str = planning.BLOCKING
    untrusted: tuple[str, ...] = ()
    pending: int = 0
    problems: tuple[str, ...] = ()


async def gate_status(call: Call, place: Place) -> GateStatus:
    """How the gate stands; reads only, and delivers what waits for the broker."""
    root = str(gate_switch.main_worktree(place))
    problems: list[str] = []
    settings = planning.read(root)
    problems += settings.problems
    try:
        gate = state.find(place)
    except GateUnreadable as error:
        return GateStatus(None, None, root, problems=(str(error), *problems))
    if gate is None:
        if githooks.is_installed(githooks.found(place)):
            problems.append(
                f"{place.gate_file} is missing, though the gate's hooks are installed: they refuse everything."
                " Say which: tandem gate on, or tandem gate off"
            )
        return GateStatus(enabled=False, project=None, root=root, problems=tuple(problems), **_modes(None, settings))
    left = pending.deliver(gate)
    broker: bool | None = None
    broker_problem: str | None = None
    try:
        broker = (await call("get_gate", {"project": gate.project}))["enabled"] is True
    except TandemError as error:
        broker_problem = error.message
        problems.append(f"The broker cannot be asked: {error.message}")
    if broker is not None and broker != gate.enabled:
        said = "on" if broker else "off"
        problems.append(
            f"The broker has the gate {said}, this repository has not. Say which: tandem gate on, or tandem gate off"
        )
    installed = Installed.of(gate.hooks)
    hooks = githooks.alive(place, installed) if installed and gate.enabled else {}
    dead = [name for name, is_alive in hooks.items() if not is_alive]
    if dead or (gate.enabled and not hooks):
        problems.append(
            f"Git does not start these hooks: {', '.join(dead) or 'all'}. Install them again: tandem gate on"
        )
    return GateStatus(
        enabled=gate.enabled,
        project=gate.project,
        root=root,
        branches=gate.branches,
        accepted=gate.accepted,
        broker_enabled=broker,
        broker_problem=broker_problem,
        hooks=hooks,
        hooks_directory=installed.directory if installed else None,
        previous_hooks_path=installed.previous_hooks_path if installed else None,
        chained=tuple(installed.chained) if installed else (),
        pending=left,
        problems=tuple(problems),
        **_modes(enforcement.effective(gate), settings),
    )


def _modes(holds: planning.Effective | None, settings: planning.Planning) -> dict[str, Any]:
    """What the settings ask for, as far as it holds."""
    holds = holds or planning.effective(settings, trusted=False)
    return {
        "tandem_enabled": holds.tandem_enabled,
        "granularity": holds.granularity,
        "mode": holds.mode,
        "untrusted": holds.refused,
    }
