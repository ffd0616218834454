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


def refused(where: str, problem: str, **facts: Any) -> ConfigInvalid:
    """The error for the setting at `where`; the facts become its details."""
    return ConfigInvalid(f"{where}: {problem}", setting=where, **facts)


def listed(names: Iterable[str]) -> str:
    """Names as a message lists them."""
    return ", ".join(names)


def read_table(value: object, where: str) -> dict[str, Any]:
    """A table of TOML, an object of JSON.

    Raises:
        ConfigInvalid: It is something else.
    """
    if not isinstance(value, dict):
        raise refused(where, f"it must be a table, such as [{where}] begins.", expected="table")
    return cast("dict[str, Any]", value)


def read_text(value: object, where: str) -> str:
    """A text.

    Raises:
        ConfigInvalid: It is something else.
    """
    if not isinstance(value, str):
        raise refused(where, "it must be a name in quotes.", expected="text")
    return value


def read_choice(value: object, where: str, noun: str, allowed: Iterable[str]) -> str:
    """One of the names that are allowed; `noun` is what they name.

    Raises:
        ConfigInvalid: It is another, or no text.
    """
    text = read_text(value, where)
    choices = list(allowed)
    if text not in choices:
        problem = f"there is no {noun} '{text}'. There are: {listed(choices)}."
        raise refused(where, problem, allowed=choices, actual=text)
    return text


def ensure_name(name: str, where: str, noun: str) -> None:
    """Insist that a name is short and safe everywhere; `noun` is what it names.

    Raises:
        ConfigInvalid: It is not.
    """
    if not _NAME.fullmatch(name):
        raise refused(
            where,
            f"'{name}' cannot be the name of a {noun}. Write a small letter, then at most 39 more of: small letters, "
            "digits, '-', '_'.",
            allowed={"pattern": f"^{_NAME.pattern}$"},
            actual=name,
        )


def ensure_count(count: int, where: str, noun: str, *, least: int, most: int) -> None:
    """Insist on a number of things; `noun` is what they are.

    Raises:
        ConfigInvalid: There are fewer or more.
    """
    if not least <= count <= most:
        raise refused(
            where,
            f"the number of {noun} is {count}; it must be {least} to {most}.",
            allowed={"minimum": least, "maximum": most},
            actual=count,
        )


def ensure_keys(given: Mapping[str, Any], where: str, allowed: Iterable[str], required: Iterable[str] = ()) -> None:
    """Insist on a table's keys.

    Raises:
        ConfigInvalid: There is an unknown one, or a required one is not there.
    """
    choices = list(allowed)
    for key in given:
        if key not in choices:
            raise refused(f"{where}.{key}", f"there is no such key. There are: {listed(choices)}.", allowed=choices)
    for key in required:
        if key not in given:
            raise refused(f"{where}.{key}", "it is missing. Add it.", expected=[*required])


def ensure_ways(ways: Mapping[str, Iterable[str]], start: str, ends: Iterable[str], where: str) -> None:
    """Insist that each phase is reached from the start, and reaches an end.

    Args:
        ways: For each phase, those that its hand-offs lead to.
        start: The phase in which a cycle begins.
        ends: The phases that may complete.
        where: The setting that has the phases.

    Raises:
        ConfigInvalid: There is no end, or a phase that is cut off from the start or from every end.
    """
    goals = sorted(ends)
    if not goals:
        raise refused(where, "no phase may complete the cycle. Write 'complete = true' in at least one.")
    from_start = _reached(ways, start)
    for name in ways:
        if name not in from_start:
            problem = f"no hand-offs lead here from '{start}', where a cycle begins. Add one, or remove the phase."
            raise refused(f"{where}.{name}", problem)
        if _reached(ways, name).isdisjoint(goals):
            raise refused(
                f"{where}.{name}",
                f"no hand-offs lead from here to a phase that may complete ({listed(goals)}). Add one, or write "
                "'complete = true' here.",
                allowed=goals,
            )


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
        archiver: The role that archives; None when it is whoever completes.
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
        ConfigInvalid: One cannot be used; `details.setting` says where, `details.allowed` what there is to choose.
    """
    names = _names(tables)
    ensure_count(len(names), "workflows", f"workflows with '{BUILT_IN.name}'", least=1, most=MAX_WORKFLOWS)
    found: dict[str, Workflow] = {}
    for name in names:
        _define(name, tables, found, ())
    return {name: found[name] for name in names}


def parse(name: str, table: object) -> Workflow:
    """One whole workflow from the form in which the configuration writes it.

    Raises:
        ConfigInvalid: It cannot be used; `details.setting` says where, `details.allowed` what there is to choose.
    """
    where = f"workflows.{name}"
    ensure_name(name, where, "workflow")
    given = read_table(table, where)
    ensure_keys(given, where, (*_DEFINING, *_ADJUSTING), required=_DEFINING)
    roles = _roles(given["roles"], f"{where}.roles")
    phases = _phases(given["phases"], f"{where}.phases", roles)
    workflow = Workflow(
        name=name,
        roles=roles,
        start=read_choice(given["start"], f"{where}.start", "phase", phases),
        phases=MappingProxyType(phases),
        archiver=read_choice(given["archiver"], f"{where}.archiver", "role", roles) if "archiver" in given else None,
        mode=cast("Mode", read_choice(given.get("mode", "direct"), f"{where}.mode", "mode", _MODES)),
    )
    ways = {phase.name: phase.handoffs.values() for phase in phases.values()}
    ensure_ways(ways, workflow.start, workflow.completing_phases, f"{where}.phases")
    _ensure_work(workflow, f"{where}.roles")
    return workflow


# ------------------------------------------------------------------------------- one definition under two names


def _names(tables: Mapping[str, Any]) -> list[str]:
    return list(dict.fromkeys([BUILT_IN.name, *tables]))


def _define(name: str, tables: Mapping[str, Any], found: dict[str, Workflow], chain: tuple[str, ...]) -> Workflow:
    """The workflow of that name, also put among those found; `chain` names those that led here by `like`."""
    if name in found:
        return found[name]
    where = f"workflows.{name}"
    ensure_name(name, where, "workflow")
    table = read_table(tables.get(name, {}), where)
    if "like" in table:
        model = _model(name, table["like"], tables, found, (*chain, name))
        table = {**model.as_dict(), **_adjustments(table, where)}
    elif name == BUILT_IN.name and not any(key in table for key in _DEFINING):
        ensure_keys(table, where, _ALL_KEYS)
        table = {**BUILT_IN.as_dict(), **table}
    else:
        ensure_keys(table, where, _ALL_KEYS)
        _ensure_definition(table, where)
    found[name] = parse(name, table)
    return found[name]


def _ensure_definition(table: Mapping[str, Any], where: str) -> None:
    """Insist that there is something to parse, as an empty table may have been meant as `like`."""
    if not any(key in table for key in _DEFINING):
        problem = f"it defines nothing. Add {listed(_DEFINING)}; or 'like' with the name of another workflow."
        raise refused(where, problem, expected=[*_DEFINING])


def _model(
    name: str, like: object, tables: Mapping[str, Any], found: dict[str, Workflow], chain: tuple[str, ...]
) -> Workflow:
    """The workflow that this one is like."""
    where = f"workflows.{name}.like"
    if isinstance(like, str) and like in chain:
        circle = [*chain[chain.index(like) :], like]
        problem = f"{' is like '.join(circle)}: that is a circle. Remove one 'like' and write that workflow out."
        raise refused(where, problem, allowed=[other for other in _names(tables) if other not in chain])
    others = [other for other in _names(tables) if other != name]
    return _define(read_choice(like, where, "workflow", others), tables, found, chain)


def _adjustments(table: Mapping[str, Any], where: str) -> dict[str, Any]:
    """What a workflow changes of the one that it is like."""
    allowed = ["like", *_ADJUSTING]
    for key in _DEFINING:
        if key in table:
            problem = (
                f"the workflow that this one is like has it already. Beside 'like' there are: {listed(_ADJUSTING)}."
            )
            raise refused(f"{where}.{key}", f"{problem} Remove this, or 'like'.", allowed=allowed)
    ensure_keys(table, where, allowed)
    return {key: table[key] for key in _ADJUSTING if key in table}


# -------------------------------------------------------------------------------------------- roles and phases


def _roles(value: object, where: str) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise refused(where, 'it must be a list of names, such as ["writer", "editor"].', expected="list")
    roles = tuple(read_text(role, where) for role in cast("list[object]", value))
    # A hand-off needs a second role.
    ensure_count(len(roles), where, "roles", least=2, most=MAX_ROLES)
    for role in roles:
        ensure_name(role, where, "role")
        if roles.count(role) > 1:
            raise refused(where, f"'{role}' is there twice. Name each role once.", actual=role)
    return roles


def _phases(value: object, where: str, roles: tuple[str, ...]) -> dict[str, Phase]:
    tables = read_table(value, where)
    ensure_count(len(tables), where, "phases", least=1, most=MAX_PHASES)
    phases = {name: _phase(name, table, f"{where}.{name}", roles) for name, table in tables.items()}
    for phase in phases.values():
        for target, following in phase.handoffs.items():
            _ensure_handoff(target, following, phases, f"{where}.{phase.name}.handoff")
    return phases


def _phase(name: str, value: object, where: str, roles: tuple[str, ...]) -> Phase:
    ensure_name(name, where, "phase")
    if name == COMPLETE:
        raise refused(
            where,
            f"'{COMPLETE}' is the phase after completion in every workflow and cannot be declared. Choose another "
            "name, and write 'complete = true' in the phase that may complete.",
        )
    given = read_table(value, where)
    ensure_keys(given, where, _PHASE_KEYS, required=("role",))
    completes: object = given.get("complete", False)
    if not isinstance(completes, bool):
        raise refused(f"{where}.complete", "it must be true or false.", allowed=[True, False])
    handoff = f"{where}.handoff"
    handoffs = {
        read_choice(target, handoff, "role", roles): read_text(following, handoff)
        for target, following in read_table(given.get("handoff", {}), handoff).items()
    }
    role = read_choice(given["role"], f"{where}.role", "role", roles)
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
    raise refused(
        where,
        f"{problem} A hand-off to {target} can lead to: {listed(theirs) or 'nothing, for no phase has this role'}.",
        allowed=theirs,
        actual=following,
    )


def _ensure_work(workflow: Workflow, where: str) -> None:
    """Insist that each role is active at some time; the archiver is so after completion."""
    active = {phase.role for phase in workflow.phases.values()} | {workflow.archiver}
    idle = [role for role in workflow.roles if role not in active]
    if idle:
        problem = f"no phase makes {listed(idle)} active. Declare a phase of this role, or remove the role."
        raise refused(where, problem, actual=idle)


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
