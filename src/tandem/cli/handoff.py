"""`tandem handoff …` and `tandem lock …`: all of it is operations."""

from __future__ import annotations

import typer

from tandem.cli.generated import new_group


def register(app: typer.Typer) -> None:
    """Add the groups `handoff` and `lock`."""
    app.add_typer(new_group("handoff", "What one role hands over to the next."), name="handoff")
    app.add_typer(new_group("lock", "The lock of the role whose turn it is."), name="lock")
