"""The form in which workflows are written: names, values and ways, each refused with its place in the configuration.

Nothing here knows what a workflow is; `workflows` reads a definition with it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, cast

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
    """A name that a refusal may repeat; null for what could be no name: it may be a key in the wrong place."""
    is_harmless = len(name) < _SHORTEST_SECRET and name.isprintable()
    return name if is_harmless or _NAME.fullmatch(name) else None


def quoted(name: str) -> str:
    """The same for a sentence."""
    return "That" if repeatable(name) is None else f"'{name}'"
