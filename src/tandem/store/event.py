"""The event: one line of the append-only log, chained to the one before it on the same subject."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

import orjson

Seal = Callable[[bytes], str]
"""Hashes what an event says: keyed with the broker's secret."""

GENESIS = ""
"""What the first event of a subject chains to."""

FOREVER = 2**62
"""A place behind all events that there will ever be."""

MOST_EVENTS = 4_095
"""Of one transaction on PostgreSQL, where the numbers of events are the transaction's id and twelve more bits."""


def place_before(base: int, transaction: int) -> int:
    """The place in the log before the first event of a transaction on PostgreSQL; `base` is where the log began."""
    return base + transaction * (MOST_EVENTS + 1)


LOG_SUBJECT = "log"
"""The subject of events about the log itself."""


class EventKind(StrEnum):
    """Every kind of event that this part of the product writes."""

    REVIEW_CREATED = "review_created"
    """A change was proposed: round 1."""
    REVIEW_REVISED = "review_revised"
    """The proposer submitted a new round; an approval of an earlier round ends."""
    REVIEW_CLAIMED = "review_claimed"
    """A reviewer took the review. With `again: true` the holder was given a round that came up under its claim."""
    CLAIM_RELEASED = "claim_released"
    """The holder gave its claim back, or a pool's reviewer had no verdict to give; the review is in the queue again.
    With `not_before` it is tried again then.
    """
    REVIEW_RECLAIMED = "review_reclaimed"
    """The broker took the claim back as its lease ran out, or as the pool's reviewer that held it has ended; the review
    is in the queue again.
    """
    VERDICT_SUBMITTED = "verdict_submitted"
    """The holder decided: approved, changes requested or rejected, on one round."""
    VERDICT_COMMENT = "verdict_comment"
    """The holder gave remarks without deciding, and keeps the claim."""
    APPROVAL_WITHDRAWN = "approval_withdrawn"
    """An approval was withdrawn, and the gate no longer opens for it: `reason`, `round`, and `approved_by`. One of
    several is missing again."""
    REQUIREMENT_WAIVED = "requirement_waived"
    """A person let the review go without something that the policy asks for: `need`, `reason`, and it is owed `until`
    then.
    """
    WAIVER_SETTLED = "waiver_settled"
    """Somebody reviewed after the fact the `need` that was waived: the debt is over."""
    WAIVER_OBJECTED = "waiver_objected"
    """Somebody reviewed it and objects, with a `reason`: the debt stays, and a person looks."""
    COUNTER_PATCH_PROPOSED = "counter_patch_proposed"
    """A verdict came with a replacement for the round's content."""
    COUNTER_PATCH_ACCEPTED = "counter_patch_accepted"
    """The proposer took the counter-patch: it is the new round's content."""
    COUNTER_PATCH_REJECTED = "counter_patch_rejected"
    """The proposer declined the counter-patch; the round's content stays."""
    COUNTER_PATCH_SUPERSEDED = "counter_patch_superseded"
    """A pending counter-patch was overtaken by a newer one, a revision, a verdict or the close."""
    MESSAGE_SENT = "message_sent"
    """One side said something in the discussion."""
    MESSAGE_RESOLVED = "message_resolved"
    """A message settled an earlier message."""
    FINDING_ANSWERED = "finding_answered"
    """The proposer answered a finding: `fixed`, `refuted` or `deferred`. Once all that is open is contested,
    the review is in the queue again.
    """
    FINDING_SETTLED = "finding_settled"
    """A reviewer settled a finding (`verified`, `upheld`) or reopened it, beside a verdict."""
    LESSON_REMOVED = "lesson_removed"
    """An operator removed a lesson: the same finding counts again."""
    REVIEW_CLOSED = "review_closed"
    """The review is over; `outcome` says how."""
    ATTENTION_RAISED = "attention_raised"
    """The review waits for a person and left the queue until one has looked; `reason` says why."""
    ATTENTION_CLEARED = "attention_cleared"
    """Somebody looked: the review was claimed by its id, put back by hand (`retry_review`), revised or closed, or its
    counter-patch was accepted.
    """
    POOL_REGISTERED = "pool_registered"
    """A supervisor started; with its `incarnation`, host, provider and mode."""
    POOL_ENDED = "pool_ended"
    """A supervisor stopped in order; none of its reviewers is left."""
    POOL_PAUSED = "pool_paused"
    """The pool starts nothing more, and its reviewers end after their reviews; `kind` and `reason` say why."""
    POOL_RESUMED = "pool_resumed"
    """The pool may start reviewers again; `kind` and `reason` are those of the pause."""
    CIRCUIT_OPENED = "circuit_opened"
    """Too many reviewers in a row failed at once: nothing is started until `until`. `reason` has the last failure."""
    CIRCUIT_CLOSED = "circuit_closed"
    """A reviewer lasted, or a person resumed the pool: the count of immediate failures is reset."""
    REVIEWER_REQUESTED = "reviewer_requested"
    """One more reviewer was requested; `by` says by whom: `scaling`, or the caller."""
    REVIEWER_SPAWNED = "reviewer_spawned"
    """Its process runs, as `pid` on `host`."""
    REVIEWER_DRAIN_START = "reviewer_drain_start"
    """The reviewer was told to end after its review, or with `at_once` now; `reason` says why."""
    REVIEWER_SILENT = "reviewer_silent"
    """Its program has neither written nor used the processor `since` then; or it does again: `silent` is false."""
    REVIEWER_TERMINATED = "reviewer_terminated"
    """Its process has ended, or was lost with its supervisor. `quick` says that it failed at once."""
    REVIEWER_OUTCOME = "reviewer_outcome"
    """A run ended: `outcome`, `review_id`, `reason`, and where they are known the seconds, tokens and cost. A verdict
    may have two: one with its own transaction, one with the run's usage.
    """
    SESSION_OPENED = "session_opened"
    """A role opened a session with its key. No event contains the token."""
    SESSION_CLOSED = "session_closed"
    """A session ended; `reason` says how: `closed`, `idle`, `rotated` or `revoked` (the last two: its key was)."""
    CYCLE_STARTED = "cycle_started"
    """A cycle began in its workflow's first phase."""
    LOCK_ACQUIRED = "lock_acquired"
    """The active role took the lock's current token. `rotation` counts the tokens; the token itself is not recorded."""
    HANDOFF_WRITTEN = "handoff_written"
    """A hand-off was written. With a `review_id` it waits for its review."""
    CYCLE_ADVANCED = "cycle_advanced"
    """A hand-off took the cycle to its next phase: at once, or (then with `review_id` and `round`) by its approval."""
    CYCLE_COMPLETED = "cycle_completed"
    """The cycle is complete; its lock is the archiver's."""
    CYCLE_ARCHIVED = "cycle_archived"
    """The cycle is in its archive; its workflow is idle in this project."""
    PROJECT_REGISTERED = "project_registered"
    """A project was registered for a folder, or its folder was forgotten."""
    CHECKS_REQUESTED = "checks_requested"
    """Checks of a round were requested, for the first time or again; `checks` has their names."""
    CHECK_STARTED = "check_started"
    """A check runs: on which `tree`, and by which `runner`."""
    CHECK_FINISHED = "check_finished"
    """A check of a round has ended: `status`, `reason`, `exit_status`, `seconds`. With `same_as` its result is that of
    the same tree in another round.
    """
    GATE_SWITCHED = "gate_switched"
    """The project's gate was switched on or off, or its branches changed; `reason` may say why."""
    GATE_OVERRIDDEN = "gate_overridden"
    """A person overrode the gate for an unapproved difference: `reason`, `digest`, and the first 100 `paths` of it."""
    OVERRIDE_SEEN = "override_seen"
    """A person has seen an override, which is in their inbox until then."""
    COMMIT_RECORDED = "commit_recorded"
    """A hook recorded a commit: its branch, plan and reviews. With `unreviewed` it passed before its review."""
    CHANGE_ROLLED_BACK = "change_rolled_back"
    """The review's change was rolled back on `branch`; the numbers say how many commits were reverted, carried over and
    have to be done again. The plan goes on in blocking mode.
    """
    LANDING_QUEUED = "landing_queued"
    """A branch took its place in the line of its base branch, or another process took that place over."""
    LANDING_STARTED = "landing_started"
    """It is a landing's turn: its checks run, or the base branch moves from `tip` to `commit`."""
    LANDING_ENDED = "landing_ended"
    """A branch left the line: it landed as `commit`, or failed for a `reason`."""
    TOKEN_CREATED = "token_created"  # noqa: S105 - the name of an event
    """A role was given a key, its first one or in place of another; or an access token was made. `what` says which.
    Neither the secret nor its hash is there.
    """
    TOKEN_REVOKED = "token_revoked"  # noqa: S105 - the name of an event
    """A role's key or an access token was revoked."""
    WEBHOOK_ADDED = "webhook_added"
    """Events are posted to a receiver from now on: `url` without its path, `events`, `format`."""
    WEBHOOK_REMOVED = "webhook_removed"
    """The receiver gets nothing any more."""
    CONTENTS_REMOVED = "contents_removed"
    """The setting `retention_days` removed a closed review's contents, or an archived cycle's payloads. `chain` covers
    the remains of its `events` up to number `last`.
    """
    CHECKPOINT = "checkpoint"
    """One hash over all events since the last checkpoint: no whole review can vanish unnoticed."""


REMOVED = '{"removed":true}'
"""The data of an event whose contents were removed. Its hash in the chains is still that of the original data."""


class Event(NamedTuple):
    """One event. Field order is the column order of its table.

    Attributes:
        seq: Position in the log, and so the cursor of every wait. In the order of commits on SQLite, and of one subject
            everywhere; see `Unit.settled`.
        at: Microseconds since the epoch, UTC.
        project: The project it belongs to; empty for the log's own.
        subject: The thing changed: a review's id, `cycle:<id>`, `session:<id>`, `key:<project>/<workflow>/<role>`,
            `project:<name>`, `pool:<supervisor>`, `reviewer:<id>`, `gate:<project>`, `override:<project>/<id>`,
            `commit:<project>/<id>`, `landing:<id>`, `webhook:<id>`, or `log`.
        actor: Who did it.
        kind: What happened.
        old: The state before, where there is one.
        new: The state after, where there is one.
        data: Facts for readers, as JSON text.
        delta: The rows as this event left them, as JSON text; what a replay rebuilds the state from.
        previous: The hash of the subject's event before this one.
        hash: Keyed hash over all of the above, hexadecimal; empty until it is sealed.
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
        """Whether it happened to a review; all other subjects have a prefix in their names."""
        return ":" not in self.subject and self.subject != LOG_SUBJECT

    @property
    def is_removed(self) -> bool:
        """Whether its contents were removed, as a later event of its subject has to say."""
        return self.data == REMOVED

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
        return content_of(self[:-1])


def content_of(said: tuple[Any, ...]) -> bytes:
    """What the hash of an event is over: all of its fields but the hash."""
    # Through a JSON array, so that no two different events give the same bytes.
    return orjson.dumps(said)


def sealed_value(seal: Seal, value: str) -> str:
    """What an event has of a column that holds the hash of a key or token."""
    return seal(b"value " + value.encode())


def unkeyed(content: bytes) -> str:
    """A hash without a key, which anyone can make: of stores that are opened only to be read or made."""
    return hashlib.sha256(content).hexdigest()


class Head(NamedTuple):
    """The one row of `log_head`, in the order of its columns."""

    id: int
    log_id: str
    seq: int
    checkpoint_seq: int
    event_hash: str
    keyed_from: int
    key_check: str
    epochs: str
    auth: str = ""

    def cursor_ids(self) -> dict[str, int]:
        """How cursors name this log, oldest name first, each with the newest event that a cursor of it may cover."""
        found: dict[str, int] = {}
        name = self.log_id
        for epoch in self.epochs.split():
            newest, _, another = epoch.partition(":")
            found[name] = int(newest)
            name = f"{self.log_id}-{another}"
        return {**found, name: FOREVER}

    def fits(self, seal: Seal) -> bool:
        """Whether the hashes of this log are made with this seal's secret, from the event on that it says."""
        return self.key_check == key_check(seal, self.log_id, self.keyed_from)


def key_check(seal: Seal, log_id: str, seq: int) -> str:
    """Tells with which secret the hashes of a log are made, from an event on."""
    return seal(f"log {log_id} {seq}".encode())


ALL_TIME = ""


class CounterMove(NamedTuple):
    """One counter and how far it moves; sorted, in the order in which counters are locked.

    Field order is the column order of the counters' table, but for the slot.

    Attributes:
        day: ISO date in UTC, or `ALL_TIME`.
        total_us: Microseconds that go into the metric's mean.
    """

    project: str
    day: str
    category: str
    reviewer_id: str
    metric: str
    amount: int
    total_us: int = 0

    @property
    def key(self) -> tuple[str, str, str, str, str]:
        """What tells the counter from all others."""
        return self[:5]
