"""Registered projects."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import orjson
from sqlalchemy import bindparam, select
from sqlalchemy.dialects import postgresql, sqlite

from tandem.projects import tables
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.dialects import PerDialect
from tandem.store.event import GENESIS, Event
from tandem.store.statement import Statement

_p = tables.projects.c


@dataclass(frozen=True, slots=True)
class ProjectRecord:
    """One project. Field order is the column order of its table; `root` is null once it was removed."""

    name: str
    root: str | None
    registered_at: int
    event_seq: int
    event_hash: str


def _upsert(module: Any) -> Any:
    statement = module.insert(tables.projects)
    excluded = statement.excluded
    return statement.on_conflict_do_update(
        index_elements=["name"],
        set_={
            "root": excluded.root,
            "registered_at": excluded.registered_at,
            "event_seq": excluded.event_seq,
            "event_hash": excluded.event_hash,
        },
    )


_put = PerDialect(sqlite=_upsert(sqlite), postgresql=_upsert(postgresql))
_find = Statement(select(tables.projects).where(_p.name == bindparam("name")))
_list = Statement(select(tables.projects).where(_p.root.is_not(None)).order_by(_p.name))


def find(unit: Unit, name: str) -> ProjectRecord | None:
    """A project by name, registered or removed."""
    row = unit.one_or_none(_find, name=name)
    return ProjectRecord(*row) if row else None


def list_registered(unit: Unit) -> list[ProjectRecord]:
    """All registered projects, by name."""
    return [ProjectRecord(*row) for row in unit.all(_list)]


def put(unit: Unit, *, name: str, root: str | None, at: int, actor: str, kind: str) -> ProjectRecord:
    """Register a project's folder, or with a null root forget it, with its event."""
    before = find(unit, name)
    event = ledger.append(
        unit,
        Event(
            seq=0,
            at=at,
            project=name,
            subject=f"project:{name}",
            actor=actor,
            kind=kind,
            old="registered" if before and before.root else None,
            new="registered" if root else "removed",
            data=orjson.dumps({"root": root}).decode(),
            delta=orjson.dumps({"project": {"name": name, "root": root, "registered_at": at}}).decode(),
            previous=before.event_hash if before else GENESIS,
        ),
    )
    record = ProjectRecord(name, root, at, event.seq, event.hash)
    unit.execute(
        _put[unit.dialect],
        name=name,
        root=root,
        registered_at=at,
        event_seq=event.seq,
        event_hash=event.hash,
    )
    return record
