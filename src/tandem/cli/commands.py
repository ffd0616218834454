"""Commands as Typer calls them: their options, refusals and examples; many are made only when they are called."""

from __future__ import annotations

import asyncio
import dataclasses
import difflib
import importlib
import inspect
from collections.abc import Callable, Collection, Coroutine, Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn, get_origin

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from tandem.bridge.operations import OPERATIONS
from tandem.cli.terminal import Exit, show_refusal
from tandem.errors import TandemError

_NEAR = 0.7
"""How much of a name has to be right for it to be offered."""
HELP = "help"
"""The command of every group that shows the help of another."""

EnvelopeOption = Annotated[bool, typer.Option("--json", help="Print an envelope of JSON.")]
"""For what a command finds out by itself."""

Answer = Coroutine[Any, Any, int | None]
Work = Answer | int | None
"""What a command answers with: its exit status, null if it is done, or either once it is awaited.

What is read from standard input is read before: in a coroutine the first Ctrl-C would not end that.
"""


class CommandGroup(TyperGroup):
    """A group that shows a command's help after `help`, and suggests a name that was meant."""

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called; `help`, which every group has, is carried out here."""
        name = args[0]
        if name == HELP:
            show_help(ctx, args[1:])
        if name not in self.commands and not name.startswith("-"):
            if name in OPERATIONS:
                one = OPERATIONS[name]
                ctx.fail(f"'{name}' is an operation; its command is: tandem {one.noun} {one.verb}")
            ctx.fail(f"There is no command '{ctx.command_path} {name}'.{self.suggestion(ctx, name)}")
        return super().resolve_command(ctx, args)

    def suggestion(self, ctx: Any, name: str) -> str:
        """Which commands may have been meant, as a sentence; empty if none is near."""
        shown = [one for one, found in self.commands.items() if not found.hidden]
        near = difflib.get_close_matches(name, shown, 2, _NEAR)
        return did_you_mean([f"{ctx.command_path} {one}" for one in near] or _elsewhere(name, ctx.find_root()))


def _elsewhere(name: str, root: Any) -> list[str]:
    """The commands of other groups that are called about so."""
    shown = [path for path, found in walk(root) if not found.hidden]
    near = difflib.get_close_matches(name, {path.rpartition(" ")[2] for path in shown}, 1, _NEAR)
    return [path for path in shown if path.rpartition(" ")[2] in near]


def walk(ctx: Any) -> Iterator[tuple[str, Any]]:
    """Every command below a group's context, with the words that call it."""
    for name in ctx.command.list_commands(ctx):
        if name == HELP:
            continue
        inner = below(ctx, name)
        if isinstance(inner.command, TyperGroup):
            yield from walk(inner)
        else:
            yield inner.command_path, ctx.command.commands[name]


def did_you_mean(near: Sequence[str]) -> str:
    """The sentence that offers what may have been meant; empty for nothing."""
    return f" Did you mean {' or '.join(repr(one) for one in near)}?" if near else ""


def show_help(context: Any, words: Sequence[str]) -> NoReturn:
    """Print the help of the command that the words name below a group, and end."""
    if words:
        show_help(below(context, words[0]), words[1:])
    typer.echo(context.get_help())
    raise typer.Exit


def below(ctx: Any, name: str) -> Any:
    """The context of a group's command."""
    if not isinstance(ctx.command, TyperGroup):
        ctx.fail(f"'{ctx.command_path}' has no commands, and so no '{name}'.")
    found: Any = ctx.command.resolve_command(ctx, [name])[1]
    return found.make_context(name, [], parent=ctx, resilient_parsing=True)


@cache
def examples() -> dict[str, list[str]]:
    """The lines of each command, such as `review create`."""
    sections = Path(__file__).with_name("examples.txt").read_text("utf-8").strip().split("\n\n")
    return {title.strip("[]"): lines for title, *lines in map(str.splitlines, sections)}


def epilog(command: str) -> str | None:
    """What stands at the end of a command's help; None without examples."""
    lines = examples().get(command)
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(f"  {escape(line)}" for line in lines) if lines else None


def run(work: Callable[[], Work], *, as_json: bool = False, parameters: Iterable[inspect.Parameter] = ()) -> NoReturn:
    """Run a command to its end; a refusal is printed, and the process gets the exit status."""
    try:
        ended = work()
        status = asyncio.run(ended) if isinstance(ended, Coroutine) else ended
    except TandemError as error:
        status = show_refusal(error, as_json=as_json, parameters=parameters)
    raise typer.Exit(status or Exit.DONE)


def command(*, without: Collection[str] = ()) -> Callable[[Callable[..., Work]], Callable[..., None]]:
    """Make a command of a function. A parameter whose type is a dataclass stands for the options that its fields state.

    Args:
        without: Fields of such a dataclass that are no options of this command.
    """

    def made(function: Callable[..., Work]) -> Callable[..., None]:
        parameters: list[inspect.Parameter] = []
        groups: dict[str, tuple[Callable[..., Any], list[str]]] = {}
        for parameter in inspect.signature(function, eval_str=True).parameters.values():
            one = parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY)
            kind: Any = one.annotation
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                left_out = {*without, "new"} if "project" in without else set(without)
                stated = [option for option in options_of(kind) if option.name not in left_out]
                groups[one.name] = kind, [option.name for option in stated]
                parameters += stated
            else:
                parameters.append(one)

        def shown(**values: Any) -> None:
            for name, (kind, fields) in groups.items():
                values[name] = kind(**{field: values.pop(field) for field in fields})
            as_json = any(getattr(one, "as_json", False) for one in values.values()) or bool(values.get("as_json"))
            run(lambda: function(**values), as_json=as_json, parameters=parameters)

        # Typer reads a command's parameters from its signature, and its help from its docstring.
        shown.__dict__["__signature__"] = inspect.Signature(parameters)
        shown.__doc__ = function.__doc__
        return shown

    return made


def options_of(kind: type[Any]) -> Iterator[inspect.Parameter]:
    """The options that the fields of a dataclass state, as a command's signature has them."""
    stated = inspect.signature(kind, eval_str=True).parameters.values()
    return (
        one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in stated if get_origin(one.annotation) is Annotated
    )


def add(group: typer.Typer, words: str, function: Callable[..., Any], *, more: str = "", **settings: Any) -> None:
    """Add a command to a group, with its examples at the end of its help.

    Args:
        group: Where it is listed, under the last of its words.
        words: What calls it, such as `review screen`.
        function: What it does.
        more: What stands behind the examples.
        **settings: What else Typer is told of it.
    """
    ending = (epilog(words) or "") + more
    group.command(words.rpartition(" ")[2], epilog=ending or None, **settings)(function)


def add_lazily(group: typer.Typer, name: str, about: str, make: Callable[[], Any], *, hidden: bool = False) -> None:
    """Add a command to a group.

    Args:
        group: Where it is listed.
        name: What it is called.
        about: Its line in the group's help; the command's own help.
        make: Makes the command, when it is called.
        hidden: Whether it is for programs, and not listed.
    """

    class StandIn(TyperCommand):
        """Has the command's place in the group; parsing, help and completion are the command's own."""

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            return make().make_context(info_name, args, parent, **extra)

    def stand_in() -> None:
        """Is never called: the command's own context is invoked."""

    group.command(name, cls=StandIn, help=about, hidden=hidden)(stand_in)


def imported(module: str, name: str) -> Any:
    """The command that a module's `register` adds to a group under this name."""
    group = typer.Typer(rich_markup_mode="rich")
    importlib.import_module(module).register(group)
    return get_group(group).commands[name]
