"""Workflows: which roles a hand-off cycle has, through which phases it goes, and where it ends.

A workflow is data: the built-in one, those of the configuration, and the copy that a running cycle keeps are written in
one form, and only `parse` makes a `Workflow`. So every `Workflow` is sound: each name in it exists, and from each phase
there is a way to completion. A refusal names its place in the configuration.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, cast, get_args

from tandem.errors import ConfigInvalid

_NAME: Final = re.compile(r"[a-z][a-z0-9_-]{0,39}")
_listed = ", ".join


def _refused(where: str, problem: str, **facts: Any) -> ConfigInvalid:
    """The error for the setting at `where`; the facts become its details."""
    return ConfigInvalid(f"{where}: {problem}", setting=where, **facts)


def _insist(is_so: object, where: str, problem: str, **facts: Any) -> None:
    if not is_so:
        raise _refused(where, problem, **facts)


def _table(
    value: object, where: str, keys: Iterable[str] | None = None, required: Iterable[str] = ()
) -> dict[str, Any]:
    """A table of TOML, an object of JSON; with `keys` of these alone, and of those that are required."""
    if not isinstance(value, dict):
        raise _refused(where, f"it must be a table, such as [{where}] begins.", expected="table")
    table, choices = cast("dict[str, Any]", value), [*(keys or ())]
    for key in table if keys is not None else ():
        problem = f"there is no such key. There are: {_listed(choices)}."
        _insist(key in choices, f"{where}.{key}", problem, allowed=choices)
    for key in required:
        _insist(key in table, f"{where}.{key}", "it is missing. Add it.", expected=[*required])
    return table


def _text(value: object, where: str) -> str:
    if not isinstance(value, str):
        raise _refused(where, "it must be a name in quotes.", expected="text")
    return value


def _choice(value: object, where: str, noun: str, allowed: Iterable[str]) -> str:
    """One of the names that are allowed; `noun` is their kind."""
    text, choices = _text(value, where), list(allowed)
    problem = f"there is no {noun} '{text}'. There are: {_listed(choices)}."
    _insist(text in choices, where, problem, allowed=choices, actual=text)
    return text


def _ensure_name(name: str, where: str, noun: str) -> None:
    """Insist that a name is short and safe everywhere; `noun` is its kind."""
    problem = (
        f"'{name}' cannot be the name of a {noun}. Write a small letter, then at most 39 more of: small letters, "
        "digits, '-', '_'."
    )
    _insist(_NAME.fullmatch(name), where, problem, allowed={"pattern": f"^{_NAME.pattern}$"}, actual=name)


def _ensure_count(count: int, where: str, noun: str, *, least: int, most: int) -> None:
    """Insist on a number of things; `noun` is their kind."""
    problem = f"the number of {noun} is {count}; it must be {least} to {most}."
    _insist(least <= count <= most, where, problem, allowed={"minimum": least, "maximum": most}, actual=count)


def _ensure_ways(workflow: Workflow, where: str) -> None:
    """Insist that each phase is reached from the start, and reaches a phase that may complete."""
    ways = {phase.name: phase.handoffs.values() for phase in workflow.phases.values()}
    start, goals = workflow.start, sorted(workflow.completing_phases)
    _insist(goals, where, "no phase may complete the cycle. Write 'complete = true' in at least one.")
    from_start = _reached(ways, start)
    for name in ways:
        here = f"{where}.{name}"
        cut_off = f"no hand-offs lead here from '{start}', where a cycle begins. Add one, or remove the phase."
        _insist(name in from_start, here, cut_off)
        endless = (
            f"no hand-offs lead from here to a phase that may complete ({_listed(goals)}). Add one, or write "
            "'complete = true' here."
        )
        _insist(not _reached(ways, name).isdisjoint(goals), here, endless, allowed=goals)


def _reached(ways: Mapping[str, Iterable[str]], start: str) -> set[str]:
    """Where the ways lead from one of the phases, itself included."""
    reached: set[str] = set()
    pending = [start]
    while pending:
        name = pending.pop()
        if name not in reached:
            reached.add(name)
            pending += ways[name]
    return reached


_SHORTEST_SECRET: Final = 16


def repeatable(name: str) -> str | None:
    """A name that a refusal may repeat; None for what could be no name: it may be a key in the wrong place."""
    is_harmless = len(name) < _SHORTEST_SECRET and name.isprintable()
    return name if is_harmless or _NAME.fullmatch(name) else None


def quoted(name: str) -> str:
    """The same for a sentence."""
    return "That" if repeatable(name) is None else f"'{name}'"


Mode = Literal["direct", "approval"]
"""direct: a hand-off advances the cycle at once; approval: it becomes a review first."""

COMPLETE: Final = "complete"
"""The phase that follows completion, in every workflow; none declares it."""

MAX_WORKFLOWS: Final = 50
MAX_ROLES: Final = 20
MAX_PHASES: Final = 50

_MODES: Final[tuple[Mode, ...]] = get_args(Mode)
_DEFINING: Final = ("roles", "start", "phases")
_ADJUSTING: Final = ("archiver", "mode")
_ALL_KEYS: Final = (*_DEFINING, *_ADJUSTING, "like")
_PHASE_KEYS: Final = ("role", "handoff", "complete")


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of a workflow.

    Attributes:
        name: Its name.
        role: The role that is active in it.
        handoffs: To whom this role may hand off, and the phase that then follows.
        completes: Whether this role may complete the cycle here.
    """

    name: str
    role: str
    handoffs: Mapping[str, str]
    completes: bool

    def as_dict(self) -> dict[str, Any]:
        """The phase as the configuration writes it."""
        table: dict[str, Any] = {"role": self.role}
        if self.handoffs:
            table["handoff"] = dict(self.handoffs)
        if self.completes:
            table["complete"] = True
        return table


@dataclass(frozen=True, slots=True)
class Workflow:
    """A sound definition; `parse` and `load` make them.

    Attributes:
        name: Its name.
        roles: All roles, as declared.
        start: The phase in which a cycle begins.
        phases: The phases by name, as declared; `COMPLETE` is not among them.
        archiver: The role that archives; None for the role that completes.
        mode: Whether a hand-off advances the cycle at once.
    """

    name: str
    roles: tuple[str, ...]
    start: str
    phases: Mapping[str, Phase]
    archiver: str | None
    mode: Mode

    @property
    def completing_phases(self) -> tuple[str, ...]:
        """The names of the phases in which the cycle may be completed."""
        return tuple(phase.name for phase in self.phases.values() if phase.completes)

    def phase(self, name: str) -> Phase:
        """The phase of that name.

        Raises:
            KeyError: There is none; `COMPLETE` is not one either.
        """
        return self.phases[name]

    def archiver_after(self, phase_name: str) -> str:
        """The role that archives a cycle which was completed in that phase."""
        return self.archiver or self.phase(phase_name).role

    def as_dict(self) -> dict[str, Any]:
        """The workflow as the configuration writes it, in JSON values; `parse` makes an equal one of it."""
        table: dict[str, Any] = {"roles": list(self.roles), "start": self.start, "mode": self.mode}
        if self.archiver is not None:
            table["archiver"] = self.archiver
        return {**table, "phases": {name: phase.as_dict() for name, phase in self.phases.items()}}


def load(tables: Mapping[str, Any]) -> dict[str, Workflow]:
    """The workflows there are: the built-in one and those of the configuration.

    A table under the built-in's name that defines nothing only adjusts it; one with `like` is another
    workflow's definition under its own name.

    Args:
        tables: The configuration's `workflows`, by name.

    Raises:
        ConfigInvalid: One cannot be used; `details.setting` says where, `details.allowed` the choices.
    """
    names = _names(tables)
    _ensure_count(len(names), "workflows", f"workflows with '{BUILT_IN.name}'", least=1, most=MAX_WORKFLOWS)
    found: dict[str, Workflow] = {}
    for name in names:
        _define(name, tables, found, ())
    return {name: found[name] for name in names}


def parse(name: str, table: object) -> Workflow:
    """One whole workflow from the form in which the configuration writes it.

    Raises:
        ConfigInvalid: It cannot be used; `details.setting` says where, `details.allowed` the choices.
    """
    where = f"workflows.{name}"
    _ensure_name(name, where, "workflow")
    given = _table(table, where, (*_DEFINING, *_ADJUSTING), required=_DEFINING)
    roles = _roles(given["roles"], f"{where}.roles")
    phases = _phases(given["phases"], f"{where}.phases", roles)
    workflow = Workflow(
        name=name,
        roles=roles,
        start=_choice(given["start"], f"{where}.start", "phase", phases),
        phases=MappingProxyType(phases),
        archiver=_choice(given["archiver"], f"{where}.archiver", "role", roles) if "archiver" in given else None,
        mode=cast("Mode", _choice(given.get("mode", "direct"), f"{where}.mode", "mode", _MODES)),
    )
    _ensure_ways(workflow, f"{where}.phases")
    # The archiver is active after completion.
    active = {phase.role for phase in phases.values()} | {workflow.archiver}
    idle = [role for role in roles if role not in active]
    problem = f"no phase makes {_listed(idle)} active. Declare a phase of this role, or remove the role."
    _insist(not idle, f"{where}.roles", problem, actual=idle)
    return workflow


# ------------------------------------------------------------------------------- one definition under two names


def _names(tables: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys([BUILT_IN.name, *tables]))


def _define(name: str, tables: Mapping[str, Any], found: dict[str, Workflow], chain: tuple[str, ...]) -> Workflow:
    """The workflow of that name, also put among those found; `chain` names those that led here by `like`."""
    if name in found:
        return found[name]
    where = f"workflows.{name}"
    _ensure_name(name, where, "workflow")
    table = _table(tables.get(name, {}), where)
    defines = any(key in table for key in _DEFINING)
    if "like" in table:
        model = _model(name, table["like"], tables, found, (*chain, name))
        table = {**model.as_dict(), **_adjustments(table, where)}
    else:
        _table(table, where, _ALL_KEYS)
        if name == BUILT_IN.name and not defines:
            table = {**BUILT_IN.as_dict(), **table}
        # An empty table may have been meant as `like`.
        problem = f"it defines nothing. Add {_listed(_DEFINING)}; or 'like' with the name of another workflow."
        _insist(defines or name == BUILT_IN.name, where, problem, expected=[*_DEFINING])
    found[name] = parse(name, table)
    return found[name]


def _model(
    name: str, like: object, tables: Mapping[str, Any], found: dict[str, Workflow], chain: tuple[str, ...]
) -> Workflow:
    """The workflow that this one is like."""
    where = f"workflows.{name}.like"
    if isinstance(like, str) and like in chain:
        circle = [*chain[chain.index(like) :], like]
        problem = f"{' is like '.join(circle)}: that is a circle. Remove one 'like' and write that workflow out."
        raise _refused(where, problem, allowed=[other for other in _names(tables) if other not in chain])
    others = [other for other in _names(tables) if other != name]
    return _define(_choice(like, where, "workflow", others), tables, found, chain)


def _adjustments(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """The settings in which a workflow differs from the one that it is like."""
    allowed = ["like", *_ADJUSTING]
    problem = (
        f"the workflow that this one is like has it already. Beside 'like' there are: {_listed(_ADJUSTING)}."
        " Remove this, or 'like'."
    )
    for key in _DEFINING:
        _insist(key not in table, f"{where}.{key}", problem, allowed=allowed)
    _table(table, where, allowed)
    return {key: table[key] for key in _ADJUSTING if key in table}


# -------------------------------------------------------------------------------------------- roles and phases


def _roles(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise _refused(where, 'it must be a list of names, such as ["writer", "editor"].', expected="list")
    roles = tuple(_text(role, where) for role in cast("list[object]", value))
    # A hand-off needs a second role.
    _ensure_count(len(roles), where, "roles", least=2, most=MAX_ROLES)
    for role in roles:
        _ensure_name(role, where, "role")
        _insist(roles.count(role) == 1, where, f"'{role}' is there twice. Name each role once.", actual=role)
    return roles


def _phases(value: object, where: str, roles: tuple[str, ...]) -> dict[str, Phase]:
    tables = _table(value, where)
    _ensure_count(len(tables), where, "phases", least=1, most=MAX_PHASES)
    phases = {name: _phase(name, table, f"{where}.{name}", roles) for name, table in tables.items()}
    for phase in phases.values():
        for target, following in phase.handoffs.items():
            _ensure_handoff(target, following, phases, f"{where}.{phase.name}.handoff")
    return phases


def _phase(name: str, value: object, where: str, roles: tuple[str, ...]) -> Phase:
    _ensure_name(name, where, "phase")
    problem = (
        f"'{COMPLETE}' is the phase after completion in every workflow and cannot be declared. Choose another "
        "name, and write 'complete = true' in the phase that may complete."
    )
    _insist(name != COMPLETE, where, problem)
    given = _table(value, where, _PHASE_KEYS, required=("role",))
    completes: object = given.get("complete", False)
    if not isinstance(completes, bool):
        raise _refused(f"{where}.complete", "it must be true or false.", allowed=[True, False])
    handoff = f"{where}.handoff"
    handoffs = {
        _choice(target, handoff, "role", roles): _text(following, handoff)
        for target, following in _table(given.get("handoff", {}), handoff).items()
    }
    role = _choice(given["role"], f"{where}.role", "role", roles)
    return Phase(name, role, MappingProxyType(handoffs), completes)


def _ensure_handoff(target: str, following: str, phases: Mapping[str, Phase], where: str) -> None:
    """Insist that a hand-off leads to a phase in which its target is active."""
    theirs = [phase.name for phase in phases.values() if phase.role == target]
    if following in theirs:
        return
    if following == COMPLETE:
        problem = "no hand-off completes a cycle; write 'complete = true' in the phase that may complete."
    elif following not in phases:
        problem = f"there is no phase '{following}'."
    else:
        problem = f"the phase '{following}' is not {target}'s but {phases[following].role}'s."
    choice = _listed(theirs) or "nothing, for no phase has this role"
    raise _refused(where, f"{problem} A hand-off to {target} can lead to: {choice}.", allowed=theirs, actual=following)


BUILT_IN: Final = parse(
    "frontend-backend",
    {
        "roles": ["gemini", "codex"],
        "start": "frontend",
        "archiver": "gemini",
        "mode": "direct",
        "phases": {
            "frontend": {"role": "gemini", "handoff": {"codex": "backend"}},
            "backend": {"role": "codex", "handoff": {"gemini": "frontend_refine"}},
            "frontend_refine": {"role": "gemini", "handoff": {"codex": "backend"}, "complete": True},
        },
    },
)
"""The workflow that is there without any configuration."""
