"""The only writer of reviews: a state and the event that explains it, together.

Every statement that locks a row in a shared place comes in one order (review, log head, counters), so
that units on PostgreSQL cannot wait for each other in a circle.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import orjson
from sqlalchemy import bindparam, delete, insert, select, update
from sqlalchemy.dialects import postgresql

from tandem.reviews import tables
from tandem.reviews.check_rules import CheckRun
from tandem.reviews.discussion_rules import Message, Verdict
from tandem.reviews.rounds import CounterPatch, Round
from tandem.reviews.rules import VOLATILE, Review, Rollback, taken_back_by
from tandem.reviews.statistics import moves
from tandem.store.base import Unit
from tandem.store.ledger import changes, take_seq, write
from tandem.store.statement import Statement, insert_if_new

_insert_round = Statement(insert(tables.rounds))
_insert_verdict = Statement(insert(tables.verdicts))
_insert_message = Statement(insert(tables.messages))
_insert_counter_patch = Statement(insert(tables.counter_patches))
_insert_rollback = Statement(insert(tables.rollbacks))
_insert_taken_back = Statement(insert(tables.taken_back))
_decide_counter_patch = Statement(
    update(tables.counter_patches)
    .where(tables.counter_patches.c.id == bindparam("key"))
    .values(status=bindparam("new_status"), reason=bindparam("new_reason"), decided_at=bindparam("new_decided_at"))
)
_resolve_message = Statement(
    update(tables.messages)
    .where(tables.messages.c.id == bindparam("key"))
    .values(resolved_by=bindparam("new_resolved_by"))
)
_get_changes = Statement(
    select(tables.rounds.c.changes, tables.rounds.c.path).where(
        tables.rounds.c.review_id == bindparam("review_id"), tables.rounds.c.round == bindparam("round")
    )
)
_new_check = postgresql.insert(tables.checks)
_put_check = Statement(
    _new_check.on_conflict_do_update(
        index_elements=[column.name for column in tables.checks.primary_key],
        set_={column.name: _new_check.excluded[column.name] for column in tables.checks.c if not column.primary_key},
    )
)
_insert_approval = insert_if_new(tables.approvals)
_insert_approved_path = Statement(insert(tables.approved_paths))
_delete_approval = Statement(delete(tables.approvals).where(tables.approvals.c.review_id == bindparam("key")))
_delete_approved_paths = Statement(
    delete(tables.approved_paths).where(tables.approved_paths.c.review_id == bindparam("key"))
)


@dataclass(frozen=True, slots=True)
class CounterPatchEnd:
    """How a counter-patch ended: accepted, rejected or superseded."""

    id: str
    status: str
    reason: str | None
    decided_at: int


@dataclass(frozen=True, slots=True)
class Rows:
    """What an event writes beside the review itself."""

    round: Round | None = None
    verdict: Verdict | None = None
    messages: tuple[Message, ...] = ()
    counter_patch: CounterPatch | None = None
    decision: CounterPatchEnd | None = None
    resolved: tuple[str, str] | None = None
    """The message that is resolved, and the one that resolves it."""
    rollback: Rollback | None = None
    checks: tuple[CheckRun, ...] = ()
    """Checks as they are now, those that are new among them."""


NO_ROWS: Final = Rows()


def open_review(unit: Unit, review: Review, *, actor: str, kind: str, data: Mapping[str, Any], first: Round) -> Review:
    """Write a new review with its first round and event."""
    return _record(unit, None, review, actor=actor, kind=kind, data=data, rows=Rows(round=first))


def change_review(
    unit: Unit,
    before: Review,
    after: Review,
    *,
    actor: str,
    kind: str,
    data: Mapping[str, Any] | None = None,
    rows: Rows = NO_ROWS,
) -> Review:
    """Write what an event made of a review, and the event; the review with its new event fields."""
    return _record(unit, before, after, actor=actor, kind=kind, data=data or {}, rows=rows)


def _record(
    unit: Unit,
    before: Review | None,
    after: Review,
    *,
    actor: str,
    kind: str,
    data: Mapping[str, Any],
    rows: Rows,
) -> Review:
    seq = take_seq(unit)
    numbered = _numbered(rows, seq)
    changed = changes(before, after)
    written = write(
        unit,
        tables.reviews,
        before,
        after,
        seq=seq,
        at=after.updated_at,
        actor=actor,
        kind=kind,
        old=before.state if before else None,
        new=after.state,
        data=data,
        delta=_delta({name: value for name, value in changed.items() if name not in VOLATILE}, numbered),
        changed=changed,
    )
    _write_rows(unit, numbered)
    _write_approval(unit, before, written)
    unit.count(moves(before, written, kind))
    return written


def _as_row(record: Any) -> dict[str, Any]:
    return {name: getattr(record, name) for name in record.__slots__}


def _numbered(rows: Rows, seq: int) -> Rows:
    """The rows with the event's number on all that are listed in the order of events."""
    if not (rows.verdict or rows.messages or rows.counter_patch):
        return rows
    return replace(
        rows,
        verdict=replace(rows.verdict, seq=seq) if rows.verdict else None,
        messages=tuple(replace(message, seq=seq) for message in rows.messages),
        counter_patch=replace(rows.counter_patch, seq=seq) if rows.counter_patch else None,
    )


def _delta(changed: dict[str, Any], rows: Rows) -> dict[str, Any]:
    """What a replay needs: the review's changed columns and the rows beside it."""
    delta: dict[str, Any] = {"review": changed}
    if rows is NO_ROWS:
        return delta
    if rows.round:
        delta["round"] = _as_row(rows.round)
    if rows.verdict:
        delta["verdict"] = _as_row(rows.verdict)
    if rows.messages:
        delta["messages"] = [_as_row(message) for message in rows.messages]
    if rows.counter_patch:
        delta["counter_patch"] = _as_row(rows.counter_patch)
    if rows.decision:
        delta["decision"] = _as_row(rows.decision)
    if rows.resolved:
        delta["resolved"] = list(rows.resolved)
    if rows.rollback:
        delta["rollback"] = rows.rollback._asdict()
    if rows.checks:
        delta["checks"] = [one._asdict() for one in rows.checks]
    return delta


def _write_rows(unit: Unit, rows: Rows) -> None:
    if rows is NO_ROWS:
        return
    if rows.round:
        unit.put(_insert_round, **_as_row(rows.round))
    if rows.verdict:
        unit.put(_insert_verdict, **_as_row(rows.verdict))
    for message in rows.messages:
        unit.put(_insert_message, **_as_row(message))
    if rows.counter_patch:
        unit.put(_insert_counter_patch, **_as_row(rows.counter_patch))
    if rows.decision:
        unit.put(
            _decide_counter_patch,
            key=rows.decision.id,
            new_status=rows.decision.status,
            new_reason=rows.decision.reason,
            new_decided_at=rows.decision.decided_at,
        )
    if rows.resolved:
        unit.put(_resolve_message, key=rows.resolved[0], new_resolved_by=rows.resolved[1])
    if rows.rollback:
        _write_rollback(unit, rows.rollback._asdict())
    for check in rows.checks:
        unit.put(_put_check, **check._asdict())


def _write_rollback(unit: Unit, row: dict[str, Any]) -> None:
    unit.put(_insert_rollback, **row)
    for taken in taken_back_by(row):
        unit.put(_insert_taken_back, **taken)


def _write_approval(unit: Unit, before: Review | None, after: Review) -> None:
    """Open the gate for what an approval covers, or close it when a revision ended the approval."""
    was = before.approved_round if before else None
    if was == after.approved_round:
        return
    if was is not None:
        unit.put(_delete_approval, key=after.id)
        unit.put(_delete_approved_paths, key=after.id)
    if after.approved_round is None or after.digest is None:
        return
    found, path = unit.all(_get_changes, review_id=after.id, round=after.approved_round)[0]
    unit.put(
        _insert_approval,
        project=after.project,
        digest=after.digest,
        review_id=after.id,
        round=after.approved_round,
    )
    for change in orjson.loads(found):
        unit.put(
            _insert_approved_path,
            project=after.project,
            review_id=after.id,
            round=after.approved_round,
            kind="change" if path is None else "text",
            **change,
        )
