"""P4 and P5 where the machine's clock is set, or differs from node to node: durations do not change.

The brokers run in the test's own process, whose clock the test sets.
"""

from __future__ import annotations

import time
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from tandem.app import Broker
from tandem.settings.config import Settings
from tests.acceptance.reviewing import PROPOSAL, REVIEWER

pytestmark = pytest.mark.anyio
HOUR = 3600.0
LEASE = 1200
ONCE = {**PROPOSAL, "project": "alpha", "description": "Once.", "idempotency_key": "key-1"}


class MachineClock:
    """What every process of the machine is told the time to be."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.ahead_seconds = 0.0
        really = time.time_ns
        monkeypatch.setattr(time, "time_ns", lambda: really() + round(self.ahead_seconds * 1e9))


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> MachineClock:
    return MachineClock(monkeypatch)


class Node:
    """A broker that runs, over its ASGI application."""

    def __init__(self, client: httpx.AsyncClient) -> None:
        self._client = client

    async def do(self, operation: str, **arguments: Any) -> Any:
        envelope = (await self._client.post(f"/api/v1/{operation}", json=arguments)).json()
        assert envelope["ok"], envelope
        return envelope["data"]

    async def claimed(self) -> dict[str, Any]:
        """A review that a reviewer holds; the claim."""
        review = await self.do("create_review", **PROPOSAL, project="alpha", description="It.")
        return await self.do("claim_review", review_id=review["review_id"], reviewer_id=REVIEWER)

    async def until(self, kind: str, number: int) -> None:
        """Return once there are so many events of a kind; each look gives the chores something to do."""
        while len((await self.do("get_audit_log", kind=kind))["events"]) < number:
            await self.do("create_review", **PROPOSAL, project="beta", description="More.")


@asynccontextmanager
async def node(folder: Path, settings: dict[str, Any]) -> AsyncGenerator[Node]:
    given = Settings(
        data_dir=folder,
        claim_timeout_seconds=LEASE,
        sweep_interval_seconds=0.05,
        checkpoint_interval_seconds=0.05,
        **settings,
    )
    broker = Broker(given)
    transport = httpx.ASGITransport(app=broker.application)
    async with broker.running(), httpx.AsyncClient(transport=transport, base_url="http://127.0.0.1") as client:
        yield Node(client)


def seconds_left(claim: dict[str, Any]) -> float:
    """How long a lease goes on by the machine's own clock, which the test does not set."""
    return (datetime.fromisoformat(claim["lease_expires_at"]) - datetime.now(UTC)).total_seconds()


async def test_p4_a_clock_that_jumps_ahead_forgets_no_key(
    tmp_path: Path, machine: MachineClock, database_settings: dict[str, Any]
):
    async with node(tmp_path, database_settings) as broker:
        first = await broker.do("create_review", **ONCE)
        machine.ahead_seconds = 48 * HOUR
        # Keys are looked through after each.
        await broker.until("checkpoint", 3)
        assert await broker.do("create_review", **ONCE) == first
    machine.ahead_seconds = 96 * HOUR
    async with node(tmp_path, database_settings) as broker:
        await broker.until("checkpoint", 6)
        assert await broker.do("create_review", **ONCE) == first


async def test_p5_a_lease_lasts_as_long_as_it_says_though_the_clock_jumps(
    tmp_path: Path, machine: MachineClock, database_settings: dict[str, Any]
):
    async with node(tmp_path, database_settings) as broker:
        held = await broker.claimed()
        machine.ahead_seconds = HOUR
        assert seconds_left(await broker.claimed()) < LEASE + 60
        await broker.until("checkpoint", 3)
        # It has not run out, as by that clock it had.
        assert (await broker.do("get_review_status", review_id=held["review_id"]))["reviewer_id"] == REVIEWER


async def test_p5_a_lease_of_a_clock_that_was_ahead_is_cut_when_the_clock_is_right(
    tmp_path: Path, machine: MachineClock
):
    machine.ahead_seconds = HOUR
    async with node(tmp_path, {}) as broker:
        held = await broker.claimed()
        assert seconds_left(held) > HOUR
    machine.ahead_seconds = 0
    async with node(tmp_path, {}) as broker:
        now = await broker.do("get_review_status", review_id=held["review_id"])
        assert now["reviewer_id"] == REVIEWER
        assert 0 < seconds_left(now) < LEASE + 120
        renewed = await broker.do("renew_claim", review_id=held["review_id"], claim_generation=held["claim_generation"])
        assert seconds_left(renewed) < LEASE + 60


async def test_p5_a_node_whose_clock_is_ahead_takes_no_live_claim_away(
    tmp_path: Path, machine: MachineClock, postgres_url: str
):
    shared = {"database_url": postgres_url, "secret_key_file": tmp_path / "secret.key"}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
    async with node(tmp_path / "one", shared) as one:
        held = await one.claimed()
        machine.ahead_seconds = HOUR
        async with node(tmp_path / "two", shared) as two:
            await two.until("checkpoint", 3)
            assert (await two.do("get_review_status", review_id=held["review_id"]))["reviewer_id"] == REVIEWER
            assert seconds_left(await two.claimed()) < LEASE + 60
