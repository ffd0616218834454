"""Commands as Typer calls them: run to their end, refusals printed, common options; made when they are called."""

from __future__ import annotations

import asyncio
import importlib
import inspect
from collections.abc import Callable, Coroutine
from typing import Annotated, Any, NoReturn

import typer
from typer.core import TyperCommand
from typer.main import get_group

from tandem.cli.exits import Exit
from tandem.cli.terminal import show_refusal
from tandem.errors import TandemError

EnvelopeOption = Annotated[bool, typer.Option("--json", help="Print an envelope of JSON.")]
"""For what a command finds out by itself."""

Answer = Coroutine[Any, Any, int | None]
Work = Answer | int | None
"""What a command answers with: its exit status, null if it is done, or either once it is awaited.

What is read from standard input is read before: in a coroutine the first Ctrl-C would not end that.
"""


def run(work: Callable[[], Work], *, as_json: bool = False) -> NoReturn:
    """Run a command to its end; a refusal is printed, and the process gets the exit status."""
    try:
        ended = work()
        status = asyncio.run(ended) if isinstance(ended, Coroutine) else ended
    except TandemError as error:
        status = show_refusal(error, as_json=as_json)
    raise typer.Exit(status or Exit.DONE)


def command(*, project: bool = True) -> Callable[[Callable[..., Work]], Callable[..., None]]:
    """Make a command of a function: its parameter `options` stands for `--broker`, `--project` and `--agent`.

    Args:
        project: Whether there is a `--project`.
    """

    def made(function: Callable[..., Work]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        common: list[str] = []
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            if parameter.name == "options":
                from tandem.cli.connection_options import parameters as stated

                found = stated(project=project)
                common = [one.name for one in found]
                parameters += found
            else:
                parameters.append(parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY))

        def shown(**values: Any) -> None:
            if common:
                from tandem.cli.connection_options import ConnectionOptions

                values["options"] = ConnectionOptions(**{name: values.pop(name) for name in common})
            run(lambda: function(**values), as_json=bool(values.get("as_json")))

        # Typer reads a command's parameters from its signature, and its help from its docstring.
        shown.__dict__["__signature__"] = inspect.Signature(parameters)
        shown.__doc__ = function.__doc__
        return shown

    return made


def add_lazily(group: typer.Typer, name: str, about: str, make: Callable[[], Any]) -> None:
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
