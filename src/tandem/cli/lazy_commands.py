"""Commands that are imported or made only when they are called, so that the others start the sooner."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

import typer
from typer.core import TyperCommand
from typer.main import get_group


def add(group: typer.Typer, name: str, about: str, make: Callable[[], Any]) -> None:
    """Add a command to a group.

    Args:
        group: Where it is listed.
        name: What it is called.
        about: Its line in the group's help; the command's own help.
        make: Makes the command, when it is called.
    """

    class StandIn(TyperCommand):
        """Has the command's place in the group; parsing, help and completion are the command's own."""

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            return make().make_context(info_name, args, parent, **extra)

    def stand_in() -> None:
        """Is never called: the command's own context is invoked."""

    group.command(name, cls=StandIn, help=about)(stand_in)


def imported(module: str, name: str) -> Any:
    """The command that a module's `register` adds to a group under this name."""
    group = typer.Typer(rich_markup_mode="rich")
    importlib.import_module(module).register(group)
    return get_group(group).commands[name]
