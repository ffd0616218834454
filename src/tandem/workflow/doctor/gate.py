"""The project and its gate: both switches, the hooks, and whether the hooks really refuse."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from tandem.bridge.project import owner
from tandem.errors import TandemError, Unavailable
from tandem.hooks.git import GitTrouble
from tandem.hooks.state import GateFile
from tandem.workflow import gate_switch
from tandem.workflow.doctor import firing
from tandem.workflow.doctor.finding import Circumstances, Finding, note, ok, problem, skipped
from tandem.workflow.gate_status import GateStatus, gate_status
from tandem.workflow.gate_switch import Wish

_AGAIN = "tandem gate on"


async def check_project(here: Circumstances) -> list[Finding]:
    """Whether this repository is registered."""
    if here.place is None or here.root is None:
        return [note("project", f"{here.folder} is in no git repository, so nothing of a project was looked at.")]
    if here.call is None:
        return [skipped("project", "The broker does not answer.")]
    call, root = here.call, here.root
    listed = await call("list_projects", {})
    project = owner(str(here.folder), {one["project"]: one["root"] for one in listed["projects"]})
    if project is not None:
        return [ok("project", f"This repository is the project {project}.")]

    async def register() -> None:
        await call("register_project", {"root": str(root)})

    return [
        problem("project", "This repository is not registered.", "tandem init, or only: tandem project add", register)
    ]


async def check_gate(here: Circumstances) -> list[Finding]:
    """Whether the gate is on at both places, and git starts its hooks."""
    if here.place is None:
        return []
    call = here.call or _nobody
    found = await gate_status(call, here.place)
    if found.enabled is False and found.broker_enabled is not True:
        return [
            note(
                "gate",
                "The gate is off here: what is committed need not be approved.",
                "tandem gate on, if it should be",
            )
        ]
    repair = _reinstalling(here) if found.enabled and here.call is not None else None
    problems = [
        problem("gate", one, _AGAIN, repair) for one in found.problems if here.call or "cannot be asked" not in one
    ]
    if found.pending and here.call is not None:
        problems.append(note("gate", f"{found.pending} records wait for the broker.", "tandem gate status"))
    return problems or [_standing(found)]


def _standing(found: GateStatus) -> Finding:
    branches = ", ".join(found.branches)
    return ok("gate", f"The gate is on for {branches} ({found.granularity}, {found.mode}); git starts its hooks.")


async def check_hooks(here: Circumstances) -> list[Finding]:
    """Fire every hook of git with what cannot be approved: each has to refuse it."""
    gate = here.gate
    if gate is None or not gate.enabled:
        return []
    if here.call is None:
        return [skipped("hooks", "Without the broker a hook refuses everything, which says little about it.")]
    fired = await asyncio.to_thread(_fire, gate)
    repair = _reinstalling(here)
    return [
        ok("hooks", f"{one.hook} refuses what is not approved.")
        if one.refused
        else problem(
            "hooks", f"{one.hook} lets through what is not approved: {one.said or 'it said nothing'}", _AGAIN, repair
        )
        for one in fired
    ]


def _fire(gate: GateFile) -> list[firing.Fired]:
    try:
        return firing.fire(gate)
    except (GitTrouble, TandemError, OSError) as error:
        return [firing.Fired("every hook", refused=False, said=f"they cannot be fired ({error})")]


def _reinstalling(here: Circumstances) -> Callable[[], Awaitable[None]]:
    """Installs the hooks again, with the gate as it is."""

    async def reinstall() -> None:
        if here.call is None or here.place is None:
            raise Unavailable("The broker does not answer; start it with: tandem up --background")
        try:
            await gate_switch.switch_on(here.call, here.place, Wish(reason="tandem doctor --fix"))
        except GitTrouble as error:
            raise Unavailable(str(error)) from error

    return reinstall


async def _nobody(_operation: str, _arguments: object) -> object:
    raise TandemError("the broker does not answer")
