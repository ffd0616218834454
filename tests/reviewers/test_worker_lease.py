"""How often a claim is renewed, and in which words a run's end is told."""

from __future__ import annotations

import time

import pytest

from tandem.pool.reviewers.broker_client import BrokerClient, Claimed, Lease
from tests.reviewers.peer import proposal


@pytest.mark.parametrize(
    ("left_seconds", "every_seconds"),
    [(1200, 20.0), (60, 20.0), (30, 10.0), (0.6, 0.5), (-3600, 20.0), (10**9, 20.0)],
    ids=["long", "shortest", "short", "tiny", "clock ahead", "clock behind"],
)
def test_a_lease_is_renewed_often_enough_whatever_our_clock_says(left_seconds: float, every_seconds: float) -> None:
    ends = round((time.time() + left_seconds) * 1_000_000)
    claimed = Claimed("rv_1", "shop", 1, 1, ends, proposal())
    lease = Lease(BrokerClient("http://127.0.0.1:9", agent="r"), claimed, grace_seconds=1.0, on_end=lambda: None)
    assert lease._every_seconds == pytest.approx(every_seconds, abs=0.1)
