"""Replaying the log: the state that a subject's events imply, row by row."""

from __future__ import annotations

from typing import Any

import orjson

from tandem.gate.rules import commit_reviews_of
from tandem.pool.queries import reviewer_moves
from tandem.reviews.finding_rules import Finding
from tandem.reviews.rules import VOLATILE, Review, taken_back_by
from tandem.reviews.writing import finding_moves, moves
from tandem.schema import TANDEM
from tandem.store.event import CounterMove, Event, EventKind

Row = dict[str, Any]
Key = tuple[Any, ...]


_KEYS = {name: table.primary_key.columns.keys() for name, table in TANDEM.metadata.tables.items()}

UNRESTORED = VOLATILE | {"last_seen_at", "scanned_seq", "activity"}
"""All such columns: neither the use of a session is an event, nor how far a webhook has come, nor a reviewer's work."""

_ONE_ROW = (
    *("round", "verdict", "session", "handoff", "gate", "override", "commit", "rollback"),
    *("project", "access_token", "cycle_key", "webhook", "landing"),
)
ROWS = {"counter_patch": "counter_patches", **{part: f"{part}s" for part in _ONE_ROW}}
"""Parts of a delta that are one new row: their tables."""

CHANGED = {"pool": "pools", "reviewer": "reviewers"}
"""Parts of a delta that are the changed columns of the subject's one row: their tables."""

_Kind = EventKind
EVENT_PARTS: dict[str, tuple[EventKind, ...]] = {
    "review": (
        *(_Kind.REVIEW_CLAIMED, _Kind.CLAIM_RELEASED, _Kind.REVIEW_RECLAIMED, _Kind.REVIEW_CLOSED),
        *(_Kind.ATTENTION_RAISED, _Kind.ATTENTION_CLEARED, _Kind.CONTENTS_REMOVED),
        *(_Kind.REQUIREMENT_WAIVED, _Kind.WAIVER_SETTLED, _Kind.WAIVER_OBJECTED),
    ),
    "review round": (_Kind.REVIEW_CREATED, _Kind.REVIEW_REVISED),
    "review verdict": (_Kind.VERDICT_SUBMITTED, _Kind.VERDICT_COMMENT, _Kind.APPROVAL_WITHDRAWN),
    "review round findings": (_Kind.REVIEW_CREATED, _Kind.REVIEW_REVISED),
    "review verdict findings": (_Kind.VERDICT_SUBMITTED, _Kind.VERDICT_COMMENT, _Kind.APPROVAL_WITHDRAWN),
    "review findings": (_Kind.FINDING_ANSWERED, _Kind.FINDING_SETTLED, _Kind.LESSON_REMOVED),
    "review counter_patch": (_Kind.COUNTER_PATCH_PROPOSED,),
    "review round decision": (_Kind.COUNTER_PATCH_ACCEPTED,),
    "review round decision findings": (_Kind.COUNTER_PATCH_ACCEPTED,),
    "review decision": (_Kind.COUNTER_PATCH_REJECTED, _Kind.COUNTER_PATCH_SUPERSEDED),
    "review messages": (_Kind.MESSAGE_SENT,),
    "review resolved": (_Kind.MESSAGE_RESOLVED,),
    "review rollback": (_Kind.CHANGE_ROLLED_BACK,),
    "review checks findings": (_Kind.CHECK_FINISHED,),
    "review checks": (_Kind.CHECKS_REQUESTED, _Kind.CHECK_STARTED, _Kind.CHECK_FINISHED),
    "pool": (
        *(_Kind.POOL_REGISTERED, _Kind.POOL_ENDED, _Kind.POOL_PAUSED, _Kind.POOL_RESUMED),
        *(_Kind.CIRCUIT_OPENED, _Kind.CIRCUIT_CLOSED),
    ),
    "reviewer": (
        *(_Kind.REVIEWER_REQUESTED, _Kind.REVIEWER_SPAWNED, _Kind.REVIEWER_DRAIN_START),
        *(_Kind.REVIEWER_SILENT, _Kind.REVIEWER_TERMINATED, _Kind.REVIEWER_OUTCOME),
    ),
    "session": (_Kind.SESSION_OPENED,),
    "session_end": (_Kind.SESSION_CLOSED,),
    "cycle": (
        *(_Kind.CYCLE_STARTED, _Kind.LOCK_ACQUIRED, _Kind.CYCLE_ADVANCED, _Kind.CYCLE_COMPLETED),
        *(_Kind.CYCLE_ARCHIVED, _Kind.CONTENTS_REMOVED),
    ),
    "cycle handoff": (_Kind.HANDOFF_WRITTEN, _Kind.CYCLE_ADVANCED),
    "cycle advanced": (_Kind.CYCLE_ADVANCED,),
    "project": (_Kind.PROJECT_REGISTERED,),
    "gate": (_Kind.GATE_SWITCHED,),
    "override": (_Kind.GATE_OVERRIDDEN, _Kind.OVERRIDE_SEEN),
    "commit": (_Kind.COMMIT_RECORDED,),
    "access_token": (_Kind.TOKEN_CREATED, _Kind.TOKEN_REVOKED),
    "cycle_key": (_Kind.TOKEN_CREATED, _Kind.TOKEN_REVOKED),
    "landing": (_Kind.LANDING_QUEUED, _Kind.LANDING_STARTED, _Kind.LANDING_ENDED),
    "webhook": (_Kind.WEBHOOK_ADDED, _Kind.WEBHOOK_REMOVED),
    "": (_Kind.CHECKPOINT,),
}
"""The parts that a delta has, the first one its subject's, and the kinds of events that have just these."""

_PREFIXES = {"access_token": "token:", "cycle_key": "key:", "session_end": "session:", "review": "", "": "log"}
"""How subjects begin, by the first part of a delta, where it is not the part's own name."""

_PREFIX_OF: dict[tuple[frozenset[str], str], str] = {
    (frozenset(words.split()), kind): _PREFIXES.get(first, f"{first}:")
    for words, kinds in EVENT_PARTS.items()
    for first in (words.partition(" ")[0],)
    for kind in kinds
}

STAMPED = frozenset(name for name in ROWS.values() if "event_seq" in TANDEM.metadata.tables[name].c)
"""Tables whose rows are a subject each, and carry the newest event's number and hash."""


class Replay:
    """One subject's state, rebuilt from its events in order.

    Attributes:
        tables: Rows by table and key, as the events so far left them.
    """

    def __init__(self) -> None:
        self.tables: dict[str, dict[Key, Row]] = {}
        self._review: Review | None = None

    def apply(self, event: Event) -> list[CounterMove]:
        """Take in the next event; the counters that it moves.

        Raises:
            KeyError: The event speaks of a row that no event made.
            ValueError: The event's delta is not what Tandem writes.
            TypeError: Likewise.
        """
        delta: dict[str, Any] = orjson.loads(event.delta)
        if not _says_its_kind(event, delta):
            raise ValueError(event.kind)
        for part in ROWS.keys() & delta.keys():
            self._put(ROWS[part], delta[part])
        self._apply_parts(delta)
        if "cycle" in delta:
            self._apply_cycle(event, delta["cycle"])
        for table in STAMPED & self.tables.keys():
            # A subject of one of these tables is one row.
            for row in self.tables[table].values():
                row.update(delta.get("session_end", {}), event_seq=event.seq, event_hash=event.hash)
        for part, table in CHANGED.items():
            if part in delta:
                return self._apply_row(event, table, delta[part])
        if "review" not in delta:
            return []
        counted = self._apply_review(event, delta["review"], delta.get("verdict"))
        found = [Finding(**row) for row in delta.get("findings", ())]
        return counted if self._review is None else sorted([*counted, *finding_moves(self._review, found, event.kind)])

    def finish(self) -> dict[str, dict[Key, Row]]:
        """All rows, those included that follow from the review: what the gate opens for."""
        review = self._review
        if review is not None and review.approved_round is not None:
            self._approve(review, review.approved_round)
        return self.tables

    def _apply_parts(self, delta: dict[str, Any]) -> None:
        """What an event changes in rows that are there, and the rows of which it may bring several."""
        for table in ("messages", "checks", "findings"):
            for row in delta.get(table, ()):
                self._put(table, row)
        if "decision" in delta:
            decision: Row = delta["decision"]
            self._rows("counter_patches")[(decision["id"],)].update(
                status=decision["status"], reason=decision["reason"], decided_at=decision["decided_at"]
            )
        if "resolved" in delta:
            resolved, by = delta["resolved"]
            self._rows("messages")[(resolved,)].update(resolved_by=by)
        for row in commit_reviews_of(delta["commit"]) if "commit" in delta else ():
            self._put("commit_reviews", row)
        for row in taken_back_by(delta["rollback"]) if "rollback" in delta else ():
            self._put("taken_back", row)
        if "advanced" in delta:
            cycle_id, number, advanced_at = delta["advanced"]
            self._rows("handoffs")[cycle_id, number].update(advanced_at=advanced_at)

    def _rows(self, table: str) -> dict[Key, Row]:
        return self.tables.setdefault(table, {})

    def _put(self, table: str, row: Row) -> None:
        self._rows(table)[key_of(table, row)] = row

    def _apply_review(self, event: Event, changed: Row, given: Row | None) -> list[CounterMove]:
        before = self._review
        stamp: Row = {"event_seq": event.seq, "event_hash": event.hash}
        if before is None:
            whole: Row = dict.fromkeys(VOLATILE)
            whole.update(changed, **stamp)
            after = Review(**whole)
        else:
            after = before._replace(**changed, **stamp)
        if (event.old, event.new) != (before.state if before else None, after.state):
            raise ValueError(event.new)
        self._review = after
        self._put("reviews", {name: value for name, value in after._asdict().items() if name not in VOLATILE})
        return moves(before, after, event.kind, given)

    def _apply_cycle(self, event: Event, changed: Row) -> None:
        key = (event.subject.removeprefix("cycle:"),)
        row = self._rows("cycles").setdefault(key, {"status_seq": event.seq})
        row.update(changed, event_seq=event.seq, event_hash=event.hash)
        if event.kind != EventKind.LOCK_ACQUIRED:
            row["status_seq"] = event.seq

    def _apply_row(self, event: Event, table: str, changed: Row) -> list[CounterMove]:
        key = (event.subject.partition(":")[2],)
        before: Row = self._rows(table).get(key, {})
        after: Row = {**before, **changed, "event_seq": event.seq, "event_hash": event.hash}
        self._rows(table)[key] = after
        return reviewer_moves(before, after, event.at) if table == "reviewers" else []

    def _approve(self, review: Review, number: int) -> None:
        approved = self._rows("rounds")[review.id, number]
        if approved["digest"] is None:
            return
        of_round = {"project": review.project, "review_id": review.id, "round": number}
        self._put("approvals", {**of_round, "digest": approved["digest"]})
        kind = "change" if approved["path"] is None else "text"
        for change in orjson.loads(approved["changes"]):
            self._put("approved_paths", {**of_round, "kind": kind, **change})


def key_of(table: str, row: Row) -> Key:
    """A row's primary key."""
    return tuple(row[column] for column in _KEYS[table])


def _says_its_kind(event: Event, delta: Row) -> bool:
    """Whether an event changes what its kind changes, of a subject that has it."""
    prefix = _PREFIX_OF.get((frozenset(delta), event.kind))
    return prefix is not None and event.subject.startswith(prefix) and (prefix != "" or event.is_of_review)
