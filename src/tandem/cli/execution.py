"""Carries out a command of the command line."""

from __future__ import annotations

import gc
from importlib import import_module

from tandem.cli.declared import Misused
from tandem.cli.table import COMMANDS
from tandem.cli.terminal import show_refusal
from tandem.errors import TandemError

TYPE_CHECKING = False  # as in `declared`
if TYPE_CHECKING:
    from typing import Any

    from tandem.cli.declared import Command


def carry_out(words: str, values: dict[str, Any]) -> int:
    """Carry out a command; a refusal by the broker, or by the command itself, is printed.

    Args:
        words: The command's words.
        values: Those of its parameters, by their names.

    Returns:
        The exit status.

    Raises:
        Misused: The command was called wrongly.
    """
    command = COMMANDS[words]
    for one in command.parameters:
        if one.kind == "number" and str(values.get(one.name)) == "nan":
            raise Misused("must be a number.", one.option)
    try:
        return _done(command, dict(values))
    except TandemError as error:
        return show_refusal(error, as_json=bool(values.get("as_json")), parameters=command.parameters)


def _done(command: Command, values: dict[str, Any]) -> int:
    if ":" not in command.function:
        return _imported("tandem.cli.calls:operate")(command.function, command.parameters, values)
    function = _imported(command.function)
    for name, kind in command.groups.items():
        fields = [one.name for one in command.parameters if one.group == name]
        values[name] = _imported(kind)(**{field: values.pop(field) for field in fields})
    if command.function != "tandem.cli.broker:up":
        # See `__main__`. These objects stay, and need not be looked through again.
        gc.freeze()
        gc.enable()
    ended = function(**values)
    if hasattr(ended, "send"):
        import asyncio  # takes longer to import than most commands, which await nothing

        ended = asyncio.run(ended)
    return ended or 0


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
