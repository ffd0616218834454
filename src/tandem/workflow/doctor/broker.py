"""The broker: whether it answers, which one it is, and how its reviewers do."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Mapping
from contextlib import closing
from importlib.metadata import version
from typing import Any

import orjson

from tandem import platforms
from tandem.bridge.broker import find_data_dir
from tandem.bridge.http import Client, HttpFailure, Target
from tandem.bridge.messages import as_object
from tandem.client import TandemClient
from tandem.config import load_settings
from tandem.errors import Forbidden, TandemError, Unauthenticated
from tandem.workflow.background import find_broker, reach_broker
from tandem.workflow.doctor.finding import Circumstances, Finding, note, ok, problem, skipped
from tandem.workflow.gate_switch import Call

_SECONDS = 5.0
_START = "tandem up --background"
_RESTART = "tandem down, then tandem up --background"


async def check_broker(here: Circumstances) -> list[Finding]:
    """Whether it answers, with the version of this program, and can use its database."""
    stated = here.broker or (here.gate.broker if here.gate else None)
    reached = await find_broker(stated)
    if reached is None:
        return [await _silence(stated)]
    here.url, here.call = reached.url, _caller(reached.url)
    facts = await asyncio.to_thread(_health, reached.url)
    here.facts = facts
    phase = facts.get("phase")
    if phase != "ready":
        return [
            problem(
                "broker", f"The broker at {reached.url} is {phase or 'not ready'}.", "wait a moment; else tandem logs"
            )
        ]
    found = [ok("broker", f"The broker answers at {reached.url} (process {facts.get('pid')}).")]
    ours = version("tandem-broker")
    if facts.get("version") != ours:
        found.append(
            problem("version", f"The broker is version {facts.get('version')}, this program is {ours}.", _RESTART)
        )
    return [*found, await _database(here)]


async def _silence(stated: str | None) -> Finding:
    """Why nothing answers."""
    if stated is not None:
        return problem("broker", f"No broker answers at {stated}.", "start it there, or name another with --broker")

    async def start() -> None:
        await reach_broker(None)

    folder = find_data_dir(platforms)
    port = load_settings().settings.port
    if port and await asyncio.to_thread(_is_taken, port):
        taken = f"No broker runs on {folder}, and somebody else has its port {port}."
        return problem("broker", taken, "tandem up --background --port 0, or end what listens there")
    return problem("broker", f"No broker runs on {folder}.", _START, start)


async def _database(here: Circumstances) -> Finding:
    """A read of the database, through the broker."""
    if here.call is None:
        return skipped("database", "The broker does not answer.")
    try:
        await here.call("get_review_stats", {})
    except (Unauthenticated, Forbidden):
        return skipped("database", "The broker does not let this access token look.")
    except TandemError as error:
        return problem("database", f"The broker cannot read its database: {error.message}", "tandem logs")
    return ok("database", "The broker reads its database. Its proof: tandem audit verify")


async def check_reviewers(here: Circumstances) -> list[Finding]:
    """Whether whoever puts something up will find a reviewer."""
    if here.call is None:
        return [skipped("reviewers", "The broker does not answer.")]
    if here.facts.get("reviewer_pool", "off") == "off":
        return [
            note(
                "reviewers", "There is no reviewer pool: a person, or an agent that was started for it, has to review."
            )
        ]
    try:
        pools = (await here.call("list_reviewers", {})).get("pools", [])
    except (Unauthenticated, Forbidden):
        return [skipped("reviewers", "The broker does not let this access token look.")]
    except TandemError as error:
        return [problem("reviewers", f"The pool cannot be asked: {error.message}", "tandem reviewers list")]
    stopped = [_stopped(pool) for pool in pools if pool.get("state") not in ("running", "ended")]
    return stopped or [ok("reviewers", f"Reviewers come by themselves: {here.facts['reviewer_pool']}.")]


def _stopped(pool: Mapping[str, Any]) -> Finding:
    why = pool.get("paused") or pool.get("last_failure") or pool.get("reason") or ""
    said = f"The pool {pool.get('supervisor_id', '')} is {pool.get('state')}{f': {why}' if why else ''}."
    return problem("reviewers", said, "tandem reviewers list; then tandem reviewers resume")


def _caller(url: str) -> Call:
    async def call(operation: str, arguments: Mapping[str, Any]) -> Any:
        async with TandemClient(url, agent="doctor") as client:
            return await client.data(operation, arguments)

    return call


def _health(url: str) -> dict[str, Any]:
    """What `/healthz` says; empty if it says nothing that can be read."""
    try:
        with closing(Client(Target(url), silence_seconds=_SECONDS)) as client:
            answer = as_object(orjson.loads(client.request("GET", "/healthz", b"", {}).read()))
    except (HttpFailure, ValueError):
        return {}
    return as_object(answer.get("data")) or as_object(as_object(answer.get("error")).get("details"))


def _is_taken(port: int) -> bool:
    """Whether somebody listens at a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), _SECONDS).close()
    except OSError:
        return False
    return True
