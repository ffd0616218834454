"""Auditing (P8): is the log whole, and does replaying it rebuild the state?

Everything is read in one snapshot and in pages, so it works beside a running broker and in little memory.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import orjson

from tandem.domain.events import GENESIS, LOG_SUBJECT, Event, Kind
from tandem.domain.replay import UNRESTORED, Replay
from tandem.domain.statistics import CounterMove
from tandem.services.maintenance import chain
from tandem.store import events, snapshots
from tandem.store.base import Store, Unit

PAGE = 1_000
PROBLEM_LIMIT = 100
"""Problems that are told; a log that was damaged at its root would have one for every event."""

Progress = Callable[[int, int], None]
"""Called with how many events were looked at, and how many looks there will be (two for each event)."""


@dataclass(frozen=True, slots=True)
class AuditReport:
    """What an audit found.

    Attributes:
        events: How many events were checked.
        subjects: How many subjects they are about.
        problems: What is wrong, in words, at most `PROBLEM_LIMIT`; empty when all is well.
    """

    events: int
    subjects: int
    problems: tuple[str, ...]

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@dataclass(slots=True)
class _Audit:
    """One audit under way."""

    unit: Unit
    progress: Progress
    newest: int
    looked: int = 0
    subjects: int = 0
    problems: list[str] = field(default_factory=list[str])

    def add(self, problem: str) -> None:
        if len(self.problems) < PROBLEM_LIMIT:
            self.problems.append(problem)

    def tick(self) -> None:
        self.looked += 1
        if self.looked % PAGE == 0:
            self.progress(self.looked, max(self.looked, 2 * self.newest))


async def verify(store: Store, progress: Progress | None = None) -> AuditReport:
    """Check every number, hash, chain and checkpoint of the log, replay it, and compare with the state.

    Raises:
        Unavailable: The database cannot be read.
    """

    def work(unit: Unit) -> AuditReport:
        _, newest = events.head(unit)
        audit = _Audit(unit, progress or (lambda _looked, _all: None), newest)
        count = _check_log(audit)
        counted = _check_subjects(audit)
        _check_counters(audit, counted)
        _check_rest(audit)
        audit.progress(2 * newest, 2 * newest)
        return AuditReport(count, audit.subjects, tuple(audit.problems))

    return await store.read(work)


def _check_log(audit: _Audit) -> int:
    """The log in its own order: no number missing, no event changed, every checkpoint right."""
    expected, count = 1, 0
    for event in _log(audit.unit):
        audit.tick()
        count += 1
        if event.seq != expected:
            audit.add(f"events {expected} to {event.seq - 1} are missing")
        expected = event.seq + 1
        if not event.is_intact:
            audit.add(f"event {event.seq} ({event.kind} of {event.subject}) was changed: its hash does not fit")
        elif event.kind == Kind.CHECKPOINT:
            _check_checkpoint(audit, event)
    if expected <= audit.newest:
        audit.add(f"the log ends at event {expected - 1}, but {audit.newest} were written: it was cut off")
    elif expected - 1 > audit.newest:
        audit.add(f"the log goes on after event {audit.newest}, the newest that was written")
    return count


def _log(unit: Unit) -> Iterator[Event]:
    after = 0
    while page := events.list_after(unit, after, PAGE):
        yield from page
        after = page[-1].seq


def _check_checkpoint(audit: _Audit, event: Event) -> None:
    facts: dict[str, Any] = orjson.loads(event.data)
    covered = events.list_after(audit.unit, facts["first"] - 1, facts["events"])
    whole = len(covered) == facts["events"] and covered[-1].seq == facts["last"]
    if not whole or chain(covered) != facts["chain"]:
        audit.add(f"checkpoint {event.seq} does not fit: events {facts['first']} to {facts['last']} were changed")


def _check_subjects(audit: _Audit) -> dict[tuple[Any, ...], list[int]]:
    """The log subject by subject: chained, and implying what is stored. The counters that it implies."""
    counted: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for subject, history in groupby(snapshots.events_by_subject(audit.unit), key=lambda event: event.subject):
        audit.subjects += 1
        _check_subject(audit, subject, history, counted)
    return counted


def _check_subject(
    audit: _Audit, subject: str, history: Iterable[Event], counted: dict[tuple[Any, ...], list[int]]
) -> None:
    replay = Replay()
    previous = GENESIS
    replayable = True
    for event in history:
        audit.tick()
        if event.previous != previous:
            audit.add(f"event {event.seq} ({event.kind} of {subject}) does not follow the one before it")
        previous = event.hash
        try:
            _count(counted, replay.apply(event) if replayable else ())
        except (KeyError, ValueError, TypeError, AttributeError):
            audit.add(f"event {event.seq} ({event.kind} of {subject}) cannot be replayed")
            replayable = False
    if subject == LOG_SUBJECT:
        if previous != events.checkpoint(audit.unit)[1]:
            audit.add("the newest checkpoint is not the one that was written")
    elif replayable:
        _compare(audit, subject, replay)


def _count(counted: dict[tuple[Any, ...], list[int]], moved: Iterable[CounterMove]) -> None:
    for move in moved:
        counter = counted[move.key]
        counter[0] += move.amount
        counter[1] += move.total_us


def _compare(audit: _Audit, subject: str, replay: Replay) -> None:
    """The rows that a subject's events imply against those that are stored."""
    try:
        implied = replay.finish()
    except (KeyError, ValueError, TypeError):
        audit.add(f"{subject}: its approval names a round that no event made")
        return
    stored = snapshots.rows_of(audit.unit, subject)
    for table in implied.keys() | stored.keys():
        ours, theirs = implied.get(table, {}), stored.get(table, {})
        for key in ours.keys() | theirs.keys():
            problem = _difference(ours.get(key), theirs.get(key))
            if problem:
                audit.add(f"{subject}: {table} {' '.join(str(part) for part in key)} {problem}")


def _difference(implied: dict[str, Any] | None, stored: dict[str, Any] | None) -> str | None:
    if implied is None:
        return "is stored, but no event made it"
    if stored is None:
        return "is in the log, but not stored"
    wrong = sorted(
        name
        for name in implied.keys() | stored.keys()
        if name not in UNRESTORED and implied.get(name) != stored.get(name)
    )
    return f"differs from the log in {', '.join(wrong)}" if wrong else None


def _check_counters(audit: _Audit, counted: dict[tuple[Any, ...], list[int]]) -> None:
    stored = snapshots.list_counters(audit.unit)
    for key in counted.keys() | stored.keys():
        implied = tuple(counted[key]) if key in counted else (0, 0)
        if stored.get(key, (0, 0)) != implied:
            audit.add(f"the counter {' '.join(part or '-' for part in key)} differs from the log")


def _check_rest(audit: _Audit) -> None:
    for name in snapshots.list_unexplained(audit.unit, PROBLEM_LIMIT):
        audit.add(f"{name} is stored, but no event speaks of it")
    for name in snapshots.list_wrong_refusals(audit.unit, PROBLEM_LIMIT):
        audit.add(f"the plan's refused review {name} does not fit its commits and verdicts")
    for name, body in snapshots.list_contents(audit.unit):
        if hashlib.sha256(body.encode()).hexdigest() != name:
            audit.add(f"the content {name} was changed")
