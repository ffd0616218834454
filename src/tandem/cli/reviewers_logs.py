"""`tandem reviewers logs`: what a reviewer of this machine and its program wrote."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tandem.cli.calls import run
from tandem.cli.completion import complete_reviewer
from tandem.cli.terminal import show_refusal, visible
from tandem.cli.whereabouts import BrokerOption, Place
from tandem.client import Unreachable
from tandem.config import Settings, load_settings
from tandem.domain.pool_answers import ReviewerView
from tandem.errors import TandemError, UnknownReviewer
from tandem.reviewers import log_reading
from tandem.reviewers.log_reading import Log, Part

EPILOG = """[bold]Examples[/bold]

  tandem reviewers logs

  tandem reviewers logs codex-r1 --follow

  tandem reviewers logs codex-r1-k3f9q2 -n 200"""

_LISTED = 10
_LINES_AT_ONCE = 1_000
_FOLLOW_SECONDS = 0.2


def show_logs(
    reviewer: Annotated[
        str | None,
        typer.Argument(
            metavar="REVIEWER",
            help="Its id, or its name for the newest that is called so; default: the newest of all.",
            show_default=False,
            autocompletion=complete_reviewer,
        ),
    ] = None,
    *,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on as lines are written, until Ctrl-C.")] = False,
    lines: Annotated[int, typer.Option("-n", "--lines", min=0, help="How many of the last lines.")] = 50,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="The data folder of who runs it; default: the user's own."),
    ] = None,
    broker: BrokerOption = None,
) -> None:
    """Show what a reviewer on this machine wrote, and what its program did."""
    try:
        folder = log_folder(load_settings({"data_dir": data_dir}).settings)
    except TandemError as error:
        raise typer.Exit(show_refusal(error, as_json=False)) from None
    log = log_reading.newest(folder, reviewer)
    if log is None:
        run(_refuse(reviewer, folder, Place(broker)))
    else:
        _print(log, lines, follow=follow)


def log_folder(settings: Settings) -> Path:
    """Where the reviewers of this machine have their logs, whoever runs them."""
    return settings.reviewer_logs


def _print(log: Log, lines: int, *, follow: bool) -> None:
    part = log_reading.last_part(log, lines)
    _echo(part)
    with suppress(KeyboardInterrupt):
        while follow:
            part = log_reading.next_part(log, part.position, _LINES_AT_ONCE) or part
            _echo(part)
            if not part.lines:
                time.sleep(_FOLLOW_SECONDS)


def _echo(part: Part) -> None:
    for line in part.lines:
        typer.echo(visible(line))


async def _refuse(reviewer: str | None, folder: Path, place: Place) -> NoReturn:
    """Say why there is no log, and what to do: the broker may know where the reviewer runs."""
    raise await _missing(reviewer, folder, place)


async def _missing(reviewer: str | None, folder: Path, place: Place) -> UnknownReviewer:
    here = sorted(log_reading.logs_in(folder), key=Log.written_at, reverse=True)
    known_here = [log.reviewer_id for log in here[:_LISTED]]
    if reviewer is None:
        return UnknownReviewer(
            f"No reviewer has run on this machine with its data in {folder.parent.parent}. Another data folder is named"
            " with --data-dir.",
            folder=str(folder),
        )
    try:
        async with place.client() as client:
            listed = (await client.list_reviewers()).reviewers
    except Unreachable:
        why = "the broker, which may know it, cannot be reached"
    except TandemError as error:
        why = f"the broker does not say where it is ({error.code})"
    else:
        found = next((one for one in listed if reviewer in {one.reviewer_id, one.name}), None)
        if found is not None:
            return _elsewhere(found, folder)
        why = "the broker knows no such reviewer"
    return UnknownReviewer(
        f"There is no log of a reviewer '{reviewer}' on this machine, and {why}. See: tandem reviewers list",
        reviewer_id=reviewer,
        allowed=known_here,
    )


def _elsewhere(found: ReviewerView, folder: Path) -> UnknownReviewer:
    has = "ran" if found.ended_at else "runs"
    return UnknownReviewer(
        f"{found.reviewer_id} {has} on {found.host}, and its log is not in {folder}. Look there, on that machine, with:"
        f" tandem reviewers logs {found.reviewer_id}",
        reviewer_id=found.reviewer_id,
        host=found.host,
    )
