"""`tandem inbox …`: what waits for whom."""

from __future__ import annotations

import typer

from tandem.cli.generated import new_group


def register(app: typer.Typer) -> None:
    """Add the group `inbox`."""
    app.add_typer(new_group("inbox", "What waits for you, what for others, and what is wrong."), name="inbox")
