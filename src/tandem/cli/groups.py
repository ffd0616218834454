"""Groups that are made of operations, but for `project add`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tandem.cli.calls import call
from tandem.cli.commands import add, command
from tandem.cli.connection_options import ConnectionOptions, JsonOption
from tandem.cli.exits import Exit
from tandem.cli.generated import add_operation, new_group
from tandem.client.table import OPERATIONS

_GROUPS = {
    "commit": "Records of commits and rollbacks.",
    "inbox": "What waits for you, what waits for others, and problems.",
    "handoff": "What one role hands over to the next.",
    "lock": "The lock of the role whose turn it is.",
    "supervisor": "Operations for programs that run a reviewer pool.",
}


def register(app: typer.Typer) -> None:
    """Add the groups."""
    for name, about in _GROUPS.items():
        app.add_typer(new_group(name, about), name=name)
    project = typer.Typer(help="Registered projects and their folders.", no_args_is_help=True)
    add(project, "project add", add_project)
    for operation in OPERATIONS.values():
        if operation.noun == "project" and operation.verb != "add":
            add_operation(project, operation)
    app.add_typer(project, name="project")


@command(without=("project",))
async def add_project(
    path: Annotated[Path, typer.Argument(help="A folder in a git repository.")] = Path(),
    *,
    name: Annotated[str | None, typer.Option("--name", help="Its name; default: the folder's.")] = None,
    options: ConnectionOptions,
    as_json: JsonOption = False,
) -> Exit:
    """Register a folder as a project; its name defaults to the folder's."""
    arguments = {"root": str(path.expanduser().resolve())} | ({"name": name} if name else {})
    return await call(OPERATIONS["register_project"], arguments, options, as_json=as_json)
