"""The log's beginning, given to a fresh database; and the record of it that a data folder keeps."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, cast

import orjson

from tandem.clock import Clock
from tandem.errors import ConfigInvalid
from tandem.store import events
from tandem.store.base import Store

RECORD = "databases.json"
"""In the data folder: which log each database had that a broker of this folder has worked on."""


def refuse_missing(store: Store, record: Path, database: str) -> None:
    """Make no new database where there was one.

    Args:
        store: The store, not open yet.
        record: The file in which the data folder remembers its databases.
        database: The database's URL, without a password.

    Raises:
        ConfigInvalid: It is gone, or empty.
    """
    if database in _read(record) and store.is_missing():
        raise _lost(record, database, "is gone, or empty")


async def begin(store: Store, clock: Clock, record: Path, database: str) -> None:
    """Make sure that the database has a log; a log's id tells its cursors from another's.

    Raises:
        ConfigInvalid: The database had another log when a broker of this folder last worked on it.
    """
    known = _read(record)
    found = await store.read(events.find_id)
    if database in known and found != known[database]:
        raise _lost(record, database, "is empty" if found is None else "is another one than it was")
    if found is None:
        log_id = clock.new_id("log").removeprefix("log_")[:8]
        await store.write(lambda unit: events.begin(unit, log_id))
        found = (await store.read(events.head))[0]
    if database not in known:
        written = record.with_name(f".{record.name}.{os.getpid()}")
        written.write_bytes(orjson.dumps({**known, database: found}, option=orjson.OPT_INDENT_2))
        written.replace(record)


def _read(record: Path) -> dict[str, Any]:
    """What is remembered. A file that cannot be read is no reason not to start."""
    try:
        found = orjson.loads(record.read_bytes())
    except (OSError, ValueError):
        return {}
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _lost(record: Path, database: str, what: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"The database {database} {what}, and there was one that a broker of this data folder worked on. Put it back,"
        f" or restore a copy. To begin anew and lose what it had, delete {record} and start again.",
        setting="database_url",
    )
