"""P3 for hand-off cycles, under `kill -9` at any moment: what was acknowledged is there, and the next step works."""

from __future__ import annotations

import hashlib
import json
import random
import secrets
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

import httpx
import pytest

from tests.acceptance.gated import (
    DIRECT,
    GATED,
    Team,
    check_archive,
    check_story,
    config_dir,
    kinds_of,
)
from tests.acceptance.reviewing import REVIEWER, WHY
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.databases import ON_BOTH_DATABASES

pytestmark = ON_BOTH_DATABASES

T = TypeVar("T")
PATIENCE_SECONDS = 60
LATEST_SECONDS = 0.006
"""How long after a call was sent the broker is killed, at most: about as long as a call takes."""

TARGETS = ["cycle_archive"] * 4 + ["submit_verdict"] * 4 + ["handoff_write"] * 3 + ["cycle_complete", "cycle_start"]
"""What is under way at a kill; the first two have the most to lose."""


@dataclass
class Fire:
    """A broker that is killed again and again, and the calls that are under way meanwhile."""

    broker: BrokerProcess
    up: threading.Event = field(default_factory=threading.Event)
    done: threading.Event = field(default_factory=threading.Event)
    _sent: threading.Condition = field(default_factory=threading.Condition)
    _counts: dict[str, int] = field(default_factory=dict[str, int])

    def send(self, call: Callable[[], T]) -> T:
        """Make a call, once there is a broker to make it to.

        Raises:
            httpx.TransportError: The broker died meanwhile; nobody knows what became of the call.
        """
        assert self.up.wait(PATIENCE_SECONDS)
        return call()

    def note(self, operation: str) -> None:
        """An operation is about to be sent."""
        with self._sent:
            self._counts[operation] = self._counts.get(operation, 0) + 1
            self._sent.notify_all()

    def kill_during(self, operation: str, after_seconds: float) -> None:
        """Kill the broker some time after an operation was sent, look at what it left, and start it again."""
        with self._sent:
            before = self._counts.get(operation, 0)
            assert self._sent.wait_for(lambda: self._counts.get(operation, 0) > before, PATIENCE_SECONDS)
        # Not to wait for anything: the moment is what is random.
        self.done.wait(after_seconds)
        self.up.clear()
        self.broker.kill()
        check_folders(self.broker.data_dir / "archives")
        self.broker.start()
        self.up.set()


def check_folders(archives: Path) -> None:
    """Every archive that is there is whole; hidden folders are somebody's unfinished work."""
    for folder in archives.glob("[!.]*"):
        manifest = json.loads((folder / "manifest.json").read_bytes())
        for name, digest in manifest["sha256"].items():
            assert hashlib.sha256((folder / name).read_bytes()).hexdigest() == digest, (folder, name)
        assert len(list((folder / "handoffs").iterdir())) == len(manifest["handoffs"])


@dataclass
class Player:
    """Plays cycles of one workflow for as long as there is fire, and knows what the log must say of each."""

    fire: Fire
    team: Team
    chance: random.Random
    expected: dict[str, list[str]] = field(default_factory=dict[str, list[str]])
    archives: list[Path] = field(default_factory=list[Path])

    def look(self, operation: str, **arguments: Any) -> Any:
        """A call that changes nothing, as often as it takes."""
        while True:
            try:
                return self.fire.send(lambda: self.team.do(operation, **arguments))
            except httpx.TransportError:
                continue

    def take(self, operation: str, is_done: Callable[[], bool], **arguments: Any) -> Any:
        """A step, once, however often the broker dies; its answer, null if only the state tells that it was taken.

        Half of them are sent again under their key; of the others the state tells whether they were taken.
        """
        keyed = self.chance.random() < 0.5
        if keyed:
            arguments["idempotency_key"] = secrets.token_hex(8)
        while True:
            try:
                self.fire.note(operation)
                return self.fire.send(lambda: self.team.do(operation, **arguments))
            except httpx.TransportError:
                if not keyed and is_done():
                    return None

    def play(self) -> None:
        """Cycle after cycle; the last one to its end."""
        number = 0
        while not self.fire.done.is_set():
            number += 1
            self.begin(f"Feature {number}")
            self.pass_on("gemini", "codex")
            self.pass_on("codex", "gemini")
            self.end()

    def begin(self, feature: str) -> None:
        def is_done() -> bool:
            return self.look("cycle_status")["feature"] == feature

        self.take("cycle_start", is_done, feature=feature)
        self.team.cycle_id, self.team.feature = self.look("cycle_status")["cycle_id"], feature
        self.expected[self.team.cycle_id] = ["cycle_started"]

    def did(self, *kinds: str) -> None:
        self.expected[self.team.cycle_id] += kinds

    def tokens(self, role: str) -> dict[str, str]:
        """A role's session, and the lock, taken as often as it takes."""
        session = self.team.sessions[role]
        taken = self.take("lock_acquire", lambda: False, session_token=session)
        return {"session_token": session, "lock_token": taken["lock_token"]}

    def pass_on(self, producer: str, target: str) -> None:
        """Hand over until it is approved, or at once if no approval is needed."""
        while True:
            note = secrets.token_hex(4)
            payload = self.team.payload(producer, target, notes=[note])
            count = len(self.look("get_cycle", cycle_id=self.team.cycle_id)["handoffs"])

            def is_written(count: int = count) -> bool:
                return len(self.look("get_cycle", cycle_id=self.team.cycle_id)["handoffs"]) > count

            self.take("handoff_write", is_written, target=target, payload=payload, **self.tokens(producer))
            self.did("handoff_written")
            if self.team.workflow == DIRECT or self.approved():
                self.did("cycle_advanced")
                assert self.look("cycle_status")["active_role"] == target
                assert self.look("handoff_read", target=target) == payload
                return
            assert self.look("cycle_status")["active_role"] == producer

    def approved(self) -> bool:
        """Have the hand-off reviewed; now and then it is found wanting."""
        review = self.look("cycle_status")["review"]["review_id"]
        claim = self.take("claim_review", lambda: False, review_id=review, reviewer_id=REVIEWER)
        verdict = self.chance.choice(["approved", "approved", "changes_requested", "rejected"])

        def is_given() -> bool:
            return self.look("get_review_status", review_id=review)["status"] == verdict

        generation = claim["claim_generation"]
        self.take(
            "submit_verdict", is_given, review_id=review, verdict=verdict, reason=WHY, claim_generation=generation
        )
        return verdict == "approved"

    def end(self) -> None:
        """Complete and archive."""

        def is_complete() -> bool:
            return self.look("cycle_status")["phase"] == "complete"

        def is_archived() -> bool:
            return self.look("cycle_status")["cycle_id"] is None

        self.take("cycle_complete", is_complete, **self.tokens("gemini"))
        self.did("cycle_completed")
        self.take("cycle_archive", is_archived, **self.tokens("gemini"))
        self.did("cycle_archived")
        self.archives.append(self.fire.broker.data_dir / "archives" / self.team.cycle_id)


@pytest.mark.timeout(240)
@pytest.mark.parametrize(("database", "kills"), [("sqlite", 8), ("postgresql", 3)])
def test_p3_kill_9_while_cycles_are_played(
    request: pytest.FixtureRequest,
    start_broker: StartBroker,
    tmp_path: Path,
    chance: random.Random,
    database: str,
    kills: int,
):
    settings = {"database_url": request.getfixturevalue("postgres_url")} if database == "postgresql" else {}
    broker = start_broker(config_dir=config_dir(tmp_path), checkpoint_interval_seconds=0.5, **settings)
    project = fresh_project()
    fire = Fire(broker)
    with Team(broker.url, project, GATED) as gated, Team(broker.url, project, DIRECT) as direct:
        for team in (gated, direct):
            team.enrol()
        players = [Player(fire, team, random.Random(chance.random())) for team in (gated, direct)]
        fire.up.set()
        with ThreadPoolExecutor(len(players)) as pool:
            playing = [pool.submit(player.play) for player in players]
            try:
                for _ in range(kills):
                    fire.kill_during(chance.choice(TARGETS), chance.uniform(0, LATEST_SECONDS))
            finally:
                fire.done.set()
            for each in playing:
                each.result(PATIENCE_SECONDS)
        events = check_story(gated)
        for player in players:
            assert player.expected
            for cycle, kinds in player.expected.items():
                # Each step that was acknowledged, once, and none besides; only the lock may be taken again.
                assert [kind for kind in kinds_of(events, f"cycle:{cycle}") if kind != "lock_acquired"] == kinds
            for folder in player.archives:
                check_archive(player.team, folder)
        # Hidden leftovers are cleared away by the next archive of the same cycle, of which there is none.
        folders = {folder.name for folder in (broker.data_dir / "archives").glob("[!.]*")}
        assert folders == {folder.name for player in players for folder in player.archives}
    broker.kill()
    broker.assert_intact()


def test_a_start_with_another_clock_and_another_configuration(
    start_broker: StartBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    folder = config_dir(tmp_path / "config")
    broker = start_broker(config_dir=folder)
    project = fresh_project()
    with Team(broker.url, project) as gated, Team(broker.url, project, DIRECT) as direct:
        for team in (gated, direct):
            team.enrol()
        direct.begin()
        gated.begin()
        review = gated.put_forward("gemini", "codex")
        broker.kill()
        # Python runs this file at its start, if it is on its path.
        late = "import time\nnow = time.time_ns\ntime.time_ns = lambda: now() - 3600 * 10**9\n"
        (tmp_path / "sitecustomize.py").write_text(late, "utf-8")
        # Neither approval nor the other workflow is in the configuration any more.
        (folder / "config.toml").write_text("", "utf-8")
        with monkeypatch.context() as patch:
            patch.setenv("PYTHONPATH", str(tmp_path))
            broker.start()
        # Cycles under way keep the workflow and the mode that they began with.
        gated.refused("INVALID_PHASE", "handoff_write", **gated.handing("gemini", "codex"))
        gated.approve(review)
        assert gated.place() == ("backend", "codex")
        gated.pass_on("codex", "gemini")
        direct.pass_on("gemini", "codex")
        direct.pass_on("codex", "gemini")
        gated.finish("gemini")
        # A new cycle is the one under way, though it began an hour before the last one ended.
        gated.begin("After")
        assert gated.where()["feature"] == "After"
        gated.refused("CYCLE_ALREADY_ACTIVE", "cycle_start", feature="Twice")
        assert gated.hand_over("gemini", "codex")["review_id"] is None
        assert gated.place() == ("backend", "codex")
        gated.pass_on("codex", "gemini")
        gated.finish("gemini")
        assert gated.where()["cycle_id"] is None
        check_story(gated)
