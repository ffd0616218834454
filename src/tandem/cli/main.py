"""The `tandem` command as Typer has it: help, completion, and command lines in an unusual form, or with mistakes."""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import cache
from importlib.metadata import version as version_of
from pathlib import Path
from typing import Annotated, Any, Literal, NoReturn

import typer
from rich.markup import escape
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from tandem.bridge.operations import OPERATIONS
from tandem.bridge.session import data_of
from tandem.cli import terminal
from tandem.cli.connection_options import ConnectionOptions
from tandem.cli.declared import Argument, Command, Misused, Parameter
from tandem.cli.execution import carry_out
from tandem.cli.review import is_at_terminal
from tandem.cli.table import COMMANDS
from tandem.cli.terminal import Exit, indented, show, show_envelope
from tandem.cli.tree import SUBGROUPS, TREE, Noun
from tandem.core.visible import visible_line
from tandem.errors import InvalidInput, TandemError
from tandem.examples import examples as workflow_examples
from tandem.present.text import Text, Whole

HELP = "help"
"""The command of every group that shows the help of another."""
_HELP_OPTIONS = frozenset({"-h", "--help"})
_NEAR = 0.7
"""How much of a name has to be right for it to be offered."""
_KINDS: dict[str, Any] = {"text": str, "whole": int, "number": float, "flag": bool, "path": Path}
_LIMIT_SECONDS = 0.5
_ROWS = 50
Offers = list[tuple[str, str]]
_STEP_WORDS = """

[bold]The first line is one word[/bold]

  SOLO, APPROVED, GO, NOTHING: go on (0).  CHANGES: change it, run this again (10).  REJECTED: take it back (11).

  WAITING: run this again (12).  ROLLBACK REVIEW: tandem rollback REVIEW first (10).

  ESCALATE: stop, ask the person (14)."""


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
        near = [f"{ctx.command_path} {one}" for one in difflib.get_close_matches(name, shown, 2, _NEAR)]
        if not near:
            # Those of other groups that are called about so.
            paths = [f"tandem {path}" for path, command in COMMANDS.items() if not command.hidden]
            verbs = {path.rpartition(" ")[2] for path in paths}
            meant = difflib.get_close_matches(name, verbs, 1, _NEAR)
            near = [path for path in paths if path.rpartition(" ")[2] in meant]
        return f" Did you mean {' or '.join(map(repr, near))}?" if near else ""


class ScreenGroup(CommandGroup):
    """A group whose command, when none of its own is named, is the screen."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, with the command that was left out; a shell that completes leaves out none."""
        is_named = bool(args) and (args[0] in _HELP_OPTIONS or not args[0].startswith("-"))
        if is_named or ctx.resilient_parsing:
            return super().parse_args(ctx, args)
        if not args and not is_at_terminal():
            # A program that only named the group gets what every group answers.
            typer.echo(ctx.get_help())
            raise typer.Exit(Exit.USAGE)
        return super().parse_args(ctx, [str(TREE["review"].default), *args])


class DefaultGroup(CommandGroup):
    """A group whose first word, when it is none of its commands, is the first argument of its default one."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, with the command that was left out."""
        is_named = args[0] in {*self.commands, *_HELP_OPTIONS, HELP} if args else ctx.info_name == "audit"
        default = [] if is_named or ctx.resilient_parsing else [str(TREE[ctx.info_name].default)]
        return super().parse_args(ctx, [*default, *args])


_GROUPS = {"review": ScreenGroup, "audit": DefaultGroup, "findings": DefaultGroup}


class Commands(CommandGroup):
    """The commands of the first level, each made when it is called."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._as_json = False
        for name, noun in TREE.items():
            self.add_command(TyperCommand(name, help=noun.about, rich_help_panel=noun.panel, hidden=noun.hidden))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called, with the name's stand-in replaced by the real one."""
        noun, group, verb = _dotted(args[0])
        name, command, rest = super().resolve_command(ctx, [noun, verb, *args[1:]] if group else args)
        return name, group or (load(name) if name in TREE else command), rest

    def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
        """Parse the options before the command."""
        self._as_json = "--json" in args
        with self._usage_errors():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        with self._usage_errors():
            return super().invoke(ctx)

    @contextmanager
    def _usage_errors(self) -> Generator[None]:
        """Print how a command was called wrongly in the form of all refusals."""
        try:
            yield
        except TyperException as error:
            raise typer.Exit(show_usage_error(error, as_json=self._as_json)) from None

    def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
        """What the shell offers: commands, and after a noun and a dot its verbs."""
        noun, group, verb = _dotted(incomplete)
        if group is None:
            return super().shell_complete(ctx, incomplete)
        inner = group.make_context(noun, [], parent=ctx, resilient_parsing=True)
        return [type(offer)(f"{noun}.{offer.value}", help=offer.help) for offer in group.shell_complete(inner, verb)]


def _dotted(word: str) -> tuple[str, Any, str]:
    """The noun, its group and the verb of a dotted name such as `session.open`; no group if it is none."""
    noun, dot, verb = word.partition(".")
    found = load(noun) if dot and noun in TREE else None
    return noun, found if isinstance(found, TyperGroup) else None, verb


def load(name: str) -> Any:
    """A command or group of the first level."""
    if not TREE[name].is_group:
        return _made(name)
    app = typer.Typer(rich_markup_mode="rich")
    group = _group(name, TREE[name])
    app.add_typer(group, name=name, cls=_GROUPS.get(name, CommandGroup), epilog=_examples(name))
    return get_group(app).commands[name]


def _group(words: str, noun: Noun) -> typer.Typer:
    """A group, with stand-ins for its commands."""
    group = typer.Typer(cls=CommandGroup, help=noun.help, no_args_is_help=True, epilog=_examples(words))
    for path, command in COMMANDS.items():
        start, _, verb = path.rpartition(" ")
        if start == words:
            _add_stand_in(group, path, verb, command)
    for verb in noun.commands:
        if verb in SUBGROUPS:
            group.add_typer(_group(f"{words} {verb}", SUBGROUPS[verb]), name=verb)
    if noun.default == "run":
        _add_callback(group, words)
    return group


def _add_stand_in(group: typer.Typer, path: str, verb: str, command: Command) -> None:
    class StandIn(TyperCommand):
        """Has the command's place in the group; parsing, help and completion are the command's own."""

        def make_context(self, info_name: str | None, args: list[str], parent: Any = None, **extra: Any) -> Any:
            return _made(path).make_context(info_name, args, parent, **extra)

    def stand_in() -> None:
        """Is never called: the command's own context is invoked."""

    group.command(verb, cls=StandIn, help=command.about, hidden=command.hidden)(stand_in)


def _add_callback(group: typer.Typer, words: str) -> None:
    """Have a group without a command carry out its default one, whose options the group has, too."""
    path = f"{words} {TREE[words].default}"

    def callback(context: typer.Context, **values: Any) -> None:
        if context.invoked_subcommand is None:
            _carry_out(path, values)
        if any(values.values()):
            raise typer.BadParameter(
                f"The options of {context.invoked_subcommand} stand behind it: "
                f"tandem {words} {context.invoked_subcommand} --broker URL"
            )

    context = inspect.Parameter("context", inspect.Parameter.POSITIONAL_OR_KEYWORD, annotation=typer.Context)
    callback.__dict__["__signature__"] = inspect.Signature([context, *map(_parameter, COMMANDS[path].parameters)])
    group.callback(invoke_without_command=True, help=TREE[words].help)(callback)


def _made(path: str) -> Any:
    """The command as Typer has it."""
    command = COMMANDS[path]

    def run(**values: Any) -> None:
        _carry_out(path, values)

    # Typer reads a command's parameters from its signature.
    run.__dict__["__signature__"] = inspect.Signature([*map(_parameter, command.parameters)])
    group = typer.Typer(rich_markup_mode="rich")
    mixed = any(one.valued for one in command.parameters)
    settings = {"ignore_unknown_options": mixed, "allow_interspersed_args": mixed} if command.takes_the_rest else None
    name = path.rpartition(" ")[2]
    more = _STEP_WORDS if command.function.startswith("tandem.cli.gate_steps:") else ""
    ending = (_examples(path) or "") + more
    group.command(
        name,
        cls=_class_of(command),
        help=command.about,
        epilog=ending or None,
        context_settings=settings,
        hidden=command.hidden,
    )(run)
    return get_group(group).commands[name]


def _class_of(command: Command) -> type[TyperCommand]:
    """A command whose help cuts no option, and puts no brackets around needed arguments, which have an option, too."""
    names = [one.name.upper() for one in command.parameters if one.needed and not one.is_caller]
    needed = {f"[{name}]": f"{{{name}}}" for name in names}

    class Made(TyperCommand):
        def collect_usage_pieces(self, ctx: Any) -> list[str]:
            return [needed.get(piece, piece) for piece in super().collect_usage_pieces(ctx)]

        def format_help(self, ctx: Any, formatter: Any) -> None:
            from typer import rich_utils  # it imports Pygments, for which no completion should wait

            # A blank less between columns: the longest option has room beside the others' values.
            rich_utils.__dict__["STYLE_OPTIONS_TABLE_PADDING"] = (0, 1, 0, 0)
            super().format_help(ctx, formatter)

    return Made


def _parameter(one: Parameter) -> inspect.Parameter:
    """A parameter as Typer reads it from a signature."""
    kind = Literal[one.choices] if one.choices else _KINDS[one.kind]
    if one.many:
        # Typer has lists of an enumeration's members only.
        kind = list[StrEnum(one.name, {choice: choice for choice in one.choices}) if one.choices else kind]
    settings: dict[str, Any] = {
        "help": one.help,
        "metavar": one.metavar,
        "min": one.min,
        "envvar": one.variable,
        "hidden": one.hidden,
        "rich_help_panel": one.panel,
        "show_default": one.shows_default,
        "autocompletion": OFFERS[one.completes] if one.completes else None,
    }
    if one.names:
        # Typer takes the names that switch a flag off behind a slash.
        names = [f"{name}/{off}" for name, off in zip(one.names, one.off, strict=False)] or list(one.names)
        stated: Any = typer.Option(*names, **settings)
    else:
        stated = typer.Argument(**settings)
    default = inspect.Parameter.empty if one.required else one.default
    if one.kind == "path" and isinstance(default, str):
        default = Path(default)
    annotation = Annotated[kind if default is not None else kind | None, stated]
    return inspect.Parameter(one.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _asking(operation: str, pairs: Callable[[Any], Offers], **request: Any) -> Callable[[str], Offers]:
    """Offers what of an answer begins so; nothing when the broker is away or slow: a shell must not be kept waiting."""

    def complete(incomplete: str) -> Offers:
        try:
            with ConnectionOptions(os.environ.get("TANDEM_BROKER")).session() as session:
                offers = pairs(data_of(session.call(operation, request, within_s=_LIMIT_SECONDS)))
        except (TandemError, LookupError, TypeError, ValueError):
            # The last three: a broker of another version answers otherwise.
            return []
        return [(visible_line(name), visible_line(about)) for name, about in offers if name.startswith(incomplete)]

    return complete


def _roles(data: Any) -> Offers:
    """Roles of all workflows, each with the workflows that have it."""
    having: dict[str, list[str]] = {}
    for workflow in data["workflows"]:
        for role in workflow["roles"]:
            having.setdefault(role, []).append(workflow["name"])
    return [(role, ", ".join(names)) for role, names in having.items()]


OFFERS: dict[str, Callable[[str], Offers]] = {
    # Latest activity first.
    "review": _asking(
        "get_activity_feed",
        lambda data: [(one["review"]["review_id"], one["review"]["intent"]) for one in data["entries"]],
        limit=_ROWS,
    ),
    "project": _asking("list_projects", lambda data: [(one["project"], one["root"]) for one in data["projects"]]),
    "cycle": _asking(
        "list_cycles", lambda data: [(one["cycle_id"], one["feature"]) for one in data["cycles"]], limit=_ROWS
    ),
    "workflow": _asking(
        "list_cycles", lambda data: [(one["name"], ", ".join(one["roles"])) for one in data["workflows"]], limit=1
    ),
    "role": _asking("list_cycles", _roles, limit=1),
    # Those that run first.
    "reviewer": _asking(
        "list_reviewers",
        lambda data: [(one["reviewer_id"], f"{one['state']}, {one['project']}") for one in data["reviewers"]],
    ),
    "example": lambda incomplete: [(name, "") for name in workflow_examples() if name.startswith(incomplete)],
}
"""What each kind of value is offered by."""


def _carry_out(path: str, values: dict[str, Any]) -> NoReturn:
    try:
        raise typer.Exit(carry_out(path, values))
    except Misused as error:
        raise typer.BadParameter(error.message, param_hint=error.option) from error


def show_usage_error(error: Any, *, as_json: bool) -> Exit:
    """Print how a command was called wrongly, as an envelope or for people; answers with the exit status.

    Args:
        error: What the parser of the command line raised.
        as_json: Whether to print an envelope.
    """
    if type(error).__name__ == "NoArgsIsHelpError":
        # A group without a command: its message is the help.
        sys.stderr.write(f"{error.message}\n")
        return Exit.USAGE
    message, context = terminal.usage_in_commands(error), getattr(error, "ctx", None)
    usage = {} if context is None else {"usage": context.get_usage().removeprefix("Usage: ")}
    if as_json:
        refusal = {"code": InvalidInput.code, "message": message, "details": usage, "retryable": False}
        show_envelope({"ok": False, "error": refusal})
        return Exit.USAGE
    facts = usage | ({} if context is None else {"help": f"{context.command_path} -h"})
    lines = [Text(f"  {name}: {value}", "dim") for name, value in facts.items()]
    show(Whole(Text("error: ", "bold red").append(indented(message)), *lines), stderr=True)
    return Exit.USAGE


def show_misuse(words: str, error: Misused, *, as_json: bool) -> Exit:
    """Print what a command says about how it was called; answers with the exit status."""
    root: Any = typer.main.get_command(app)
    context: Any = root.make_context("tandem", [], resilient_parsing=True)
    for word in words.split():
        context = below(context, word)
    usage = typer.BadParameter(error.message, ctx=context, param_hint=error.option)
    return show_usage_error(usage, as_json=as_json)


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


def _examples(command: str) -> str | None:
    """The end of a command's help; None without examples."""
    lines = examples().get(command)
    return "[bold]Examples[/bold]\n\n" + "\n\n".join(f"  {escape(line)}" for line in lines) if lines else None


app = typer.Typer(
    name="tandem",
    cls=Commands,
    help=(
        "Submit changes for review, review them, and hand work to each other.\n\n"
        "In a repository: [bold]tandem project add[/bold], then [bold]tandem commit -m 'its purpose'[/bold]."
    ),
    epilog=(
        "Exit statuses: 0 done or approved, 1 refused, 2 usage, 3 broker unreachable, 10 changes requested or a "
        "required check failed, "
        "11 rejected, 12 not yet: run the printed command, 13 closed without approval, or the cycle is over, "
        "14 a person has to look: stop."
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def show_version() -> None:
    """Show the version."""
    typer.echo(f"tandem {version_of('tandem-broker')}")


def help_of(
    words: Annotated[list[str] | None, Argument(metavar="COMMAND", help="Such as: review list.")] = None,
) -> None:
    """Show the help of a command; every group has this command, too."""
    root: Any = typer.main.get_command(app)
    show_help(root.make_context("tandem", [], resilient_parsing=True), words or ())


@app.callback(invoke_without_command=True)
def tandem(
    version: bool = typer.Option(False, "--version", help="Show the version and exit.", is_eager=True),  # noqa: FBT001, FBT003 Typer's form of a flag
) -> None:
    """Options of `tandem` itself."""
    if version:
        show_version()
        raise typer.Exit
