"""What a check found, and how it is mended."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

Repair = Callable[[], Awaitable[Any]]
"""Mends what was found; safe to run unasked. Raises a `TandemError` or an `OSError` when it cannot."""


class State(StrEnum):
    """How it stands with what was checked."""

    OK = "ok"
    """As it should be."""

    NOTE = "note"
    """Worth knowing; nothing has to be done."""

    PROBLEM = "problem"
    """Something does not work, or holds less than it seems to."""

    SKIPPED = "skipped"
    """It could not be looked at, for want of something that another finding names."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What a check found.

    Attributes:
        check: What was checked: a short name that stays.
        state: How it stands.
        message: What was found, a sentence.
        fix: What to do about it, mostly a command; null if nothing.
        repair: Mends it; null where only a person should.
    """

    check: str
    state: State
    message: str
    fix: str | None = None
    repair: Repair | None = field(default=None, compare=False)

    def facts(self) -> dict[str, Any]:
        """For `--json`."""
        return {
            "check": self.check,
            "state": self.state.value,
            "message": self.message,
            "fix": self.fix,
            "fixable": self.repair is not None,
        }


def ok(check: str, message: str) -> Finding:
    """All is well."""
    return Finding(check, State.OK, message)


def note(check: str, message: str, fix: str | None = None, repair: Repair | None = None) -> Finding:
    """Something to know."""
    return Finding(check, State.NOTE, message, fix, repair)


def problem(check: str, message: str, fix: str | None, repair: Repair | None = None) -> Finding:
    """Something is wrong."""
    return Finding(check, State.PROBLEM, message, fix, repair)


def skipped(check: str, message: str) -> Finding:
    """It could not be looked at."""
    return Finding(check, State.SKIPPED, message)
