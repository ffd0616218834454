"""A reviewer's calls reach the broker once, however often it goes away, and end when they are cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tandem.errors import StaleClaim, Unavailable
from tandem.pool.reviewers.broker_client import BrokerClient, BrokerUnreachable, CallCancelled, with_key
from tests.reviewers.peer import Garbage, Peer, Refusal

NEVER = threading.Event()
ASKED = {"status": "pending", "limit": 1}
AT_ONCE_SECONDS = 15
"""Less than any wait here lasts, and than a call goes on trying by itself."""


@pytest.fixture
def broker(peer: Peer) -> Iterator[BrokerClient]:
    found = BrokerClient(peer.url, agent="custom-r1-abcdef")
    yield found
    found.close()


def test_a_refusal_is_told_with_its_facts(peer: Peer, broker: BrokerClient) -> None:
    peer.script["renew_claim"].append(Refusal("STALE_CLAIM", "It is over.", expected=2))
    with pytest.raises(StaleClaim) as caught:
        broker.call("renew_claim", {}, until=NEVER)
    refused = caught.value
    assert (refused.code, refused.message, refused.details) == ("STALE_CLAIM", "It is over.", {"expected": 2})
    assert not refused.retryable
    assert len(peer.calls) == 1


def test_what_may_succeed_later_is_tried_again_with_the_same_key(peer: Peer, broker: BrokerClient) -> None:
    peer.script["release_claim"] += [Refusal("UNAVAILABLE", retryable=True), Garbage("<html>"), Garbage('{"ok": 1}')]
    assert broker.call("release_claim", with_key({"review_id": "rv_1"}), until=NEVER) == {"status": "pending"}
    keys = {sent["idempotency_key"] for sent in peer.all("release_claim")}
    assert (len(peer.calls), len(keys)) == (4, 1)


@pytest.mark.parametrize(
    ("answer", "error", "said"),
    [
        (Refusal("UNAVAILABLE", retryable=True), Unavailable, "No."),
        (Garbage("[]"), BrokerUnreachable, r"not a Tandem broker \(HTTP 502\)"),
    ],
)
def test_what_stays_so_is_refused_in_the_end(
    peer: Peer, broker: BrokerClient, answer: Exception, error: type[Exception], said: str
) -> None:
    peer.script["renew_claim"] += [answer] * 20
    with pytest.raises(error, match=said):
        broker.call("renew_claim", {}, until=NEVER, patience_seconds=0.3)
    assert 0 < len(peer.calls) < 6


def test_a_broker_that_goes_away_during_a_call_is_waited_for(peer: Peer, broker: BrokerClient) -> None:
    def goes_away(_: dict[str, Any]) -> None:
        # Its own thread cannot wait for the end of the server that it serves.
        stopper = threading.Thread(target=peer.stop)
        stopper.start()
        stopper.join()
        threading.Timer(0.5, peer.start).start()

    peer.script["release_claim"].append(goes_away)
    assert broker.call("release_claim", with_key({}), until=NEVER) == {"status": "pending"}
    first, second = peer.all("release_claim")
    assert first == second


def test_a_silent_broker_is_given_up(peer: Peer) -> None:
    broker = BrokerClient(peer.url, agent="custom-r1-abcdef", answer_seconds=0.2)
    wait = {**ASKED, "wait": True, "timeout_s": 20, "cursor": "0"}
    with pytest.raises(BrokerUnreachable, match="timed out"):
        broker.call("list_reviews", wait, until=NEVER, patience_seconds=0)
    broker.close()


def test_nobody_waits_for_a_broker_in_vain(peer: Peer, broker: BrokerClient) -> None:
    peer.stop()
    until = threading.Event()
    threading.Timer(0.2, until.set).start()
    began = time.monotonic()
    with pytest.raises(CallCancelled):
        broker.call("list_reviews", ASKED, until=until)
    assert time.monotonic() - began < AT_ONCE_SECONDS


def test_a_call_that_is_being_answered_can_be_ended(peer: Peer, broker: BrokerClient) -> None:
    until = threading.Event()

    def end(_: dict[str, Any]) -> None:
        until.set()
        broker.hang_up()

    peer.script["list_reviews"].append(end)
    began = time.monotonic()
    with pytest.raises(CallCancelled):
        broker.call("list_reviews", {**ASKED, "wait": True, "timeout_s": 20, "cursor": "0"}, until=until)
    assert time.monotonic() - began < AT_ONCE_SECONDS
    # The connection is no good any more, and another is opened.
    assert broker.call("list_reviews", ASKED, until=NEVER)["reviews"] == []


def test_a_call_that_is_not_to_be_made_is_not_made(peer: Peer, broker: BrokerClient) -> None:
    until = threading.Event()
    until.set()
    broker.hang_up()
    with pytest.raises(CallCancelled):
        broker.call("claim_review", {"reviewer_id": "r"}, until=until)
    assert peer.calls == []


def test_one_that_is_to_be_finished_is_not_hung_up_on(peer: Peer, broker: BrokerClient) -> None:
    until, hang_up = threading.Event(), threading.Event()

    def end(_: dict[str, Any]) -> None:
        until.set()
        broker.hang_up()

    peer.script["release_claim"].append(end)
    assert broker.call("release_claim", with_key({}), until=until, hang_up=hang_up) == {"status": "pending"}
