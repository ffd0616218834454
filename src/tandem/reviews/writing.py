"""The only writer of reviews: a state and the event that explains it, together.

Every statement that locks a row in a shared place comes in one order (review, log head, counters), so
that units on PostgreSQL cannot wait for each other in a circle.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, cast

import orjson
from sqlalchemy import bindparam, delete, insert, select, update

from tandem.core.clock import utc_day
from tandem.reviews import tables
from tandem.reviews.check_rules import CheckRun
from tandem.reviews.claim_rules import at_work
from tandem.reviews.finding_rules import Finding
from tandem.reviews.queries import get_round
from tandem.reviews.rounds import CounterPatch, Message, Round, Verdict
from tandem.reviews.rules import VOLATILE, Review, Rollback, taken_back_by
from tandem.store.base import Unit
from tandem.store.event import ALL_TIME, CounterMove, EventKind
from tandem.store.ledger import changes, take_seq, write
from tandem.store.statement import Statement, equal, insert_if_new, upsert

_decide_counter_patch = Statement(
    update(tables.counter_patches)
    .where(tables.counter_patches.c.id == bindparam("new_id"))
    .values(status=bindparam("new_status"), reason=bindparam("new_reason"), decided_at=bindparam("new_decided_at"))
)
_resolve_message = Statement(
    update(tables.messages)
    .where(tables.messages.c.id == bindparam("key"))
    .values(resolved_by=bindparam("new_resolved_by"))
)


_INSERTS: Final = {
    "round": Statement(insert(tables.rounds)),
    "verdict": Statement(insert(tables.verdicts)),
    "messages": Statement(insert(tables.messages)),
    "counter_patch": Statement(insert(tables.counter_patches)),
    "rollback": Statement(insert(tables.rollbacks)),
    "checks": upsert(tables.checks),
    "findings": upsert(tables.findings),
}
"""By the name in `Rows`, in the order in which they refer to each other."""
_NUMBERED: Final = frozenset({"verdict", "messages", "counter_patch", "findings"})
"""Rows that are listed in the order of their events."""
_insert_taken_back = Statement(insert(tables.taken_back))
_insert_approval = insert_if_new(tables.approvals)
_insert_approved_path = Statement(insert(tables.approved_paths))
_has_findings = Statement(
    select(tables.findings.c.id)
    .where(tables.findings.c.review_id == bindparam("review_id"), tables.findings.c.source != "check")
    .limit(1)
)
_is_contested = Statement(
    select(tables.contested_files.c.round).where(*equal(tables.contested_files.c, "review_id", "round")).limit(1)
)
_insert_contested = Statement(insert(tables.contested_files))
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


class Rows(NamedTuple):
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
    findings: tuple[Finding, ...] = ()
    """Findings as they are now, likewise."""


NO_ROWS: Final = Rows()


def change_review(
    unit: Unit,
    before: Review | None,
    after: Review,
    *,
    actor: str,
    kind: str,
    data: Mapping[str, Any],
    rows: Rows = NO_ROWS,
) -> Review:
    """Write what an event made of a review (None before a new one) and the event; the review with its event fields."""
    seq = take_seq(unit)
    beside = _beside(rows, seq)
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
        delta={"review": {name: value for name, value in changed.items() if name not in VOLATILE}, **beside},
        changed=changed,
    )
    _write_rows(unit, beside)
    _write_approval(unit, before, written)
    if rows.findings or (rows.round and before):
        _write_contested(unit, written)
    given = beside.get("verdict")
    unit.count(sorted([*moves(before, written, kind, given), *finding_moves(written, rows.findings, kind)]))
    return written


def _beside(rows: Rows, seq: int) -> dict[str, Any]:
    """The rows beside a review as a replay needs them; those that are listed in the order of events get its number."""
    found = {name: _as_json(part) for name, part in zip(Rows._fields, rows, strict=True) if part}
    for name in _NUMBERED & found.keys():
        for row in _each(found[name]):
            row["seq"] = row["seq"] or seq
    return found


def _as_json(part: Any) -> Any:
    if isinstance(part, str):
        return part
    # A record may be a tuple, too, of a type of its own.
    return [_as_json(one) for one in part] if part.__class__ is tuple else _as_row(part)


def _as_row(record: Any) -> dict[str, Any]:
    if isinstance(record, tuple):
        return cast("Any", record)._asdict()
    return {name: getattr(record, name) for name in record.__slots__}


def _each(part: Any) -> list[Any]:
    return cast("list[Any]", part) if isinstance(part, list) else [part]


def _write_rows(unit: Unit, found: Mapping[str, Any]) -> None:
    for name, statement in _INSERTS.items():
        for row in _each(found[name]) if name in found else ():
            unit.put(statement, **row)
    if decision := found.get("decision"):
        unit.put(_decide_counter_patch, **{f"new_{name}": value for name, value in decision.items()})
    if resolved := found.get("resolved"):
        unit.put(_resolve_message, key=resolved[0], new_resolved_by=resolved[1])
    for taken in taken_back_by(found["rollback"]) if "rollback" in found else ():
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
    approved = get_round(unit, after.id, after.approved_round)
    key = {"project": after.project, "review_id": after.id, "round": after.approved_round}
    unit.put(_insert_approval, digest=after.digest, **key)
    kind = "change" if approved.path is None else "text"
    for change in orjson.loads(approved.changes):
        unit.put(_insert_approved_path, kind=kind, **key, **change)


def _write_contested(unit: Unit, review: Review) -> None:
    """Have the findings of a review be found by the files of its round, once it has any."""
    of_round = {"review_id": review.id, "round": review.round}
    if not unit.all(_has_findings, review_id=review.id) or unit.all(_is_contested, **of_round):
        return
    for change in orjson.loads(get_round(unit, review.id, review.round).changes):
        end = {name: change[name] for name in ("path", "blob_after")}
        unit.put(_insert_contested, project=review.project, **end, **of_round)


OPEN_PREFIX = "open:"
"""Metrics that say how many reviews are in a state now, rather than how often something happened."""


def moves(before: Review | None, after: Review, kind: str, given: Mapping[str, Any] | None = None) -> list[CounterMove]:
    """What an event of `kind` counts, in lock order.

    Args:
        before: The review before the event; None when it was created by it.
        after: The review after the event; its `updated_at` is the event's time.
        kind: The event's kind.
        given: The verdict that it brought.
    """
    day = utc_day(after.updated_at)
    found: list[CounterMove] = []
    metric = _of_one(before, after, kind, given) or _metric(before, after, kind)
    if metric:
        name, reviewer, total = metric
        counted = [(name, 1, total), *([("rounds", after.round, 0)] if name == "approved" else ())]
        found += [
            CounterMove(after.project, bucket, after.category, reviewer, *one)
            for bucket in (ALL_TIME, day)
            for one in counted
        ]
    was = before.state if before else None
    if was != after.state:
        found.append(CounterMove(after.project, ALL_TIME, after.category, "", OPEN_PREFIX + after.state, 1))
        if was:
            found.append(CounterMove(after.project, ALL_TIME, after.category, "", OPEN_PREFIX + was, -1))
    return sorted(found)


FOUND_PREFIX = "found:"
"""Metrics of findings: of which severity they were found, and what became of them."""
KIND_PREFIX = "kind:"
"""The same by the findings' own category, which is in the metric: of no category of reviews, and no reviewer."""
_NOTHING_NEW = frozenset({EventKind.REVIEW_CREATED, EventKind.LESSON_REMOVED})
"""Events whose findings were counted before, in the same state: in an earlier review, or as they became lessons."""


def finding_moves(after: Review, found: Collection[Finding], kind: str) -> list[CounterMove]:
    """What the findings of an event count, for who found them and for their category.

    Args:
        after: The review after the event, with its number.
        found: The findings that are new, which have that number or none yet, or changed.
        kind: The event's kind.
    """
    if not found:
        return []
    new = (0, after.event_seq)
    named = [
        (one, name)
        for one in (() if kind in _NOTHING_NEW else found)
        for name in ((one.severity, one.state) if one.seq in new else (one.state,))
        # A late one stays so when it is answered.
        if name != "open" and (name != "late" or one.seq in new)
    ]
    metrics = Counter((after.category, one.author, f"{FOUND_PREFIX}{name}") for one, name in named)
    metrics += Counter(
        ("", "", f"{KIND_PREFIX}{one.category.strip().lower()}:{name}") for one, name in named if one.category
    )
    days = (ALL_TIME, utc_day(after.updated_at))
    return [CounterMove(after.project, day, *key, count) for key, count in metrics.items() for day in days]


def _of_one(
    before: Review | None, after: Review, kind: str, given: Mapping[str, Any] | None
) -> tuple[str, str, int] | None:
    """As `_metric`, where several claims may be held at a time; None for what concerns none of them."""
    if before is None or before.at_work is None:
        return None
    if kind == EventKind.REVIEW_CLAIMED and after.generations != before.generations:
        return "claimed", at_work(after)[-1].holder, 0
    if kind not in (EventKind.VERDICT_SUBMITTED, EventKind.VERDICT_COMMENT) or given is None:
        return None
    since = next((one.claimed_at for one in at_work(before) if one.holder == given["reviewer_id"]), after.updated_at)
    took = 0 if kind == EventKind.VERDICT_COMMENT else after.updated_at - since
    return given["verdict"], given["reviewer_id"], took


def _metric(  # noqa: PLR0911 one line a kind reads best
    before: Review | None, after: Review, kind: str
) -> tuple[str, str, int] | None:
    """The metric that an event counts for, the reviewer it is about, and microseconds for its mean."""
    match kind:
        case EventKind.REVIEW_CREATED:
            return "submitted", "", 0
        case EventKind.REVIEW_REVISED | EventKind.COUNTER_PATCH_ACCEPTED:
            return "revised", "", 0
        case EventKind.REVIEW_CLAIMED:
            first = before is not None and before.first_claimed_at is None
            waited = after.updated_at - after.created_at if first else 0
            return ("first_claimed" if first else "claimed"), after.reviewer_id or "", waited
        case EventKind.VERDICT_SUBMITTED:
            since = before.claimed_at if before and before.claimed_at else after.updated_at
            return after.verdict or "", after.verdict_by or "", after.updated_at - since
        case EventKind.VERDICT_COMMENT:
            return "comment", after.reviewer_id or "", 0
        case EventKind.REVIEW_CLOSED:
            return f"closed:{after.outcome}", "", 0
        case _:
            return None
