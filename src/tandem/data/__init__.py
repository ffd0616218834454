"""Backing a database up, putting a copy back, and moving from one kind of database to the other.

There is one form of a copy, and one way in: a copy becomes a SQLite database first, beside its place or in a scratch
folder, is brought to this version's schema there, and audited. Only then does it take its place.
"""

from __future__ import annotations

import asyncio
import errno
import os
import shutil
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from itertools import groupby
from pathlib import Path
from typing import Final

from tandem.audit import audit
from tandem.core import platforms
from tandem.core.files import flush_file, flush_folder
from tandem.core.scratch import ScratchFolder, sweep
from tandem.core.secret_key import Tokens, find
from tandem.data import portable, queries
from tandem.errors import ConfigInvalid, InvalidInput, NotFound, TandemError, Unavailable
from tandem.schema import TANDEM, UNCHANGED
from tandem.settings.config import Settings, masked
from tandem.store import events, log
from tandem.store.base import Store, Unit
from tandem.store.engine import make_store
from tandem.store.event import GENESIS
from tandem.store.schema import Schema
from tandem.store.sqlite import DatabaseFile
from tandem.store.statement import SQLITE

Told = Callable[[str, int, int], None]
"""Called with the name of the current step, how much of it is done, and how much there is."""

_SQLITE: Final = "sqlite:///"
_NO_ROOM: Final = {errno.ENOSPC, errno.EDQUOT}
_SHOWN_PROBLEMS: Final = 10
_NEW_FILE: Final = os.O_RDWR | os.O_CREAT | os.O_TRUNC | getattr(os, "O_BINARY", 0)


@dataclass(frozen=True, slots=True)
class Copied:
    """The result of making or restoring a copy.

    Attributes:
        header: What the copy says of itself.
        report: The audit's; None if nothing was verified.
        set_aside: Where the database went that had the place; None if there was none.
    """

    header: portable.Header
    report: audit.AuditReport | None = None
    set_aside: Path | None = None


async def back_up(settings: Settings, file: Path, *, compress: bool, verify: bool, told: Told) -> Copied:
    """Write everything that the database has at one moment into a new file; its broker may go on meanwhile.

    Raises:
        InvalidInput: The file is there already.
        NotFound: There is no database.
        Unavailable: The database cannot be read, the file cannot be written, or the copy does not verify.
    """
    if await asyncio.to_thread(os.path.lexists, file):
        raise _taken(file)
    with _disk(file.parent), _scratch(file.parent) as scratch:
        fresh = scratch / "copy"
        header = await _dump(settings.database, fresh, compress=compress, told=told)
        report = await _audited_copy(fresh, file.name, scratch, settings, told) if verify else None
        _refuse_damaged("The database", report)
        await asyncio.to_thread(_name, fresh, file)
    return Copied(header, report)


async def restore(settings: Settings, file: Path, name: str, *, replace: bool, verify: bool, told: Told) -> Copied:
    """Make the database that the settings name of a copy: whole, or not at all.

    Args:
        settings: The settings.
        file: The copy.
        name: How errors call it.
        replace: Whether a SQLite database that is there is set aside.
        verify: Whether to audit the restored database before it takes its place.
        told: Told how far it is.

    Raises:
        InvalidInput: It is no copy, is not whole, or does not verify.
        ConfigInvalid: The place is taken, or the copy was made by a newer Tandem.
        Unavailable: A broker has the database, or it cannot be written.
    """
    header = await asyncio.to_thread(_header, file, name)
    if header.schema > TANDEM.version:
        raise ConfigInvalid(
            f"{name} was made by a newer Tandem ({header.tandem}, schema {header.schema}; this one knows up to"
            f" {TANDEM.version}). Restore it with that one.",
            newer=True,
            actual=header.schema,
            expected=TANDEM.version,
        )
    record = log.Record(settings.data_dir, masked("database_url", settings.database))
    known = record.find(header.log_id)
    is_another = known is not None and known.log_id != header.log_id
    if is_another and not replace:
        raise ConfigInvalid(
            f"{name} has another log than the database that a broker of {settings.data_dir} worked on last. With"
            " --replace it takes that one's place; or name another data folder with --data-dir.",
            setting="database_url",
        )
    if settings.database.startswith(_SQLITE):
        copied = await _restore_sqlite(settings, file, name, header, replace=replace, verify=verify, told=told)
    else:
        # Others may share this database, so its owner has to empty it: nothing is replaced.
        copied = await _restore_postgres(settings, file, name, header, verify=verify, told=told)
    if is_another:
        await asyncio.to_thread(record.write, log.KnownLog(header.log_id, 0, GENESIS))
    return copied


async def copy(settings: Settings, to: Settings, *, verify: bool, told: Told) -> Copied:
    """Copy the database to another, empty one, of whichever kind.

    Raises:
        NotFound: There is no database.
        ConfigInvalid: The other one is not empty.
        Unavailable: A database cannot be reached, or the copy does not verify.
    """
    with _scratch(None) as scratch, _disk(scratch):
        file = scratch / "copy"
        await _dump(settings.database, file, compress=True, told=told)
        return await restore(to, file, "The copy", replace=False, verify=verify, told=told)


async def _restore_sqlite(
    settings: Settings,
    file: Path,
    name: str,
    header: portable.Header,
    *,
    replace: bool,
    verify: bool,
    told: Told,
) -> Copied:
    path = await asyncio.to_thread(Path(settings.database.removeprefix(_SQLITE)).resolve)
    held = DatabaseFile(path)
    with _disk(path.parent):
        platforms.make_private(str(path.parent))
        held.lock()
        try:
            if not held.is_missing() and not replace:
                raise ConfigInvalid(
                    f"There is a database at {path}, which is not overwritten. With --replace it is set aside; or name"
                    " another data folder with --data-dir.",
                    setting="database_url",
                )
            with _scratch(path.parent) as scratch:
                fresh = scratch / path.name
                await _make(file, name, header, fresh, told)
                report = await _audit(_SQLITE + fresh.as_posix(), settings, told, header) if verify else None
                _refuse_altered(name, report)
                set_aside = await asyncio.to_thread(_put_in_place, fresh, held, scratch)
        finally:
            held.unlock()
    return Copied(header, report, set_aside)


async def _restore_postgres(
    settings: Settings, file: Path, name: str, header: portable.Header, *, verify: bool, told: Told
) -> Copied:
    async with _opened(settings.database, TANDEM) as target:
        await target.read(_refuse_rows)
        with _scratch(None) as scratch, _disk(scratch):
            if verify or header.schema != TANDEM.version:
                report = await _audited_copy(file, name, scratch, settings, told)
                _refuse_altered(name, report if verify else None)
            if header.schema != TANDEM.version:
                file = scratch / "copy"
                await _dump(_SQLITE + (scratch / "tandem.db").as_posix(), file, compress=True, told=told)
            await _fill(target, file, name, told, log.new_epoch())
    report = await _audit(settings.database, settings, told, header) if verify else None
    _refuse_damaged("The restored database", report)
    return Copied(header, report)


async def _audited_copy(file: Path, name: str, scratch: Path, settings: Settings, told: Told) -> audit.AuditReport:
    """The audit of the database that a copy makes."""
    fresh = scratch / "tandem.db"
    header = await asyncio.to_thread(_header, file, name)
    await _make(file, name, header, fresh, told)
    return await _audit(_SQLITE + fresh.as_posix(), settings, told, header)


async def _make(file: Path, name: str, header: portable.Header, path: Path, told: Told) -> None:
    """Make a SQLite database of a copy, and bring it to this version's schema."""
    url = _SQLITE + path.as_posix()
    is_older = header.schema != TANDEM.version
    schema = TANDEM
    if is_older:
        # From before the first migration, rows go into the tables of that one as far as they fit.
        is_known = header.schema in TANDEM.revisions
        schema = TANDEM.former(header.schema, header.ddl) if is_known else TANDEM.former(TANDEM.revisions[0])
    epoch = log.new_epoch()
    async with _opened(url, schema) as store:
        await _fill(store, file, name, told, None if is_older else epoch)
    if is_older:
        async with _opened(url, TANDEM) as upgraded:
            await upgraded.write(lambda unit: events.begin_epoch(unit, epoch))


async def _fill(store: Store, file: Path, name: str, told: Told, epoch: str | None) -> None:
    """Write a copy into an empty database, in one transaction; with a new epoch where the schema has such."""

    def work(unit: Unit) -> None:
        if unit.dialect != "sqlite":
            _refuse_rows(unit)
        with file.open("rb") as stream:
            reader = portable.Reader(stream, name)
            rows = reader.rows(partial(told, "restoring"))
            for (table, columns), of_table in groupby(rows, key=lambda one: one[:2]):
                queries.write_rows(unit, table, columns, (row for *_, row in of_table))
        if epoch is not None:
            events.begin_epoch(unit, epoch)

    try:
        await store.write(work)
    except TandemError:
        raise
    except Exception as exc:
        raise InvalidInput(
            f"{name} does not fit the tables of its schema ({exc}). Nothing of it was taken; use another copy.",
            field="file",
            file=name,
        ) from exc


def refuse_missing(url: str) -> None:
    """Insist that a SQLite database is there: to look for it must not make it.

    Raises:
        NotFound: It is not.
    """
    file = url.removeprefix(_SQLITE)
    if file != url and DatabaseFile(Path(file)).is_missing():
        raise NotFound(f"There is no database at {file}. Name its folder with --data-dir.", path=file)


async def _dump(url: str, file: Path, *, compress: bool, told: Told) -> portable.Header:
    """Write all that a database has in one snapshot into a file of this user's."""
    refuse_missing(url)

    def work(unit: Unit) -> portable.Header:
        try:
            head = events.read_head(unit)
        except LookupError as exc:
            raise NotFound("The database is empty: no broker has used it yet.") from exc
        header = portable.Header(
            version("tandem-broker"),
            TANDEM.version,
            datetime.now(UTC).isoformat(timespec="seconds"),
            head.log_id,
            unit.dialect,
            queries.count_rows(unit),
            TANDEM.ddl(SQLITE),
        )
        tables = ((table.name, queries.columns_of(table), queries.read_rows(unit, table)) for table in queries.TABLES)
        # From its beginning each time: on PostgreSQL a unit may be run again.
        with os.fdopen(os.open(file, _NEW_FILE, 0o600), "wb") as stream:
            portable.write(stream, header, tables, partial(told, "reading"), compress=compress)
            stream.flush()
            flush_file(stream.fileno())
        return header

    async with _opened(url, UNCHANGED) as store:
        return await store.read(work)


async def _audit(url: str, settings: Settings, told: Told, header: portable.Header) -> audit.AuditReport:
    key = find(settings.secret_key)
    # A copy need not have what its broker wrote since.
    return await audit.verify(
        make_store(url, readers=1, schema=UNCHANGED),
        seal=Tokens(key).seal_event if key else None,
        find_known=lambda _log_id: None,
        progress=partial(told, "checking the log"),
        gapless=header.database == "sqlite",
    )


@asynccontextmanager
async def _opened(url: str, schema: Schema) -> AsyncGenerator[Store]:
    store = make_store(url, readers=1, schema=schema)
    try:
        await store.open()
        yield store
    finally:
        await store.close()


def _header(file: Path, name: str) -> portable.Header:
    try:
        with file.open("rb") as stream:
            return portable.Reader(stream, name).header
    except FileNotFoundError as exc:
        raise NotFound(f"There is no file {name}.", path=name) from exc
    except OSError as exc:
        raise Unavailable(f"{name} cannot be read: {exc.strerror or exc}.", file=name) from exc


def _refuse_rows(unit: Unit) -> None:
    if not queries.is_empty(unit):
        raise ConfigInvalid(
            "The database has rows already, and is not overwritten. Make an empty one, and name it with --database.",
            setting="database_url",
        )


def _refuse_damaged(what: str, report: audit.AuditReport | None) -> None:
    """Refuse a database that does not verify; one that was not looked at passes."""
    if report is None or report.intact:
        return
    error = Unavailable(
        f"{what} does not verify: {'; '.join(report.problems[:_SHOWN_PROBLEMS])}. See 'tandem audit verify'; with"
        " --no-verify it is copied as it is.",
        damaged=True,
    )
    error.retryable = False
    raise error


def _refuse_altered(name: str, report: audit.AuditReport | None) -> None:
    """Likewise a copy."""
    if report is not None and not report.intact:
        raise InvalidInput(
            f"{name} does not verify: {'; '.join(report.problems[:_SHOWN_PROBLEMS])}. Nothing of it was taken; use"
            " another copy, or the secret key that it was made with. With --no-verify it is restored as it is.",
            field="file",
            file=name,
        )


def _taken(file: Path) -> InvalidInput:
    return InvalidInput(f"{file} is there already, and is not overwritten. Name another file.", field="file")


def _name(fresh: Path, file: Path) -> None:
    """Give a file that is whole its name, unless somebody else took that meanwhile."""
    try:
        os.link(fresh, file)
    except FileExistsError as exc:
        raise _taken(file) from exc
    except OSError:
        # A file system without links.
        fresh.rename(file)
    flush_folder(str(file.parent))


def _put_in_place(fresh: Path, held: DatabaseFile, scratch: Path) -> Path | None:
    """Give a database its name in one step; where the former one was copied to, if there was one.

    Whenever the process is killed, that name has the one or the other, whole.
    """
    path, log_path, stamp = held.path, held.log_path, datetime.now(UTC).strftime("%Y%m%dT%H%M%S")
    aside = None if held.is_missing() else path.with_name(f"{path.name}.replaced-{stamp}")
    if aside is not None:
        held.fold()
        # Only a damaged one still has a log. The database last: who finds it finds all that it has.
        copied = scratch / "former"
        for source in filter(Path.exists, (log_path, path)):
            shutil.copy(source, copied)
            with copied.open("rb+") as stream:
                flush_file(stream.fileno())
            copied.rename(aside.with_name(aside.name + source.name.removeprefix(path.name)))
    # Never the new one beside the former one's log, which SQLite would take for its own.
    for ending in ("-wal", "-shm"):
        path.with_name(path.name + ending).unlink(missing_ok=True)
    fresh.replace(path)
    flush_folder(str(path.parent))
    return aside


@contextmanager
def _scratch(parent: Path | None) -> Generator[Path]:
    """A private folder for databases that are being made; what killed processes left of theirs is removed."""
    where = None if parent is None else str(parent)
    sweep((where,))
    with ScratchFolder("copy", where) as folder:
        yield Path(folder)


@contextmanager
def _disk(folder: Path) -> Generator[None]:
    """Map errors of writing to a folder, with advice."""
    try:
        yield
    except OSError as exc:
        advice = "make room there" if exc.errno in _NO_ROOM else "see to its permissions"
        raise Unavailable(
            f"{folder} cannot be written: {exc.strerror or exc}. Nothing was kept; {advice}, then run it again.",
            folder=str(folder),
        ) from exc
