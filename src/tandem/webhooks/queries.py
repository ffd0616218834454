"""Webhooks and deliveries: reading and writing."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Index, bindparam, delete, exists, func, select, update

from tandem.store import events, ledger
from tandem.store.base import Unit
from tandem.store.event import Event, EventKind
from tandem.store.statement import Statement, insert_if_new
from tandem.store.tables import events as log
from tandem.store.tables import record_table
from tandem.webhooks.rules import GONE, Webhook


class Delivery(NamedTuple):
    """One event on its way to one webhook. Field order is the column order of its table."""

    webhook_id: str
    seq: int
    subject: str
    state: str
    attempts: int
    queued_at: int
    not_before: int
    ended_at: int | None = None
    status: int | None = None
    answer: str | None = None


webhooks = record_table(
    "webhooks",
    Webhook,
    small=("allow_private",),
    comments={
        "project": "null for all",
        "url": "may hold a secret; without its path once it is removed",
        "kinds": "beginnings of kinds, separated by commas; empty for all",
        "secret": "signs the messages, so it is kept readable; empty once removed",
        "scanned_seq": "events up to here are delivered, or are deliveries",
    },
)
deliveries = record_table(
    "deliveries",
    Delivery,
    Index("ix_deliveries_state", "webhook_id", "state", "not_before"),
    Index("ix_deliveries_subject", "webhook_id", "subject", "seq"),
    key=("webhook_id", "seq"),
    small=("attempts", "status"),
    comments={
        "seq": "the event",
        "subject": "the event's; one after the other",
        "state": "waiting, delivered or failed",
    },
    comment="Events on their way to webhooks; no event tells of it.",
)
_w, _d = webhooks.c, deliveries.c
_earlier, _kept, _gone = (deliveries.alias(name) for name in ("earlier", "kept", "gone"))
_TRIED = ("state", "attempts", "not_before", "ended_at", "status", "answer")
"""Columns of a delivery that a try may change."""
_KEPT = 200
"""Deliveries that arrived, of each webhook: so many are kept to be shown."""

_find = Statement(select(webhooks).where(_w.id == bindparam("webhook_id"), _w.removed_at.is_(None)))
_list = Statement(select(webhooks).where(_w.removed_at.is_(None)).order_by(_w.id))
_advance = Statement(
    update(webhooks)
    .where(_w.id == bindparam("webhook_id"), _w.removed_at.is_(None), _w.scanned_seq == bindparam("before"))
    .values(scanned_seq=bindparam("after"))
)
_queue = insert_if_new(deliveries)
_of_one = _d.webhook_id == bindparam("webhook_id")
_due = Statement(
    select(deliveries)
    .where(
        _of_one,
        _d.state == "waiting",
        _d.not_before <= bindparam("now"),
        ~exists().where(
            _earlier.c.webhook_id == _d.webhook_id,
            _earlier.c.subject == _d.subject,
            _earlier.c.seq < _d.seq,
            _earlier.c.state == "waiting",
        ),
        ~exists().where(_gone.c.webhook_id == _d.webhook_id, _gone.c.state == "waiting", _gone.c.status == GONE),
    )
    .order_by(_d.not_before, _d.seq)
    .limit(bindparam("limit"))
)
_next_try = Statement(
    select(func.min(_d.not_before)).where(_of_one, _d.state == "waiting", _d.not_before > bindparam("now"))
)
_hasten = Statement(
    update(deliveries)
    .where(_of_one, _d.state == "waiting", _d.not_before > bindparam("now"))
    .values(not_before=bindparam("new_not_before"))
)
_refused = (_of_one, _d.state == "waiting", _d.status == GONE)
_stopped = Statement(select(_d.seq).where(*_refused).limit(1))
_go_on = Statement(update(deliveries).where(*_refused).values(status=bindparam("new_status")))
_end = Statement(
    update(deliveries)
    .where(_of_one, _d.seq == bindparam("of_seq"), _d.state == "waiting")
    .values({name: bindparam(f"new_{name}") for name in _TRIED})
)
_counts = Statement(select(_d.state, func.count(), func.max(_d.ended_at)).where(_of_one).group_by(_d.state))
_problem = Statement(
    select(_d.answer)
    .where(_of_one, _d.state != "delivered", _d.attempts > 0)
    .order_by(_d.not_before.desc(), _d.seq.desc())
    .limit(1)
)
_shown = Statement(
    select(deliveries, log.c.kind, log.c.actor)
    .join(log, log.c.seq == _d.seq)
    .where(_of_one, _d.state == bindparam("state"))
    .order_by(_d.seq.desc())
    .limit(bindparam("limit"))
)
_newest_dropped = (
    select(_kept.c.seq)
    .where(_kept.c.webhook_id == bindparam("webhook_id"), _kept.c.state == "delivered")
    .order_by(_kept.c.seq.desc())
    .offset(_KEPT)
    .limit(1)
    .scalar_subquery()
)
_purge_delivered = Statement(delete(deliveries).where(_of_one, _d.state == "delivered", _d.seq <= _newest_dropped))
_purge_failed = Statement(delete(deliveries).where(_of_one, _d.state == "failed", _d.ended_at < bindparam("oldest")))
_drop = Statement(delete(deliveries).where(_of_one))


class Standing(NamedTuple):
    """How many deliveries a webhook has, when the latest arrived, and what the latest failed one was answered."""

    waiting: int
    failed: int
    delivered_at: int | None
    problem: str | None


def find(unit: Unit, webhook_id: str) -> Webhook | None:
    """A webhook that was not removed."""
    return unit.find(Webhook, _find, webhook_id=webhook_id)


def list_all(unit: Unit) -> list[Webhook]:
    """All webhooks that were not removed, oldest first."""
    return unit.list_of(Webhook, _list)


def add(unit: Unit, webhook: Webhook) -> Webhook:
    """Write a new webhook, which gets what happens after its own event."""
    seq = ledger.take_seq(unit)
    return _write(unit, None, webhook._replace(scanned_seq=seq), EventKind.WEBHOOK_ADDED, webhook.created_by, seq)


def remove(unit: Unit, webhook: Webhook, *, actor: str, now_us: int) -> Webhook:
    """Remove a webhook with its deliveries and secrets."""
    unit.execute(_drop, webhook_id=webhook.id)
    after = webhook._replace(removed_at=now_us, url=webhook.place, secret="")
    return _write(unit, webhook, after, EventKind.WEBHOOK_REMOVED, actor, 0)


def _write(unit: Unit, before: Webhook | None, after: Webhook, kind: EventKind, actor: str, seq: int) -> Webhook:
    return ledger.write(
        unit,
        webhooks,
        before,
        after,
        at=after.removed_at or after.created_at,
        actor=actor,
        kind=kind,
        data={"url": after.place, "events": after.beginnings, "format": after.format},
        delta=ledger.whole(unit, webhooks, after, "scanned_seq"),
        seq=seq,
    )


def queue(unit: Unit, webhook: Webhook, found: Iterable[Event], until: int, now_us: int) -> bool:
    """Take events from the log, up to a number; false if another sender did, or the webhook was removed."""
    if not unit.execute(_advance, webhook_id=webhook.id, before=webhook.scanned_seq, after=until):
        return False
    for event in found:
        made = Delivery(webhook.id, event.seq, event.subject, "waiting", 0, now_us, now_us)
        unit.execute(_queue, **made._asdict())
    return True


def purge(unit: Unit, webhook_id: str, oldest_us: int) -> None:
    """Forget delivered events, but for the newest, and those given up before a time."""
    unit.execute(_purge_delivered, webhook_id=webhook_id)
    unit.execute(_purge_failed, webhook_id=webhook_id, oldest=oldest_us)


def list_due(unit: Unit, webhook_id: str, now_us: int, limit: int) -> list[Delivery]:
    """Deliveries to try now: the first of each subject that is not delivered; none once the receiver was gone."""
    return unit.list_of(Delivery, _due, webhook_id=webhook_id, now=now_us, limit=limit)


def find_next_try(unit: Unit, webhook_id: str, now_us: int) -> int | None:
    """When the next delivery that is not due yet will be tried."""
    return unit.value(_next_try, webhook_id=webhook_id, now=now_us)


def is_stopped(unit: Unit, webhook_id: str) -> bool:
    """Whether the receiver has said that it wants nothing any more."""
    return unit.one_or_none(_stopped, webhook_id=webhook_id) is not None


def hasten(unit: Unit, webhook_id: str, now_us: int) -> None:
    """Have everything that waits to be tried again tried now, also where the webhook was stopped."""
    unit.execute(_go_on, webhook_id=webhook_id, new_status=None)
    unit.execute(_hasten, webhook_id=webhook_id, now=now_us, new_not_before=now_us)


def record(unit: Unit, delivery: Delivery) -> None:
    """Write what became of a try."""
    given = {f"new_{name}": getattr(delivery, name) for name in _TRIED}
    unit.execute(_end, webhook_id=delivery.webhook_id, of_seq=delivery.seq, **given)


def standing(unit: Unit, webhook_id: str) -> Standing:
    """How a webhook's deliveries stand."""
    counts = {state: (count, ended_at) for state, count, ended_at in unit.all(_counts, webhook_id=webhook_id)}
    none = (0, None)
    return Standing(
        counts.get("waiting", none)[0],
        counts.get("failed", none)[0],
        counts.get("delivered", none)[1],
        unit.value(_problem, webhook_id=webhook_id),
    )


def list_deliveries(unit: Unit, webhook_id: str, limit: int) -> list[tuple[Delivery, dict[str, str]]]:
    """Deliveries with their events' kinds and actors: those that failed, wait, then arrived; newest first."""
    found: list[tuple[Delivery, dict[str, str]]] = []
    for state in ("failed", "waiting", "delivered"):
        rows = unit.all(_shown, webhook_id=webhook_id, state=state, limit=limit - len(found))
        found += [(Delivery(*row[:-2]), {"kind": row[-2], "actor": row[-1]}) for row in rows]
    return found


def find_event(unit: Unit, seq: int) -> Event:
    """An event by its number."""
    (event,) = events.list_after(unit, seq - 1, 1)
    return event
