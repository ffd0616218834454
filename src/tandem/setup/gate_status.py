"""How the gate of a repository stands: here, at its broker and in git's hooks."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from tandem.bridge.location import find_data_dir, locate, targets
from tandem.client import TandemClient
from tandem.errors import ConfigInvalid, TandemError
from tandem.rulings import ask, git, liveness, pending, planning, state
from tandem.rulings.state import GateFile, GateUnreadable, HookRepository
from tandem.setup import githooks
from tandem.setup.githooks import Installed
from tandem.setup.registration import Call, registered_as


@dataclass(slots=True)
class GateStatus:
    """How the gate of a repository stands.

    Attributes:
        enabled: What the repository says; None if it cannot be read.
        project: The project; None if the gate was never on.
        root: The main working tree.
        branches: The base branches.
        accepted: The commits that are taken as they are, with their ancestors; empty if the broker was not reached.
        trusted: The contents of settings that a person trusts, as the broker has them: SHA-256 and file.
        sign: Whether approved commits are signed.
        commits: What becomes of commits on other branches, one of `state.COMMITS`.
        threshold: From which severity on an open finding keeps an approval back; None if the broker was not reached.
        public_key: What others verify that with; None if the broker was not reached.
        signers: Whose brokers' signatures count, each as `NAME=KEY`.
        broker_enabled: What the broker says; None if it was not reached.
        broker_problem: Why not; None if it was.
        hooks: By name, whether git would start it; empty while the gate is off.
        hooks_directory: Where they are.
        previous_hooks_path: The hooks folder that is called first, if another one was set.
        chained: The hooks that are called first, by name.
        tandem_enabled: Whether the workflow's steps propose their results.
        granularity: `per_task` or `per_plan`, as it holds after trust.
        mode: `blocking` or `optimistic`, as it holds after trust.
        untrusted: Settings that do not hold for want of `tandem trust`.
        pending: How many records wait for the broker.
        refused: The records that the broker has refused, each with its file and the reason.
        replaced: What git shows in place of what the base branches hold, each with what to do.
        problems: What else is wrong, each with what to do.
    """

    enabled: bool | None
    project: str | None
    root: str
    branches: tuple[str, ...] = ()
    accepted: tuple[str, ...] = ()
    trusted: tuple[str, ...] = ()
    sign: bool = False
    commits: str | None = None
    threshold: str | None = None
    public_key: str | None = None
    signers: tuple[str, ...] = ()
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
    refused: tuple[str, ...] = ()
    replaced: dict[str, str] = field(default_factory=dict[str, str])
    problems: list[str] = field(default_factory=list[str])


async def gate_status(call: Call, place: HookRepository) -> GateStatus:
    """How the gate stands; reads only, and delivers what waits for the broker."""
    settings = planning.read(place.settings_root)
    status = GateStatus(None, None, place.home, problems=[*settings.problems])
    try:
        gate = state.find(place)
    except GateUnreadable as error:
        status.problems.insert(0, str(error))
        return status
    holds = planning.in_force(gate) if gate is not None else planning.effective(settings, trusted=False)
    status.tandem_enabled, status.untrusted = holds.tandem_enabled, holds.refused
    status.granularity, status.mode = holds.granularity, holds.mode
    if gate is None:
        status.enabled = False
        await _look_for_lost(call, place, status)
        return status
    status.enabled, status.project = gate.enabled, gate.project
    status.branches, status.sign, status.commits = gate.branches, gate.sign, gate.commits
    status.pending = pending.deliver(gate)
    status.refused = tuple(pending.refused(place))
    try:
        answer = await call("get_gate", {"project": gate.project, "with_key": True})
        status.broker_enabled = answer["enabled"] is True
        status.accepted, status.trusted = tuple(answer["accepted"]), tuple(answer["trusted"])
        status.threshold = answer["threshold"]
        status.public_key, status.signers = answer["public_key"], tuple(answer["signers"])
        if gate.enabled and status.broker_enabled:
            status.problems += await differences(call, gate)
    except TandemError as error:
        status.broker_problem = error.message
        status.problems.append(f"The broker cannot be asked: {error.message}")
    if status.broker_enabled not in {None, gate.enabled}:
        said = "on" if status.broker_enabled else "off"
        status.problems.append(
            f"The broker has the gate {said}, this repository has not. Say which: tandem gate on, or tandem gate off"
        )
    installed = Installed.of(gate.hooks)
    if installed is not None:
        status.hooks = liveness.alive(place, installed.directory) if gate.enabled else {}
        status.hooks_directory, status.chained = installed.directory, tuple(installed.chained)
        status.previous_hooks_path = installed.previous_hooks_path
    if gate.enabled and (silent := liveness.problem(gate)) is not None:
        status.problems.append(silent)
    if gate.enabled:
        status.replaced = git.replaced(place, [*git.Bases(gate, ()).tips.values()])
    return status


async def _look_for_lost(call: Call, place: HookRepository, status: GateStatus) -> None:
    """Note whether there is a gate after all: of another repository, in the hooks alone, or at the broker alone."""
    if (borrowed := githooks.lender(place)) is not None:
        status.problems.append(borrowed[0])
        return
    if githooks.is_installed(githooks.found(place)):
        status.problems.append(
            f"{place.gate_file} is missing, though the gate's hooks are installed: they refuse everything."
            " Say which: tandem gate on, or tandem gate off"
        )
        return
    try:
        name = await registered_as(call, Path(status.root))
        known = await call("get_gate", {"project": name}) if name else None
    except TandemError as error:
        status.broker_problem = error.message
        return
    if known is not None and known["enabled"] and place.common_dir in known["folders"]:
        status.project, status.broker_enabled = name, True
        status.problems.append(
            f"The broker has the gate of {name} on here, and its hooks and {place.gate_file} are gone: nothing is held"
            " back. If that was not meant, a person runs: tandem gate on"
        )


async def differences(call: Call, gate: GateFile) -> list[str]:
    """What of a gate that is on here is not as its broker, or the user's own one, has it on record; what to do.

    Args:
        call: Calls the gate's broker.
        gate: The switch.

    Raises:
        TandemError: The gate's broker is away.
    """
    elsewhere = await _elsewhere(gate)
    found = [elsewhere] if elsewhere else []
    try:
        answer = await call("get_gate", {"project": gate.project, "here": gate.here()})
        if (recorded := answer["commits"]) != gate.commits:
            found.append(
                f"Commits on other branches are {gate.commits} here, and {recorded} at the broker; the stricter holds."
                " To follow the record: tandem gate on"
            )
    except ConfigInvalid as error:
        found.append(error.message)
    return found


async def _elsewhere(gate: GateFile) -> str | None:
    """That the user's own broker has the gate of this folder, and another broker is asked; None if that is not so."""
    data_dir = find_data_dir()
    own, asked = locate(None, None, data_dir), ask.url_of(gate)
    url = own.url
    if url is None or (asked and url in [one.url for one in targets(asked)]):
        return None
    try:
        async with TandemClient(own) as owner:
            name = await registered_as(owner.data, Path(gate.root))
            known = await owner.data("get_gate", {"project": name}) if name else None
    except TandemError:
        # It is away, and may be for good.
        return None
    if known is None or not known["enabled"] or gate.place.common_dir not in known["folders"]:
        return None
    return (
        f"{gate.place.gate_file} names another broker ({asked or gate.data_dir}) than the one that has this gate on"
        f" record ({url}). If that was not meant, a person runs: tandem gate on --broker {url}"
    )
