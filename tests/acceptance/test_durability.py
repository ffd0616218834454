"""P3 and P6 under `kill -9`: acknowledged writes are there, and readers who follow the log miss none of them.

On PostgreSQL `test_chaos` kills brokers, and PostgreSQL.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from tests.acceptance.gated import DIRECT, GATED, Team, check_archive, check_story, config_dir, kinds_of, to_idle
from tests.acceptance.reviewing import REVIEWER, WHY, Desk
from tests.acceptance.test_gate_switch import CHANGE, OTHER
from tests.acceptance.test_idempotency import REFUSED, WRITES
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.git.sandbox import Sandbox

T = TypeVar("T")
WRITERS = 4
KILLS = 2
ACKNOWLEDGED_BETWEEN_KILLS = 20
PATIENCE_SECONDS = 60


@dataclass
class Ups:
    """When the broker is up, and how much it has acknowledged so far."""

    broker: BrokerProcess
    project: str
    up: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    acknowledged: threading.Condition = field(default_factory=threading.Condition)
    count: int = 0

    def desk(self) -> Desk:
        """A new connection, once there is a broker to connect to."""
        assert self.up.wait(PATIENCE_SECONDS)
        return Desk(self.broker.url, self.project)

    def acknowledge(self) -> None:
        with self.acknowledged:
            self.count += 1
            self.acknowledged.notify_all()

    def wait_for(self, count: int) -> None:
        """Return once so many writes have been acknowledged."""
        with self.acknowledged:
            assert self.acknowledged.wait_for(lambda: self.count >= count, PATIENCE_SECONDS)


def again_until(ups: Ups, work: Callable[[Desk], T], is_enough: Callable[[], bool]) -> None:
    """Do `work` over and over, on a new connection whenever the broker went away."""
    while not is_enough():
        with ups.desk() as desk:
            try:
                while not is_enough():
                    work(desk)
            except httpx.TransportError:
                continue


def write(ups: Ups) -> dict[str, list[str]]:
    """Reviews from creation to close, until told to stop; the kinds of event that were acknowledged of each."""
    seen: dict[str, list[str]] = {}

    def one(desk: Desk) -> None:
        review = desk.put_up()
        kinds = seen.setdefault(review, [])

        def did(kind: str) -> None:
            kinds.append(kind)
            ups.acknowledge()

        did("review_created")
        generation = desk.claim(review)
        did("review_claimed")
        desk.say(review, "reviewer", claim_generation=generation)
        did("message_sent")
        desk.verdict(review, "rejected", generation, reason=WHY)
        did("verdict_submitted")
        desk.do("close_review", review_id=review)
        did("review_closed")

    again_until(ups, one, ups.done.is_set)
    return seen


def play(ups: Ups, team: Team) -> dict[str, list[str]]:
    """Hand-off cycles from start to archive, until told to stop; the kinds of event that were acknowledged of each."""
    seen: dict[str, list[str]] = {}

    def one(_desk: Desk) -> None:
        # What a kill cut short goes on by legal steps.
        to_idle(team)
        team.begin()
        kinds = seen.setdefault(f"cycle:{team.cycle_id}", [])

        def did(kind: str) -> None:
            kinds.append(kind)
            ups.acknowledge()

        did("cycle_started")
        for producer, target in (("gemini", "codex"), ("codex", "gemini")):
            review = team.hand_over(producer, target)["review_id"]
            did("handoff_written")
            if review is not None:
                team.approve(review)
            did("cycle_advanced")
            assert team.place()[1] == target
        team.do("cycle_complete", **team.tokens("gemini"))
        did("cycle_completed")
        team.do("cycle_archive", **team.tokens("gemini"))
        did("cycle_archived")

    again_until(ups, one, ups.done.is_set)
    to_idle(team)
    return seen


def check_cycles(team: Team, acknowledged: dict[str, list[str]], archives: Path) -> set[str]:
    """Each step that was acknowledged is in the log once, and each archive is whole; the names of the archives."""
    events = check_story(team, alone=False)
    for cycle, kinds in acknowledged.items():
        # The lock may be taken again at any time.
        assert [kind for kind in kinds_of(events, cycle) if kind != "lock_acquired"][: len(kinds)] == kinds
    archived = {event["subject"].removeprefix("cycle:") for event in events if event["kind"] == "cycle_archived"}
    for name in archived:
        check_archive(team, archives / name)
    return archived


def follow(ups: Ups, cursor: str, last: Future[str]) -> list[dict[str, Any]]:
    """Every event after a cursor up to a last one that is told in the end, as a consumer gets them."""
    events: list[dict[str, Any]] = []

    def one(desk: Desk) -> None:
        nonlocal cursor
        page = desk.do("get_audit_log", project=None, cursor=cursor, wait=True, timeout_s=0.5, limit=50)
        events.extend(page["events"])
        cursor = page["cursor"]

    again_until(ups, one, lambda: last.done() and place_of(cursor) >= place_of(last.result()))
    return events


def place_of(cursor: str) -> int:
    """How far into the log it is; checkpoints come whenever they are due."""
    return int(cursor.rpartition(".")[2])


@pytest.mark.timeout(240)
def test_p3_p6_kill_9_in_a_loop_loses_nothing(
    start_broker: StartBroker, database_settings: dict[str, object], tmp_path: Path
):
    broker = start_broker(config_dir=config_dir(tmp_path), checkpoint_interval_seconds=0.5, **database_settings)
    ups = Ups(broker, fresh_project())
    ups.up.set()
    stack = ExitStack()
    teams = [stack.enter_context(Team(broker.url, fresh_project(), workflow)) for workflow in (GATED, DIRECT)]
    for team in teams:
        team.enrol()
    last: Future[str] = Future()
    with ups.desk() as desk:
        cursor = desk.do("get_audit_log", project=None)["cursor"]
    with ThreadPoolExecutor(WRITERS + len(teams) + 1) as pool:
        following = pool.submit(follow, ups, cursor, last)
        writing = [pool.submit(write, ups) for _ in range(WRITERS)]
        playing = [pool.submit(play, ups, team) for team in teams]
        for kill in range(1, KILLS + 1):
            ups.wait_for(kill * ACKNOWLEDGED_BETWEEN_KILLS)
            ups.up.clear()
            broker.kill()
            broker.start()
            ups.up.set()
        ups.wait_for((KILLS + 1) * ACKNOWLEDGED_BETWEEN_KILLS)
        ups.done.set()
        cycles = [played.result() for played in playing]
        acknowledged = {review: kinds for written in writing for review, kinds in written.result().items()}
        ups.up.clear()
        broker.kill()
        verified = broker.run("audit", "verify", "--json")
        broker.start()
        ups.up.set()
        with ups.desk() as desk:
            last.set_result(desk.do("get_audit_log", project=None)["cursor"])
            followed = following.result(PATIENCE_SECONDS)
            stored = {review: desk.kinds(review) for review in acknowledged}
            states = {review: desk.status(review)["status"] for review in acknowledged}
    with stack:
        archives = broker.data_dir / "archives"
        archived = [check_cycles(team, seen, archives) for team, seen in zip(teams, cycles, strict=True)]
        assert {folder.name for folder in archives.glob("[!.]*")} == archived[0] | archived[1]
    assert verified.returncode == 0, verified.stdout
    assert json.loads(verified.stdout)["data"]["intact"]
    for review, kinds in acknowledged.items():
        # A call under way when the broker died may have been done, though its caller got no answer.
        assert stored[review][: len(kinds)] == kinds
        assert len(stored[review]) <= len(kinds) + 1
        assert (states[review] == "closed") == ("review_closed" in stored[review])
    numbers = [event["seq"] for event in followed]
    assert numbers == sorted(set(numbers))
    told: dict[str, list[str]] = {}
    for event in followed:
        told.setdefault(event["subject"], []).append(event["kind"])
    assert {review: told[review] for review in acknowledged} == stored


def test_p3_p4_claims_gates_overrides_and_answers_are_after_a_kill_as_they_were(
    start_broker: StartBroker, repo: Sandbox
):
    broker = start_broker()
    with Desk(broker.url, fresh_project()) as desk:
        desk.register(repo.root)
        gate = desk.do("set_gate", enabled=True, branches=["main"])
        desk.override(changes=[CHANGE], reason="The shop is down.", override_id="ov-1")
        calls = [REFUSED["claim"](desk), *(WRITES[name](desk) for name in ("create", "verdict", "message"))]
        answers = [desk.call(operation, **sent, idempotency_key="key-1") for operation, sent in calls]
        review = desk.put_up()
        generation = desk.claim(review)
        before = desk.everything(review), desk.do("get_audit_log", limit=200)["events"]
    broker.kill()
    assert broker.run("status").returncode == 3
    broker.start()
    with Desk(broker.url, desk.project) as desk:
        assert [desk.call(operation, **sent, idempotency_key="key-1") for operation, sent in calls] == answers
        assert (desk.everything(review), desk.do("get_audit_log", limit=200)["events"]) == before
        assert desk.do("get_gate") == gate
        assert desk.do("check_gate", changes=[CHANGE])["allowed"]
        assert not desk.do("check_gate", changes=[OTHER])["allowed"]
        # The lease goes on: no other reviewer may take it before it ends, and its holder need not notice anything.
        desk.refused("ALREADY_CLAIMED", "claim_review", review_id=review, reviewer_id="rev-2")
        desk.do("renew_claim", review_id=review, claim_generation=generation)
        desk.do("submit_verdict", review_id=review, verdict="approved", reviewer_id=REVIEWER)
    broker.assert_intact()


def test_p5_a_lease_that_ran_out_while_no_broker_ran_is_taken_back_at_the_start(start_broker: StartBroker):
    broker = start_broker(claim_timeout_seconds=1, sweep_interval_seconds=3600)
    with Desk(broker.url, fresh_project()) as desk:
        review = desk.put_up_claimed()
        expires = desk.status(review)["lease_expires_at"]
    broker.kill()
    while True:
        # A start takes about as long as the lease; each start sweeps once.
        broker.start()
        with Desk(broker.url, desk.project) as desk:
            reclaimed = desk.events(review)[-1]
            if desk.status(review)["status"] == "pending":
                break
        broker.stop()
    assert reclaimed["kind"] == "review_reclaimed"
    assert reclaimed["at"] >= expires


def test_a_new_cycle_is_the_one_under_way_though_the_clock_was_set_back(
    start_broker: StartBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    broker = start_broker()
    with Team(broker.url, fresh_project()) as team:
        team.enrol()
        team.to_refine()
        team.finish("gemini")
        broker.kill()
        # Python runs this file at its start, if it is on its path.
        late = "import time\nnow = time.time_ns\ntime.time_ns = lambda: now() - 3600 * 10**9\n"
        (tmp_path / "sitecustomize.py").write_text(late, "utf-8")
        with monkeypatch.context() as patch:
            patch.setenv("PYTHONPATH", str(tmp_path))
            broker.start()
        team.begin("After")
        assert team.where()["feature"] == "After"
        team.refused("CYCLE_ALREADY_ACTIVE", "cycle_start", feature="Twice")
        to_idle(team)
        check_story(team)
