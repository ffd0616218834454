"""`tandem data …`: copies of the database, and moves to another one."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from tandem import data
from tandem.audit import audit
from tandem.cli.broker import DataDirOption
from tandem.cli.connection_options import JsonOption
from tandem.cli.declared import Argument, Option
from tandem.cli.render.parts import plain
from tandem.cli.terminal import Exit, progress, say, tell
from tandem.core.scratch import ScratchFolder, sweep
from tandem.core.secret_key import Tokens, find
from tandem.present.text import Group, Text
from tandem.schema import UNCHANGED
from tandem.settings.config import Settings, load_settings, masked
from tandem.store.engine import make_store
from tandem.store.log import HELP, Record

if TYPE_CHECKING:
    from tandem.audit.audit import AuditReport
    from tandem.data import Copied

_STANDARD = "-"


@dataclass(frozen=True, slots=True)
class DataOptions:
    """What every command of the group is told.

    Attributes:
        database: The database, if not that of the settings.
        verify: Whether the copy is audited.
        data_dir: The data folder, if it is not the user's own.
        as_json: Whether the outcome is printed as an envelope.
    """

    database: Annotated[str | None, Option(metavar="URL", help="Another database than the settings name.")] = None
    verify: Annotated[bool, Option(help="Audit the copy: its events, their chain, and the state.")] = True
    data_dir: DataDirOption = None
    as_json: JsonOption = False

    def settings(self) -> Settings:
        """The settings, with the database that was given."""
        return load_settings({"data_dir": self.data_dir, "database_url": self.database}).settings


ReplaceOption = Annotated[bool, Option(help="Set a SQLite database that is there aside, under another name.")]


async def backup(
    file: Annotated[Path, Argument(metavar="FILE", help="A new file, for you alone.")], *, options: DataOptions
) -> Exit:
    """Write a compressed copy of the whole database into one file; the broker may run meanwhile.

    The secret key, archives of cycles and logs are not in it: keep copies of those, the key apart from this file.
    """
    settings = options.settings()
    with _progress() as told:
        copied = await data.back_up(settings, file, compress=True, verify=options.verify, told=told)
    if not options.as_json:
        say(f"Not in it: the secret key ({settings.secret_key}), archives of cycles ({settings.archives}), logs.")
    return _told(copied, f"backed up to {file}", {"file": str(file), "bytes": file.stat().st_size}, options)


async def restore(
    file: Annotated[
        Path, Argument(metavar="FILE", help="What 'tandem data backup FILE' or 'tandem data export FILE' wrote.")
    ],
    *,
    replace: ReplaceOption = False,
    options: DataOptions,
) -> Exit:
    """Make the database of a copy, whole or not at all. It must not be there yet, or in use by a broker."""
    return await _restore(file, str(file), options, replace=replace)


async def export(
    file: Annotated[Path, Argument(metavar="FILE", help="A new file, for you alone; - is standard output.")] = Path(
        _STANDARD
    ),
    *,
    options: DataOptions,
) -> Exit:
    """Write the whole database as lines of JSON, for other programs or a pipe; otherwise as 'tandem data backup'."""
    settings = options.settings()
    with _spool(file) as spool:
        with _progress() as told:
            copied = await data.back_up(settings, spool, compress=False, verify=options.verify, told=told)
        if str(file) == _STANDARD:
            with spool.open("rb") as stream:
                shutil.copyfileobj(stream, sys.stdout.buffer)
            sys.stdout.buffer.flush()
            return Exit.DONE
        size = spool.stat().st_size
    return _told(copied, f"exported to {file}", {"file": str(file), "bytes": size}, options)


async def import_(
    file: Annotated[
        Path, Argument(metavar="FILE", help="What 'tandem data export' or 'backup' wrote; - is standard input.")
    ] = Path(_STANDARD),
    *,
    replace: ReplaceOption = False,
    options: DataOptions,
) -> Exit:
    """Make the database of an export, as 'tandem data restore' does of a backup."""
    is_standard = str(file) == _STANDARD
    with _spool(file) as spool:
        if is_standard:
            with spool.open("wb") as stream:
                shutil.copyfileobj(sys.stdin.buffer, stream)
        name = "standard input" if is_standard else str(file)
        return await _restore(spool, name, options, replace=replace)


async def copy(
    to: Annotated[str, Argument(metavar="URL", help="An empty one: sqlite:///path or postgresql://…")],
    *,
    options: DataOptions,
) -> Exit:
    """Copy the whole database to another, from SQLite to PostgreSQL or back.

    To move, stop the broker first: the copy lacks later writes.
    """
    settings = options.settings()
    target = load_settings({"data_dir": options.data_dir, "database_url": to}).settings
    with _progress() as told:
        copied = await data.copy(settings, target, verify=options.verify, told=told)
    shown = masked("database_url", target.database)
    return _told(copied, f"copied to {shown}", {"database": shown}, options)


async def _restore(file: Path, name: str, options: DataOptions, *, replace: bool) -> Exit:
    settings = options.settings()
    with _progress() as told:
        copied = await data.restore(settings, file, name, replace=replace, verify=options.verify, told=told)
    database = masked("database_url", settings.database)
    aside = str(copied.set_aside) if copied.set_aside else None
    if aside and not options.as_json:
        say(f"The database that was there is now {aside}")
    return _told(copied, f"restored to {database}", {"database": database, "set_aside": aside}, options)


def _told(copied: Copied, what: str, facts: Mapping[str, object], options: DataOptions) -> Exit:
    report = copied.report
    if report and not options.as_json:
        say(*report.notes)
    checked = f", {report.events} events verified" if report else ", not verified"
    shown = Text.assemble((what.partition(" ")[0], "bold green"), plain(f" {what.partition(' ')[2]}"))
    shown.append(f"  {copied.header.rows} rows{checked}")
    said = {
        **{name: value for name, value in asdict(copied.header).items() if name != "ddl"},
        **facts,
        "verified": report is not None,
        "events": report.events if report else None,
        "notes": report.notes if report else [],
    }
    return tell(said, shown, as_json=options.as_json)


@contextmanager
def _spool(file: Path) -> Generator[Path]:
    """The file; for a standard stream one in its place."""
    if str(file) != _STANDARD:
        yield file
        return
    sweep((None,))
    with ScratchFolder("copy") as folder:
        yield Path(folder) / "standard"


async def verify(
    *,
    data_dir: DataDirOption = None,
    database: Annotated[str | None, Option(metavar="URL", help="Another database than the settings name.")] = None,
    as_json: JsonOption = False,
) -> Exit:
    """Check every event's hash and chain, replay the log and compare it with the state.

    Reads the database itself, so that it works with the broker up or down. Exit status 1 if anything is wrong.
    """
    settings = load_settings({"data_dir": data_dir, "database_url": database}).settings
    with _progress() as told:
        report = await verified(settings, is_copy=database is not None, progress=partial(told, "checking the log"))
    lines = [Text.assemble(("problem  ", "red"), plain(problem)) for problem in report.problems]
    lines += [Text.assemble(("note     ", "yellow"), plain(note)) for note in report.notes]
    if not report.intact:
        lines.append(Text(f"Keep this database as it is, and restore a copy that verifies: {HELP}"))
    word = Text("intact", style="bold green") if report.intact else Text("not intact", style="bold red")
    lines.append(Text.assemble(word, f"  {report.events} events of {report.subjects} subjects"))
    tell({**asdict(report), "intact": report.intact}, Group(*lines), as_json=as_json)
    return Exit.DONE if report.intact else Exit.REFUSED


async def verified(
    settings: Settings, *, is_copy: bool, progress: Callable[[int, int], None], seconds: float | None = None
) -> AuditReport:
    """The audit of the database that the settings name.

    Args:
        settings: The settings.
        is_copy: Whether it need not have what the broker wrote since.
        progress: Told how many looks were taken, and of how many.
        seconds: How long it may take; None for as long as it takes.

    Raises:
        NotFound: There is no database.
        Unavailable: It cannot be reached.
        ConfigInvalid: It is not of this version of Tandem.
    """
    data.refuse_missing(settings.database)
    key = find(settings.secret_key)
    record = Record(settings.data_dir, masked("database_url", settings.database))
    return await audit.verify(
        make_store(settings.database, readers=1, schema=UNCHANGED),
        seal=Tokens(key).seal_event if key else None,
        find_known=(lambda _log_id: None) if is_copy else record.as_of_now(),
        progress=progress,
        seconds=seconds,
    )


@contextmanager
def _progress() -> Generator[Callable[[str, int, int], None]]:
    """Shows how far a task is; yields a function that takes its name, the part that is done and the whole."""
    with progress("reading the database") as doing:
        yield lambda task, done, total: doing(f"{task}, {done * 100 // max(total, 1)} %")
