"""The gate of a repository at the broker, in the common git folder and in the hooks: its switch, and how it stands."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tandem.bridge.broker import DEFAULT_URL, find_data_dir, stated_data_dir
from tandem.bridge.project import owner
from tandem.core import platforms
from tandem.core.files import write_atomically
from tandem.errors import InvalidInput, TandemError, Unavailable
from tandem.git.runner import GitFailed
from tandem.hooks import enforcement, git, pending, planning, state
from tandem.hooks.state import GateFile, GateUnreadable, HookRepository
from tandem.setup import githooks
from tandem.setup.githooks import Installed

START_REFS = "refs/tandem/gate-start"
"""Below it stands, by branch, what a base branch was when the gate was switched on; that is never judged."""

Call = Callable[[str, Mapping[str, Any]], Awaitable[Any]]
"""Calls an operation of the broker; its data, or a `TandemError`."""

_HEADS = "refs/heads/"
_USUAL = ("main", "master", "trunk")


@dataclass(frozen=True, slots=True)
class GateOptions:
    """What a person wants the gate to be; null for what it was, or the default.

    Attributes:
        project: The project's name.
        broker: The broker's URL.
        branches: The base branches.
        accepted: Refs whose commits are taken as they are.
        reason: Why, for the log.
        strict: Whether plans have to be approved before an agent writes them.
    """

    project: str | None = None
    broker: str | None = None
    branches: tuple[str, ...] | None = None
    accepted: tuple[str, ...] | None = None
    reason: str | None = None
    strict: bool | None = None


def place_at(folder: Path) -> HookRepository:
    """The repository that a folder is in.

    Raises:
        InvalidInput: It is in none, or in a bare one.
    """
    found = state.find_repository(str(folder))
    if found is None:
        raise InvalidInput(f"{folder} is not in a git repository; run this inside of one.", field="path")
    if found.top is None:
        raise InvalidInput("A bare repository has no commits of its own to judge; run this in a working tree.")
    return found


def switch(place: HookRepository) -> GateFile | None:
    """The switch as it stands here; null if it was never set, or cannot be read (then a new one may be written)."""
    try:
        return state.find(place)
    except GateUnreadable:
        return None


def loosened(place: HookRepository, wish: GateOptions) -> list[str]:
    """What of a gate that is on would hold less if it became what is wished: that is a person's to decide."""
    before = switch(place)
    if before is None:
        lost = githooks.is_installed(githooks.found(place))
        return ["what it held is lost, as its switch cannot be read"] if lost else []
    if not before.enabled:
        return []
    found: list[str] = []
    branches = set(before.branches if wish.branches is None else wish.branches)
    gone, new = set(before.branches) - branches, branches - set(before.branches)
    if gone:
        found.append(f"{', '.join(sorted(gone))} would no longer be a base branch")
    if new:
        found.append(f"what {', '.join(sorted(new))} holds by now would never be judged")
    more = set(wish.accepted or ()) - set(before.accepted)
    if more:
        found.append(f"{', '.join(sorted(more))} would be taken as it is")
    if before.strict and wish.strict is False:
        found.append("agents could write plans that are not approved")
    if wish.broker is not None and before.broker is not None and wish.broker != before.broker:
        found.append(f"another broker would be asked: {wish.broker}")
    if wish.project is not None and wish.project != before.project:
        found.append(f"another project's approvals would count: {wish.project}")
    return found


@contextmanager
def _explained(what: str) -> Generator[None]:
    """What failed, in front of the system's or git's reason."""
    try:
        yield
    except (GitFailed, OSError) as error:
        raise Unavailable(f"{what}: {error}.") from error


async def switch_on(call: Call, place: HookRepository, wish: GateOptions) -> GateFile:
    """Register the project if it is none yet, switch the gate on at the broker and here, and install the hooks.

    Raises:
        TandemError: The broker refuses or is away, a file cannot be written, or the hooks cannot be installed; then
            the gate here is as before.
    """
    with _explained("The gate was not switched on"):
        before = switch(place)
        if before is not None:
            accepted = before.accepted if wish.accepted is None else wish.accepted
            project, broker = wish.project or before.project, wish.broker or before.broker
            strict = before.strict if wish.strict is None else wish.strict
            wish = GateOptions(project, broker, wish.branches or before.branches, accepted, wish.reason, strict)
        root = main_worktree(place)
        project = await _registered(call, wish.project, root)
        branches = wish.branches or base_branches(place)
        request = {
            "project": project,
            "enabled": True,
            "branches": list(branches),
            "accepted": list(wish.accepted or ()),
        }
        await call("set_gate", {**request, "reason": wish.reason} if wish.reason else request)
        githooks.remove(place, (Installed.of(before.hooks) if before else None) or githooks.found(place))
        _mark_start(place, branches)
        installed = githooks.install(place, branches)
        gate = _gate(place, root, project, replace(wish, branches=branches), installed)
        write(gate)
        return gate


async def switch_off(call: Call, gate: GateFile, reason: str | None) -> list[str]:
    """Take the hooks away and switch the gate off, here and at the broker; a broker that is away is told later.

    Returns:
        Remarks for the person, a sentence each.

    Raises:
        Unavailable: A file or the repository cannot be changed.
    """
    place = gate.place
    with _explained("The gate was not switched off"):
        installed = Installed.of(gate.hooks)
        remarks = githooks.remove(place, installed) if installed else []
        facts: dict[str, Any] = {**gate.facts(), "enabled": False, "hooks": {}}
        write(GateFile(place, facts))
        for ref in git.run(place, ["for-each-ref", "--format=%(refname)", START_REFS]).text.splitlines():
            git.run(place, ["update-ref", "-d", ref])
    request = {"enabled": False} | ({"reason": reason} if reason else {})
    try:
        await call("set_gate", {"project": gate.project, **request})
    except Exception as error:  # noqa: BLE001 the person wants out: whatever the broker says is told, not obeyed
        pending.keep(place, "set_gate", request)
        remarks.append(f"The broker was not told ({error}); it will be when the gate is next used.")
    return remarks


async def salvaged(call: Call, place: HookRepository) -> GateFile:
    """A switch in place of one that cannot be read, good for switching off."""
    root = main_worktree(place)
    try:
        name = await registered_as(call, root)
    except TandemError:
        name = None
    return _gate(place, root, name or root.name, GateOptions(), githooks.found(place))


def write(gate: GateFile) -> None:
    """Write the switch, whole or not at all."""
    path = Path(gate.place.gate_file)
    path.parent.mkdir(exist_ok=True)
    write_atomically(path, json.dumps(gate.facts(), indent=2).encode() + b"\n", mode=0o644)


def main_worktree(place: HookRepository) -> Path:
    """The main working tree: where the project's configuration is."""
    if place.git_dir == place.common_dir or Path(place.common_dir).name != ".git":
        return Path(place.top or place.git_dir)
    return Path(place.common_dir).parent


def base_branches(place: HookRepository) -> tuple[str, ...]:
    """The branch that others are merged into, by its usual names: the remote's, `main`, `master`, else this one."""
    remote = git.run(place, ["symbolic-ref", "--quiet", "refs/remotes/origin/HEAD"], accept=(0, 1)).text
    named = remote.removeprefix("refs/remotes/origin/")
    existing = git.run(place, ["for-each-ref", "--format=%(refname)", _HEADS]).text.splitlines()
    candidates = [name for name in (named, *_USUAL) if name and _HEADS + name in existing]
    found = candidates[0] if candidates else git.branch(place)
    return (found or "main",)


async def registered_as(call: Call, folder: Path, name: str | None = None) -> str | None:
    """The project that a folder is registered as, or that has the name; null if there is none.

    Raises:
        TandemError: The broker refuses or is away.
    """
    listed = await call("list_projects", {})
    projects = {one["project"]: one["root"] for one in listed["projects"]}
    if name is None:
        return owner(str(folder), projects)
    return name if name in projects else None


async def _registered(call: Call, name: str | None, root: Path) -> str:
    """The project's name with the broker, which is told of the folder if it does not know it."""
    known = await registered_as(call, root, name)
    if known is not None:
        return known
    answer = await call("register_project", {"root": str(root)} | ({"name": name} if name else {}))
    project: str = answer["project"]
    return project


def _gate(place: HookRepository, root: Path, project: str, wish: GateOptions, installed: Installed) -> GateFile:
    facts = {
        "project": project,
        "root": str(root),
        "enabled": True,
        "broker": wish.broker,
        "data_dir": find_data_dir(),
        "usual_url": None if stated_data_dir() else DEFAULT_URL,
        "config_dir": str(Path(os.environ.get("TANDEM_CONFIG_DIR") or platforms.config_dir()).absolute()),
        "branches": list(wish.branches or ()),
        "accepted": list(wish.accepted or ()),
        "strict": wish.strict is True,
        "python": sys.executable,
        "source": str(githooks.SOURCE),
        "hooks": installed.facts(),
    }
    return GateFile(place, facts)


def _mark_start(place: HookRepository, branches: Sequence[str]) -> None:
    """Note where base branches are that were none yet; a mark that is there stays, whatever became of the switch."""
    for branch in branches:
        ref = f"{START_REFS}/{branch}"
        tip = git.resolve(place, _HEADS + branch)
        if tip is not None and git.resolve(place, ref) is None:
            git.run(place, ["update-ref", ref, tip])


@dataclass(slots=True)
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
        refused: The records that the broker has refused, each with its file and the reason.
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
    refused: tuple[str, ...] = ()
    problems: list[str] = field(default_factory=list[str])


async def gate_status(call: Call, place: HookRepository) -> GateStatus:
    """How the gate stands; reads only, and delivers what waits for the broker."""
    root = str(main_worktree(place))
    settings = planning.read(root)
    status = GateStatus(None, None, root, problems=[*settings.problems])
    try:
        gate = state.find(place)
    except GateUnreadable as error:
        status.problems.insert(0, str(error))
        return status
    holds = (enforcement.effective(gate) if gate is not None else None) or planning.effective(settings, trusted=False)
    status.tandem_enabled, status.untrusted = holds.tandem_enabled, holds.refused
    status.granularity, status.mode = holds.granularity, holds.mode
    if gate is None:
        status.enabled = False
        if githooks.is_installed(githooks.found(place)):
            status.problems.append(
                f"{place.gate_file} is missing, though the gate's hooks are installed: they refuse everything."
                " Say which: tandem gate on, or tandem gate off"
            )
        return status
    status.enabled, status.project = gate.enabled, gate.project
    status.branches, status.accepted = gate.branches, gate.accepted
    status.pending = pending.deliver(gate)
    status.refused = tuple(pending.refused(place))
    try:
        status.broker_enabled = (await call("get_gate", {"project": gate.project}))["enabled"] is True
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
        status.hooks = githooks.alive(place, installed) if gate.enabled else {}
        status.hooks_directory, status.chained = installed.directory, tuple(installed.chained)
        status.previous_hooks_path = installed.previous_hooks_path
    dead = [name for name, is_alive in status.hooks.items() if not is_alive]
    if dead or (gate.enabled and not status.hooks):
        status.problems.append(
            f"Git does not start these hooks: {', '.join(dead) or 'all'}. Install them again: tandem gate on"
        )
    return status
