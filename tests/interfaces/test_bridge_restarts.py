"""The bridge in front of the real broker that is killed, restarted, stopped, or not there at all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from tandem.core import platforms
from tests.forked import run_tandem
from tests.interfaces.bridging import BridgeProcess, bridge, modern
from tests.interfaces.broker_process import WatchedBroker, watched_broker

ERAS = pytest.mark.parametrize("era", [{}, modern()], ids=["sessions", "sessionless"])


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WatchedBroker]:
    with watched_broker(tmp_path) as running:
        yield running


@pytest.fixture
def client(broker: WatchedBroker, tmp_path: Path) -> Iterator[BridgeProcess]:
    with bridge("--broker", broker.url, "--project", "label", folder=tmp_path) as process:
        yield process


def tool(client: BridgeProcess, era: dict[str, Any], name: str, **arguments: Any) -> dict[str, Any]:
    answer = client.call("tools/call", {"name": name, "arguments": arguments, **era})
    envelope = answer["result"]["structuredContent"]
    assert envelope["ok"] is True, envelope
    return envelope["data"]


def begin(client: BridgeProcess, era: dict[str, Any], name: str, **arguments: Any) -> Any:
    return client.send("tools/call", {"name": name, "arguments": arguments, **era})


def received(client: BridgeProcess) -> dict[str, Any]:
    envelope = client.receive()["result"]["structuredContent"]
    assert envelope["ok"] is True, envelope
    return envelope["data"]


def propose(client: BridgeProcess, era: dict[str, Any]) -> str:
    review = tool(client, era, "create_review", intent="say hello", agent_type="test", description="hello")
    return review["review_id"]


@ERAS
def test_calls_and_waits_outlive_a_broker_that_is_killed_away_or_restarted_and_miss_nothing(
    broker: WatchedBroker, client: BridgeProcess, era: dict[str, Any]
) -> None:
    review_id = propose(client, era)
    broker.kill()
    broker.start()
    cursor = tool(client, era, "get_review_status", review_id=review_id)["cursor"]
    broker.kill()
    begin(client, era, "get_review_status", review_id=review_id)
    broker.start()
    assert (received(client)["status"], client.has_nothing_more()) == ("pending", True)
    waits: dict[str, Any] = {"review_id": review_id, "wait": True, "wake_on": "any", "timeout_s": 45}
    begin(client, era, "get_review_status", cursor=cursor, **waits)
    broker.await_waiting(1)
    broker.kill()
    broker.start()
    # Before the bridge has come back: the event is in the log, and wakes no waiter.
    claimed = broker.ask("claim_review", review_id=review_id, reviewer_id="someone")
    status = received(client)
    assert (status["changed"], status["status"]) == (True, "claimed")
    begin(client, era, "get_review_status", **waits)
    broker.await_waiting(1)
    assert broker.stop_in_order() == 0
    broker.start()
    broker.await_waiting(1)
    broker.ask("release_claim", review_id=review_id, claim_generation=claimed["claim_generation"])
    assert received(client)["status"] == "pending"


def test_a_wait_over_a_restart_ends_when_the_time_is_up_that_was_asked_for(
    broker: WatchedBroker, client: BridgeProcess
) -> None:
    review_id = propose(client, {})
    begun = time.monotonic()
    begin(client, {}, "get_review_status", review_id=review_id, wait=True, timeout_s=2)
    broker.await_waiting(1)
    broker.kill()
    broker.start()
    status = received(client)
    assert status["changed"] is False
    # test_bridge_repetition.py shows that the repeated call asks only for the rest of the time.
    assert time.monotonic() - begun >= 2


def test_a_cancelled_wait_and_those_of_a_client_that_ends_are_over_in_the_broker_too(
    broker: WatchedBroker, client: BridgeProcess
) -> None:
    review_id = propose(client, {})
    waiting = begin(client, {}, "get_review_status", review_id=review_id, wait=True, timeout_s=45)
    broker.await_waiting(1)
    client.notify("notifications/cancelled", {"requestId": waiting})
    broker.await_waiting(0)
    assert client.has_nothing_more()
    begin(client, {}, "get_review_status", review_id=review_id, wait=True, timeout_s=45)
    broker.await_waiting(1)
    assert client.end() == (0, "")
    broker.await_waiting(0)


@pytest.fixture
def home(tmp_path: Path) -> Iterator[dict[str, str]]:
    """A user whose broker is not running; it is stopped again in the end."""
    settings = {
        "TANDEM_DATA_DIR": str(tmp_path / "data"),
        "TANDEM_CONFIG_DIR": str(tmp_path / "config"),
        "TANDEM_PORT": "0",
    }
    yield settings
    down = ["down", "--data-dir", settings["TANDEM_DATA_DIR"]]
    assert run_tandem(down, tmp_path, os.environ, seconds=60).returncode == 0


SECRETS = {"TANDEM_PSK": "ab" * 20, "TANDEM_SESSION_TOKEN": "sess_1", "TANDEM_LOCK_TOKEN": "lock_1"}
"""Of a client, and not of the broker that its bridge starts."""
CLIENT_THAT_ENDS_ITS_CHILDREN = """
import json, os, psutil, signal, subprocess, sys
bridge = subprocess.Popen(
    [sys.executable, "-m", "tandem", "mcp", "--project", "label"], stdin=subprocess.PIPE, stdout=subprocess.PIPE
)
call = {"name": "list_reviews", "arguments": {}}
bridge.stdin.write(json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}).encode() + b"\\n")
bridge.stdin.flush()
print(bridge.stdout.readline().decode(), end="", flush=True)
mine = psutil.Process()
below = mine.children(recursive=True)
sessions, groups = {os.getsid(one.pid) for one in below}, {os.getpgid(one.pid) for one in below}
for one in below:
    one.kill()
for one in psutil.process_iter():
    try:
        if one != mine and (os.getsid(one.pid) in sessions or os.getpgid(one.pid) in groups):
            one.kill()
    except (ProcessLookupError, psutil.NoSuchProcess):
        pass
print(bridge.wait(), flush=True)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has neither sessions nor process groups")
def test_a_broker_that_a_bridge_started_outlives_a_client_that_ends_all_below_it_and_is_started_again_once_killed(
    home: dict[str, str], tmp_path: Path
) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", CLIENT_THAT_ENDS_ITS_CHILDREN],
        cwd=tmp_path,
        env={**os.environ, **home, **SECRETS},
        capture_output=True,
        text=True,
        check=True,
        start_new_session=True,
    )
    answer, status = ended.stdout.splitlines()
    assert json.loads(answer)["result"]["structuredContent"]["ok"] is True
    assert status == "-9"
    first = published(home)
    inherited = psutil.Process(first["pid"]).environ()
    assert inherited["TANDEM_DATA_DIR"] == home["TANDEM_DATA_DIR"]
    assert SECRETS.keys().isdisjoint(inherited)
    # It outlives the bridge, and the next one finds it; killed, it is started again by the next call.
    with bridge("--project", "label", folder=tmp_path, **home) as client:
        review_id = propose(client, {})
        assert published(home) == first
        platforms.kill(platforms.ProcessIdentity(first["pid"], first["started_us"]))
        assert tool(client, {}, "get_review_status", review_id=review_id)["status"] == "pending"
        assert published(home)["pid"] != first["pid"]
        assert client.end() == (0, "")


def published(home: dict[str, str]) -> dict[str, Any]:
    return json.loads((Path(home["TANDEM_DATA_DIR"]) / "broker.json").read_text())
