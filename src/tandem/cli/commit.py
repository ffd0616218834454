"""`tandem commit …`: all of it is operations."""

from __future__ import annotations

import typer

from tandem.cli.generated import new_group


def register(app: typer.Typer) -> None:
    """Add the group `commit`."""
    app.add_typer(new_group("commit", "What hooks told of commits and rollbacks."), name="commit")
