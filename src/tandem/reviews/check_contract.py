"""Operations on checks: requests and answers; and the ground of rounds and checks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tandem.contract.answer import Changed, Cursor, ProjectName, ReviewId
from tandem.contract.answer import RoundNumber as RoundField
from tandem.contract.operation import (
    ALL,
    OPERATOR,
    PROPOSER,
    READ,
    REPEATABLE_WRITE,
    SUPERVISOR,
    WRITE,
    ForPeople,
    Unlisted,
)
from tandem.contract.request import (
    Id,
    Name,
    ProjectRequest,
    Refusals,
    RoundNumber,
    Text,
    WaitCursor,
    WaitSeconds,
    WriteRequest,
)
from tandem.contract.request import ReviewId as ReviewIdField
from tandem.errors import CursorExpired, Forbidden, InvalidTransition, NotFound, StaleClaim, TimedOut
from tandem.reviews.finding_contract import GivenFinding

LOG_BYTES = 64_000
"""How much of what a check wrote is kept: its end."""
_REASON_LENGTH = 2_000
_MOST_SECONDS = 1_000_000
_ObjectId = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
_OptionalRound = Annotated[RoundNumber | None, Field(description="Default: the current round.")]
_CheckName = Annotated[Name, Field(description="The check, as `checks.toml` names it.")]


UnapprovedRange = Annotated[
    str,
    Field(description="The commits before the change, as `A..B`, whose missing approval makes `checks` doubtful."),
]
ConflictWith = Annotated[
    str, Field(description="The base branch that the round does not merge with, so that checks failed.")
]


class ListChecks(ProjectRequest):
    """The checks of a review's round, and how they ended; without a review, those that are still to end."""

    refusals: ClassVar[Refusals] = (NotFound, CursorExpired)

    review_id: Annotated[Id | None, Field(description="The review; without one, all that has not ended.")] = None
    round: _OptionalRound = None
    wait: Annotated[bool, Field(description="Wait for news of the review; without one, for a check to run.")] = False
    cursor: WaitCursor = None
    timeout_s: WaitSeconds = None


class RunChecks(WriteRequest):
    """Run the checks of a review's current round again, all or some, as `checks.toml` of the base branch names them."""

    refusals: ClassVar[Refusals] = (NotFound, InvalidTransition, TimedOut)

    review_id: ReviewIdField
    checks: Annotated[list[Name] | None, Field(max_length=100, description="Their names; default: all.")] = None
    branch: Annotated[
        Name | None, Field(description="The base branch to run them on; default: the one that the base is nearest to.")
    ] = None


class GetCheckLog(ProjectRequest):
    """The end of what a check of a round wrote when it last ran."""

    refusals: ClassVar[Refusals] = (NotFound,)

    review_id: ReviewIdField
    name: _CheckName
    round: _OptionalRound = None


class ReportCheck(WriteRequest):
    """Report that a check begins, on which tree, or how it ended. The first runner to begin it runs it."""

    refusals: ClassVar[Refusals] = (Forbidden, NotFound, StaleClaim)

    review_id: ReviewIdField
    round: RoundNumber
    name: _CheckName
    runner: Annotated[Name, Field(description="Who runs it; the same after a restart.")]
    status: Annotated[
        Literal["queued", "running", "passed", "failed", "timeout", "error", "skipped"],
        Field(description="`running` to begin, `queued` to give it back, else how it ended."),
    ]
    tree: Annotated[_ObjectId | None, Field(description="The git tree that it runs on, once it is known.")] = None
    commit: Annotated[_ObjectId | None, Field(description="The commit of that tree; goes with `tree`.")] = None
    exit_status: Annotated[
        int | None, Field(ge=-(2**31), le=2**31 - 1, description="The program's, or minus the number of a signal.")
    ] = None
    seconds: Annotated[float | None, Field(ge=0, le=_MOST_SECONDS, description="How long it ran.")] = None
    reason: Annotated[Text | None, Field(max_length=_REASON_LENGTH, description="Why it ended so.")] = None
    log: Annotated[Text | None, Field(max_length=LOG_BYTES, description="The end of its output.")] = None
    findings: Annotated[
        list[GivenFinding] | None,
        Field(max_length=500, description="Its findings, with their places, that are open now."),
    ] = None


@dataclass(frozen=True, slots=True)
class CheckSetup:
    """The setup that runs before a check."""

    files: Annotated[list[str], Field(description="When one of them changes, the setup runs again.")]
    command: Annotated[list[str], Field(description="The program and its arguments.")]
    timeout_seconds: Annotated[int, Field(description="How long that may take.")]
    network: Annotated[bool, Field(description="Whether that may use the network.")]


@dataclass(frozen=True, slots=True)
class CheckView:
    """A check of a round, and how it last ran."""

    review_id: ReviewId
    round: RoundField
    project: ProjectName
    name: Annotated[str, Field(description="The check.")]
    status: Annotated[
        str,
        Field(description="`queued`, `running`, `passed`, `failed`, `timeout`, `error` or `skipped`."),
    ]
    reason: Annotated[str | None, Field(description="Why it ended so, where the status does not say.")]
    required: Annotated[bool, Field(description="Whether the gate stays closed until it has passed.")]
    needs_person: Annotated[
        bool, Field(description="Whether it keeps the gate closed until a person has done something: an agent stops.")
    ]
    command: Annotated[tuple[str, ...], Field(description="The program and its arguments.")]
    command_hash: Annotated[str, Field(description="SHA-256 of the command and its setup.")]
    setup: Annotated[CheckSetup | None, Field(description="The setup that runs before it; null for none.")]
    timeout_seconds: Annotated[int, Field(description="How long it may run.")]
    source: Annotated[str, Field(description="SHA-256 of the `checks.toml` that names it.")]
    runner: Annotated[str | None, Field(description="Who ran it, or runs it.")]
    tree: Annotated[str | None, Field(description="The git tree that it ran on.")]
    commit: Annotated[
        str | None,
        Field(description="The commit that it ran on: made of the tip, the commits up to the base, and the change."),
    ]
    branch: Annotated[
        str | None, Field(description="The base branch that it runs on; null where the base is taken as it came.")
    ]
    tip: Annotated[str | None, Field(description="The commit of that branch that it ran on.")]
    moved_to: Annotated[
        str | None, Field(description="The branch's commit by now, if it has moved on since the check ran.")
    ]
    doubt: Annotated[
        str | None,
        Field(description="Why its ground keeps the gate closed although it passed; null if it does not."),
    ]
    exit_status: Annotated[int | None, Field(description="The program's exit status, or minus a signal's number.")]
    seconds: Annotated[float | None, Field(description="How long it ran.")]
    started_at: Annotated[str | None, Field(description="When it began.")]
    finished_at: Annotated[str | None, Field(description="When it ended.")]
    has_log: Annotated[bool, Field(description="Whether `get_check_log` has something.")]


@dataclass(frozen=True, slots=True)
class UnapprovedCommit:
    """A commit between a base branch and a round's base that no approval covers."""

    commit: Annotated[str, Field(description="The commit's id.")]
    paths: Annotated[tuple[str, ...], Field(description="The files that it changes, at most 20.")]
    more_paths: Annotated[int, Field(description="How many further files it changes.")]


@dataclass(frozen=True, slots=True)
class GroundView:
    """What a round stands on: the tip of its base branch, and the commits from there to its base."""

    branch: Annotated[
        str | None,
        Field(
            description=(
                "The base branch that `base` is nearest to, `HEAD` for what the project's mirror follows; null where "
                "the project has none, so that the base was taken as it came."
            )
        ),
    ]
    tip: Annotated[str | None, Field(description="The branch's commit when the round was validated.")]
    moved_to: Annotated[str | None, Field(description="The branch's commit by now, if it is another one.")]
    stands_on: Annotated[str, Field(description="Branch and commit in words.")]
    unapproved: Annotated[
        tuple[UnapprovedCommit, ...],
        Field(
            description=(
                "The commits between that are neither approved nor on that base branch: they are in the tree that is "
                "reviewed, and no check's result opens the gate until they are."
            )
        ),
    ]
    more_unapproved: Annotated[int, Field(description="How many further such commits there are.")]
    conflict: Annotated[
        tuple[str, ...], Field(description="The files in which the change does not merge with the tip.")
    ]
    notes: Annotated[
        tuple[str, ...], Field(description="What a reviewer has to know of the ground, in words; empty if nothing.")
    ]


@dataclass(frozen=True, slots=True)
class CheckList:
    """Checks, in the order of their file."""

    checks: Annotated[tuple[CheckView, ...], Field(description="The checks.")]
    outcome: Annotated[
        str | None,
        Field(
            description=(
                "What the required ones come to: `pending`, `failed`, `passed`, or `doubtful` (passed on what does not "
                "count); null without checks."
            )
        ),
    ]
    cursor: Cursor
    changed: Changed


@dataclass(frozen=True, slots=True)
class CheckLog:
    """The end of a check's output."""

    check: Annotated[CheckView, Field(description="The check.")]
    log: Annotated[str, Field(description="Its output, at most the last 64,000 characters.")]


@dataclass(frozen=True, slots=True)
class CheckReported:
    """The check as it is now."""

    check: Annotated[CheckView, Field(description="The check.")]
    go: Annotated[bool, Field(description="Whether the caller must run it now.")]


OPERATIONS = (
    Unlisted("list_checks", "checks", "list", ListChecks, CheckList, ALL | SUPERVISOR, READ, blocking=True),
    Unlisted("run_checks", "checks", "run", RunChecks, CheckList, PROPOSER | OPERATOR, WRITE),
    Unlisted("get_check_log", "checks", "log", GetCheckLog, CheckLog, ALL, READ),
    ForPeople("report_check", "checks", "report", ReportCheck, CheckReported, SUPERVISOR, REPEATABLE_WRITE),
)
