"""`tandem token …`: who is let in to a broker that asks for access tokens."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Annotated

from tandem.bridge.credentials import TOKEN_VARIABLE
from tandem.bridge.session import data_of
from tandem.cli.calls import given, present
from tandem.cli.connection_options import ConnectionOptions, KeyOption, NewOption, find_project
from tandem.cli.declared import Argument, Option, without
from tandem.cli.terminal import Exit, progress, say
from tandem.present.record import record

_BEGINNING = "tdm_"
"""Of every token; the answer to a repeated call has a remark in its place."""


@without("project")
def create(
    name: Annotated[
        str, Argument(metavar="NAME", help="Whose it is: they act under this name. Letters, digits and . _ -")
    ],
    *,
    role: Annotated[
        list[str],
        Option(
            "--role",
            metavar="ROLE",
            help="What it is for: proposer, reviewer, operator, handoff, supervisor, admin or monitor. For several,"
            " several times.",
        ),
    ],
    project: Annotated[
        str | None,
        Option(
            "--project",
            metavar="NAME",
            help="The one project that it is for; default: all.",
            completes="project",
        ),
    ] = None,
    new: NewOption = False,
    days: Annotated[
        float | None, Option("--days", metavar="N", help="Days that it is valid; default: until revoked.")
    ] = None,
    idempotency_key: KeyOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Create an access token. It is printed once, alone on standard output; instructions go to standard error."""
    arguments = given(name=name, roles=role, project=project, days=days, idempotency_key=idempotency_key)
    # Not the project of the folder that we happen to be in: what a token is for, somebody has to say.
    with options.session() as session, progress("token create"):
        if project is not None:
            find_project(session, replace(options, project=project, new=new))
        envelope = session.call("create_token", arguments)
    if options.as_json or not json.loads(envelope)["ok"]:
        return present(envelope, "create_token", as_json=options.as_json)
    made = record(data_of(envelope))
    if not made.token.startswith(_BEGINNING):
        say(
            f"{made.token_id} was made by an earlier try and cannot be seen again. Revoke it, and make another:"
            f" tandem token revoke {made.token_id}"
        )
        return Exit.REFUSED
    sys.stdout.write(f"{made.token}\n")
    until = f"until {made.expires_at}" if made.expires_at else "until it is revoked"
    where = f"the project {made.project}" if made.project else "all projects"
    say(f"For {made.name}, as {', '.join(made.roles)}, in {where}, {until}.")
    say(
        f"It is not shown again. Who uses it sets {TOKEN_VARIABLE} to it, never an argument; agents' clients have it in"
        f" the environment in which they start 'tandem mcp'. Take it back with: tandem token revoke {made.token_id}"
    )
    return Exit.DONE
