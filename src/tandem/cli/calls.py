"""Calling an operation from a command: find the project, send, wait, print, and the exit status."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import orjson

from tandem.cli import persons
from tandem.cli.connection_options import ConnectionOptions, find_project
from tandem.cli.exits import Exit
from tandem.cli.terminal import progress, show, show_envelope
from tandem.cli.wait_conditions import WaitCondition, wait_condition
from tandem.client import TandemClient
from tandem.client.described import Described
from tandem.client.session import read_envelope
from tandem.client.waits import wait_until

_KNOW_THEIR_PROJECT = frozenset({"review_id", "cycle_id", "session_token", "token_id"})


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a command waits for something to happen.

    Attributes:
        wait: Whether it waits at all.
        timeout_s: Seconds; null for as long as it takes.
    """

    wait: bool = False
    timeout_s: float | None = None


async def call(
    operation: Described,
    arguments: dict[str, Any],
    options: ConnectionOptions,
    *,
    patience: Patience | None = None,
    as_json: bool,
) -> Exit:
    """Send one operation and print its answer.

    Raises:
        TandemError: The broker refused, or cannot be reached.
    """
    patience = patience or Patience()
    wait = wait_condition(operation.name, arguments) if patience.wait else None
    async with options.client() as client:
        given = await with_project(operation, arguments, client, options)
        if operation.name == "create_review":
            given = persons.marked(given)
        elif operation.name in persons.REVIEWING:
            await persons.refuse(client, given.get("review_id"))
        async with progress("waiting" if wait else f"{operation.noun} {operation.verb}"):
            envelope = await _send(operation, given, client, wait, patience.timeout_s)
        if operation.name == "claim_review" and "review_id" not in given:
            await persons.give_back(client, envelope)
    # What is printed as it came needs no type.
    answer = object if as_json else operation.answer
    return present(envelope, answer, as_json=as_json, status=wait.status if wait else None)


def present(
    envelope: bytes, answer: type[Any], *, as_json: bool, status: Callable[[dict[str, Any]], Exit] | None = None
) -> Exit:
    """Print an envelope, as it is or for people, and say how the command ends.

    Args:
        envelope: What the broker answered.
        answer: The type of its data; for JSON any.
        as_json: Whether to print it as it is.
        status: The exit status for its data; by default the command is done.

    Raises:
        TandemError: It is a refusal, and was not printed.
    """
    if as_json:
        show_envelope(envelope)
    else:
        # The renderings know the types of all answers, which a program that reads JSON need not wait for.
        from tandem.cli.render import render

        show(render(read_envelope(envelope, answer)))
    content = orjson.loads(envelope)
    if not content["ok"]:
        return Exit.REFUSED
    return status(content["data"]) if status else Exit.DONE


async def with_project(
    operation: Described, arguments: dict[str, Any], client: TandemClient, options: ConnectionOptions
) -> dict[str, Any]:
    """The arguments with the project they are for; a review, cycle or session that is named knows its own."""
    named = options.project is None and not _KNOW_THEIR_PROJECT.isdisjoint(arguments)
    if named or "project" not in operation.request.model_fields:
        return arguments
    project = await find_project(client, options)
    return arguments if project is None else {**arguments, "project": project}


async def _send(
    operation: Described,
    arguments: dict[str, Any],
    client: TandemClient,
    wait: WaitCondition | None,
    timeout_s: float | None,
) -> bytes:
    if wait is None:
        return await client.call(operation.name, arguments)
    return await wait_until(
        client.call, operation.name, arguments, ready=wait.ready, done=wait.done, timeout_s=timeout_s
    )
