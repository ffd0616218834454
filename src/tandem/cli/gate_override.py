"""`tandem gate override`: a person's commit past the gate, recorded with who and why."""

from __future__ import annotations

import os
from typing import Annotated

import typer

from tandem.cli.persons import refuse_agents
from tandem.cli.terminal import show_refusal
from tandem.errors import Forbidden, InvalidInput, TandemError
from tandem.hooks import git, override, person

_EPILOG = """[bold]Examples[/bold]

  tandem gate override -m 'the release is burning' -- -m 'Fix the login'

  tandem gate override -m 'the release is burning' -- merge hotfix"""
_COMMANDS = frozenset(
    {"am", "branch", "cherry-pick", "commit", "merge", "pull", "push", "rebase", "reset", "revert", "update-ref"}
)


def register(group: typer.Typer) -> None:
    """Add the command to the group `gate`."""
    settings = {"ignore_unknown_options": True, "allow_interspersed_args": False}
    group.command("override", epilog=_EPILOG, context_settings=settings)(command)


def command(
    arguments: Annotated[
        list[str] | None,
        typer.Argument(metavar="-- [GIT ARGUMENTS]", help="Of git commit; or another command of git with its own."),
    ] = None,
    *,
    reason: Annotated[str, typer.Option("--reason", "-m", metavar="TEXT", help="Why; it is recorded.")],
) -> None:
    """Run git commit past the gate: only a person at a terminal can, who is asked to type the project's name."""
    try:
        status = _run(arguments or [], reason.strip())
    except TandemError as error:
        status = show_refusal(error, as_json=False)
    raise typer.Exit(status)


def _run(arguments: list[str], reason: str) -> int:
    if not reason:
        raise InvalidInput("Say why; it is recorded.", field="reason")
    refuse_agents("An override lets through what nobody approved.")
    if not person.is_at_terminal():
        raise Forbidden("An override needs a person at a terminal, and there is none here.", needed="person")
    named = arguments if arguments and arguments[0] in _COMMANDS else ["commit", *arguments]
    return git.interactively(named, {**os.environ, override.VARIABLE: reason})
