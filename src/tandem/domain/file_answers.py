"""What the operations on files of rounds, drafts, logs and settings answer. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tandem.domain.gate_answers import GateState
from tandem.domain.patches import AffectedFile


@dataclass(frozen=True, slots=True)
class RoundFile:
    """Lines of one file as it is before or after a round's change.

    Joined by line feeds, with one more at the end if it ends with one, all its lines are exactly its content.

    Attributes:
        side: `before` or `after`.
        exists: Whether the file is there on that side.
        binary: Whether it is no text in UTF-8; then there are no lines.
        lines: The lines asked for, without the line feeds that end them; a carriage return stays.
        first_line: The number of the first of them, from 1.
        total_lines: How many lines the file has.
        ends_with_newline: Whether its last line is ended.
        size_bytes: How large it is; 0 where it is not there.
        sha256: Of its content, in hexadecimal; null where it is not there.
        base64: Its content, if it was asked for and is not too large.
    """

    review_id: str
    round: int
    path: str
    side: str
    exists: bool
    binary: bool
    lines: tuple[str, ...]
    first_line: int
    total_lines: int
    ends_with_newline: bool
    size_bytes: int
    sha256: str | None
    base64: str | None


@dataclass(frozen=True, slots=True)
class CounterPatchCheck:
    """What a verdict with this counter-patch would be told, without giving one.

    Attributes:
        affected_files: The files that it touches; none if it does not apply.
        digest: What an approval of it would bind to.
        applies: Whether it would be taken.
        problem: Why it would not.
    """

    review_id: str
    round: int
    affected_files: tuple[AffectedFile, ...]
    digest: str | None
    applies: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class CounterPatchDraft:
    """A counter-patch made from edits, and what a verdict with it would be told.

    Attributes:
        counter_patch: What to send with `submit_verdict`: the whole diff or text; empty if nothing is left of it.
    """

    review_id: str
    round: int
    counter_patch: str
    affected_files: tuple[AffectedFile, ...]
    digest: str | None
    applies: bool
    problem: str | None


@dataclass(frozen=True, slots=True)
class ReviewerLog:
    """Lines of what a pool's reviewer and its program wrote.

    Attributes:
        lines: Whole lines, oldest first, with control and direction characters spelled out.
        position: Where to go on; null where there is no log.
        available: Whether its log is on the broker's machine.
        host: The machine that it runs, or ran, on.
    """

    reviewer_id: str
    lines: tuple[str, ...]
    position: str | None
    available: bool
    host: str


@dataclass(frozen=True, slots=True)
class SettingView:
    """One setting as it holds for a project.

    Attributes:
        name: The setting; those of a table are named with a dot.
        value: Its value as JSON, without passwords.
        origin: `default`, a file, a variable or an option.
        description: What it is for.
        ignored: What was found in the project and not used, and why.
    """

    name: str
    value: Any
    origin: str
    description: str
    ignored: str | None


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings that hold for a registered project, and its gate."""

    project: str
    root: str
    settings: tuple[SettingView, ...]
    gate: GateState | None
