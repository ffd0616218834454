"""P12: what a commit costs to judge grows with its paths, and no other client waits for it."""

from __future__ import annotations

import json
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from typing import NamedTuple

import psutil
import pytest

from tests.acceptance.reviewing import Desk
from tests.broker import ABSENT, BrokerProcess, fresh_project

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


MANY, FEW, LONG, TOO_MANY = 4_000, 400, 10_000, 126_000


class Approved(NamedTuple):
    """New files that several changes have approved, each with one file more, in a project of their own."""

    broker: BrokerProcess
    desk: Desk
    changes: list[Change]

    def refused(self) -> None:
        """The gate names each of the files."""
        decision = self.desk.do("check_gate", changes=self.changes)
        assert (decision["allowed"], len(decision["paths"])) == (False, len(self.changes))
        assert all("only together with its other paths" in one["reason"] for one in decision["paths"])


@pytest.fixture(scope="module")
def approved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[int, Approved]]:
    """By how many they are; they are written into the database while its broker does not run."""
    with BrokerProcess(tmp_path_factory.mktemp("large")) as broker, ExitStack() as stack:
        reviews: dict[int, tuple[str, str]] = {}
        for paths in (MANY, FEW, LONG, TOO_MANY):
            with Desk(broker.url, fresh_project()) as desk:
                reviews[paths] = desk.project, desk.put_up()
        broker.stop()
        changes = {paths: _written_approvals(broker, *review, paths) for paths, review in reviews.items()}
        broker.start()
        yield {
            paths: Approved(broker, stack.enter_context(Desk(broker.url, project)), changes[paths])
            for paths, (project, _) in reviews.items()
        }


@pytest.mark.timeout(300)
def test_p12_a_large_commit_costs_by_its_paths_and_others_are_answered_meanwhile(approved: dict[int, Approved]):
    """One uncovered path after the other was compared with every entry: ten times the paths cost a hundred times."""
    many, few = approved[MANY], approved[FEW]
    few.refused()
    cheap = _spent(few.broker, lambda: [few.refused() for _ in range(5)]) / 5
    assert _spent(many.broker, many.refused) < 30 * max(cheap, 0.02)
    with Desk(many.desk.url, many.desk.project) as desk, ThreadPoolExecutor(1) as pool:
        review = desk.put_up()
        judging = pool.submit(many.refused)
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


WRITTEN = """
WITH RECURSIVE
    numbers (n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < :paths),
    rounds (round) AS (SELECT 1 UNION ALL SELECT round + 1 FROM rounds WHERE round < :rounds)
INSERT INTO approved_paths
    (project, path, blob_after, review_id, round, kind, mode_before, blob_before, mode_after)
SELECT :project, CASE n WHEN :paths THEN 'more-' || round ELSE printf('%d-%d/%05d.py', :paths, n / 100, n) END,
    printf('%040x', n), :review, round, 'change', :mode_before, :blob_before, '100644' FROM numbers, rounds
"""


def _written_approvals(broker: BrokerProcess, project: str, review: str, paths: int) -> list[Change]:
    """Their changes, 10,000 at most."""
    asked = {**ABSENT, "project": project, "review": review, "paths": paths, "rounds": CANDIDATES}
    with closing(sqlite3.connect(broker.data_dir / "tandem.db")) as connection, connection:
        connection.execute(WRITTEN, asked)
    blobs = {f"{paths}-{number // 100}/{number:05}.py": f"{number:040x}" for number in range(min(paths, LONG))}
    return [{**ABSENT, "path": path, "mode_after": "100644", "blob_after": blob} for path, blob in blobs.items()]


def _sent(broker: BrokerProcess, project: str, changes: list[Change]) -> socket.socket:
    """A call of `check_gate` that does not wait for its answer."""
    body = json.dumps({"project": project, "changes": changes}).encode()
    head = f"POST /api/v1/check_gate HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {len(body)}\r\n"
    connection = socket.create_connection(("127.0.0.1", broker.port))
    connection.sendall(f"{head}Content-Type: application/json\r\n\r\n".encode() + body)
    return connection


@pytest.mark.timeout(300)
def test_p12_a_judgement_ends_when_its_client_has_gone(approved: dict[int, Approved]):
    """Clients that hang up leave nothing behind that the next one has to wait for."""
    broker, desk, changes = judged = approved[LONG]
    judged.refused()
    whole = _spent(broker, judged.refused)
    before = _cpu_seconds(broker)
    for _ in range(3):
        begun, deadline = _cpu_seconds(broker), time.monotonic() + 60
        with _sent(broker, desk.project, changes):
            while _cpu_seconds(broker) < begun + whole / 4:
                assert time.monotonic() < deadline
                time.sleep(0.01)
    judged.refused()
    # Most of each of the three was left.
    assert _cpu_seconds(broker) - before < 3 * whole


@pytest.mark.timeout(300)
def test_p12_a_commit_of_too_large_approvals_is_refused_in_words(approved: dict[int, Approved]):
    desk, changes = approved[TOO_MANY].desk, approved[TOO_MANY].changes
    details = desk.refused("TOO_LARGE", "check_gate", changes=changes[:1])
    assert details["limit"] == "approved_paths"
