"""Hand-off cycles at several brokers on one PostgreSQL: it does not matter which of them is asked."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, LiteralString, TypeVar

import psycopg
import pytest

from tandem.store.postgres_unit import ALONE
from tests.acceptance.gated import (
    FORK,
    GATED,
    Team,
    check_story,
    code_of,
    played,
)
from tests.acceptance.reviewing import OTHER, at_once
from tests.acceptance.waiting import Waiter, until_waiting
from tests.broker import fresh_project
from tests.modes import VARIATION

if TYPE_CHECKING:
    from tests.acceptance.two_brokers import Site

pytest_plugins = ["tests.acceptance.two_brokers"]

T = TypeVar("T")
LONG = 45
Answer = dict[str, Any]


Pair = tuple[Team, Team]


@contextmanager
def pair_of(site: Site, workflow: str) -> Generator[Pair]:
    """The same roles, with the same sessions, at either broker."""
    with Team(site.one.url, fresh_project(), workflow) as one:
        one.enrol()
        with one.elsewhere(site.two.url) as two:
            yield one, two


@pytest.fixture(scope="module")
def pairs(site: Site) -> Iterator[dict[str, Pair]]:
    """A pair of each workflow; keys and sessions are slow to make, so that tests share them."""
    with pair_of(site, GATED) as gated, pair_of(site, FORK) as fork:
        yield {GATED: gated, FORK: fork}


@pytest.fixture
def teams(pairs: dict[str, Pair]) -> Iterator[Pair]:
    """The built-in workflow's roles at either broker."""
    with played(pairs[GATED][0]):
        yield pairs[GATED]


@pytest.fixture
def writers(pairs: dict[str, Pair]) -> Iterator[Pair]:
    """As `teams`, in a workflow whose first phase may complete."""
    with played(pairs[FORK][0]):
        yield pairs[FORK]


@pytest.fixture
def newcomers(site: Site) -> Iterator[Pair]:
    """As `teams`, with keys and sessions that the test may spoil."""
    with pair_of(site, GATED) as (one, two):
        yield one, two
        check_story(one)


def begin(*teams: Team) -> str:
    """Start a cycle that all of them know; its lock token."""
    token = teams[0].begin()
    for team in teams[1:]:
        team.cycle_id, team.feature = teams[0].cycle_id, teams[0].feature
    return token


LOG: LiteralString = ALONE.lock or ""
CYCLES = "SELECT id FROM cycles FOR UPDATE"


def in_line(database: str, calls: Sequence[Callable[[], T]], lock: LiteralString = LOG) -> list[T]:
    """Run calls whose transactions overlap in just this order; their results.

    Something is locked; each call is made once the one before it has ended or waits for a lock; then all go on.
    """
    with ThreadPoolExecutor(len(calls)) as pool, psycopg.connect(database) as holder:
        holder.execute(lock)
        with psycopg.connect(database, autocommit=True) as watcher:
            running: list[Future[T]] = []
            for call in calls:
                before = blocked(watcher)
                running.append(pool.submit(call))
                while blocked(watcher) == before and not wait(running[-1:], timeout=0.005).done:
                    pass
        holder.rollback()
        return [each.result() for each in running]


def blocked(watcher: psycopg.Connection[Any]) -> int:
    """How many transactions wait for a lock."""
    asked = "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'"
    row = watcher.execute(asked).fetchone()
    assert row is not None
    return row[0]


def test_p4_a_start_under_a_key_begins_one_cycle_with_one_token(writers: Pair):
    one, two = writers
    answers = at_once([partial(team.do, "cycle_start", feature="Once", idempotency_key="k") for team in writers * 3])
    assert all(answer == answers[0] for answer in answers)
    assert two.lock("writer") == answers[0]["lock_token"]
    one.finish("writer")


@VARIATION
def test_every_order_of_approval_withdrawal_and_revision(site: Site, teams: Pair):
    one, two = teams
    for order in itertools.permutations(range(3)):
        if one.where()["phase"] is None:
            begin(one, two)
        review = one.put_forward("gemini", "codex")
        generation = two.claim(review)
        sent = one.handing("gemini", "codex", notes=["Again."])
        verdict = {"review_id": review, "verdict": "approved", "claim_generation": generation}
        steps = [
            partial(one.call, "submit_verdict", **verdict),
            partial(two.call, "close_review", review_id=review),
            partial(two.call, "handoff_write", **sent),
        ]
        answers = in_line(site.database, [steps[step] for step in order])
        approved, closed, written = (answers[order.index(step)] for step in range(3))
        assert closed["ok"]
        assert code_of(approved) in {None, "STALE_CLAIM"}
        assert code_of(written) in {None, "INVALID_PHASE", "LOCK_DENIED"}
        status = two.where()
        assert (status["phase"] == "backend") == approved["ok"]
        assert two.status(review)["outcome"] == ("approved" if approved["ok"] else "withdrawn")
        if approved["ok"]:
            assert not written["ok"]
            one.pass_on("codex", "gemini")
            one.finish("gemini")
        elif written["ok"]:
            assert status["review"]["review_id"] == written["data"]["review_id"] != review
            one.do("close_review", review_id=written["data"]["review_id"])


@VARIATION
def test_every_order_of_completion_and_handoff_and_claim(site: Site, writers: Pair):
    one, two = writers
    for order in itertools.permutations(range(3)):
        token = begin(one, two)
        review = one.put_forward("writer", "editor")
        one.request_changes(review)
        steps = [
            partial(one.call, "cycle_complete", **one.tokens("writer", token)),
            partial(two.call, "handoff_write", **two.handing("writer", "editor", token)),
            partial(two.call, "claim_review", review_id=review, reviewer_id=OTHER),
        ]
        answers = in_line(site.database, [steps[step] for step in order])
        completed, written, claimed = (answers[order.index(step)] for step in range(3))
        assert {code_of(completed), code_of(written)} in ({None, "INVALID_PHASE"}, {"INVALID_PHASE"})
        assert two.where()["phase"] == ("complete" if completed["ok"] else "draft")
        assert (two.status(review)["status"] == "closed") == completed["ok"]
        if not completed["ok"] and not written["ok"]:
            # Then the claim was there first, and holds both up.
            assert claimed["ok"]
        if not completed["ok"]:
            one.do("close_review", review_id=review)
            one.do("cycle_complete", **one.tokens("writer", token))
        one.do("cycle_archive", **one.tokens("writer"))


@pytest.mark.anyio
async def test_p6_who_waits_for_its_turn_is_woken_by_an_approval_elsewhere(site: Site, teams: Pair):
    one, two = teams
    begin(one, two)
    written = one.hand_over("gemini", "codex")
    asked = {"project": one.project, "workflow": GATED, "wait": True, "cursor": written["cursor"], "timeout_s": LONG}
    async with (
        Waiter(site.two, "cycle_status", **asked, role="codex") as consumer,
        Waiter(site.two, "cycle_status", **asked) as anybody,
    ):
        await until_waiting(site.two, 2)
        one.approve(written["review_id"])
        for waiter in (consumer, anybody):
            told = await waiter.answer()
            assert (told["changed"], told["phase"], told["active_role"]) == (True, "backend", "codex")
    assert two.lock("codex")


def test_a_session_opened_while_its_key_is_replaced_does_not_outlive_it(site: Site, newcomers: Pair):
    one, two = newcomers
    rotate = partial(one.call, "cycle_rotate", role="gemini")
    opening = partial(two.call, "session_open", role="gemini", psk=two.keys["gemini"])
    rotated, opened = in_line(site.database, [rotate, opening])
    assert rotated["ok"]
    if opened["ok"]:
        one.refused("INVALID_SESSION", "lock_acquire", session_token=opened["data"]["session_token"])
    else:
        assert code_of(opened) == "AUTH_FAILED"


def test_steps_of_sessions_that_a_rotation_ends(site: Site, newcomers: Pair):
    one, two = newcomers
    token = begin(one, two)
    rotate = partial(one.call, "cycle_rotate", role="gemini")
    for operation in ("handoff_write", "session_close"):
        session = {"session_token": two.sessions["gemini"]}
        sent = two.handing("gemini", "codex", token) if operation == "handoff_write" else session
        rotated, answer = in_line(site.database, [rotate, partial(two.call, operation, **sent)])
        assert code_of(answer) in {None, "INVALID_SESSION"}
        one.refused("INVALID_SESSION", "lock_acquire", **session)
        one.keys["gemini"] = rotated["data"]["keys"]["gemini"]
        one.sessions["gemini"] = one.open_session("gemini")


@pytest.mark.parametrize("ending", ["session_close", "cycle_rotate"])
def test_a_step_that_was_held_up_comes_before_the_end_of_its_session(site: Site, newcomers: Pair, ending: str):
    one, two = newcomers
    token = begin(one, two)
    write = partial(one.call, "handoff_write", **one.handing("gemini", "codex", token))
    how = {"role": "gemini"} if ending == "cycle_rotate" else {"session_token": two.sessions["gemini"]}
    # The session is open when the write begins, and nothing may end it before the write gets the cycle.
    written, ended = in_line(site.database, [write, partial(two.call, ending, **how)], CYCLES)
    assert (written["ok"], ended["ok"]) == (True, True)
    one.refused("INVALID_SESSION", "lock_acquire", session_token=one.sessions["gemini"])
