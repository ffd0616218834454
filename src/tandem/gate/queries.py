"""Switches of gates and overrides: reading, and writing together with the event."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sqlalchemy import bindparam, select

from tandem.gate import tables
from tandem.gate.rules import LISTS, Gate, Override, names
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.event import EventKind
from tandem.store.statement import Statement

_g = tables.gates.c
_o = tables.overrides.c


_get = Statement(select(tables.gates).where(_g.project == bindparam("project")))
_list_enabled = Statement(select(tables.gates).where(_g.enabled == 1))
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


def find(unit: Unit, project: str) -> Gate | None:
    """The switch of a project, if it was ever touched."""
    row = unit.one_or_none(_get, project=project)
    return Gate(*row) if row else None


def list_enabled(unit: Unit) -> list[Gate]:
    """The gates of all projects that are on."""
    return [Gate(*row) for row in unit.all(_list_enabled)]


def put(unit: Unit, before: Gate | None, after: Gate, proved_by: str | None) -> Gate:
    """Write a project's switch, new or in place of the one before, with its event.

    Args:
        unit: The unit of work.
        before: The switch before; None if it was never touched.
        after: The switch.
        proved_by: The key that proves that a person decided it; None where it needed no proof.
    """
    data = {
        "enabled": bool(after.enabled),
        **{name: names(getattr(after, name)) for name in LISTS},
        "reason": after.reason,
        "proved_by": proved_by,
    }
    return ledger.write(
        unit,
        tables.gates,
        before,
        after,
        at=after.switched_at,
        actor=after.switched_by,
        kind=EventKind.GATE_SWITCHED,
        old=None if before is None else _position(before),
        new=_position(after),
        data=data,
        delta={"gate": ledger.changes(None, after)},
    )


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
    return ledger.write(
        unit,
        tables.overrides,
        None,
        override,
        at=override.recorded_at,
        actor=override.overridden_by,
        kind=EventKind.GATE_OVERRIDDEN,
        old=None,
        new="overridden",
        data=data,
        delta={"override": ledger.changes(None, override)},
    )


def _position(gate: Gate) -> str:
    return "on" if gate.enabled else "off"
