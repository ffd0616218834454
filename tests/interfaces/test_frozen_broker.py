"""A broker that stands still under calls that are under way, and one that only takes its time."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tandem.bridge.location import BrokerLocation
from tandem.bridge.session import Session, Unreachable, data_of
from tests.forked import start_tandem
from tests.interfaces.bridging import BridgeProcess, bridge, modern
from tests.interfaces.broker_process import WatchedBroker, watched_broker

LIMIT_SECONDS = 15.0
WAIT_SECONDS = 7.0
"""A broker that has been quiet for 5 s is asked whether it is well."""

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="platform: no SIGSTOP")


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WatchedBroker]:
    with watched_broker(tmp_path) as running:
        yield running


@contextmanager
def own_bridge(broker: WatchedBroker, folder: Path, *options: str) -> Generator[BridgeProcess]:
    """A bridge that has found the broker by its data folder, unless options name it, and made a call."""
    with bridge("--project", "label", *options, folder=folder, TANDEM_DATA_DIR=str(broker.data_dir)) as client:
        assert client.tool("list_reviews")["ok"]
        yield client


@contextmanager
def frozen(broker: WatchedBroker) -> Generator[float]:
    broker.signal(signal.SIGSTOP)
    try:
        yield time.monotonic()
    finally:
        broker.signal(signal.SIGCONT)


def own(broker: WatchedBroker) -> BrokerLocation:
    """Where it is, for somebody who found it by its data folder."""
    return BrokerLocation(broker.url, "test", str(broker.data_dir), is_own=True)


def begin(client: BridgeProcess, name: str, era: dict[str, Any] | None = None, **arguments: Any) -> None:
    client.send("tools/call", {"name": name, "arguments": arguments, **(era or {})})


def envelope(client: BridgeProcess) -> dict[str, Any]:
    return client.receive()["result"]["structuredContent"]


def test_p12_p4_calls_and_waits_under_a_broker_that_freezes_are_answered_soon_and_name_it(
    broker: WatchedBroker, tmp_path: Path
) -> None:
    proposal: dict[str, Any] = {"intent": "say hello", "agent_type": "test", "description": "hello"}
    review = broker.ask("create_review", **proposal)["review_id"]
    environment = {**os.environ, "TANDEM_DATA_DIR": str(broker.data_dir)}
    pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
    words = ["review", "status", review, "--wait"]
    with (
        own_bridge(broker, tmp_path, "--broker", broker.url) as reads,
        own_bridge(broker, tmp_path) as writes,
        start_tandem(words, tmp_path, environment, **pipes) as command,
        Session(own(broker), "label") as session,
        ThreadPoolExecutor(1) as pool,
    ):
        session.call("list_reviews", {})
        broker.await_waiting(1)
        with frozen(broker) as began:
            begin(reads, "get_review_status", review_id=review)
            begin(writes, "create_review", **proposal)
            writing = pool.submit(session.call, "create_review", {**proposal, "intent": "say it here"})
            told = [envelope(reads)["error"], envelope(writes)["error"]]
            assert time.monotonic() - began < LIMIT_SECONDS
            _, said = command.communicate(timeout=LIMIT_SECONDS)
            with pytest.raises(Unreachable, match="Whether create_review had its effect is unknown"):
                writing.result(LIMIT_SECONDS)
            assert time.monotonic() - began < 2 * LIMIT_SECONDS
        for message in (told[0]["message"], told[1]["message"], said.decode()):
            assert f"does not answer (it hangs). End it: kill -9 {broker.pid}" in message
        assert [error["code"] for error in told] == ["UNAVAILABLE"] * 2
        assert "outcome" not in told[0]["details"]
        # It happens when the broker goes on; with the key that is told, once.
        assert (told[1]["details"]["outcome"], told[1]["retryable"]) == ("unknown", False)
        key = told[1]["message"].partition("repeat it with idempotency_key '")[2].partition("'")[0]
        again = writes.tool("create_review", **proposal, idempotency_key=key)
        assert again["ok"], again
        found = writes.tool("list_reviews")["data"]["reviews"]
        assert [one["intent"] for one in found].count(proposal["intent"]) == 2


def test_p12_a_broker_that_is_busy_for_a_while_is_waited_for(broker: WatchedBroker, tmp_path: Path) -> None:
    with own_bridge(broker, tmp_path) as client, frozen(broker):
        # It is asked after 5 s of quiet, and that first question may take 3.5 s.
        threading.Timer(9.0, broker.signal, (signal.SIGCONT,)).start()
        assert client.tool("list_reviews")["ok"]


def test_p6_a_long_wait_over_a_healthy_broker_lasts_as_long_as_asked(broker: WatchedBroker, tmp_path: Path) -> None:
    review = broker.ask("create_review", intent="i", agent_type="test", description="hello")["review_id"]
    asked: dict[str, Any] = {"review_id": review, "wait": True, "timeout_s": WAIT_SECONDS}
    with (
        own_bridge(broker, tmp_path) as streamed,
        own_bridge(broker, tmp_path) as plain,
        Session(own(broker), "label") as session,
    ):
        began = time.monotonic()
        begin(streamed, "get_review_status", **asked)
        begin(plain, "get_review_status", modern(), **asked)
        answers = [
            data_of(session.call("get_review_status", asked)),
            *(envelope(one)["data"] for one in (streamed, plain)),
        ]
        assert time.monotonic() - began >= WAIT_SECONDS - 1
    assert [one["changed"] for one in answers] == [False] * 3
