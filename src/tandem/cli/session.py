"""`tandem session …`: a role's session, opened with its key."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from tandem.bridge.keys import ROLE_VARIABLE, stated_role
from tandem.cli.calls import Patience, call, run
from tandem.cli.completion import complete_role
from tandem.cli.cycle_record import WorkflowOption
from tandem.cli.exits import Exit
from tandem.cli.generated import add_operation
from tandem.cli.key_sources import session_key
from tandem.cli.whereabouts import (
    AgentOption,
    BrokerOption,
    JsonOption,
    KeyOption,
    Place,
    ProjectOption,
    one_of,
)
from tandem.client.table import OPERATIONS

_EPILOG = """[bold]Examples[/bold]

  tandem session open gemini

  tandem session open gemini --psk-file ~/.config/tandem/keys/gemini.psk --json"""


def register(app: typer.Typer) -> None:
    """Add the group `session`."""
    group = typer.Typer(help="Sessions of roles, opened with their keys.", no_args_is_help=True)
    group.command("open", epilog=_EPILOG)(open_session)
    add_operation(group, OPERATIONS["session_close"])
    app.add_typer(group, name="session")


def open_session(  # noqa: PLR0913 - an option each
    role: Annotated[
        str | None,
        typer.Argument(
            metavar="ROLE",
            help=f"Your role in the workflow; default: {ROLE_VARIABLE}.",
            show_default=False,
            autocompletion=complete_role,
        ),
    ] = None,
    *,
    # The operation's own name for it, as the argument's twin.
    role_option: Annotated[str | None, typer.Option("--role", hidden=True, autocompletion=complete_role)] = None,
    psk: Annotated[str | None, typer.Option("--psk", hidden=True)] = None,
    psk_file: Annotated[
        str | None,
        typer.Option(
            "--psk-file",
            metavar="FILE",
            help="Its first line is the role's key; - for standard input. Default: TANDEM_PSK, else the file that "
            "TANDEM_PSK_FILE names, else you are asked for it.",
        ),
    ] = None,
    workflow: WorkflowOption = None,
    broker: BrokerOption = None,
    project: ProjectOption = None,
    idempotency_key: KeyOption = None,
    agent: AgentOption = None,
    as_json: JsonOption = False,
) -> None:
    """Open a session as a role of a workflow; its token goes with lock, hand-off, completion and archive."""
    whose = one_of(role or None, role_option or None, "--role") or stated_role()
    if whose is None:
        raise typer.BadParameter("Missing ROLE.", param_hint="--role")
    stated = {"role": whose, "workflow": workflow, "idempotency_key": idempotency_key}
    arguments = {name: value for name, value in stated.items() if value is not None}
    run(_open(arguments, psk, psk_file, Place(broker, project, agent), as_json=as_json), as_json=as_json)


async def _open(
    arguments: dict[str, Any], psk: str | None, psk_file: str | None, place: Place, *, as_json: bool
) -> Exit:
    request = {**arguments, "psk": session_key(arguments["role"], psk, psk_file)}
    return await call(OPERATIONS["session_open"], request, place, patience=Patience(), as_json=as_json)
