"""Statements that the two databases spell differently (upserts), chosen by the unit's dialect."""

from __future__ import annotations

from sqlalchemy import Executable

from tandem.store.statement import Statement


class PerDialect:
    """One statement in two spellings: `statement[unit.dialect]`."""

    def __init__(self, *, sqlite: Executable, postgresql: Executable) -> None:
        self._by_dialect = {"sqlite": Statement(sqlite), "postgresql": Statement(postgresql)}

    def __getitem__(self, dialect: str) -> Statement:
        return self._by_dialect[dialect]
