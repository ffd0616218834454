"""`tandem audit …`: are these commits approved? And the log of everything that happened, with its proof."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import orjson
import typer
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from tandem.cli import audit_commits
from tandem.cli.broker import DataDirOption
from tandem.cli.calls import run
from tandem.cli.exits import Exit
from tandem.cli.generated import new_group
from tandem.cli.render.parts import plain
from tandem.cli.terminal import console, show, show_envelope
from tandem.cli.whereabouts import JsonOption
from tandem.config import Settings, load_settings, masked
from tandem.errors import NotFound
from tandem.secret_key import Tokens, find

_EPILOG = """[bold]Examples[/bold]

  tandem audit verify

  tandem audit verify --data-dir ./copy --json"""
_ABOUT = """Is every commit of a range approved? And the log of everything that happened, with its proof.

[bold]tandem audit RANGE[/bold] is short for [bold]tandem audit commits RANGE[/bold]."""
_GROUP_EPILOG = """[bold]Examples[/bold]

  tandem audit main..HEAD

  tandem audit verify"""
_SQLITE = "sqlite:///"
_QUIET_SECONDS = 1.0


def register(app: typer.Typer) -> None:
    """Add the group `audit`."""
    group = new_group("audit", _ABOUT)
    group.command(audit_commits.NAME, epilog=audit_commits.EPILOG)(audit_commits.commits)
    group.command("verify", epilog=_EPILOG)(verify)
    app.add_typer(group, name="audit", cls=audit_commits.RangeGroup, epilog=_GROUP_EPILOG)


def verify(
    *,
    data_dir: DataDirOption = None,
    database: Annotated[
        str | None, typer.Option("--database", metavar="URL", help="Another database than the settings name.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Check every event's hash and chain, replay the log and compare it with the state.

    Reads the database itself, so that it works with the broker up or down. Exit status 1 if anything is wrong.
    """
    run(_verify(data_dir, database, as_json=as_json), as_json=as_json)


async def _verify(data_dir: Path | None, database: str | None, *, as_json: bool) -> Exit:
    settings = load_settings({"data_dir": data_dir, "database_url": database}).settings
    _ensure_there(settings)
    # Late: the log and the other commands need none of what the broker is made of.
    from tandem.app import reading_store_of
    from tandem.services import audit
    from tandem.services.log import HELP, Record

    key = find(settings.secret_key)
    record = Record(settings.data_dir, masked("database_url", settings.database))
    with _progress() as progress:
        report = await audit.verify(
            reading_store_of(settings),
            seal=Tokens(key).seal_event if key else None,
            # A copy that is named need not have what the broker wrote since.
            find_known=record.find if database is None else lambda _log_id: None,
            progress=progress,
        )
    if as_json:
        show_envelope(orjson.dumps({"ok": True, "data": {**asdict(report), "intact": report.intact}}))
    else:
        for problem in report.problems:
            show(Text.assemble(("problem  ", "red"), plain(problem)))
        for note in report.notes:
            show(Text.assemble(("note     ", "yellow"), plain(note)))
        if not report.intact:
            show(Text(f"Keep this database as it is, and restore a copy that verifies: {HELP}"))
        word = Text("intact", style="bold green") if report.intact else Text("not intact", style="bold red")
        show(Text.assemble(word, f"  {report.events} events of {report.subjects} subjects"))
    return Exit.DONE if report.intact else Exit.REFUSED


def _ensure_there(settings: Settings) -> None:
    """An audit must not make the database that it looks for."""
    file = settings.database.removeprefix(_SQLITE)
    if file != settings.database and not Path(file).is_file():
        raise NotFound(f"There is no database at {file}. Name its folder with --data-dir.", path=file)


@contextmanager
def _progress() -> Generator[Callable[[int, int], None]]:
    """A bar on a terminal's standard error, for audits that take over a second."""
    columns = (TextColumn("checking the log"), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=console(stderr=True), transient=True)
    task = bar.add_task("", total=None)
    began = time.monotonic()

    def looked(done: int, total: int) -> None:
        if sys.stderr.isatty() and not bar.live.is_started and time.monotonic() - began > _QUIET_SECONDS:
            bar.start()
        bar.update(task, completed=done, total=total)

    try:
        yield looked
    finally:
        bar.stop()
