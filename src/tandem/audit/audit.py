"""Auditing (P8): is the log whole, and does replaying it rebuild the state?

Everything is read in one snapshot and in pages, so it works beside a running broker and in little memory. Nothing
that is found in the database may end an audit: it names all damage and checks the rest.
"""

from __future__ import annotations

import hashlib
import time
from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

import orjson

from tandem.audit import snapshots
from tandem.audit.replay import UNRESTORED, Replay
from tandem.errors import TandemError
from tandem.store import events, log
from tandem.store.base import Store, Unit
from tandem.store.event import GENESIS, LOG_SUBJECT, CounterMove, Event, EventKind, Head, Seal, sealed_value
from tandem.store.ledger import SEALED
from tandem.store.sqlite_unit import ILLEGIBLE

PAGE = 1_000
PROBLEM_LIMIT = 100
"""Problems that are told; a log that was damaged at its root would have one for every event."""

Progress = Callable[[int, int], None]
"""Called with how many events were looked at, and how many looks there will be (two for each event)."""

_NO_HEAD = Head(1, "", 0, 0, GENESIS, 0, "", "")
_DAMAGE = (LookupError, ValueError, TypeError, AttributeError, ArithmeticError, OSError)
"""What reading a value that no Tandem wrote can end with."""


class _OutOfTime(Exception):
    """The time is up that the audit may take."""


@dataclass(slots=True)
class AuditReport:
    """What an audit found.

    Attributes:
        events: How many events were checked.
        subjects: How many subjects they are about.
        problems: The problems found, in words, at most `PROBLEM_LIMIT`; empty when all is well.
        notes: The parts that were not checked, and what the log itself says of its past.
        is_of_another_key: Whether no hash of the log is made with the secret at hand.
    """

    events: int = 0
    subjects: int = 0
    problems: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])
    is_of_another_key: bool = False

    @property
    def intact(self) -> bool:
        """Whether nothing is wrong."""
        return not self.problems


@dataclass(kw_only=True, slots=True)
class _Audit:
    """One audit under way."""

    seal: Seal | None
    find_known: Callable[[str], log.KnownLog | None]
    progress: Progress
    report: AuditReport = field(default_factory=AuditReport)
    head: Head = _NO_HEAD
    legible: bool = True
    looked: int = 0
    covered: int = 0
    gapless: bool = True
    gaps: list[tuple[int, int]] = field(default_factory=list[tuple[int, int]])
    deadline: float | None = None

    def add(self, *problems: str) -> None:
        found = self.report.problems
        found.extend(problems[: PROBLEM_LIMIT - len(found)])

    def tick(self) -> None:
        self.looked += 1
        if self.looked % PAGE == 0:
            self.progress(self.looked, max(self.looked, 2 * self.head.seq))
            if self.deadline is not None and time.monotonic() > self.deadline:
                raise _OutOfTime

    def fits(self, event: Event) -> bool:
        """Whether an event's hash is right, as far as that can be told."""
        return self.seal is None or event.seq < self.head.keyed_from or event.is_intact(self.seal)


async def verify(
    store: Store,
    *,
    seal: Seal | None,
    find_known: Callable[[str], log.KnownLog | None],
    progress: Progress,
    seconds: float | None = None,
    gapless: bool = True,
) -> AuditReport:
    """Check schema, numbers, hashes, chains and checkpoints, replay the log, and compare with the state.

    Args:
        store: The database, not open yet.
        seal: What the log's hashes are made with; None where its secret is not at hand.
        find_known: What the broker knows of a log outside of the database, by the log's id.
        progress: Told how far it is.
        gapless: Whether events are numbered without gaps.
        seconds: After so long the audit leaves out the rest, with a note; None to check all of it.

    Raises:
        Unavailable: The database cannot be reached.
        ConfigInvalid: It is not of this version of Tandem.
    """
    audit = _Audit(
        seal=seal,
        find_known=find_known,
        progress=progress,
        gapless=gapless,
        deadline=None if seconds is None else time.monotonic() + seconds,
    )
    try:
        await store.open()
        await store.read(lambda unit: _check(unit, audit))
    except _OutOfTime:
        audit.report.notes.append(f"only {audit.looked} of {2 * audit.head.seq} looks were taken in {seconds:g} s")
    except TandemError as exc:
        if not exc.details.get("damaged"):
            raise
        audit.add(exc.message)
    except Exception as exc:  # noqa: BLE001 - damage of an unforeseen kind is still damage
        audit.add(f"the audit could not go on: {exc!r}")
    finally:
        await store.close()
    return audit.report


def _check(unit: Unit, audit: _Audit) -> None:
    problems, readable = snapshots.list_schema_problems(unit)
    audit.add(*problems, *snapshots.list_file_problems(unit, PROBLEM_LIMIT))
    if not readable:
        audit.report.notes.append("nothing else was checked, because something of the schema is missing")
        return
    _check_head(unit, audit)
    _check_log(unit, audit)
    if audit.legible:
        _check_counters(unit, audit, _check_subjects(unit, audit))
    else:
        audit.report.notes.append("the log was not replayed, because it has subjects that are no text")
    _check_rest(unit, audit)
    audit.progress(2 * audit.head.seq, 2 * audit.head.seq)


def _check_head(unit: Unit, audit: _Audit) -> None:
    """Which hashes are keyed, whether with the secret at hand, and whether the log is at least as long as is known."""
    try:
        head = events.read_head(unit)
    except LookupError as exc:
        audit.add(str(exc))
        return
    if [type(value) for value in head] != [int, str, int, int, str, int, str, str, str]:
        audit.add("log_head has values that Tandem did not write")
        return
    audit.head = head
    if not head.keyed_from:
        _check_unkeyed(audit)
        return
    first = events.list_after(unit, head.keyed_from - 1, 1)
    if audit.seal is None:
        audit.report.notes.append("the hashes were not checked: that takes the broker's secret key")
    elif not head.fits(audit.seal):
        audit.add(
            "the log's hashes are not made with this secret key, or log_head was changed; to check another broker's"
            " database, name its key with TANDEM_SECRET_KEY_FILE"
        )
        if not any(event.is_intact(audit.seal) for event in (*first, *events.list_newest(unit, 1))):
            audit.seal, audit.report.is_of_another_key = None, True
    if head.keyed_from > 1:
        _check_boundary(audit, first)
    known = audit.find_known(head.log_id)
    if known is not None and known.log_id != head.log_id:
        audit.add("the log is another one than the broker knows of: the database was replaced")
    elif known is not None and known.seq and events.find_hash(unit, known.seq) != known.hash:
        audit.add(
            f"event {known.seq}, the newest checkpoint that the broker knows of, is not in the log: the log was cut off"
            " or rewritten, or this is an older copy of the database"
        )


def _check_unkeyed(audit: _Audit) -> None:
    if audit.find_known(audit.head.log_id) is not None:
        audit.add("no hash is keyed, but the broker keyed hashes before: the database was replaced")
    audit.report.notes.append(
        "no hash is keyed yet, so that anyone who can write to the database can rewrite the log; start its broker once"
    )


def _check_boundary(audit: _Audit, first: list[Event]) -> None:
    """The first keyed event vouches for all before it, or anybody could call an event an old one."""
    facts = _facts(first[0]) if first and first[0].seq == audit.head.keyed_from and audit.fits(first[0]) else {}
    if facts.get("vouches") is not True:
        audit.add(f"no event vouches for those before {audit.head.keyed_from}, whose hashes are not keyed")
        return
    audit.report.notes.append(
        f"the {audit.head.keyed_from - 1} events before event {audit.head.keyed_from} have hashes of another secret"
        " key; the broker vouched for their contents when it got this one"
    )


def _facts(event: Event) -> dict[str, Any]:
    """What a checkpoint says; nothing if that cannot be read."""
    try:
        return {**orjson.loads(event.data)}
    except _DAMAGE:
        return {}


def _check_log(unit: Unit, audit: _Audit) -> None:
    """The log in its own order: no number missing, no event changed, every checkpoint right."""
    # PostgreSQL gives numbers by its transactions, of which few write here.
    audit.gapless = audit.gapless and unit.dialect == "sqlite"
    expected = 1
    for event in log.read(unit, 0, 2**62):
        audit.tick()
        audit.report.events += 1
        if event.seq != expected:
            audit.gaps.append((expected, event.seq - 1))
        expected = event.seq + 1
        if type(event.subject) is not str or ILLEGIBLE in event.subject:
            audit.legible = False
        # The remains of an event without its contents are checked with its subject.
        if not (event.is_removed or audit.fits(event)):
            audit.add(f"event {event.seq} ({event.kind} of {event.subject}) was changed: its hash does not fit")
        elif event.kind == EventKind.CHECKPOINT:
            _check_checkpoint(unit, audit, event)
    _check_end(audit, expected - 1)
    if audit.head.checkpoint_seq != audit.covered:
        audit.add(
            f"log_head says that checkpoints cover the log up to event {audit.head.checkpoint_seq}, but they cover it"
            f" up to {audit.covered}"
        )


def _check_end(audit: _Audit, last: int) -> None:
    """That no number is missing, at the end neither, as far as numbers tell."""
    if not audit.gapless:
        return
    newest = audit.head.seq
    for first, until in audit.gaps:
        audit.add(f"events {first} to {until} are missing")
    if last < newest:
        audit.add(f"the log ends at event {last}, but {newest} were written: it was cut off")
    elif last > newest:
        audit.add(f"the log goes on after event {newest}, the newest that was written")


def _check_checkpoint(unit: Unit, audit: _Audit, event: Event) -> None:
    """Check it against the events that it covers, and that it goes on where the one before it ended."""
    facts = _facts(event)
    first, last, count = (facts.get(name) for name in ("first", "last", "events"))
    if not (isinstance(first, int) and isinstance(last, int) and isinstance(count, int) and last < event.seq):
        audit.add(f"checkpoint {event.seq} does not say which events it covers")
        return
    vouches = facts.get("vouches") is True
    if first != (1 if vouches else audit.covered + 1):
        audit.add(f"checkpoint {event.seq} does not go on where the one before it ended, at event {audit.covered}")
    audit.covered = last
    covered = log.read(unit, first - 1, last)
    if (log.content_chain if vouches else log.chain)(covered) != facts.get("chain"):
        audit.add(f"checkpoint {event.seq} does not fit: events {first} to {last} were changed")
    else:
        # Nothing is missing there: the numbers were given by PostgreSQL, before this became a SQLite database.
        audit.gaps = [gap for gap in audit.gaps if not first <= gap[0] <= gap[1] <= last]
    if "missing_until" in facts:
        audit.report.notes.append(
            f"at event {event.seq} the broker found that the log had once gone on to event {facts['missing_until']}:"
            " a copy was restored, or the log was cut off"
        )


def _check_subjects(unit: Unit, audit: _Audit) -> dict[tuple[Any, ...], list[int]]:
    """Check, subject by subject, that the log is chained and implies the stored rows; the counters that it implies."""
    counted: dict[tuple[Any, ...], list[int]] = defaultdict(lambda: [0, 0])
    for subject, history in groupby(snapshots.events_by_subject(unit), key=lambda event: event.subject):
        audit.report.subjects += 1
        _check_subject(unit, audit, subject, history, counted)
    return counted


def _check_subject(
    unit: Unit, audit: _Audit, subject: str, history: Iterable[Event], counted: dict[tuple[Any, ...], list[int]]
) -> None:
    replay = Replay()
    previous = GENESIS
    replayable = True
    removed: list[Event] = []
    for event in history:
        audit.tick()
        if event.is_removed:
            removed.append(event)
        elif event.kind == EventKind.CONTENTS_REMOVED:
            _check_removed(audit, event, removed)
            removed = []
        if event.previous != previous:
            audit.add(f"event {event.seq} ({event.kind} of {subject}) does not follow the one before it")
        previous = event.hash
        try:
            _count(counted, replay.apply(event) if replayable else ())
        except _DAMAGE:
            audit.add(f"event {event.seq} ({event.kind} of {subject}) cannot be replayed: its data are damaged")
            replayable = False
    if removed:
        audit.add(f"{subject}: events have lost their contents, but no event says so")
    if subject == LOG_SUBJECT:
        if previous != audit.head.event_hash:
            audit.add("the newest checkpoint is not the one that was written")
    elif replayable:
        _compare(unit, audit, subject, replay)


def _check_removed(audit: _Audit, event: Event, removed: list[Event]) -> None:
    """Check the remains of events without their contents against the event that removed these."""
    facts = _facts(event)
    if not audit.fits(event) or facts.get("events") != len(removed) or facts.get("chain") != log.content_chain(removed):
        audit.add(f"{event.subject}: what event {event.seq} left of the events before it was changed")


def _count(counted: dict[tuple[Any, ...], list[int]], moved: Iterable[CounterMove]) -> None:
    for move in moved:
        counter = counted[move.key]
        counter[0] += move.amount
        counter[1] += move.total_us


def _compare(unit: Unit, audit: _Audit, subject: str, replay: Replay) -> None:
    """The rows that a subject's events imply against those that are stored."""
    try:
        implied = replay.finish()
    except _DAMAGE:
        audit.add(f"{subject}: its approval names a round that no event made")
        return
    stored = snapshots.rows_of(unit, subject)
    for table in implied.keys() | stored.keys():
        ours, theirs = implied.get(table, {}), stored.get(table, {})
        for key in ours.keys() | theirs.keys():
            problem = _difference(ours.get(key), theirs.get(key), audit)
            if problem:
                audit.add(f"{subject}: {table} {' '.join(str(part) for part in key)} {problem}")


def _difference(implied: dict[str, Any] | None, stored: dict[str, Any] | None, audit: _Audit) -> str | None:
    if implied is None:
        return "is stored, but no event made it"
    if stored is None:
        return "is in the log, but not stored"
    wrong = sorted(
        name
        for name in implied.keys() | stored.keys()
        if name not in UNRESTORED | SEALED and implied.get(name) != stored.get(name)
    )
    seal = audit.seal
    # There is nothing to compare a value with that was sealed with another secret.
    if seal is not None and implied.get("event_seq", 0) >= audit.head.keyed_from:
        wrong += [name for name in SEALED & implied.keys() if sealed_value(seal, str(stored[name])) != implied[name]]
    return f"differs from the log in {', '.join(wrong)}" if wrong else None


def _check_counters(unit: Unit, audit: _Audit, counted: dict[tuple[Any, ...], list[int]]) -> None:
    stored = snapshots.list_counters(unit)
    for key in counted.keys() | stored.keys():
        implied = tuple(counted[key]) if key in counted else (0, 0)
        if stored.get(key, (0, 0)) != implied:
            audit.add(f"the counter {' '.join(str(part or '-') for part in key)} differs from the log")


def _check_rest(unit: Unit, audit: _Audit) -> None:
    audit.add(*snapshots.list_problems(unit, PROBLEM_LIMIT))
    for name, body in snapshots.list_contents(unit):
        if type(body) is not str or hashlib.sha256(body.encode()).hexdigest() != name:
            audit.add(f"the content {name} was changed")
