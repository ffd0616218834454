"""The log's beginning, its checkpoints, and what the broker knows of them outside of the database.

Who has only the database can put an older state of it in its place, hashes and all, or take it away. So which log a
database has, and its newest checkpoint, is also in a file of the data folder.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import orjson

from tandem.core import files
from tandem.core.clock import Clock
from tandem.errors import DOCS, ConfigInvalid
from tandem.store import events, ledger
from tandem.store.base import Store, Unit
from tandem.store.event import GENESIS, LOG_SUBJECT, Event, EventKind, Head, key_check

CHECKPOINT_EVENTS: Final = 5_000
"""How many events one checkpoint covers at most, so that its transaction stays short."""
PAGE: Final = 1_000
HELP: Final = f"{DOCS}/guide/backup.md#when-an-audit-finds-something"
_LOST_KEY: Final = f"{DOCS}/guide/backup.md#when-the-secret-is-lost"
_TRUSTED: Final = 20
"""Checkpoints that are tried for one that was not forged."""


class KnownLog(NamedTuple):
    """A record of a database's log outside of the database: which it is, and its newest checkpoint, 0 if none."""

    log_id: str
    seq: int
    hash: str


class Record:
    """Which log each database had that brokers of this data folder worked on.

    Attributes:
        path: The file.
    """

    def __init__(self, data_dir: Path, database: str) -> None:
        """Of one database, by its URL without a password."""
        self.path = data_dir / "databases.json"
        self._database = database

    def find(self, log_id: str | None) -> KnownLog | None:
        """The record of the database; None if no broker of this folder worked on it. Blocks for the disk.

        Args:
            log_id: The log that it has, by which it is known under another URL too: moved, or put back elsewhere.

        Raises:
            ConfigInvalid: The file holds something else, or cannot be read.
        """
        return self.as_of_now()(log_id)

    def as_of_now(self) -> Callable[[str | None], KnownLog | None]:
        """`find` in the records as of now: if a later snapshot of the database lacks some of that, it was lost.

        Raises:
            ConfigInvalid: The file holds something else, or cannot be read.
        """
        known = self._read()

        def find(log_id: str | None) -> KnownLog | None:
            same = [one for one in known.values() if one.log_id == log_id]
            return known.get(self._database) or max(same, key=lambda one: one.seq, default=None)

        return find

    def write(self, known: KnownLog) -> None:
        """Remember the database's log. Blocks for the disk.

        Raises:
            OSError: The disk is full, or the folder cannot be written.
        """
        found = {name: tuple(one) for name, one in {**self._read(), self._database: known}.items()}
        files.write_atomically(self.path, orjson.dumps(found, option=orjson.OPT_INDENT_2))

    def knows_others(self) -> bool:
        """Whether brokers of this data folder worked on another database, too."""
        return any(name != self._database for name in self._read())

    def refuse_missing(self, store: Store, *, is_named: bool = True) -> None:
        """Make no new database where there was one; before the store is opened.

        Args:
            store: Of this database.
            is_named: Whether anything says that it is this one, and not only nothing that it is another.

        Raises:
            ConfigInvalid: It is gone, or empty, or brokers of this folder worked on another one.
        """
        if not store.is_missing():
            return
        known = self._read()
        if self._database in known:
            raise self.lost("is gone, or empty")
        if known and not is_named:
            raise ConfigInvalid(
                f"There is no database {self._database}, and a broker of this data folder worked on {', '.join(known)}."
                " Name yours: TANDEM_DATABASE_URL=URL tandem up --background",
                setting="database_url",
            )

    def lost(self, what: str) -> ConfigInvalid:
        """The refusal of a database that is not the one that is known."""
        return ConfigInvalid(
            f"The database {self._database} {what}, and there was one that a broker of this data folder worked on. Put"
            f" it back, or restore a copy. To begin with an empty one, delete {self.path} and start again.",
            setting="database_url",
        )

    def _read(self) -> dict[str, KnownLog]:
        try:
            found: dict[str, Any] = orjson.loads(self.path.read_bytes())
            return {name: KnownLog(str(log), int(seq), str(known)) for name, (log, seq, known) in found.items()}
        except FileNotFoundError:
            return {}
        except (OSError, ValueError, TypeError, AttributeError) as exc:
            raise ConfigInvalid(
                f"{self.path} cannot be read: {exc}. Give the broker's user access to it, or put it back from a copy.",
                setting="data_dir",
            ) from exc


def new_epoch() -> str:
    """A name for what happens to a copy of a log from now on."""
    return secrets.token_hex(4)


async def begin(store: Store, clock: Clock, record: Record) -> bool:
    """Make sure that the database has a log of this broker's secret; a log's id tells its cursors from another's.

    Returns:
        Whether the database is an older copy: brokers of this folder did something that it does not have.

    Raises:
        ConfigInvalid: The database had another log when a broker of this folder last worked on it, or the log was
            written with another secret, or is older than one that was written here.
    """
    log_id, epoch = clock.new_id("log").removeprefix("log_")[:8], new_epoch()
    now = clock.now_us()
    is_older = False

    def work(unit: Unit) -> KnownLog | None:
        nonlocal is_older
        found = events.find_id(unit)
        known = record.find(found)
        if known is not None and found != known.log_id:
            raise record.lost("is empty" if found is None else "is another one than it was")
        events.begin(unit, log_id)
        events.lock(unit)
        head = events.read_head(unit)
        if not head.keyed_from:
            return KnownLog(head.log_id, *_begin_keys(unit, head, known, now))
        if not head.fits(unit.seal):
            raise ConfigInvalid(
                "The log in the database was written with another secret key. All brokers of one database need the"
                " same: copy the file secret.key of the first one, or name it with secret_key_file. If that key is"
                f" lost, see {_LOST_KEY}.",
                setting="secret_key_file",
            )
        if known is None:
            return KnownLog(head.log_id, 0, GENESIS)
        if known.seq and events.find_hash(unit, known.seq) != known.hash:
            # Somebody restored a copy, or cut the log off: from now on the log itself says so.
            is_older = True
            last, since, covered = _uncovered(unit)
            events.begin_epoch(unit, epoch)
            event = _append(unit, {**_cover(since, covered), "missing_until": known.seq}, now, last)
            return KnownLog(head.log_id, event.seq, event.hash)
        return None

    is_copy = await store.write(lambda unit: events.find_id(unit) is not None and events.correct_numbers(unit))
    newest = await store.write(work)
    if newest is not None:
        await asyncio.to_thread(record.write, newest)
    if is_copy:
        # Numbers from PostgreSQL have gaps; that nothing is missing there is for a checkpoint to say.
        await cover(store, now, record, last_one_too=True)
    return is_older


async def cover(store: Store, now_us: int, record: Record, *, last_one_too: bool = False) -> None:
    """Cover all that there is by checkpoints, and remember the newest; see `write_checkpoint`."""
    newest: Event | None = None
    write = partial(write_checkpoint, now_us=now_us, last_one_too=last_one_too)
    while (event := await store.write(write)) is not None:
        newest = event
        if orjson.loads(event.data)["events"] < CHECKPOINT_EVENTS:
            break
    if newest is not None:
        log_id = await store.read(events.find_id)
        await asyncio.to_thread(record.write, KnownLog(str(log_id), newest.seq, newest.hash))


def _begin_keys(unit: Unit, head: Head, known: KnownLog | None, now_us: int) -> tuple[int, str]:
    """Vouch for everything that a log says whose hashes are not keyed, and key them from here on."""
    if known is not None:
        raise ConfigInvalid(
            "The hashes of the log in the database are not keyed, but a broker with this data folder wrote keyed ones"
            f" before: the database is an older copy, or somebody replaced it. See {HELP}.",
            setting="database_url",
        )
    newest = events.list_newest(unit, 1)
    last = newest[-1].seq if newest else 0
    facts = {
        "first": 1,
        "last": last,
        "events": sum(1 for _ in read(unit, 0, last)),
        "chain": content_chain(read(unit, 0, last)),
        "vouches": True,
    }
    event = _append(unit, facts, now_us, head.event_hash)
    events.note(unit, keyed_from=event.seq, key_check=key_check(unit.seal, head.log_id, event.seq))
    return event.seq, event.hash


def read(unit: Unit, after: int, until: int) -> Iterator[Event]:
    """The events between two numbers, the second included, in pages."""
    while page := events.list_after(unit, after, PAGE):
        for event in page:
            if event.seq > until:
                return
            yield event
        after = page[-1].seq


def chain(log: Iterable[Event]) -> str:
    """One hash over the place and hash of every event, in order: what a checkpoint vouches for."""
    digest = hashlib.sha256()
    for event in log:
        digest.update(f"{event.seq} {event.subject} {event.hash}\n".encode())
    return digest.hexdigest()


def content_chain(log: Iterable[Event]) -> str:
    """One hash over all that every event says: for events whose own hashes are worth nothing."""
    digest = hashlib.sha256()
    for event in log:
        digest.update(f"{tuple(event)!r}\n".encode("utf-8", "backslashreplace"))
    return digest.hexdigest()


def write_checkpoint(unit: Unit, now_us: int, *, last_one_too: bool = False) -> Event | None:
    """Chain the events since the last checkpoint into a new one; None if there are none.

    With `last_one_too` it is written for the last checkpoint alone, too, which else waits for company.
    """
    last, since, covered = _uncovered(unit)
    if not covered or (len(covered) == 1 and covered[0].kind == EventKind.CHECKPOINT and not last_one_too):
        return None
    return _append(unit, _cover(since, covered), now_us, last)


def _cover(since: int, covered: list[Event]) -> dict[str, Any]:
    last = covered[-1].seq if covered else since
    return {"first": since + 1, "last": last, "events": len(covered), "chain": chain(covered)}


def _uncovered(unit: Unit) -> tuple[str, int, list[Event]]:
    """The hash of the last checkpoint, where its cover ends, and the events after that."""
    # Not as the head says: the log itself, whose hashes only the broker can make, says where the last one ended.
    newest = reversed(events.list_newest(unit, _TRUSTED, subject=LOG_SUBJECT))
    last = next((event for event in newest if event.is_intact(unit.seal)), None)
    since = int(orjson.loads(last.data)["last"]) if last else 0
    return last.hash if last else GENESIS, since, events.list_after(unit, since, CHECKPOINT_EVENTS)


def _append(unit: Unit, facts: dict[str, Any], now_us: int, previous: str) -> Event:
    event = ledger.append(
        unit,
        Event(
            seq=0,
            at=now_us,
            project="",
            subject=LOG_SUBJECT,
            actor="broker",
            kind=EventKind.CHECKPOINT,
            old=None,
            new=None,
            data=orjson.dumps(facts).decode(),
            delta="{}",
            previous=previous,
        ),
    )
    # The next one begins where this one's cover ends, so that it covers this very event too.
    events.note(unit, checkpoint_seq=facts["last"], event_hash=event.hash)
    return event
