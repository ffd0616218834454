"""`tandem init` and `tandem uninit`: a repository and its agents' clients, set up for reviews and back."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from tandem.cli.calls import run
from tandem.cli.exits import Exit
from tandem.cli.init_told import Report, show_diff, show_report
from tandem.cli.persons import confirm, refuse_agents
from tandem.cli.terminal import progress, say
from tandem.client import TandemClient
from tandem.errors import InvalidInput
from tandem.workflow.background import find_broker, reach_broker
from tandem.workflow.clients import NAMES
from tandem.workflow.init import Wish, plan_init, plan_uninit
from tandem.workflow.setting_up import known_project, set_up, take_back

_INIT = """[bold]Examples[/bold]

  tandem init --dry-run

  tandem init --gate

  tandem init --client claude --client codex"""
_UNINIT = """[bold]Examples[/bold]

  tandem uninit --dry-run

  tandem uninit"""

DryRunOption = Annotated[bool, typer.Option("--dry-run", help="Print the exact changes as a diff; change nothing.")]
YesOption = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]
JsonOption = Annotated[bool, typer.Option("--json", help="Print an envelope of JSON.")]
BrokerOption = Annotated[
    str | None,
    typer.Option(
        "--broker", metavar="URL", help="The broker that the agents use; default: the one that runs for this user."
    ),
]


def register(app: typer.Typer) -> None:
    """Add the commands."""
    app.command("init", epilog=_INIT)(init)
    app.command("uninit", epilog=_UNINIT)(uninit)


def init(
    *,
    client: Annotated[
        list[str] | None,
        typer.Option("--client", metavar="NAME", help=f"Set up this one, installed or not: {', '.join(NAMES)}."),
    ] = None,
    gate: Annotated[
        bool, typer.Option("--gate", help="Have git and the agents' hooks refuse what is not approved.")
    ] = False,
    name: Annotated[str | None, typer.Option("--name", help="The project's name; default: the folder's.")] = None,
    dry_run: DryRunOption = False,
    yes: YesOption = False,
    broker: BrokerOption = None,
    as_json: JsonOption = False,
) -> None:
    """Set this repository up: register it, and give the agents' clients Tandem's server, skill and instructions.

    Finds Claude Code, Codex, Gemini CLI, OpenCode and Cursor. Merges into files that are there and leaves the rest of
    them as it is, to the byte. Run it again at any time; 'tandem uninit' takes back exactly what it did.
    """
    wish = Wish(tuple(client or ()), gate, name, broker)
    run(_init(wish, dry_run=dry_run, yes=yes, as_json=as_json), as_json=as_json)


def uninit(*, dry_run: DryRunOption = False, yes: YesOption = False, as_json: JsonOption = False) -> None:
    """Take back what 'tandem init' did: every file as it was, the gate off if it switched it on."""
    run(_uninit(dry_run=dry_run, yes=yes, as_json=as_json), as_json=as_json)


async def _init(wish: Wish, *, dry_run: bool, yes: bool, as_json: bool) -> Exit:
    plan = plan_init(Path.cwd(), Path.home(), os.environ, wish)
    stated = wish.broker or os.environ.get("TANDEM_BROKER") or (plan.before.broker if plan.before else None)
    report = Report("init", plan, dry_run=dry_run)
    if dry_run:
        found = await find_broker(stated)
        if found is not None:
            report.broker = found.url
            async with TandemClient(found.url) as client:
                report.project = await known_project(client.data, plan)
        return show_diff(report, wish.name, as_json=as_json)
    if plan.changes and not yes:
        _ask(report.question())
    async with progress("looking for the broker"):
        reached = await reach_broker(stated)
    async with TandemClient(reached.url) as client, progress("setting up"):
        report.done = await set_up(client.data, plan, wish)
    report.broker, report.started, report.project = reached.url, reached.started, report.done.project
    return show_report(report, as_json=as_json)


async def _uninit(*, dry_run: bool, yes: bool, as_json: bool) -> Exit:
    plan = plan_uninit(Path.cwd())
    report = Report("uninit", plan, dry_run=dry_run)
    report.project = plan.before.project if plan.before else None
    if dry_run:
        return show_diff(report, None, as_json=as_json)
    if plan.before is None and not plan.changes:
        say("Nothing of Tandem's is set up in this working tree.")
        return show_report(report, as_json=as_json)
    if plan.switches_off or (plan.before is not None and plan.before.gate):
        refuse_agents(report.question())
    if not yes:
        _ask(report.question())
    found = await find_broker(os.environ.get("TANDEM_BROKER") or None)
    async with TandemClient(found.url if found else None) as client, progress("taking back"):
        report.done = await take_back(client.data, plan)
    return show_report(report, as_json=as_json)


def _ask(question: str) -> None:
    unasked = InvalidInput(
        "There is no terminal to ask at. Look first with --dry-run, then run it with --yes.", field="yes"
    )
    confirm(f"{question}\nGo on?", unasked=unasked)
