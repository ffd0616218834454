"""The event: one line of the append-only log, chained to the one before it on the same subject."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import StrEnum
from typing import NamedTuple

import orjson

Seal = Callable[[bytes], str]
"""Hashes what an event says: keyed with the broker's secret."""

GENESIS = ""
"""What the first event of a subject chains to."""

LOG_SUBJECT = "log"
"""The subject of events about the log itself."""


class Kind(StrEnum):
    """Every kind of event that this part of the product writes."""

    REVIEW_CREATED = "review_created"
    REVIEW_REVISED = "review_revised"
    REVIEW_CLAIMED = "review_claimed"
    CLAIM_RELEASED = "claim_released"
    REVIEW_RECLAIMED = "review_reclaimed"
    VERDICT_SUBMITTED = "verdict_submitted"
    VERDICT_COMMENT = "verdict_comment"
    COUNTER_PATCH_PROPOSED = "counter_patch_proposed"
    COUNTER_PATCH_ACCEPTED = "counter_patch_accepted"
    COUNTER_PATCH_REJECTED = "counter_patch_rejected"
    COUNTER_PATCH_SUPERSEDED = "counter_patch_superseded"
    MESSAGE_SENT = "message_sent"
    MESSAGE_RESOLVED = "message_resolved"
    REVIEW_CLOSED = "review_closed"
    ATTENTION_RAISED = "attention_raised"
    ATTENTION_CLEARED = "attention_cleared"
    POOL_REGISTERED = "pool_registered"
    POOL_ENDED = "pool_ended"
    POOL_PAUSED = "pool_paused"
    POOL_RESUMED = "pool_resumed"
    CIRCUIT_OPENED = "circuit_opened"
    CIRCUIT_CLOSED = "circuit_closed"
    REVIEWER_REQUESTED = "reviewer_requested"
    REVIEWER_SPAWNED = "reviewer_spawned"
    REVIEWER_DRAIN_START = "reviewer_drain_start"
    REVIEWER_TERMINATED = "reviewer_terminated"
    REVIEWER_OUTCOME = "reviewer_outcome"
    SESSION_OPENED = "session_opened"
    SESSION_CLOSED = "session_closed"
    CYCLE_STARTED = "cycle_started"
    LOCK_ACQUIRED = "lock_acquired"
    HANDOFF_WRITTEN = "handoff_written"
    CYCLE_ADVANCED = "cycle_advanced"
    CYCLE_COMPLETED = "cycle_completed"
    CYCLE_ARCHIVED = "cycle_archived"
    PROJECT_REGISTERED = "project_registered"
    GATE_SWITCHED = "gate_switched"
    GATE_OVERRIDDEN = "gate_overridden"
    COMMIT_RECORDED = "commit_recorded"
    CHANGE_ROLLED_BACK = "change_rolled_back"
    TOKEN_CREATED = "token_created"  # noqa: S105 - the name of an event
    TOKEN_REVOKED = "token_revoked"  # noqa: S105 - the name of an event
    CHECKPOINT = "checkpoint"


class Event(NamedTuple):
    """One event. Field order is the column order of its table.

    Attributes:
        seq: Position in the log; given in commit order, so it is the cursor of every wait.
        at: Microseconds since the epoch, UTC.
        project: The project it belongs to; empty for the log's own.
        subject: What it happened to: a review's id, `cycle:<id>`, `session:<id>`, `key:<project>/<workflow>/<role>`,
            `project:<name>`, `pool:<supervisor>`, `reviewer:<id>`, `gate:<project>`, `override:<project>/<id>`,
            `commit:<project>/<id>`, or `log`.
        actor: Who did it.
        kind: What happened.
        old: The state before, where there is one.
        new: The state after, where there is one.
        data: Facts for readers, as JSON text.
        delta: The rows as this event left them, as JSON text; what a replay rebuilds the state from.
        previous: The hash of the subject's event before this one.
        hash: Keyed hash over all of the above, hexadecimal; empty until it is sealed. SHA-256 in events from before
            hashes were keyed.
    """

    seq: int
    at: int
    project: str
    subject: str
    actor: str
    kind: str
    old: str | None
    new: str | None
    data: str
    delta: str
    previous: str
    hash: str = ""

    def sealed(self, seal: Seal) -> Event:
        """The event with its hash."""
        return self._replace(hash=seal(self.content))

    @property
    def is_of_review(self) -> bool:
        """Whether it happened to a review; whatever else has a prefix in its name."""
        return ":" not in self.subject and self.subject != LOG_SUBJECT

    def is_intact(self, seal: Seal) -> bool:
        """Whether the hash fits the fields."""
        try:
            return self.hash == seal(self.content)
        except TypeError:
            # A value that no event has, such as bytes: somebody wrote it into the database.
            return False

    @property
    def content(self) -> bytes:
        """What the hash is over."""
        # Through a JSON array, so that no two different events give the same bytes.
        return orjson.dumps(self[:-1])


def sealed_value(seal: Seal, value: str) -> str:
    """What an event has of a column that holds the hash of a key or token."""
    return seal(b"value " + value.encode())


def unkeyed(content: bytes) -> str:
    """The hash of events from before hashes were keyed, which whoever has the database can make too."""
    return hashlib.sha256(content).hexdigest()
