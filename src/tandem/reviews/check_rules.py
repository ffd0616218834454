"""Checks of a round: their record and their outcome."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Final, NamedTuple

import orjson

from tandem.core.clock import MICROSECONDS
from tandem.git.ground import Ground
from tandem.settings.checks import FILE, CheckDefinition, Standing

_LATE_US = 120 * MICROSECONDS
"""How much longer than it may take a check counts as running, although no one has reported its end."""


class CheckStatus(StrEnum):
    """Where one check of a round is."""

    QUEUED = "queued"
    RUNNING = "running"
    PASSED = "passed"
    FAILED = "failed"
    """Its program ended with another exit status than 0."""
    TIMEOUT = "timeout"
    """It was ended when its time was over."""
    ERROR = "error"
    """It could not be run, or the runner ended it for a reason other than its time."""
    SKIPPED = "skipped"
    """It was not run, for a reason."""


UNFINISHED: Final = frozenset({CheckStatus.QUEUED, CheckStatus.RUNNING})
SAYS_SOMETHING: Final = frozenset({CheckStatus.PASSED, CheckStatus.FAILED, CheckStatus.TIMEOUT})
"""The ends that may hold for the same check of the same tree in any round."""

PENDING, FAILED, PASSED, DOUBTFUL = "pending", "failed", "passed", "doubtful"
"""The outcomes of the required checks of a round."""

UNCONFINED: Final = (
    "bubblewrap (bwrap) does not work on the machine that runs the checks, and no one has trusted them to run without."
    " A person can install bubblewrap, or run 'tandem trust' there."
)
"""Why a check that may not run without bubblewrap did not run."""


class CheckRun(NamedTuple):
    """A check of a round, and its latest run. Field order is the column order of its table.

    `command` and `setup` are JSON, `source` the hash of the file that names it, `tree` the id of the git tree that it
    ran on, `ground` what that was made of (as `grounds` writes it), `runner` who ran
    it; times are microseconds since the epoch, UTC.
    """

    review_id: str
    round: int
    name: str
    project: str
    position: int
    source: str
    command: str
    command_hash: str
    setup: str | None
    timeout_seconds: int
    required: int
    status: str
    requested_at: int
    reason: str | None = None
    runner: str | None = None
    tree: str | None = None
    exit_status: int | None = None
    duration_us: int | None = None
    log_id: str | None = None
    started_at: int | None = None
    finished_at: int | None = None
    ground: str | None = None

    @property
    def unfinished(self) -> bool:
        """Whether its end is still to come."""
        return self.status in UNFINISHED

    @property
    def needs_person(self) -> bool:
        """Whether it keeps the gate closed, and only a person can change that: what agents may not trust."""
        return self.holds and self.status == CheckStatus.ERROR and (self.name == FILE or self.reason == UNCONFINED)

    @property
    def holds(self) -> bool:
        """Whether it keeps the gate closed."""
        return bool(self.required) and self.status != CheckStatus.PASSED

    def tells_of(self, other: CheckRun) -> bool:
        """Whether its end holds for the same check of the same tree in another round."""
        has_time = self.status == CheckStatus.TIMEOUT and self.timeout_seconds < other.timeout_seconds
        return self.status in SAYS_SOMETHING and not has_time

    def is_lost(self, now_us: int) -> bool:
        """Whether who ran it must have ended without a word."""
        setup = orjson.loads(self.setup)["timeout_seconds"] if self.setup else 0
        latest = (self.started_at or 0) + (self.timeout_seconds + setup) * MICROSECONDS + _LATE_US
        return self.status == CheckStatus.RUNNING and now_us > latest


class Hold(NamedTuple):
    """What keeps the gate closed for an approved content: a required check, or the policy.

    Attributes:
        words: Which one, and why; to stand behind "approved, but".
        is_pending: Whether it may still pass as it is.
        ground: The ground that it ran on, where a base branch may hold that by now; else None.
        code: Of the policy's refusal; None for a check's.
    """

    words: str
    is_pending: bool
    ground: Ground | None = None
    code: str | None = None


class PlannedCheck(NamedTuple):
    """A check to run on a change whose round is not known yet.

    Attributes:
        definition: The check; None for the stand-in of a file that cannot be used.
        status: `queued`, or how it is left.
        reason: Why it is not run.
        required: Whether it keeps the gate closed.
        source: The hash of the file.
    """

    definition: CheckDefinition | None
    status: CheckStatus
    reason: str | None
    required: bool
    source: str

    @property
    def name(self) -> str:
        """The check's name; of a stand-in, the file's name."""
        return self.definition.name if self.definition else FILE


def unusable(standing: Standing, problem: str | None, source: str) -> PlannedCheck:
    """The stand-in for the checks of a file that is not trusted or not valid.

    If the file was trusted before, it is an error, and the gate stays closed until a person has looked.
    """
    was_trusted = standing is not Standing.NEVER
    said = {
        Standing.NEVER: "No one has trusted its commands. A person can read and trust them: 'tandem trust'.",
        Standing.CHANGED: "It changed since it was trusted. A person can read and trust it: 'tandem trust'.",
        Standing.TRUSTED: "",
    }[standing]
    reason = f"It cannot be used: {problem}. Correct it on the base branch." if problem else said
    status = CheckStatus.ERROR if was_trusted else CheckStatus.SKIPPED
    return PlannedCheck(None, status, reason, was_trusted, source)


def runs_of(
    planned: Iterable[PlannedCheck], review_id: str, number: int, project: str, now_us: int, ground: str | None
) -> tuple[CheckRun, ...]:
    """The checks of a round as they begin, on the round's ground."""
    found: list[CheckRun] = []
    for position, one in enumerate(planned):
        definition = one.definition
        found.append(
            CheckRun(
                review_id=review_id,
                round=number,
                name=one.name,
                project=project,
                position=position,
                source=one.source,
                command=orjson.dumps(definition.command if definition else ()).decode(),
                command_hash=definition.command_hash if definition else "",
                setup=definition.setup.model_dump_json() if definition and definition.setup else None,
                timeout_seconds=definition.timeout_seconds if definition else 0,
                required=int(one.required),
                status=one.status.value,
                requested_at=now_us,
                reason=one.reason,
                finished_at=None if one.status is CheckStatus.QUEUED else now_us,
                ground=ground,
            )
        )
    return tuple(found)


def outcome(runs: Sequence[CheckRun]) -> str | None:
    """What a round's checks come to; None if it has none."""
    if not runs:
        return None
    held = [one for one in runs if one.holds]
    if any(not one.unfinished for one in held):
        return FAILED
    return PENDING if held else PASSED
