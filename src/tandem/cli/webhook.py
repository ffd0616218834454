"""`tandem webhook …`: who else is told of events."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from typing import Annotated

from tandem.bridge.location import locate
from tandem.bridge.session import data_of
from tandem.cli.calls import given, present
from tandem.cli.connection_options import ConnectionOptions, KeyOption, NewOption, find_project
from tandem.cli.declared import Argument, Option, without
from tandem.cli.persons import refuse_agents
from tandem.cli.terminal import Exit, progress, say
from tandem.present.record import record
from tandem.rulings import proof
from tandem.webhooks.contract import AddWebhook
from tandem.webhooks.rules import SECRET_PREFIX, proof_facts


@without("project")
def add_webhook(
    url: Annotated[str, Argument(metavar="URL", help="https, or http to this machine.")],
    *,
    events: Annotated[
        list[str] | None,
        Option("--events", metavar="KIND", help="Only kinds that begin so, e.g. review_. For several, repeat it."),
    ] = None,
    project: Annotated[
        str | None,
        Option("--project", metavar="NAME", help="Only events of this project.", completes="project"),
    ] = None,
    new: NewOption = False,
    body: Annotated[str, Option("--format", metavar="FORMAT", help="json, or slack: a line of text.")] = "json",
    allow_private: Annotated[
        bool, Option("--allow-private", help="Allow addresses of private networks, for http too.")
    ] = False,
    idempotency_key: KeyOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Add a webhook. Its signing secret is printed once, alone on standard output; what to do, on standard error."""
    refuse_agents("A webhook sends what happens here elsewhere.")
    stated = given(url=url, events=events, project=project, format=body, allow_private=allow_private)
    facts = proof_facts({name: stated.get(name, one.get_default()) for name, one in AddWebhook.model_fields.items()})
    location = locate(options.broker, ".", options.data_dir)
    stated["proof"] = proof.prove(proof.keys(location.data_dir), facts) or None
    with options.session(location) as session, progress("webhook add"):
        if project is not None:
            find_project(session, replace(options, project=project, new=new))
        envelope = session.call("add_webhook", given(**stated, idempotency_key=idempotency_key))
    if options.as_json or not json.loads(envelope)["ok"]:
        return present(envelope, "add_webhook", as_json=options.as_json)
    made = record(data_of(envelope))
    if not made.secret.startswith(SECRET_PREFIX):
        say(
            f"{made.webhook_id} was added by an earlier try, and its secret cannot be seen again. Remove it, and add"
            f" another: tandem webhook remove {made.webhook_id}"
        )
        return Exit.REFUSED
    sys.stdout.write(f"{made.secret}\n")
    say(
        f"{made.webhook_id} gets what happens from now on. This secret signs its messages, in the header"
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
    with options.session() as session, progress("webhook test"):
        envelope = session.call("test_webhook", arguments)
    return present(
        envelope,
        "test_webhook",
        as_json=options.as_json,
        status=lambda data: Exit.DONE if data["delivered"] else Exit.REFUSED,
    )
