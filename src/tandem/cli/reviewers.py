"""`tandem reviewers …`: the reviewers that pools start, and a pool's supervisor in the foreground."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any

import typer

from tandem.cli import reviewers_logs
from tandem.cli.calls import Patience, call, run
from tandem.cli.completion import complete_project, complete_reviewer
from tandem.cli.exits import Exit
from tandem.cli.generated import add_operation, new_group
from tandem.cli.whereabouts import (
    AgentOption,
    BrokerOption,
    JsonOption,
    KeyOption,
    Place,
    ProjectOption,
    one_of,
)
from tandem.client import TandemClient
from tandem.client.table import OPERATIONS
from tandem.errors import InvalidInput

_HELP = """Reviewers that are started when proposals wait: who runs, what each does and did, and why none is started.

With --broker and no command: run such a pool here, for that broker, until Ctrl-C. The program, its model and all \
limits are those of the table reviewer_pool in your own configuration; 'enabled' need not be set."""
_EPILOG = """[bold]Examples[/bold]

  tandem reviewers list

  tandem reviewers --broker http://127.0.0.1:8321

  tandem reviewers --broker http://127.0.0.1:8321 --project webshop --workspace ~/webshop"""
_KILL_EPILOG = """[bold]Examples[/bold]

  tandem reviewers kill codex-r1

  tandem reviewers kill codex-r1-k3f9q2 --force"""

_NAME = re.compile(r"[a-z]+-r[0-9]+")
"""An id without the letters that tell starts of the pool apart: what people say."""


def register(app: typer.Typer) -> None:
    """Add the groups `reviewers` and `supervisor`."""
    # `--help` says what it does without a command; nothing at all shows the help too.
    group = typer.Typer(invoke_without_command=True, no_args_is_help=True, help=_HELP, epilog=_EPILOG)
    group.callback()(supervise)
    add_operation(group, OPERATIONS["list_reviewers"])
    add_operation(group, OPERATIONS["spawn_reviewer"])
    group.command("kill", epilog=_KILL_EPILOG)(kill)
    add_operation(group, OPERATIONS["pause_reviewers"])
    add_operation(group, OPERATIONS["resume_reviewers"])
    group.command("logs", epilog=reviewers_logs.EPILOG)(reviewers_logs.show_logs)
    add_operation(group, OPERATIONS["get_reviewer_log"])
    app.add_typer(group, name="reviewers")
    app.add_typer(new_group("supervisor", "What programs call that run reviewers themselves."), name="supervisor")


def supervise(
    context: typer.Context,
    *,
    # Not from the environment: to ask a broker is one thing, to run programs for it another.
    broker: Annotated[
        str | None, typer.Option("--broker", metavar="URL", help="Run a pool of reviewers here for this broker.")
    ] = None,
    project: Annotated[
        list[str] | None,
        typer.Option(
            "--project",
            metavar="NAME",
            help="Only for this project; for several, several times. Default: all that are registered.",
            autocompletion=complete_project,
        ),
    ] = None,
    workspace: Annotated[
        Path | None,
        typer.Option(
            "--workspace",
            metavar="DIR",
            help="The one project's folder on this machine; default: where it is registered.",
        ),
    ] = None,
    data_dir: Annotated[
        Path | None,
        typer.Option("--data-dir", metavar="DIR", help="For its own id, logs and scratch; default: the user's own."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print a line of JSON for whatever happens.")] = False,
) -> None:
    """Run a supervisor in the foreground, unless a command is called."""
    given = [name for name in ("broker", "project", "workspace", "data_dir", "as_json") if context.params.get(name)]
    if context.invoked_subcommand is not None:
        if given:
            raise typer.BadParameter(
                f"What goes with {context.invoked_subcommand} stands behind it: "
                f"tandem reviewers {context.invoked_subcommand} --broker URL"
            )
        return
    if broker is None:
        raise typer.BadParameter("Name the broker to run reviewers for.", param_hint="--broker")
    if workspace is not None and len(project or ()) != 1:
        raise typer.BadParameter("It is one project's folder: name that with --project.", param_hint="--workspace")
    # Late: the other commands start no processes.
    from tandem.cli import reviewers_run

    reviewers_run.run_pool(broker, tuple(project or ()), workspace, data_dir, as_json=as_json)


def kill(
    reviewer: Annotated[
        str | None,
        typer.Argument(
            metavar="REVIEWER",
            help="Its id or its name, as list_reviewers shows them.",
            show_default=False,
            autocompletion=complete_reviewer,
        ),
    ] = None,
    *,
    # The operation's own name for it, as the argument's twin.
    reviewer_id: Annotated[
        str | None, typer.Option("--reviewer-id", hidden=True, autocompletion=complete_reviewer)
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="At once; its review goes back into the queue.")] = False,
    broker: BrokerOption = None,
    project: ProjectOption = None,
    idempotency_key: KeyOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a reviewer of the pool: after its current review, or with force at once."""
    whom = one_of(reviewer or None, reviewer_id or None, "--reviewer-id")
    if whom is None:
        raise typer.BadParameter("Missing REVIEWER.", param_hint="--reviewer-id")
    arguments: dict[str, Any] = {"force": force}
    if idempotency_key is not None:
        arguments["idempotency_key"] = idempotency_key
    run(_kill(whom, arguments, Place(broker, project, agent), as_json=as_json), as_json=as_json)


async def _kill(whom: str, arguments: dict[str, Any], place: Place, *, as_json: bool) -> Exit:
    if _NAME.fullmatch(whom):
        async with place.client() as client:
            whom = await _running(client, whom)
    request = {**arguments, "reviewer_id": whom}
    return await call(OPERATIONS["kill_reviewer"], request, place, patience=Patience(), as_json=as_json)


async def _running(client: TandemClient, name: str) -> str:
    """The id of the reviewer that a name stands for; the name itself if none of it runs.

    Raises:
        InvalidInput: Several run.
    """
    found = [
        one.reviewer_id
        for one in (await client.list_reviewers()).reviewers
        if one.name == name and one.ended_at is None
    ]
    if len(found) > 1:
        raise InvalidInput(
            f"{len(found)} reviewers are called {name}. Say which, by its whole id.", field="reviewer_id", allowed=found
        )
    return found[0] if found else name
