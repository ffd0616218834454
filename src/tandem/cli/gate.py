"""`tandem gate …`: is exactly this content approved?"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import Annotated, Any

import orjson
import typer

from tandem.bridge.operations import OPERATIONS
from tandem.cli import sources
from tandem.cli.calls import present
from tandem.cli.commands import Answer, CommandGroup, add, add_lazily, command, imported
from tandem.cli.connection_options import (
    ConnectionOptions,
    need_project,
)
from tandem.cli.generated import add_operation
from tandem.cli.sources import Inputs, Source
from tandem.cli.terminal import Exit, progress
from tandem.errors import TandemError
from tandem.rulings import git, state
from tandem.rulings.enforcement import base_branch

_STEPS = "tandem.cli.gate_steps"
"""The steps of a workflow call these."""
_OTHERS = {
    "tandem.cli.gate_switch": {
        "on": "Switch the gate on: git then refuses what is not approved. Running it again repairs the hooks.",
        "off": "Switch the gate off and restore the former hooks, to the byte. Asks at the terminal.",
        "status": "Show the gate's status, here and at the broker. Exit status 1 if something is wrong.",
        "override": "Run git commit and override the gate: only for a person at a terminal, who has to type the"
        " project's name.",
    },
    "tandem.cli.server_hook": {
        "server-hook": "Have a bare repository refuse unapproved pushes to base branches. Running it again repairs the"
        " hook.",
    },
    _STEPS: {
        "plan": "Have a whole PLAN.md reviewed before it is committed or carried out.",
        "context": "Have a whole CONTEXT.md reviewed before it is written or committed.",
        "task": "Have a task's change reviewed before its commit, with what its plan says of it.",
        "wave": "Have all that a plan did reviewed as one change, before its branch is merged.",
        "verification": "Have a whole VERIFICATION.md or UAT.md reviewed, and whether the work passed.",
    },
}
"""Commands by the module where they are."""


def register(app: typer.Typer) -> None:
    """Add the group `gate`."""
    group = typer.Typer(
        cls=CommandGroup, help="The gate: check whether content is approved, and switch it.", no_args_is_help=True
    )
    add(group, "gate check", check)
    for module, commands in _OTHERS.items():
        for name, about in commands.items():
            add_lazily(group, name, about, partial(imported, module, name), hidden=module == _STEPS)
    for name in ("set_gate", "get_gate", "override_gate"):
        add_operation(group, OPERATIONS[name])
    app.add_typer(group, name="gate")


@command(without=("text",))
def check(
    *,
    source: Source,
    digest: Annotated[str | None, typer.Option("--digest", help="A round's digest instead of content.")] = None,
    changes: Annotated[
        str | None, typer.Option("--changes", metavar="JSON", help="Raw changes: JSON, @FILE or - for standard input.")
    ] = None,
    options: ConnectionOptions,
) -> Answer:
    """Ask whether every change is approved, to the byte: by default what is staged. Exit status 0 if so, else 1."""
    if sum((digest is not None, changes is not None, not source.is_default)) > 1:
        raise typer.BadParameter("Choose one of --staged, --commit, --range, --digest and --changes.")
    asked: dict[str, Any] | None = None
    if digest is not None:
        asked = {"digest": digest}
    elif changes is not None:
        asked = {"changes": Inputs().json("--changes", changes)}
    return _check(asked, source, options)


def _base_branch() -> str | None:
    """The base branch that is checked out here: a commit would be one to that."""
    with suppress(state.GateUnreadable, TandemError):
        place = state.find_repository(".")
        gate = None if place is None else state.find(place)
        return None if place is None or gate is None or not gate.enabled else base_branch(gate, git.branch(place))
    return None


async def _check(asked: dict[str, Any] | None, source: Source, options: ConnectionOptions) -> Exit:
    async with options.client() as client, progress("checking"):
        project = await need_project(client, options)
        if asked is None:
            branch = await asyncio.to_thread(_base_branch)
            asked = {"changes": await asyncio.to_thread(sources.changes, source), "branch": branch}
        envelope = await client.call("check_gate", {"project": project, **asked})
    status = present(envelope, "check_gate", as_json=options.as_json)
    if status is Exit.DONE and not orjson.loads(envelope)["data"]["allowed"]:
        return Exit.REFUSED
    return status
