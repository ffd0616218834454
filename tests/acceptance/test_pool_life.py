"""The pool over the broker's own life: killed, stopped in order, restarted; and the processes that it leaves."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.reviewing import Desk
from tests.acceptance.staffed import Counter, StaffedBroker, counter, only_posix, stand_still, until
from tests.broker import fresh_project
from tests.reviewers.running import is_gone

pytestmark = only_posix
A_PAIR = {"min_pool_size": 2, "max_pool_size": 2}


@contextmanager
def reopened(before: Counter) -> Generator[Counter]:
    """The same project, at a broker that was restarted."""
    with Counter(before.broker, before.root, before.project) as again:
        yield again


def test_p5_after_a_kill_of_the_broker_the_next_start_ends_orphans_and_reviews_go_on(tmp_path: Path) -> None:
    with StaffedBroker(tmp_path, A_PAIR) as broker, counter(broker, tmp_path / "repository") as project:
        free, still = [project.ask(f"hold-with-brood {name}") for name in ("free", "still")]
        held = {review: project.claimed(review) for review in (free, still)}
        until(lambda: len(broker.started()) == 6, "all programs and their children run")
        # Of a project that no reviewer is for, so that none is quicker.
        elsewhere = Desk(broker.url, fresh_project())
        persons = elsewhere.put_up()
        generation = elsewhere.claim(persons, "a-person")
        elsewhere.close()
        frozen = [project.member(held[still]["reviewer_id"])["pid"], *_programs_of(broker, held[still]["reviewer_id"])]
        trees = {tree.parent.name: tree for tree in broker.trees()}
        assert {*trees} == {status["reviewer_id"] for status in held.values()}
        stand_still(frozen)
        broker.kill()
        # A worker notices by itself that its broker is gone, and ends its program.
        until(lambda: len(broker.workers()) == 1, "the reviewer that can has ended")
        until(lambda: {one.pid for one in broker.programs()} == set(frozen[1:]), "its program has ended")
        assert [one.pid for one in broker.workers()] == frozen[:1]
        assert broker.trees() == [trees[held[still]["reviewer_id"]]]

        broker.start()
        # Who is found to be left behind is ended before the broker says that it is ready, and so are its files.
        assert [pid for pid in frozen if not is_gone(pid)] == []
        assert [tree for tree in trees.values() if tree.exists()] == []
        with reopened(project) as again:
            for review in (free, still):
                [reclaimed] = again.of_kind(review, "review_reclaimed")
                assert reclaimed["data"]["reviewer_id"] == held[review]["reviewer_id"]
                assert "started again" in reclaimed["data"]["reason"]
                # No reviewer failed here: all tries are left.
                assert "attempts" not in reclaimed["data"]
                assert again.member(held[review]["reviewer_id"])["state"] == "terminated"
            for name in ("free", "still"):
                broker.let(name)
            for review in (free, still):
                status = again.decided(review)
                assert status["status"] == "approved"
                assert status["reviewer_id"] != held[review]["reviewer_id"]
                assert len(again.of_kind(review, "verdict_submitted")) == 1
        with Desk(broker.url, elsewhere.project) as again:
            # A person's claim has nothing to do with the broker's reviewers.
            again.verdict(persons, "approved", generation)
        broker.assert_intact()


def _programs_of(broker: StaffedBroker, reviewer_id: str) -> list[int]:
    return [one.pid for one in broker.programs() if one.environ().get("TANDEM_REVIEWER") == reviewer_id]


def test_a_stop_ends_a_review_that_takes_longer_and_gives_it_back(tmp_path: Path) -> None:
    broker = StaffedBroker(tmp_path, {"drain_seconds": 0.5})
    with broker, counter(broker, tmp_path / "repository") as project:
        review = project.ask("brood")
        reviewer = project.claimed(review)["reviewer_id"]
        until(lambda: len(broker.started()) == 3, "its children run")
        began = time.monotonic()
        broker.signal_stop()
        assert broker.wait_stopped() == 0
        assert time.monotonic() - began < 20
        broker.assert_nobody_is_left()
        broker.assert_intact()
        broker.start()
        with reopened(project) as again:
            [released] = again.of_kind(review, "claim_released")
            assert released["actor"] == reviewer
            assert released["data"]["reason"].startswith("cancelled: ")
            assert "attempts" not in released["data"]
            assert again.outcomes(review)[0] == "cancelled"
            assert again.status(review)["verdict"] is None
            again.do("close_review", review_id=review)
