"""`tandem token create` and `tandem webhook add|test`: secrets that are printed once, alone on standard output."""

from __future__ import annotations

import json
import sys
from typing import Annotated, Any

from tandem.bridge.credentials import TOKEN_VARIABLE
from tandem.bridge.operations import OPERATIONS
from tandem.bridge.session import data_of
from tandem.cli.calls import call, given, present
from tandem.cli.connection_options import ConnectionOptions, KeyOption, NewOption, find_project
from tandem.cli.declared import Argument, Option, without
from tandem.cli.persons import refuse_agents, sealed
from tandem.cli.terminal import Exit, progress, say
from tandem.present.shape import record
from tandem.webhooks.rules import SECRET_PREFIX, proof_facts

_OF_TOKENS = "tdm_"
"""Of every token; the answer to a repeated call has a remark in its place."""


@without("project")
def create_token(
    name: Annotated[
        str, Argument(metavar="NAME", help="Whose it is: they act under this name. Letters, digits and . _ -")
    ],
    *,
    role: Annotated[
        list[str],
        Option(
            metavar="ROLE",
            help="Its purpose: proposer, reviewer, operator, handoff, supervisor, admin or monitor. For several,"
            " several times.",
        ),
    ],
    project: Annotated[
        str | None, Option(metavar="NAME", help="The one project that it is for; default: all.", completes="project")
    ] = None,
    new: NewOption = False,
    days: Annotated[float | None, Option(metavar="N", help="Days that it is valid; default: until revoked.")] = None,
    idempotency_key: KeyOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Create an access token. It is printed once, alone on standard output; instructions go to standard error."""
    arguments = given(name=name, roles=role, project=project, days=days, idempotency_key=idempotency_key)
    # Not the project of the folder that we happen to be in: what a token is for, somebody has to say.
    lost = (
        "{token_id} was made by an earlier try and cannot be seen again. Revoke it, and make another:"
        " tandem token revoke {token_id}"
    )
    made = _made("create_token", arguments, options.changed(project=project, new=new), "token", _OF_TOKENS, lost)
    if isinstance(made, Exit):
        return made
    until = f"until {made.expires_at}" if made.expires_at else "until it is revoked"
    where = f"the project {made.project}" if made.project else "all projects"
    say(f"For {made.name}, as {', '.join(made.roles)}, in {where}, {until}.")
    say(
        f"It is not shown again. Its user puts it into {TOKEN_VARIABLE}, never into an argument; agents' clients have"
        f" it in the environment in which they start 'tandem mcp'. Revoke it with: tandem token revoke {made.token_id}"
    )
    return Exit.DONE


def _made(
    operation: str, arguments: dict[str, Any], options: ConnectionOptions, secret: str, prefix: str, lost: str
) -> Any:
    """The answer, whose secret is printed; the exit status where all is said already.

    Args:
        operation: The operation.
        arguments: Its arguments.
        options: The broker, and the project that has to be known.
        secret: The answer's field with the secret.
        prefix: How each secret begins.
        lost: What to say, with the answer's fields put in, where an earlier try of the call had the secret.
    """
    with options.session() as session, progress(operation.replace("_", " ")):
        if options.project is not None:
            find_project(session, options)
        envelope = session.call(operation, arguments)
    if options.as_json or not json.loads(envelope)["ok"]:
        return present(envelope, operation, as_json=options.as_json)
    made = record(data_of(envelope))
    if not made[secret].startswith(prefix):
        say(lost.format_map(made))
        return Exit.REFUSED
    sys.stdout.write(f"{made[secret]}\n")
    return made


@without("project")
def add_webhook(
    url: Annotated[str, Argument(metavar="URL", help="https, or http to this machine.")],
    *,
    events: Annotated[
        list[str] | None, Option(metavar="KIND", help="Only kinds that begin so, e.g. review_. For several, repeat it.")
    ] = None,
    project: Annotated[
        str | None, Option(metavar="NAME", help="Only events of this project.", completes="project")
    ] = None,
    new: NewOption = False,
    body: Annotated[str, Option("--format", metavar="FORMAT", help="json, or slack: a line of text.")] = "json",
    allow_private: Annotated[bool, Option(help="Allow addresses of private networks, for http too.")] = False,
    idempotency_key: KeyOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Add a webhook. Its signing secret is printed once, alone on standard output; what to do, on standard error."""
    refuse_agents("A webhook sends what happens here elsewhere.")
    stated = given(url=url, events=events, project=project, format=body, allow_private=allow_private)
    stated |= sealed(options.location(), proof_facts(stated), is_asked=True)
    arguments = given(**stated, idempotency_key=idempotency_key)
    lost = (
        "{webhook_id} was added by an earlier try, and its secret cannot be seen again. Remove it, and add"
        " another: tandem webhook remove {webhook_id}"
    )
    made = _made("add_webhook", arguments, options.changed(project=project, new=new), "secret", SECRET_PREFIX, lost)
    if isinstance(made, Exit):
        return made
    say(
        f"{made.webhook_id} gets all events from now on. This secret signs its messages, in the header"
        " webhook-signature. It is not shown again; the broker keeps it readable in its database."
    )
    say(f"Try it with: tandem webhook test {made.webhook_id}")
    return Exit.DONE


@without("project")
def try_webhook(
    webhook_id: Annotated[str, Argument(metavar="WEBHOOK_ID", help="As 'tandem webhook list' shows it.")],
    *,
    idempotency_key: KeyOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Post a ping to a webhook now, and print what its receiver says."""
    arguments = given(webhook_id=webhook_id, idempotency_key=idempotency_key)
    return call(OPERATIONS["test_webhook"], arguments, options, status=_delivered)


def _delivered(data: dict[str, Any]) -> Exit:
    return Exit.DONE if data["delivered"] else Exit.REFUSED
