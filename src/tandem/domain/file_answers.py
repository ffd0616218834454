"""What the operations on files of rounds, drafts, logs and settings answer. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from tandem.domain.fields import ProjectName, ReviewId
from tandem.domain.gate_answers import GateState
from tandem.domain.patches import AffectedFile


@dataclass(frozen=True, slots=True)
class RoundFile:
    """Lines of one file as it is before or after a round's change.

    Joined by line feeds, with one more at the end if it ends with one, all its lines are exactly its content.
    """

    review_id: ReviewId
    round: Annotated[int, Field(description="The round.")]
    path: Annotated[str, Field(description="The file.")]
    side: Annotated[str, Field(description="`before` or `after` the round's change.")]
    exists: Annotated[bool, Field(description="Whether the file is there on that side.")]
    binary: Annotated[bool, Field(description="Whether it is no text in UTF-8; then there are no lines.")]
    lines: Annotated[
        tuple[str, ...],
        Field(description="The lines, without the line feeds that end them; a carriage return stays."),
    ]
    first_line: Annotated[int, Field(description="The number of the first of the lines, from 1.")]
    total_lines: Annotated[int, Field(description="How many lines the file has.")]
    ends_with_newline: Annotated[bool, Field(description="Whether its last line is ended.")]
    size_bytes: Annotated[int, Field(description="Its size; 0 where it is not there.")]
    sha256: Annotated[
        str | None, Field(description="The SHA-256 of its content in hexadecimal; null where it is not there.")
    ]
    base64: Annotated[
        str | None,
        Field(description="Its content in base64; null if it was not asked for, is not there, or is too large."),
    ]


@dataclass(frozen=True, slots=True)
class CounterPatchCheck:
    """What a verdict with this counter-patch would be told, without giving one."""

    review_id: ReviewId
    round: Annotated[int, Field(description="The round that it would replace.")]
    affected_files: Annotated[
        tuple[AffectedFile, ...], Field(description="The files that it touches; none if it does not apply.")
    ]
    digest: Annotated[str | None, Field(description="What an approval of it would bind to; null without a validation.")]
    applies: Annotated[bool, Field(description="Whether `submit_verdict` would take it.")]
    problem: Annotated[str | None, Field(description="Why it would not.")]


@dataclass(frozen=True, slots=True)
class CounterPatchDraft:
    """A counter-patch made from edits, and what a verdict with it would be told."""

    review_id: ReviewId
    round: Annotated[int, Field(description="The round that it replaces.")]
    counter_patch: Annotated[
        str,
        Field(
            description=(
                "What to send with `submit_verdict`: the whole diff or text; empty if nothing is left of the change."
            )
        ),
    ]
    affected_files: Annotated[
        tuple[AffectedFile, ...], Field(description="The files that it touches; none if it does not apply.")
    ]
    digest: Annotated[str | None, Field(description="What an approval of it would bind to; null without a validation.")]
    applies: Annotated[bool, Field(description="Whether `submit_verdict` would take it.")]
    problem: Annotated[str | None, Field(description="Why it would not.")]


@dataclass(frozen=True, slots=True)
class ReviewerLog:
    """Lines of what a pool's reviewer and its program wrote."""

    reviewer_id: Annotated[str, Field(description="The reviewer.")]
    lines: Annotated[
        tuple[str, ...],
        Field(description="Whole lines, oldest first, with control and direction characters spelled out."),
    ]
    position: Annotated[str | None, Field(description="Where to go on; null where there is no log.")]
    available: Annotated[bool, Field(description="Whether the log is on the broker's machine.")]
    host: Annotated[str, Field(description="The machine that the reviewer runs, or ran, on.")]


@dataclass(frozen=True, slots=True)
class SettingView:
    """One setting as it holds for a project."""

    name: Annotated[str, Field(description="The setting; those of a table are named with a dot.")]
    value: Annotated[Any, Field(description="Its value as JSON, without passwords.")]
    origin: Annotated[str, Field(description="`default`, a file, a variable or an option of the command line.")]
    description: Annotated[str, Field(description="What it is for.")]
    ignored: Annotated[str | None, Field(description="What was found in a file of the project and not used, and why.")]


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings that hold for a registered project, and its gate."""

    project: ProjectName
    root: Annotated[str, Field(description="The top level of its git repository.")]
    settings: Annotated[tuple[SettingView, ...], Field(description="The settings, by name.")]
    gate: Annotated[GateState | None, Field(description="The project's gate.")]
