"""The page of all commands, from the command line itself: first those for people, then those for programs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import typer
from typer.core import TyperGroup

from reference_parts import page, table
from tandem.cli.main import HELP, app, below


def commands() -> str:
    """Every command, in the order of the help."""
    root: Any = typer.main.get_command(app)
    found = list(_leaves(root.make_context("tandem", [], resilient_parsing=True), hidden=False))
    rows = {
        hidden: [(f"`{path}`", _line(about)) for path, about, one in found if one is hidden] for hidden in (False, True)
    }
    return page(
        "Commands",
        "`tandem help review list`, or `-h` behind a command, shows its options and examples. "
        "[The command line](../guide/command-line.md) says how they go together.",
        "## For people and agents",
        table(("command", "description"), rows[False]),
        "## For programs",
        "Hooks, pools, workflow steps and scripts call these; no help lists them. Each operation is a command, so that "
        "[the operations](operations.md) list their arguments and answers.",
        table(("command", "description"), rows[True]),
    )


def _leaves(context: Any, *, hidden: bool) -> Iterator[tuple[str, str, bool]]:
    for name, listed in context.command.commands.items():
        if name == HELP:
            continue
        inner, is_hidden = below(context, name), hidden or listed.hidden
        if isinstance(inner.command, TyperGroup):
            yield from _leaves(inner, hidden=is_hidden)
        else:
            yield inner.command_path, inner.command.help or "", is_hidden


def _line(about: str) -> str:
    """The first paragraph of a help, as a cell; what the command line marks as bold is code here."""
    text = " ".join(about.partition("\n\n")[0].split())
    return text.replace("[bold]", "`").replace("[/bold]", "`").replace("\\[", "[").replace("|", "\\|")
