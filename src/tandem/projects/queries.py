"""Registered projects."""

from __future__ import annotations

from typing import NamedTuple

from sqlalchemy import bindparam, select

from tandem.store import events, ledger
from tandem.store.base import Unit
from tandem.store.event import EventKind
from tandem.store.statement import Statement
from tandem.store.tables import record_table


class ProjectRecord(NamedTuple):
    """One project. Field order is the column order of its table.

    `root` is None once it was removed, and empty for a project that has no folder at the broker: it has a
    `mirror`, which is the URL of its repository, or is elsewhere.
    """

    name: str
    root: str | None
    registered_at: int
    event_seq: int = 0
    event_hash: str = ""
    mirror: str | None = None

    @property
    def project(self) -> str:
        """The project that its events belong to."""
        return self.name

    @property
    def subject(self) -> str:
        """What its events are about."""
        return f"project:{self.name}"


projects = record_table(
    "projects",
    ProjectRecord,
    key=("name",),
    comments={"root": "null once it was removed"},
    sqlite_with_rowid=True,
)
_p = projects.c
_find = Statement(select(projects).where(_p.name == bindparam("name")))
_list = Statement(select(projects).where(_p.root.is_not(None)).order_by(_p.name))


def find(unit: Unit, name: str) -> ProjectRecord | None:
    """A project by name, registered or removed."""
    return unit.find(ProjectRecord, _find, name=name)


def list_registered(unit: Unit) -> list[ProjectRecord]:
    """All registered projects, by name."""
    return unit.list_of(ProjectRecord, _list)


def put(unit: Unit, record: ProjectRecord, actor: str) -> ProjectRecord:
    """Register a project, or with a None root forget it, with its event."""
    events.lock(unit)
    before = find(unit, record.name)
    return ledger.write(
        unit,
        projects,
        before,
        record,
        at=record.registered_at,
        actor=actor,
        kind=EventKind.PROJECT_REGISTERED,
        old="registered" if before and before.root is not None else None,
        new="removed" if record.root is None else "registered",
        data={"root": record.root, "mirror": record.mirror},
    )
