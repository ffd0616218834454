"""A place in the line of a base branch: its record, and when its process counts as ended."""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple

from tandem.core.clock import MICROSECONDS

LEASE_US: Final = 20 * MICROSECONDS
"""How long after its last word a process that lands a branch counts as ended."""

GONE: Final = "Its process has ended without a word."


class LandingState(StrEnum):
    """Where a landing is."""

    WAITING = "waiting"
    """Others are before it in the line of its base branch."""
    CHECKING = "checking"
    """Its turn: the required checks run on the merge."""
    LANDING = "landing"
    """Its turn: the base branch moves."""
    LANDED = "landed"
    FAILED = "failed"
    """It left the line without landing; `reason` says why."""


class Landing(NamedTuple):
    """One landing of a branch. Field order is the column order of its table.

    `branch` is the base branch, `source` the branch that lands, at the commit `head`; `tip` is where the base branch
    was, and `commit_id` where it goes. `generation` rises with each process that takes the place over;
    `number` orders the line. `review_ids` is
    a JSON list. Times are microseconds since the epoch, UTC.
    """

    id: str
    project: str
    branch: str
    source: str
    head: str
    proposer: str
    state: str
    review_ids: str
    generation: int
    number: int
    changed_at: int
    last_seen_at: int
    ended_at: int | None = None
    tip: str | None = None
    commit_id: str | None = None
    reason: str | None = None
    event_seq: int = 0
    event_hash: str = ""

    @property
    def subject(self) -> str:
        """What its events are about."""
        return f"landing:{self.id}"

    def ended(self, state: LandingState, reason: str | None, now_us: int) -> Landing:
        """The same at its end."""
        return self._replace(state=state.value, reason=reason, changed_at=now_us, ended_at=now_us)

    def at(self, now_us: int) -> Landing:
        """The same as it is at a time: at its end, if its process has ended without a word."""
        is_gone = self.ended_at is None and self.last_seen_at + LEASE_US < now_us
        return self.ended(LandingState.FAILED, GONE, now_us) if is_gone else self
