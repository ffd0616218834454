"""`tandem review …`: all of it is operations."""

from __future__ import annotations

import typer

from tandem.cli.generated import new_group


def register(app: typer.Typer) -> None:
    """Add the group `review`."""
    app.add_typer(new_group("review", "Reviews: put up, claim, discuss, decide, close."), name="review")
