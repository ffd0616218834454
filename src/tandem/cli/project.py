"""`tandem project …`: which folders the broker knows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from tandem.cli.calls import Patience, call, run
from tandem.cli.generated import add_operation
from tandem.cli.whereabouts import AgentOption, BrokerOption, JsonOption, Place
from tandem.client.table import OPERATIONS


def register(app: typer.Typer) -> None:
    """Add the group `project`."""
    group = typer.Typer(help="Registered projects and their folders.", no_args_is_help=True)
    group.command(
        "add", epilog="[bold]Examples[/bold]\n\n  tandem project add\n\n  tandem project add ~/webshop --name shop"
    )(add)
    for operation in OPERATIONS.values():
        if operation.noun == "project" and operation.verb != "add":
            add_operation(group, operation)
    app.add_typer(group, name="project")


def add(
    path: Annotated[Path, typer.Argument(help="A folder in a git repository.")] = Path(),
    *,
    name: Annotated[str | None, typer.Option("--name", help="Its name; default: the folder's.")] = None,
    broker: BrokerOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Register a folder as a project; its name defaults to the folder's."""
    arguments = {"root": str(path.expanduser().resolve())} | ({"name": name} if name else {})
    place = Place(broker, None, agent)
    run(call(OPERATIONS["register_project"], arguments, place, patience=Patience(), as_json=as_json), as_json=as_json)
