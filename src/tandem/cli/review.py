"""`tandem review …`: all of it is operations."""

from __future__ import annotations

import typer

from tandem.cli.generated import add_operation
from tandem.client.table import OPERATIONS


def register(app: typer.Typer) -> None:
    """Add the group `review`."""
    group = typer.Typer(help="Reviews: put up, claim, discuss, decide, close.", no_args_is_help=True)
    for operation in OPERATIONS.values():
        if operation.noun == "review":
            add_operation(group, operation)
    app.add_typer(group, name="review")
