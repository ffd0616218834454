"""`tandem rollback`: takes back what was committed before its review and then decided against."""

from __future__ import annotations

import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tandem.cli.commands import run
from tandem.cli.completion import complete_review
from tandem.cli.connection_options import AgentOption, BrokerOption, ConnectionOptions, JsonOption, find_project
from tandem.cli.exits import Exit
from tandem.cli.rollback_told import told
from tandem.cli.terminal import console, show, show_data
from tandem.errors import InvalidInput
from tandem.hooks.visible import visible_line
from tandem.workflow.rollback import Asked, Checkout, Report, roll_back

_EPILOG = """[bold]Examples[/bold]

  tandem rollback rv_4k2m --dry-run

  tandem rollback rv_4k2m"""
_SHOWN_CHARACTERS = 72


def register(app: typer.Typer) -> None:
    """Add the command `rollback`."""
    app.command("rollback", epilog=_EPILOG)(rollback)


def rollback(
    review_id: Annotated[str, typer.Argument(metavar="REVIEW", autocompletion=complete_review)],
    *,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Show the commits, reverts, replays and files; change nothing.")
    ] = False,
    broker: BrokerOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Take back the commit of a review that was rejected or has changes requested, and what its plan built upon it.

    It is reverted, never reset: history stays, and so do other people's commits and local changes.
    """
    options = ConnectionOptions(broker, None, agent)
    run(lambda: _rollback(review_id, options, dry_run=dry_run, as_json=as_json), as_json=as_json)


async def _rollback(review_id: str, place: ConnectionOptions, *, dry_run: bool, as_json: bool) -> Exit:
    checkout = Checkout.at(Path.cwd())
    async with place.client() as client:
        status = await client.get_review_status(review_id)
        found = await find_project(client, place)
        if found not in {None, status.project}:
            raise InvalidInput(
                f"{review_id} belongs to the project {status.project}; this repository is {found}.",
                field="project",
                expected=status.project,
                actual=found,
            )
        with _steps() as say:
            report = await roll_back(client, checkout, Asked(review_id, status.project, dry_run), say)
    if as_json:
        show_data(report.facts())
    else:
        show(told(report))
    return _exit(report)


def _exit(report: Report) -> Exit:
    """What was done but could not be told is not done altogether."""
    return Exit.DONE if report.unsaid is None else Exit.REFUSED


@contextmanager
def _steps() -> Generator[Callable[[str], None]]:
    """Shows on a terminal's standard error what is being done, with the time; nothing elsewhere."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=console(stderr=True), transient=True) as shown:
        task = shown.add_task("rolling back", total=None)

        def say(doing: str) -> None:
            shown.update(task, description=_line(doing))

        yield say


def _line(doing: str) -> str:
    return visible_line(doing)[:_SHOWN_CHARACTERS]
