"""Tables and units that the engine's tests work with, so that they need not know Tandem's own."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    LargeBinary,
    MetaData,
    Table,
    Text,
    bindparam,
    func,
    insert,
    select,
    update,
)

from tandem.store.schema import Schema
from tandem.store.statement import Statement
from tandem.store.tables import log_head

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from tandem.store.base import Store, Unit

metadata = MetaData()
notes = Table(
    "notes",
    metadata,
    Column("id", Text, primary_key=True),
    Column("body", Text, nullable=False),
    Column("seen", BigInteger, nullable=False),
    Column("attachment", LargeBinary),
)
links = Table(
    "links",
    metadata,
    Column("id", Text, primary_key=True),
    Column("note_id", Text, ForeignKey("notes.id", deferrable=True), nullable=False),
)
log_head.to_metadata(metadata)
SCHEMA: Final = Schema(metadata, ("0001_notes",), Path("no migrations"))

INSERT: Final = Statement(insert(notes))
LINK: Final = Statement(insert(links))
COUNT: Final = Statement(select(func.count()).select_from(notes))
IDS: Final = Statement(select(notes.c.id).order_by(notes.c.id))
SEEN: Final = Statement(select(notes.c.seen).where(notes.c.id == bindparam("id")))
SEE: Final = Statement(update(notes).where(notes.c.id == bindparam("key")).values(seen=notes.c.seen + 1))

WAIT_SECONDS: Final = 30.0
"""How long a test waits for an event that should come at once; only a failure takes that long."""


def add(key: str, *, notice: int = 0, body: str = "") -> Callable[[Unit], str]:
    """A unit that inserts a note and answers its id."""

    def unit(unit: Unit) -> str:
        unit.execute(INSERT, id=key, body=body, seen=0, attachment=None)
        if notice:
            unit.on_commit(notice)
        return key

    return unit


def ids(unit: Unit) -> list[str]:
    """A unit that reads the ids of all notes."""
    return [row[0] for row in unit.all(IDS)]


def present(store: Store) -> list[str]:
    """The ids of all notes that are committed."""
    return store.read_blocking(ids)


class Hold:
    """A unit that keeps its thread until it is released: every write waits meanwhile."""

    def __init__(self) -> None:
        self._began = threading.Event()
        self._released = threading.Event()

    def __call__(self, unit: Unit) -> str:
        self._began.set()
        assert self._released.wait(WAIT_SECONDS)
        return unit.dialect

    def wait_until_begun(self) -> None:
        """Return when the unit runs."""
        assert self._began.wait(WAIT_SECONDS)

    def release(self) -> None:
        """Let the unit end."""
        self._released.set()


async def together(engine: Store, *units: Callable[[Unit], Any], works_on: str | None = None) -> list[Any]:
    """Runs units at the same moment; returns their answers or errors. Each works on a name of its own by default."""
    hold = Hold()
    holding = asyncio.create_task(engine.write(hold, works_on=("hold",)))
    await asyncio.to_thread(hold.wait_until_begun)
    tasks = [asyncio.create_task(engine.write(unit, works_on=(works_on or str(at),))) for at, unit in enumerate(units)]
    await asyncio.sleep(0)
    hold.release()
    # The unit that kept them waiting may share their commit, and its fate.
    _, *answers = await asyncio.wait_for(asyncio.gather(holding, *tasks, return_exceptions=True), WAIT_SECONDS)
    return answers


class Heard:
    """A listener that can be waited for."""

    def __init__(self) -> None:
        self.notices: list[int] = []
        self._news = asyncio.Event()

    def __call__(self, notice: int, _subjects: Collection[str]) -> None:
        self.notices.append(notice)
        self._news.set()

    async def until(self, notice: int) -> None:
        """Return when the notice has come."""
        async with asyncio.timeout(WAIT_SECONDS):
            while notice not in self.notices:
                self._news.clear()
                await self._news.wait()
