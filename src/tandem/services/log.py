"""The log's beginning, given to a fresh database."""

from __future__ import annotations

from tandem.clock import Clock
from tandem.store import events
from tandem.store.base import Store


async def begin(store: Store, clock: Clock) -> None:
    """Make sure that the database has a log; a log's id tells its cursors from another's."""
    log_id = clock.new_id("log").removeprefix("log_")[:8]
    await store.write(lambda unit: events.begin(unit, log_id))
