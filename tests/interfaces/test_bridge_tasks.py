"""Tasks through the bridge, as most clients come: over restarts of the broker, too."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.bridge import messages
from tandem.server.mcp.recognition import TASKS
from tests.interfaces.bridging import BridgeProcess, bridge, modern
from tests.interfaces.broker_process import WatchedBroker, watched_broker


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[WatchedBroker]:
    with watched_broker(tmp_path) as running:
        yield running


@pytest.fixture
def client(broker: WatchedBroker, tmp_path: Path) -> Iterator[BridgeProcess]:
    with bridge("--broker", broker.url, "--project", "label", folder=tmp_path) as process:
        yield process


def following(**params: Any) -> dict[str, Any]:
    """Parameters of a client that follows tasks."""
    stated = modern(params)
    stated["_meta"]["io.modelcontextprotocol/clientCapabilities"] = {"extensions": {TASKS: {}}}
    return stated


def begin(broker: WatchedBroker, client: BridgeProcess) -> tuple[str, str]:
    """A review, and a task that waits for it without a cursor of the client's."""
    said = {"intent": "say hello", "agent_type": "test", "description": "hello"}
    review: str = broker.ask("create_review", **said)["review_id"]
    arguments = {"review_id": review, "wait": True, "wake_on": "any"}
    created = client.call("tools/call", following(name="get_review_status", arguments=arguments))["result"]
    assert (created["resultType"], created["status"]) == ("task", "working")
    return review, created["taskId"]


def ended(state: dict[str, Any]) -> tuple[str, str]:
    """The status of a task, and of the review that its result is about."""
    return state["status"], state["result"]["structuredContent"]["data"]["status"]


def test_p6_a_task_outlives_the_broker_that_gave_it(broker: WatchedBroker, client: BridgeProcess) -> None:
    review, task = begin(broker, client)
    asked = client.send("tasks/get", following(taskId=task))
    broker.await_waiting(1)
    broker.kill()
    broker.start()
    broker.ask("claim_review", review_id=review, reviewer_id="someone")
    # The request that the death cut off is sent again, and the next one is as good as any.
    answer = client.receive()
    assert (answer["id"], ended(answer["result"])) == (asked, ("completed", "claimed"))
    assert ended(client.call("tasks/get", following(taskId=task))["result"]) == ("completed", "claimed")


def test_an_unknown_task_and_a_cancellation_pass_through(broker: WatchedBroker, client: BridgeProcess) -> None:
    _, task = begin(broker, client)
    assert client.call("tasks/get", following(taskId="x" + task))["error"]["code"] == -32602
    assert client.call("tasks/get", modern({"taskId": task}))["error"]["code"] == -32021
    assert client.call("tasks/cancel", following(taskId=task))["result"]["resultType"] == "complete"


def test_p6_a_listener_is_told_of_the_end_after_a_restart(broker: WatchedBroker, client: BridgeProcess) -> None:
    review, task = begin(broker, client)
    listening = client.send("subscriptions/listen", following(notifications={"taskIds": [task]}))
    acknowledged = client.receive()
    assert acknowledged["params"]["notifications"] == {"taskIds": [task]}
    broker.await_waiting(1)
    broker.kill()
    broker.start()
    # The bridge listens again.
    assert client.receive()["params"] == acknowledged["params"]
    broker.ask("claim_review", review_id=review, reviewer_id="someone")
    told, closed = client.receive(), client.receive()
    assert (told["method"], ended(told["params"])) == ("notifications/tasks", ("completed", "claimed"))
    assert closed["id"] == listening


@pytest.mark.parametrize("method", ["tasks/get", "tasks/update", "tasks/cancel"])
def test_the_header_names_the_task(method: str) -> None:
    message = messages.parse(messages.encode({"id": 1, "method": method, "params": following(taskId="abc")}))
    assert messages.headers(message, None)["Mcp-Name"] == "abc"


def test_an_orderly_stop_ends_the_stream_of_a_listener(broker: WatchedBroker, client: BridgeProcess) -> None:
    _, task = begin(broker, client)
    listening = client.send("subscriptions/listen", following(notifications={"taskIds": [task]}))
    client.receive()
    broker.await_waiting(1)
    assert broker.stop_in_order() == 0
    assert client.receive()["id"] == listening
