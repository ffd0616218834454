"""`tandem reviewers logs`: what a reviewer of this machine and its program wrote."""

from __future__ import annotations

import re
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from tandem import logs
from tandem.cli.calls import run
from tandem.cli.completion import complete_reviewer
from tandem.cli.terminal import show_refusal, visible
from tandem.cli.whereabouts import BrokerOption, Place
from tandem.client import Unreachable
from tandem.config import Settings, load_settings
from tandem.domain.pool_answers import ReviewerView
from tandem.errors import TandemError, UnknownReviewer

EPILOG = """[bold]Examples[/bold]

  tandem reviewers logs

  tandem reviewers logs codex-r1 --follow

  tandem reviewers logs codex-r1-k3f9q2 -n 200"""

_LOG = re.compile(r"(?P<id>(?P<name>[a-z]+-r[0-9]+)-[0-9A-Za-z]+)\.log")
_LISTED = 10
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
    path = _find(folder, reviewer)
    if path is None:
        run(_refuse(reviewer, folder, Place(broker)))
    else:
        _print(path, lines, follow=follow)


def log_folder(settings: Settings) -> Path:
    """Where the reviewers of this machine have their logs, whoever runs them."""
    return settings.log_file.parent / "reviewers"


def _print(path: Path, lines: int, *, follow: bool) -> None:
    last, position = logs.tail(path, lines)
    for line in last:
        typer.echo(visible(line))
    with suppress(KeyboardInterrupt):
        for line in logs.follow(path, position) if follow else ():
            if line is None:
                time.sleep(_FOLLOW_SECONDS)
            else:
                typer.echo(visible(line))


def _find(folder: Path, reviewer: str | None) -> Path | None:
    """The newest log that fits, of those that the folder lists: what was asked for is never made a path."""
    fitting = [path for path, found in _listed(folder) if reviewer is None or reviewer in {found["id"], found["name"]}]
    return max(fitting, key=_written_at, default=None)


def _listed(folder: Path) -> list[tuple[Path, re.Match[str]]]:
    try:
        paths = list(folder.iterdir())
    except OSError:
        return []
    return [(path, found) for path in paths if (found := _LOG.fullmatch(path.name))]


def _written_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:
        # Removed just now: older than all others.
        return 0.0


async def _refuse(reviewer: str | None, folder: Path, place: Place) -> NoReturn:
    """Say why there is no log, and what to do: the broker may know where the reviewer runs."""
    raise await _missing(reviewer, folder, place)


async def _missing(reviewer: str | None, folder: Path, place: Place) -> UnknownReviewer:
    here = sorted((path for path, _ in _listed(folder)), key=_written_at, reverse=True)
    known_here = [path.name.removesuffix(".log") for path in here[:_LISTED]]
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
