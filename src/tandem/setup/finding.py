"""The subject of a check, its finding, and the repair."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final

from tandem.bridge.location import BrokerLocation, locate
from tandem.git.runner import Git
from tandem.rulings.state import GateFile, HookRepository
from tandem.setup.registration import Call, switch

Repair = Callable[[], Awaitable[Any]]
"""Repairs the fault that was found; safe to run unasked. Raises a `TandemError` or an `OSError` when it cannot."""


GIT: Final = Git(timeout_seconds=60.0)
NOBODY: Final = {
    "GIT_AUTHOR_NAME": "Tandem's doctor",
    "GIT_AUTHOR_EMAIL": "doctor@localhost",
    "GIT_COMMITTER_NAME": "Tandem's doctor",
    "GIT_COMMITTER_EMAIL": "doctor@localhost",
}
"""Who makes the commits of checks."""


class Unseen(Exception):
    """What a check is about cannot be looked at, for a reason that another finding names."""


@dataclass
class DoctorContext:
    """Where the doctor was called.

    Attributes:
        folder: The folder that it was called in.
        home: The user's home folder.
        environment: The user's variables.
        broker: The URL that was named; None for the broker that runs for this user.
        place: The repository; None outside of one.
        deep: Whether to try what takes long, or costs something, too.
        tell: Called with a line of progress.
        obstacle: Why the repository cannot be looked at; empty if it can. Set by the checks of programs and broker.
        is_foreign: Whether git refuses to work in the repository, as another user's. Set by the check of programs.
        has_program: Whether `tandem` is found on PATH. Set by the check of programs.
        program_notes: What that check has said of it.
        start_trouble: What keeps a broker from starting, e.g. `database`; empty if nothing does. Set by the checks of
            settings and database.
        url: Where the broker answers; None if it does not. Set by the broker's check, which comes first.
        call: Calls an operation of it; None if it does not answer, or lets this user do nothing.
        silence: Why there is no such call.
        facts: What the broker says of itself; empty if it says nothing. Set by the broker's check.
        moved_from: The folder that the gate's project is registered for, though the repository was moved or copied
            here; None if it was not. Set by the project's check.
        changed: The clients' files that are not as `tandem init` writes them. Set by the clients' check.
        gate_trouble: Whether the gate is not as its broker has it. Set by the gate's check.
    """

    folder: Path
    home: Path
    environment: Mapping[str, str]
    broker: str | None
    place: HookRepository | None
    deep: bool = False
    tell: Callable[[str], None] = lambda _doing: None
    obstacle: str = ""
    is_foreign: bool = False
    has_program: bool = True
    program_notes: tuple[str, ...] = ()
    start_trouble: str = ""
    url: str | None = None
    call: Call | None = None
    silence: str = "The broker does not answer."
    facts: dict[str, Any] = field(default_factory=dict[str, Any])
    moved_from: str | None = None
    changed: set[Path] = field(default_factory=set[Path])
    gate_trouble: bool = False

    def require_call(self) -> Call:
        """Calls an operation of the broker.

        Raises:
            Unseen: It does not answer, or lets this user do nothing.
        """
        if self.call is None:
            raise Unseen(self.silence)
        return self.call

    def require_program(self) -> None:
        """Insist that agents find Tandem.

        Raises:
            Unseen: They do not.
        """
        if not self.has_program:
            raise Unseen("The agents do not find tandem.")

    @property
    def location(self) -> BrokerLocation:
        """The broker that is meant; what another user's repository says of it counts no more than for git."""
        return locate(self.broker, None if self.is_foreign else str(self.folder))

    @property
    def gate(self) -> GateFile | None:
        """The gate's switch here, if it can be read."""
        return switch(self.place) if self.place is not None else None

    @property
    def root(self) -> Path | None:
        """The working tree whose settings count; None outside of a repository."""
        return Path(self.place.settings_root) if self.place is not None else None


class Level(StrEnum):
    """The result of a check."""

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
        check: The short, stable name of the check.
        state: Its result.
        message: The finding, a sentence.
        fix: What to do about it, mostly a command; None if nothing.
        repair: Repairs it; None where only a person should.
        file: The client's file that lacks something; None if it is about something else.
    """

    check: str
    state: Level
    message: str
    fix: str | None = None
    repair: Repair | None = field(default=None, compare=False)
    file: Path | None = field(default=None, compare=False)

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
    return Finding(check, Level.OK, message)


def note(check: str, message: str, fix: str | None = None) -> Finding:
    """Something to know."""
    return Finding(check, Level.NOTE, message, fix)


def problem(
    check: str, message: str, fix: str | None, repair: Repair | None = None, file: Path | None = None
) -> Finding:
    """Something is wrong."""
    return Finding(check, Level.PROBLEM, message, fix, repair, file)


def skipped(check: str, message: str) -> Finding:
    """It could not be looked at."""
    return Finding(check, Level.SKIPPED, message)
