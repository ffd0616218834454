"""P12: what a commit costs to judge grows with its paths, and no other client waits for it."""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from typing import Any

import psutil
import pytest

from tests.acceptance.reviewing import Desk
from tests.broker import ABSENT, BrokerProcess, StartBroker, fresh_project

CANDIDATES = 4
Change = dict[str, str]


def _cpu_seconds(broker: BrokerProcess) -> float:
    used = psutil.Process(broker.pid).cpu_times()
    return used.user + used.system


def _spent(broker: BrokerProcess, work: Callable[[], object]) -> float:
    """Processor time of the broker, which other programs of the machine do not lengthen."""
    before = _cpu_seconds(broker)
    work()
    return _cpu_seconds(broker) - before


@pytest.mark.timeout(300)
def test_p12_a_large_commit_costs_by_its_paths_and_others_are_answered_meanwhile(start_broker: StartBroker):
    """One uncovered path after the other was compared with every entry: ten times the paths cost a hundred times."""
    with (
        _many_approvals(start_broker, 4_000, 400) as (broker, other, many, few),
        Desk(broker.url, other.project) as desk,
    ):

        def refused(changes: list[Change]) -> None:
            decision = other.do("check_gate", changes=changes)
            assert (decision["allowed"], len(decision["paths"])) == (False, len(changes))
            assert all("only together with its other paths" in one["reason"] for one in decision["paths"])

        refused(few)
        cheap = _spent(broker, lambda: [refused(few) for _ in range(5)]) / 5
        assert _spent(broker, lambda: refused(many)) < 30 * max(cheap, 0.02)
        review = desk.put_up()
        with ThreadPoolExecutor(1) as pool:
            judging = pool.submit(refused, many)
            answered, began, longest = 0, time.monotonic(), 0.0
            while not judging.done():
                asked = time.monotonic()
                desk.status(review)
                longest = max(longest, time.monotonic() - asked)
                answered += 1
            took = time.monotonic() - began
            judging.result()
    assert answered > 5
    assert longest < took / 2


@contextmanager
def _many_approvals(start_broker: StartBroker, *paths: int) -> Generator[tuple[Any, ...]]:
    """So many new files that several changes have approved, each with one file more, by groups.

    They are written into the database while its broker does not run.
    """
    broker, project = start_broker(), fresh_project()
    with Desk(broker.url, project) as desk:
        reviews = [desk.put_up() for _ in paths]
    broker.stop()
    groups = [_written_approvals(broker, project, review, count) for review, count in zip(reviews, paths, strict=True)]
    broker.start()
    with Desk(broker.url, project) as desk:
        yield broker, desk, *groups


WRITTEN = """
WITH RECURSIVE
    numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :paths),
    rounds (round) AS (SELECT 1 UNION ALL SELECT round + 1 FROM rounds WHERE round < :rounds)
INSERT INTO approved_paths
    (project, path, blob_after, review_id, round, kind, mode_before, blob_before, mode_after)
SELECT :project, CASE n WHEN :paths THEN 'more-' || round ELSE printf('%d-%d/%05d.py', :paths, n / 100, n) END,
    printf('%040x', n), :review, round, 'change', :mode_before, :blob_before, '100644' FROM numbers, rounds
"""
MOST = 10_000


def _written_approvals(broker: BrokerProcess, project: str, review: str, paths: int) -> list[Change]:
    """Their changes, the first `MOST` of them."""
    asked = {**ABSENT, "project": project, "review": review, "paths": paths, "rounds": CANDIDATES}
    with closing(sqlite3.connect(broker.data_dir / "tandem.db")) as connection, connection:
        connection.execute(WRITTEN, asked)
    blobs = {f"{paths}-{number // 100}/{number:05}.py": f"{number:040x}" for number in range(min(paths, MOST))}
    return [{**ABSENT, "path": path, "mode_after": "100644", "blob_after": blob} for path, blob in blobs.items()]


def _sent(broker: BrokerProcess, project: str, changes: list[Change]) -> socket.socket:
    """A call of `check_gate` that does not wait for its answer."""
    body = json.dumps({"project": project, "changes": changes}).encode()
    head = f"POST /api/v1/check_gate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    connection = socket.create_connection(("127.0.0.1", broker.port))
    connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    return connection


@pytest.mark.timeout(300)
def test_p12_a_judgement_ends_when_its_client_has_gone(start_broker: StartBroker):
    """Clients that hang up leave nothing behind that the next one has to wait for."""
    with _many_approvals(start_broker, 10_000) as (broker, desk, changes):

        def judged() -> None:
            assert not desk.do("check_gate", changes=changes)["allowed"]

        judged()
        whole = _spent(broker, judged)
        before = _cpu_seconds(broker)
        for _ in range(3):
            begun, deadline = _cpu_seconds(broker), time.monotonic() + 60
            with _sent(broker, desk.project, changes):
                while _cpu_seconds(broker) < begun + whole / 4:
                    assert time.monotonic() < deadline
                    time.sleep(0.01)
        judged()
        # Most of each of the three was left.
        assert _cpu_seconds(broker) - before < 3 * whole


@pytest.mark.timeout(300)
def test_p12_a_commit_of_too_large_approvals_is_refused_in_words(start_broker: StartBroker):
    with _many_approvals(start_broker, 126_000) as (_, desk, changes):
        details = desk.refused("TOO_LARGE", "check_gate", changes=changes[:1])
        assert details["limit"] == "approved_paths"
