"""`tandem gate …`: is exactly this content approved?"""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Annotated, Any

from tandem.cli import sources
from tandem.cli.calls import Inputs, present
from tandem.cli.connection_options import (
    ConnectionOptions,
    need_project,
)
from tandem.cli.declared import Misused, Option, without
from tandem.cli.sources import Source
from tandem.cli.terminal import Exit, progress
from tandem.errors import TandemError
from tandem.rulings import git, state
from tandem.rulings.planning import base_branch


@without("text")
def check(
    *,
    source: Source,
    digest: Annotated[str | None, Option("--digest", help="A round's digest instead of content.")] = None,
    changes: Annotated[
        str | None, Option("--changes", metavar="JSON", help="Raw changes: JSON, @FILE or - for standard input.")
    ] = None,
    options: ConnectionOptions,
) -> Exit:
    """Ask whether every change is approved, to the byte: by default what is staged. Exit status 0 if so, else 1."""
    if sum((digest is not None, changes is not None, not source.is_default)) > 1:
        raise Misused("Choose one of --staged, --commit, --range, --digest and --changes.")
    read = None if changes is None else Inputs().json("--changes", changes)
    with options.session() as session, progress("checking"):
        asked: dict[str, Any] = {"project": need_project(session, options)}
        if digest is not None:
            asked["digest"] = digest
        elif changes is not None:
            asked["changes"] = read
        else:
            branch = _base_branch()
            asked |= {"changes": sources.changes(source), "branch": branch}
        envelope = session.call("check_gate", asked)
    status = present(envelope, "check_gate", as_json=options.as_json)
    if status is Exit.DONE and not json.loads(envelope)["data"]["allowed"]:
        return Exit.REFUSED
    return status


def _base_branch() -> str | None:
    """The base branch that is checked out here: a commit would be one to that."""
    with suppress(state.GateUnreadable, TandemError):
        place = state.find_repository(".")
        gate = None if place is None else state.find(place)
        return None if place is None or gate is None or not gate.enabled else base_branch(gate, git.branch(place))
    return None
