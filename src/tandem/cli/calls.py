"""Calling an operation from a command: find the project, send, wait, print, and the exit status."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

import orjson
import typer

from tandem.cli.exits import Exit, of_review
from tandem.cli.render import render
from tandem.cli.terminal import progress, show, show_envelope, show_refusal
from tandem.cli.whereabouts import Place, find_project
from tandem.client import TandemClient
from tandem.client.described import Described
from tandem.client.session import read_envelope
from tandem.client.waits import Condition, has_changed, is_proposers_turn, wait_until
from tandem.errors import TandemError


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a command waits for something to happen.

    Attributes:
        wait: Whether it waits at all.
        timeout_s: Seconds; null for as long as it takes.
    """

    wait: bool = False
    timeout_s: float | None = None


def run(command: Coroutine[Any, Any, Exit], *, as_json: bool = False) -> None:
    """Run a command to its end; a refusal is printed, and the process gets the exit status."""
    try:
        status = asyncio.run(command)
    except TandemError as error:
        status = show_refusal(error, as_json=as_json)
    raise typer.Exit(status)


async def call(
    operation: Described, arguments: dict[str, Any], place: Place, *, patience: Patience, as_json: bool
) -> Exit:
    """Send one operation and print its answer.

    Raises:
        TandemError: The broker refused, or cannot be reached.
    """
    async with place.client() as client:
        given = await _with_project(operation, arguments, client, place)
        async with progress("waiting" if patience.wait else f"{operation.noun} {operation.verb}"):
            envelope = await _send(operation, given, client, patience)
    return present(envelope, operation.answer, as_json=as_json, patience=patience)


def present(envelope: bytes, answer: type[Any], *, as_json: bool, patience: Patience = Patience()) -> Exit:
    """Print an envelope, as it is or for people, and say how the command ends.

    Raises:
        TandemError: It is a refusal, and was not printed.
    """
    if as_json:
        show_envelope(envelope)
    else:
        show(render(read_envelope(envelope, answer)))
    content = orjson.loads(envelope)
    if not content["ok"]:
        return Exit.REFUSED
    return _status(content["data"]) if patience.wait else Exit.DONE


async def _with_project(
    operation: Described, arguments: dict[str, Any], client: TandemClient, place: Place
) -> dict[str, Any]:
    """The arguments with the project they are for; a review that is named knows its own."""
    named = "review_id" in arguments and place.project is None
    if named or "project" not in operation.request.model_fields:
        return arguments
    project = await find_project(client, place)
    return arguments if project is None else {**arguments, "project": project}


async def _send(operation: Described, arguments: dict[str, Any], client: TandemClient, patience: Patience) -> bytes:
    if not patience.wait:
        return await client.call(operation.name, arguments)
    ready, done = _conditions(operation, arguments)
    return await wait_until(
        client.call, operation.name, arguments, ready=ready, done=done, timeout_s=patience.timeout_s
    )


def _conditions(operation: Described, arguments: dict[str, Any]) -> tuple[Condition, Condition]:
    """What ends a wait that began without a cursor at once, and what ends it later."""
    match operation.name:
        case "get_review_status" if arguments.get("wake_on") == "any":
            return _is_over, has_changed
        case "get_review_status":
            return is_proposers_turn, has_changed
        case "list_reviews":
            return _has_reviews, _has_reviews
        case _:
            return _never, has_changed


def _is_over(data: dict[str, Any]) -> bool:
    return data.get("status") == "closed"


def _has_reviews(data: dict[str, Any]) -> bool:
    return bool(data.get("reviews"))


def _never(_data: dict[str, Any]) -> bool:
    return False


def _status(data: dict[str, Any]) -> Exit:
    """The exit status of a wait: whether it saw what it waited for."""
    if "next_action" in data:
        return of_review(data["status"], data["outcome"])
    return Exit.DONE if data.get("reviews") or has_changed(data) else Exit.WAITING
