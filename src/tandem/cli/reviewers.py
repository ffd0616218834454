"""`tandem reviewers …`: the reviewers that pools start, their logs, and a pool's supervisor in the foreground."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Annotated

from tandem.bridge.operations import OPERATIONS
from tandem.cli.calls import call, given
from tandem.cli.connection_options import (
    BrokerOption,
    ConnectionOptions,
    KeyOption,
    one_of,
)
from tandem.cli.declared import Argument, Misused, Option
from tandem.cli.terminal import Exit, show_log
from tandem.client import TandemClient, Unreachable
from tandem.core.visible import visible
from tandem.errors import InvalidInput, TandemError, UnknownReviewer
from tandem.pool.contract import ReviewerView
from tandem.pool.reviewers import logs
from tandem.pool.reviewers.logs import Log
from tandem.settings.config import load_settings

_LISTED = 10
_NAME = re.compile(r"[a-z]+-r[0-9]+")
"""An id without the letters that tell starts of the pool apart: what people say."""


def show_logs(
    reviewer: Annotated[
        str | None,
        Argument(
            metavar="REVIEWER",
            help="Its id, or its name for the newest that is called so; default: the newest of all.",
            shows_default=False,
            completes="reviewer",
        ),
    ] = None,
    *,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on as lines are written, until Ctrl-C.")] = False,
    lines: Annotated[int, Option("-n", "--lines", min=0, help="How many of the last lines.")] = 50,
    data_dir: Annotated[
        Path | None,
        Option("--data-dir", metavar="DIR", help="The data folder of who runs it; default: the user's own."),
    ] = None,
    broker: BrokerOption = None,
) -> None:
    """Show what a reviewer on this machine wrote, and what its program did."""
    folder = load_settings({"data_dir": data_dir}).settings.reviewer_logs
    log = logs.newest(folder, reviewer)
    if log is None:
        # The broker may know where the reviewer runs.
        raise asyncio.run(_missing(reviewer, folder, ConnectionOptions(broker)))
    show_log(log.path, lines, visible, follow=follow)


async def _missing(reviewer: str | None, folder: Path, options: ConnectionOptions) -> UnknownReviewer:
    here = sorted(logs.logs_in(folder), key=Log.written_at, reverse=True)
    known_here = [log.reviewer_id for log in here[:_LISTED]]
    if reviewer is None:
        return UnknownReviewer(
            f"No reviewer has run on this machine with its data in {folder.parent.parent}. Another data folder is named"
            " with --data-dir.",
            folder=str(folder),
        )
    try:
        async with options.client() as client:
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


def supervise(
    *,
    # Not from the environment: to ask a broker is one thing, to run programs for it another.
    broker: Annotated[
        str | None, Option("--broker", metavar="URL", help="Run a pool of reviewers here for this broker.")
    ] = None,
    project: Annotated[
        list[str] | None,
        Option(
            "--project",
            metavar="NAME",
            help="Only for this project; for several, several times. Default: all that are registered.",
            completes="project",
        ),
    ] = None,
    workspace: Annotated[
        Path | None,
        Option(
            "--workspace",
            metavar="DIR",
            help="The one project's folder on this machine; default: where it is registered.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        Option("--data-dir", metavar="DIR", help="For its own id, logs and scratch; default: the user's own."),
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print a line of JSON for whatever happens.")] = False,
) -> None:
    """Run a pool of reviewers here for that broker, until Ctrl-C."""
    if broker is None:
        raise Misused("Name the broker to run reviewers for.", "--broker")
    if workspace is not None and len(project or ()) != 1:
        raise Misused("It is one project's folder: name that with --project.", "--workspace")
    # Late: the other commands start no processes.
    from tandem.cli import reviewers_run

    reviewers_run.run_pool(broker, tuple(project or ()), workspace, data_dir, as_json=as_json)


async def kill(
    reviewer: Annotated[
        str | None,
        Argument(
            metavar="REVIEWER",
            help="Its id or its name, as list_reviewers shows them.",
            shows_default=False,
            completes="reviewer",
        ),
    ] = None,
    *,
    # The operation's own name for it, as the argument's twin.
    reviewer_id: Annotated[str | None, Option("--reviewer-id", hidden=True, completes="reviewer")] = None,
    force: Annotated[bool, Option("--force", help="At once; its review goes back into the queue.")] = False,
    idempotency_key: KeyOption = None,
    options: ConnectionOptions,
) -> Exit:
    """End a reviewer of the pool: after its current review, or with force at once."""
    whom = one_of(reviewer or None, reviewer_id or None, "--reviewer-id")
    if whom is None:
        raise Misused("Missing REVIEWER.", "--reviewer-id")
    if _NAME.fullmatch(whom):
        async with options.client() as client:
            whom = await _running(client, whom)
    request = given(force=force, idempotency_key=idempotency_key, reviewer_id=whom)
    return call(OPERATIONS["kill_reviewer"], request, options)


async def _running(client: TandemClient, name: str) -> str:
    """The id of the reviewer that a name stands for; the name itself if none of it runs.

    Raises:
        InvalidInput: Several run.
    """
    found = [
        one.reviewer_id
        for one in (await client.list_reviewers()).reviewers
        if one.name == name and one.ended_at is None
    ]
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} reviewers are called {name}. Say which, by its whole id.", field="reviewer_id", allowed=found
        )
    return found[0] if found else name
