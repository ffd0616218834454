"""Carrying out what `tandem init` and `uninit` planned: with the broker, in the files, at the gate."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tandem.bridge.project import owner
from tandem.errors import TandemError, Unavailable
from tandem.hooks.git import GitTrouble
from tandem.hooks.state import GateFile
from tandem.workflow import gate_switch
from tandem.workflow.edits import Change, content_of, install
from tandem.workflow.gate_status import gate_status
from tandem.workflow.gate_switch import Call
from tandem.workflow.init import FILE, InitRecord, Plan, Wish

Undo = Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Registered:
    """The project at the broker.

    Attributes:
        name: Its name.
        fresh: Whether it was registered just now.
    """

    name: str
    fresh: bool


@dataclass
class Done:
    """What was done.

    Attributes:
        project: The project's name; null if nobody knows it any more.
        registered: Whether it was registered, or forgotten, just now.
        gate: Whether the gate is on.
        switched: Whether it was switched just now.
        remarks: What a person should know.
    """

    project: str | None
    registered: bool
    gate: bool
    switched: bool = False
    remarks: list[str] = field(default_factory=list[str])


async def known_project(call: Call, plan: Plan) -> str | None:
    """The project that the folder is registered as; null if it is none yet.

    Raises:
        TandemError: The broker refuses or is away.
    """
    listed = await call("list_projects", {})
    return owner(str(plan.root), {one["project"]: one["root"] for one in listed["projects"]})


async def set_up(call: Call, plan: Plan, wish: Wish) -> Done:
    """Register the project, change the files, switch the gate on if it is wanted: all of it or nothing.

    Raises:
        TandemError: The broker refuses or is away, a file cannot be written, or the gate cannot be switched on.
    """
    before, gate = plan.before or InitRecord(), gate_switch.switch(plan.place)
    undo: list[Undo] = []
    try:
        registered = await _register(call, plan, wish, undo)
        record = InitRecord(
            project=registered.name,
            registered=registered.fresh or before.registered,
            gate=plan.gate,
            switched=before.switched or (plan.gate and not (gate is not None and gate.enabled)),
            clients=tuple(one.client.name for one in plan.clients),
            ledgers=plan.ledgers,
            broker=wish.broker or before.broker,
        )
        _write(plan, record, undo)
        switched = plan.gate and await _switch_on(call, plan, registered.name, record.broker)
    except BaseException:
        for step in reversed(undo):
            with suppress(TandemError):
                outcome = step()
                if isinstance(outcome, Coroutine):
                    await outcome
        raise
    gate = gate_switch.switch(plan.place)
    return Done(registered.name, registered.fresh, gate is not None and gate.enabled, switched)


async def take_back(call: Call, plan: Plan) -> Done:
    """Switch the gate off that `init` switched on, take our parts out of the files, forget the project.

    Raises:
        TandemError: A file or the gate cannot be changed. What was done until then stays done; the same command
            does the rest.
    """
    before = plan.before or InitRecord()
    gate = gate_switch.switch(plan.place)
    done = Done(before.project, registered=False, gate=gate is not None and gate.enabled)
    if plan.switches_off and gate is not None:
        done.remarks += await _switch_off(call, gate)
        done.gate, done.switched = False, True
    _write(plan, None, [])
    if before.registered and before.project is not None and done.gate:
        done.remarks.append(f"The project {before.project} stays registered, for its gate is on.")
    elif before.registered and before.project is not None:
        try:
            await call("remove_project", {"name": before.project})
            done.registered = True
        except TandemError as error:
            done.remarks.append(f"The project {before.project} is still registered: {error.message}")
    return done


async def _register(call: Call, plan: Plan, wish: Wish, undo: list[Undo]) -> Registered:
    known = await known_project(call, plan)
    if known is not None:
        return Registered(known, fresh=False)
    root = str(gate_switch.main_worktree(plan.place))
    answer = await call("register_project", {"root": root} | ({"name": wish.name} if wish.name else {}))
    name: str = answer["project"]
    undo.append(lambda: call("remove_project", {"name": name}))
    return Registered(name, fresh=True)


def _write(plan: Plan, record: InitRecord | None, undo: list[Undo]) -> None:
    """Change the files, and what is kept about that.

    Raises:
        Unavailable: A file cannot be written; everything is as it was.
    """
    file, carried = plan.folder / FILE, list[Undo]()
    before = content_of(file)
    kept = Change(file, str(file), str(file), before, record.content() if record is not None else None)
    project, *others = plan.trees
    # What finds the others' manifests is written first, and taken away last.
    trees = [project, *others] if record is not None else [*others, project]
    try:
        for manifest, planned in trees:
            more = [kept] if manifest is project[0] and kept.alters else []
            carried.append(install([*planned, *more], manifest))
    except BaseException:
        for step in reversed(carried):
            step()
        raise
    undo += carried


async def _switch_on(call: Call, plan: Plan, project: str, broker: str | None) -> bool:
    """Switch the gate on unless it is, whole; whether that was needed.

    Raises:
        TandemError: It could not be.
    """
    try:
        status = await gate_status(call, plan.place)
        if status.enabled and status.broker_enabled and all(status.hooks.values()) and status.hooks:
            return False
        await gate_switch.switch_on(call, plan.place, gate_switch.Wish(project, broker, reason="tandem init --gate"))
    except (GitTrouble, OSError) as error:
        raise Unavailable(f"The gate was not switched on, and nothing was changed: {error}.") from error
    return True


async def _switch_off(call: Call, gate: GateFile) -> list[str]:
    try:
        return await gate_switch.switch_off(call, gate, "tandem uninit")
    except (GitTrouble, OSError) as error:
        raise Unavailable(f"The gate was not switched off, and nothing was changed: {error}.") from error
