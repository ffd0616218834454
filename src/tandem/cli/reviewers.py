"""`tandem reviewers …`: the reviewers that pools start, their logs, and a pool's supervisor in the foreground."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated

from tandem.bridge.operations import OPERATIONS
from tandem.bridge.session import Session, Unreachable
from tandem.cli.calls import call, given
from tandem.cli.connection_options import (
    BrokerOption,
    ConnectionOptions,
    KeyOption,
    one_of,
)
from tandem.cli.declared import Argument, Misused, Option
from tandem.cli.terminal import Exit, show_log
from tandem.core import log_files
from tandem.core.visible import visible
from tandem.errors import InvalidInput, TandemError, UnknownReviewer
from tandem.pool.contract import ReviewerView
from tandem.pool.reviewers import logs
from tandem.pool.reviewers.logs import Log
from tandem.present.shape import record
from tandem.settings.config import load_settings

_LISTED = 10
_NAME = re.compile(r"[a-z][a-z0-9-]*-r[0-9]+")
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
        Path | None, Option(metavar="DIR", help="The data folder of who runs it; default: the user's own.")
    ] = None,
    broker: BrokerOption = None,
) -> None:
    """Show what a reviewer on this machine wrote, and what its program did."""
    folder = load_settings({"data_dir": data_dir}).settings.reviewer_logs
    log = logs.newest(folder, reviewer)
    if log is None:
        # The broker may know where the reviewer runs.
        raise _missing(reviewer, folder, ConnectionOptions(broker))
    show_log(log_files.follow(log.path, lines), visible, follow=follow)


def _missing(reviewer: str | None, folder: Path, options: ConnectionOptions) -> UnknownReviewer:
    here = sorted(logs.logs_in(folder), key=Log.written_at, reverse=True)
    known_here = [log.reviewer_id for log in here[:_LISTED]]
    if reviewer is None:
        return UnknownReviewer(
            f"No reviewer has run on this machine with its data in {folder.parent.parent}. Another data folder is named"
            " with --data-dir.",
            folder=str(folder),
        )
    try:
        with options.session() as session:
            listed = record(session.data("list_reviewers", {})).reviewers
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


def kill(
    reviewer: Annotated[
        str | None,
        Argument(
            metavar="REVIEWER",
            help="Its id or its name, as 'tandem reviewers list' shows them.",
            shows_default=False,
            completes="reviewer",
        ),
    ] = None,
    *,
    # The operation's own name for it, as the argument's twin.
    reviewer_id: Annotated[str | None, Option(hidden=True, completes="reviewer")] = None,
    force: Annotated[bool, Option(help="At once; its review goes back into the queue.")] = False,
    idempotency_key: KeyOption = None,
    options: ConnectionOptions,
) -> Exit:
    """End a reviewer of the pool: after its current review, or with force at once."""
    whom = one_of(reviewer or None, reviewer_id or None, "--reviewer-id")
    if whom is None:
        raise Misused("Missing REVIEWER.", "--reviewer-id")
    if _NAME.fullmatch(whom):
        with options.session() as session:
            whom = _running(session, whom)
    request = given(force=force, idempotency_key=idempotency_key, reviewer_id=whom)
    return call(OPERATIONS["kill_reviewer"], request, options)


def _running(session: Session, name: str) -> str:
    """The id of the reviewer that a name stands for: the one that runs, else the last that ended; else the name.

    Raises:
        InvalidInput: Several run.
    """
    named = [one for one in record(session.data("list_reviewers", {})).reviewers if one.name == name]
    found = [one.reviewer_id for one in named if one.ended_at is None]
    if named and not found:
        return max(named, key=lambda one: one.ended_at).reviewer_id
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} reviewers are called {name}. Say which, by its whole id.", field="reviewer_id", allowed=found
        )
    return found[0] if found else name
