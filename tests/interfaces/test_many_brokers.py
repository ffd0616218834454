"""Clients that know several brokers on one database: one that dies, or is stopped, takes nothing with it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.client import TandemClient
from tandem.pool.rules import supervisor_id
from tests.broker import fresh_project
from tests.cable import Cable
from tests.commandline import Shell, finish, repository
from tests.interfaces.bridging import bridge, modern
from tests.interfaces.broker_process import WatchedBroker, watched_broker
from tests.postgres import PostgresServer

Pair = tuple[WatchedBroker, WatchedBroker]
ENDS = pytest.mark.parametrize("how", ["killed", "stopped"])
ERAS = pytest.mark.parametrize("era", [{}, modern()], ids=["sessions", "sessionless"])


@pytest.fixture(scope="module")
def started(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    url = postgres_server.create_database()
    folders = [tmp_path_factory.mktemp("node") for _ in range(2)]
    with watched_broker(folders[0], database_url=url) as first, watched_broker(folders[1], database_url=url) as second:
        yield first, second
    postgres_server.drop_database(url)


@pytest.fixture
def brokers(started: Pair) -> Iterator[Pair]:
    """Two that run; the first one runs again after the test."""
    yield started
    if not started[0].is_running:
        started[0].start()


def addresses(brokers: Pair) -> str:
    return ",".join(broker.url for broker in brokers)


def end(broker: WatchedBroker, how: str) -> None:
    """By `kill -9`, or in order as by `tandem down`."""
    if how == "killed":
        broker.kill()
    else:
        broker.stop_in_order()


def approve(broker: WatchedBroker, project: str, review_id: str) -> None:
    which = {"project": project, "review_id": review_id}
    claim = broker.ask("claim_review", reviewer_id="rita", **which)
    broker.ask("submit_verdict", verdict="approved", claim_generation=claim["claim_generation"], **which)


@ERAS
@ENDS
def test_p6_a_bridges_wait_goes_on_at_the_next_broker(
    brokers: Pair, tmp_path: Path, era: dict[str, object], how: str
) -> None:
    first, second = brokers
    project = fresh_project()
    with bridge("--broker", addresses(brokers), "--project", project, folder=tmp_path) as client:

        def arguments(name: str, **given: object) -> dict[str, object]:
            return {"name": name, "arguments": given, **era}

        new = {"intent": "say hello", "agent_type": "test", "description": "hello"}
        made = client.call("tools/call", arguments("create_review", **new))["result"]["structuredContent"]["data"]
        which = {"review_id": made["review_id"]}
        client.send("tools/call", arguments("get_review_status", wait=True, timeout_s=40, wake_on="turn", **which))
        first.await_waiting(1)
        end(first, how)
        second.await_waiting(1)
        approve(second, project, made["review_id"])
        assert client.receive()["result"]["structuredContent"]["data"]["status"] == "approved"
        closed = client.call("tools/call", arguments("close_review", **which))
        assert closed["result"]["structuredContent"]["data"]["outcome"] == "approved"


@ENDS
def test_p6_submit_waits_on_at_the_next_broker(brokers: Pair, tmp_path: Path, how: str) -> None:
    first, second = brokers
    root = repository(tmp_path / fresh_project())
    second.register(root, root.name)
    (root / "a.txt").write_bytes(b"changed\n")
    waiting = Shell(addresses(brokers), root).start("submit", "-m", "m", "--wait", "--json")
    first.await_waiting(1)
    end(first, how)
    second.await_waiting(1)
    (review,) = second.ask("list_reviews", project=root.name)["reviews"]
    approve(second, root.name, review["review_id"])
    assert finish(waiting).status == 0


def test_p4_a_supervisors_start_is_registered_once_though_its_answer_was_lost(brokers: Pair) -> None:
    first, second = brokers
    secret = secrets.token_hex(16)
    start: dict[str, Any] = {
        "secret": secret,
        "incarnation": "1a2b3c",
        "host": "a-host",
        "provider": "codex",
        "projects": [],
    }

    def registered() -> int:
        log = second.ask("get_audit_log", project=None, review_id=f"pool:{supervisor_id(secret)}")["events"]
        return [event["kind"] for event in log].count("pool_registered")

    async def register(cable: Cable) -> Any:
        async with TandemClient(f"http://127.0.0.1:{cable.port},{second.url}") as client:
            cable.pinch("down")
            answer = asyncio.create_task(client.data("supervisor_register", start))
            while not await asyncio.to_thread(registered):
                pass
            # Longer than a client goes on asking brokers of which none has answered.
            await asyncio.sleep(1)
            cable.unplug()
            return await answer

    with Cable(first.port) as cable:
        assert asyncio.run(register(cable))["incarnation"] == start["incarnation"]
    assert registered() == 1
