"""`tandem review …`: operations; and without one, at a terminal, the screen for a person."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from tandem.cli.commands import add, command
from tandem.cli.connection_options import BrokerOption, ConnectionOptions, ProjectOption
from tandem.cli.generated import new_group
from tandem.cli.persons import refuse_agents
from tandem.cli.terminal import Exit
from tandem.errors import Forbidden

NAME = "screen"
_ABOUT = """Reviews: propose, claim, discuss, decide, close.

At a terminal, [bold]tandem review[/bold] is short for [bold]tandem review screen[/bold]."""
_HELP_OPTION = "--help"
_ALONE = "tandem.review.alone"


class ScreenGroup(TyperGroup):
    """A group whose command, when none of its own is named, is the screen."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """The arguments, with the command that was left out; a shell that completes leaves out none."""
        is_named = args[:1] == [_HELP_OPTION] or (bool(args) and not args[0].startswith("-"))
        ctx.meta[_ALONE] = not args
        return super().parse_args(ctx, args if is_named or ctx.resilient_parsing else [NAME, *args])


def register(app: typer.Typer) -> None:
    """Add the group `review`."""
    group = new_group("review", _ABOUT)
    add(group, "review screen", screen)
    app.add_typer(group, name="review", cls=ScreenGroup)


@command()
async def screen(
    context: typer.Context,
    *,
    name: Annotated[
        str | None, typer.Option("--as", metavar="NAME", help="Who decides; default: the name you gave the first time.")
    ] = None,
    project: ProjectOption = None,
    broker: BrokerOption = None,
) -> Exit:
    """Open a screen with what waits for you: changes, discussion, verdicts. Its keys are under ?."""
    if context.meta.get(_ALONE) and context.parent and not is_at_terminal():
        # A program that only named the group gets what every group answers.
        if text := context.parent.get_help():
            typer.echo(text)
        raise typer.Exit(Exit.USAGE)
    # Agents give verdicts by the other commands, each under its own name. What is decided here counts as a person's.
    refuse_agents("Here a person reviews in their own name; agents review with 'tandem review claim' and the others.")
    if not is_at_terminal():
        raise Forbidden(
            "The screen needs a terminal for its input and its output. Without one, 'tandem review list' and the"
            " other commands that 'tandem review --help' lists do the same.",
            needed="terminal",
        )
    # Late: nothing else needs Textual, which takes longer to import than most commands take.
    from tandem.cli.review_screen import identity
    from tandem.cli.review_screen.application import open_screen

    person = identity.remembered() if name is None else identity.checked(name)
    return await open_screen(ConnectionOptions(broker, project, person), person)


def is_at_terminal() -> bool:
    """Whether both what is typed and what is shown go through a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()
