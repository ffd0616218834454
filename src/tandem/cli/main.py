"""The `tandem` command: which commands there are, and where each is."""

from __future__ import annotations

import gc
import importlib
import io
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.exceptions import TyperException
from typer.main import get_group

from tandem.cli.commands import HELP, CommandGroup, show_help
from tandem.cli.terminal import show_usage_error

_REVIEWING = "Reviewing"
_HANDING_OVER = "Handing over"
_SETTING_UP = "Projects and the broker"


@dataclass(frozen=True, slots=True)
class LazyCommand:
    """A command of the first level.

    Attributes:
        module: Where it is; its `register(app)` adds it to a Typer app.
        about: Its line in the help.
        panel: The heading it stands under.
        hidden: Whether it is for programs, and not listed.
    """

    module: str
    about: str
    panel: str
    hidden: bool = False


COMMANDS: dict[str, LazyCommand] = {
    "submit": LazyCommand("tandem.cli.submit", "Submit your change for review.", _REVIEWING),
    "apply": LazyCommand("tandem.cli.apply", "Bring the working tree to what was approved.", _REVIEWING),
    "inbox": LazyCommand("tandem.cli.generated", "What waits for you, and what for others.", _REVIEWING),
    "review": LazyCommand("tandem.cli.review", "Reviews: propose, claim, discuss, decide, close.", _REVIEWING),
    "checks": LazyCommand("tandem.cli.generated", "Checks that run on a change: results, logs, again.", _REVIEWING),
    "open": LazyCommand("tandem.cli.open", "Open the broker's pages in your browser.", _REVIEWING),
    "gate": LazyCommand("tandem.cli.gate", "Check whether content is approved; switch the gate on or off.", _REVIEWING),
    "commit": LazyCommand("tandem.cli.generated", "Records of commits and rollbacks.", _REVIEWING, hidden=True),
    "rollback": LazyCommand("tandem.cli.rollback", "Revert a commit that was not approved.", _REVIEWING),
    "audit": LazyCommand("tandem.cli.audit", "Check commits; show and verify the log.", _REVIEWING),
    "reviewers": LazyCommand("tandem.cli.reviewers", "Reviewers that are started when proposals wait.", _REVIEWING),
    "cycle": LazyCommand("tandem.cli.cycle", "Hand-off cycles: one feature, one active role at a time.", _HANDING_OVER),
    "session": LazyCommand("tandem.cli.cycle", "Sessions of roles, opened with their keys.", _HANDING_OVER),
    "lock": LazyCommand("tandem.cli.generated", "The lock of the role whose turn it is.", _HANDING_OVER),
    "handoff": LazyCommand("tandem.cli.generated", "What one role hands over to the next.", _HANDING_OVER),
    "me": LazyCommand("tandem.cli.identity", "Say once who you are; show it.", _SETTING_UP),
    "init": LazyCommand("tandem.cli.init", "Set a repository and its agents up for reviews.", _SETTING_UP),
    "uninit": LazyCommand("tandem.cli.init", "Undo exactly what 'tandem init' did.", _SETTING_UP),
    "doctor": LazyCommand("tandem.cli.doctor", "Find problems and their remedies.", _SETTING_UP),
    "project": LazyCommand("tandem.cli.generated", "Registered projects and their folders.", _SETTING_UP),
    "up": LazyCommand("tandem.cli.broker", "Start the broker.", _SETTING_UP),
    "status": LazyCommand("tandem.cli.broker", "Say whether the broker runs, and where.", _SETTING_UP),
    "down": LazyCommand("tandem.cli.broker", "Stop the broker.", _SETTING_UP),
    "logs": LazyCommand("tandem.cli.broker", "Show the broker's log.", _SETTING_UP),
    "service": LazyCommand("tandem.cli.service", "Start the broker at login.", _SETTING_UP),
    "config": LazyCommand("tandem.cli.settings", "Show settings and where each comes from.", _SETTING_UP),
    "data": LazyCommand("tandem.cli.data", "The database: back it up, restore it, move it.", _SETTING_UP),
    "gsd": LazyCommand("tandem.cli.gsd", "Reviews of GSD's steps: on, off, and where they stand.", _SETTING_UP),
    "trust": LazyCommand("tandem.cli.settings", "Allow a project's settings to loosen, by their hash.", _SETTING_UP),
    "token": LazyCommand("tandem.cli.token", "Access tokens: who may call the broker, and for what.", _SETTING_UP),
    "webhook": LazyCommand(
        "tandem.cli.webhook", "Post events to other programs, signed; see what arrived.", _SETTING_UP
    ),
    "supervisor": LazyCommand(
        "tandem.cli.generated", "Operations for programs that run a reviewer pool.", _SETTING_UP, hidden=True
    ),
    "mcp": LazyCommand("tandem.cli.broker", "Speak MCP over stdio for an agent.", _SETTING_UP, hidden=True),
    "demo": LazyCommand("tandem.cli.demo", "Watch agents play a review, hand-off cycles and a pool.", _SETTING_UP),
    "help": LazyCommand("tandem.cli.main", "Show the help of a command: tandem help review list.", _SETTING_UP),
    "version": LazyCommand("tandem.cli.main", "Show the version.", _SETTING_UP),
}


class Commands(CommandGroup):
    """Imports a command's module only when it is called, so that each starts as fast as it can."""

    def __init__(self, **attributes: Any) -> None:
        super().__init__(**attributes)
        self._as_json = False
        for name, entry in COMMANDS.items():
            self.add_command(TyperCommand(name, help=entry.about, rich_help_panel=entry.panel, hidden=entry.hidden))

    def resolve_command(self, ctx: Any, args: list[str]) -> tuple[str | None, Any, list[str]]:
        """The command that is called, with the name's stand-in replaced by the real one."""
        noun, group, verb = _dotted(args[0])
        name, command, rest = super().resolve_command(ctx, [noun, verb, *args[1:]] if group else args)
        return name, group or (load(name) if name in COMMANDS else command), rest

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
    found = load(noun) if dot and noun in COMMANDS else None
    return noun, found if isinstance(found, TyperGroup) else None, verb


def load(name: str) -> Any:
    """Import a command of the first level."""
    loaded = typer.Typer(rich_markup_mode="rich")
    importlib.import_module(COMMANDS[name].module).register(loaded)
    if name != "up":
        # See `__main__`. What is there now stays, and need not be looked through again.
        gc.freeze()
        gc.enable()
    return get_group(loaded).commands[name]


app = typer.Typer(
    name="tandem",
    cls=Commands,
    help=(
        "Submit changes for review, review them, and hand work to each other.\n\n"
        "In a repository: [bold]tandem project add[/bold], then [bold]tandem submit -m 'what it is for' --wait[/bold]."
    ),
    epilog=(
        "Exit statuses: 0 done or approved, 1 refused, 2 usage, 3 broker unreachable, 10 changes requested or a "
        "required check failed, "
        "11 rejected, 12 not yet: run what is printed, 13 closed without approval, or the cycle is over, "
        "14 a person has to look: stop."
    ),
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_show_locals=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


@app.callback(invoke_without_command=True)
def tandem(
    version: bool = typer.Option(False, "--version", help="Show the version and exit.", is_eager=True),  # noqa: FBT001, FBT003 Typer's form of a flag
) -> None:
    """Options of `tandem` itself."""
    if version:
        show_version()
        raise typer.Exit


def show_version() -> None:
    """Show the version."""
    from importlib.metadata import version

    typer.echo(f"tandem {version('tandem-broker')}")


def register(app: typer.Typer) -> None:
    """Add the commands of this module."""
    app.command("version")(show_version)
    app.command(HELP)(help_of)


def help_of(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...", help="Such as: review list.")] = None,
) -> None:
    """Show the help of a command; every group has this command, too."""
    show_help(context.find_root(), words or ())


def run() -> None:
    """Run the command line with the process's arguments; ends the process with the exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A pipe is read by programs, which expect UTF-8 as --json is; a terminal knows what it can show.
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")
    app(prog_name="tandem")
