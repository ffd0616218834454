"""What Prometheus is told, as its own parsers read it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator
from typing import Any, cast

import httpx
import pytest
from prometheus_client import Metric, parser
from prometheus_client.openmetrics import parser as openmetrics

from tests.acceptance.accessing import Bearer
from tests.acceptance.reviewing import Desk
from tests.acceptance.waiting import Waiter, until_waiting
from tests.broker import BrokerProcess, fresh_project

pytest_plugins = ["tests.acceptance.accessing_brokers"]

TEXT = "text/plain;version=0.0.4"
OPENMETRICS = "application/openmetrics-text;version=1.0.0"


@pytest.fixture
def desk(quiet: BrokerProcess) -> Iterator[Desk]:
    with Desk(quiet.url, fresh_project()) as opened:
        yield opened


def scraped(broker: BrokerProcess, accept: str = TEXT) -> dict[tuple[str, ...], float]:
    """Each sample by its name and the values of its labels, those in the order of their names."""
    response = httpx.get(f"{broker.url}/metrics", headers={"accept": accept})
    assert response.status_code == 200, response.text
    assert response.headers["content-type"].startswith(accept.partition(";")[0])
    # The parsers are not typed throughout.
    parse = cast("Any", openmetrics if accept == OPENMETRICS else parser)
    families: Iterable[Metric] = parse.text_string_to_metric_families(response.text)
    return {
        (sample.name, *(value for _, value in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


def moved(before: dict[tuple[str, ...], float], after: dict[tuple[str, ...], float], *sample: str) -> float:
    return after.get(sample, 0) - before.get(sample, 0)


def test_calls_are_counted_by_operation_and_outcome(quiet: BrokerProcess, desk: Desk):
    before = scraped(quiet)
    review = desk.put_up_claimed()
    desk.refused("ALREADY_CLAIMED", "claim_review", review_id=review, reviewer_id="rev-2")
    after = scraped(quiet)
    assert moved(before, after, "tandem_calls_total", "OK", "create_review") == 1
    assert moved(before, after, "tandem_calls_total", "OK", "claim_review") == 1
    assert moved(before, after, "tandem_calls_total", "ALREADY_CLAIMED", "claim_review") == 1
    assert moved(before, after, "tandem_call_seconds_count", "claim_review") == 2
    assert moved(before, after, "tandem_call_seconds_bucket", "+Inf", "claim_review") == 2
    assert moved(before, after, "tandem_call_seconds_sum", "claim_review") > 0
    assert after["tandem_calls_running",] == 0


def test_what_is_stored_is_counted(quiet: BrokerProcess, desk: Desk):
    before = scraped(quiet)
    first, _ = desk.put_up(), desk.put_up()
    desk.claim(first)
    after = scraped(quiet)
    assert moved(before, after, "tandem_reviews", "pending") == 1
    assert moved(before, after, "tandem_reviews", "claimed") == 1
    # Chores write, too.
    assert moved(before, after, "tandem_events_total") >= 3
    assert moved(before, after, "tandem_store_units_total", "committed") >= 3
    assert after["tandem_oldest_pending_seconds",] > 0
    assert after["tandem_database_up",] == 1
    assert after["tandem_reviews_attention",] == 0


@pytest.mark.anyio
async def test_a_wait_is_parked_and_no_slow_call(quiet: BrokerProcess, desk: Desk):
    review = desk.put_up()
    cursor = desk.status(review)["cursor"]
    before = scraped(quiet)
    asked = {"review_id": review, "cursor": cursor, "wait": True, "timeout_s": 60}
    async with Waiter(quiet, "get_review_status", **asked) as waiter:
        await until_waiting(quiet, 1)
        waiting = await asyncio.to_thread(scraped, quiet)
        assert waiting["tandem_waits_parked",] == 1
        assert waiting["tandem_calls_running",] == 1
        assert waiting["tandem_connections", "served"] >= 2
        await asyncio.to_thread(desk.approve, review)
        await waiter.answer()
    after = scraped(quiet)
    assert moved(before, after, "tandem_calls_total", "OK", "get_review_status") == 1
    assert moved(before, after, "tandem_call_seconds_count", "get_review_status") == 0
    assert after["tandem_waits_parked",] == 0


def test_no_label_is_a_clients_own_word(quiet: BrokerProcess, desk: Desk):
    params = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "made_up", "arguments": {}}}'
    headers = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}
    refused = httpx.post(f"{quiet.url}/mcp", content=params, headers=headers).text
    assert "made_up" in refused
    desk.put_up()
    told = scraped(quiet)
    assert not any("made_up" in part or desk.project in part for sample in told for part in sample)


def test_openmetrics_is_spoken_where_it_is_accepted(quiet: BrokerProcess):
    assert scraped(quiet, OPENMETRICS)["tandem_database_up",] == 1


def test_the_host_is_checked_as_everywhere(quiet: BrokerProcess):
    response = httpx.get(f"{quiet.url}/metrics", headers={"host": "evil.example.com"})
    assert (response.status_code, response.json()["error"]["code"]) == (403, "FORBIDDEN")


def test_metrics_take_a_token_that_is_for_nothing_else(owner: Bearer, guarded: BrokerProcess):
    def status(token: str | None) -> int:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        return httpx.get(f"{guarded.url}/metrics", headers=headers).status_code

    assert status(None) == 401
    with owner.give("prometheus", "monitor") as prometheus, owner.give("alice", "operator", "admin") as alice:
        assert status(prometheus.token) == status(owner.token) == 200
        assert status(alice.token) == 403
    owner.refused("INVALID_INPUT", "create_token", name="prometheus", roles=["monitor"], project=owner.project)
