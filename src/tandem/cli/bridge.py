"""`tandem mcp`, for who comes by the command line's own entry; `__main__` starts the bridge without it."""

from __future__ import annotations

import typer

from tandem import platforms
from tandem.bridge.main import run


def register(app: typer.Typer) -> None:
    """Add the command `mcp`."""
    app.command(
        "mcp",
        help="Speak MCP over stdio for an agent.",
        add_help_option=False,
        context_settings={"allow_extra_args": True, "ignore_unknown_options": True},
    )(bridge)


def bridge(context: typer.Context) -> None:
    """Forward standard input and output to the broker."""
    run(context.args, platforms)
