"""Switches of gates and overrides: reading, and writing together with the event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import orjson
from sqlalchemy import bindparam, insert, select
from sqlalchemy.dialects import postgresql, sqlite

from tandem.gate import tables
from tandem.gate.rules import Gate, Override
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.dialects import PerDialect
from tandem.store.event import GENESIS, Event, EventKind
from tandem.store.statement import Statement

_g = tables.gates.c
_o = tables.overrides.c
STAMPS = frozenset({"event_seq", "event_hash"})
"""Columns that name a row's newest event, which the event itself cannot have in its delta."""


def _upsert(module: Any) -> Any:
    statement = module.insert(tables.gates)
    names = [column.name for column in tables.gates.columns if column.name != "project"]
    return statement.on_conflict_do_update(
        index_elements=["project"], set_={name: statement.excluded[name] for name in names}
    )


_put = PerDialect(sqlite=_upsert(sqlite), postgresql=_upsert(postgresql))
_get = Statement(select(tables.gates).where(_g.project == bindparam("project")))
_get_override = Statement(
    select(tables.overrides).where(_o.project == bindparam("project"), _o.id == bindparam("override_id"))
)
_by_digest = Statement(
    select(tables.overrides)
    # The project is a condition only: it has many overrides, a digest has few.
    .where(_o.digest == bindparam("digest"), _o.project + "" == bindparam("project"))
    .order_by(_o.id)
    .limit(1)
)
_insert_override = Statement(insert(tables.overrides))


def find(unit: Unit, project: str) -> Gate | None:
    """The switch of a project, if it was ever touched."""
    row = unit.one_or_none(_get, project=project)
    return Gate(*row) if row else None


def put(unit: Unit, before: Gate | None, after: Gate) -> Gate:
    """Write a project's switch, new or in place of the one before, with its event."""
    data = {
        "enabled": bool(after.enabled),
        "branches": orjson.loads(after.branches),
        "accepted": orjson.loads(after.accepted),
        "reason": after.reason,
    }
    event = ledger.append(
        unit,
        Event(
            seq=0,
            at=after.switched_at,
            project=after.project,
            subject=after.subject,
            actor=after.switched_by,
            kind=EventKind.GATE_SWITCHED,
            old=None if before is None else _position(before),
            new=_position(after),
            data=orjson.dumps(data).decode(),
            delta=orjson.dumps({"gate": row_of(after)}).decode(),
            previous=before.event_hash if before else GENESIS,
        ),
    )
    written = after._replace(event_seq=event.seq, event_hash=event.hash)
    unit.execute(_put[unit.dialect], **written._asdict())
    return written


def find_override(unit: Unit, project: str, override_id: str) -> Override | None:
    """An override by its id."""
    row = unit.one_or_none(_get_override, project=project, override_id=override_id)
    return Override(*row) if row else None


def find_override_of(unit: Unit, project: str, digest: str) -> Override | None:
    """An override of a difference, if there is one; of several, always the same."""
    row = unit.one_or_none(_by_digest, project=project, digest=digest)
    return Override(*row) if row else None


def add_override(unit: Unit, override: Override, data: Mapping[str, Any]) -> Override:
    """Write an override with its event."""
    event = ledger.append(
        unit,
        Event(
            seq=0,
            at=override.recorded_at,
            project=override.project,
            subject=override.subject,
            actor=override.overridden_by,
            kind=EventKind.GATE_OVERRIDDEN,
            old=None,
            new="overridden",
            data=orjson.dumps(data).decode(),
            delta=orjson.dumps({"override": row_of(override)}).decode(),
            previous=GENESIS,
        ),
    )
    written = override._replace(event_seq=event.seq, event_hash=event.hash)
    unit.execute(_insert_override, **written._asdict())
    return written


def row_of(record: Any) -> dict[str, Any]:
    """A record's columns as an event's delta has them: without those that name the event."""
    return {name: value for name, value in record._asdict().items() if name not in STAMPS}


def _position(gate: Gate) -> str:
    return "on" if gate.enabled else "off"
