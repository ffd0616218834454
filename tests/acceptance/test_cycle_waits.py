"""P6 for cycles: who waits with `cycle_status` hears of every step that concerns it, once, and of nothing else."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from tests.acceptance.cycling import Crew, until_waiting
from tests.broker import BrokerProcess, StartBroker, fresh_project

LONG = 30
"""Seconds that no wait here ever takes, unless it was not woken."""


@pytest.fixture(scope="module")
def quiet_crew(quiet: BrokerProcess) -> Iterator[Crew]:
    """What `crew` is."""
    with Crew(quiet.url, fresh_project()) as opened:
        yield opened.prepare()


@pytest.fixture
def crew(quiet_crew: Crew) -> Crew:
    """A crew without a cycle; tests take turns with it."""
    return quiet_crew.begin_anew()


@contextmanager
def waiting(broker: BrokerProcess, crew: Crew, *asked: dict[str, Any]) -> Generator[list[Future[dict[str, Any]]]]:
    """One wait for each of these arguments, all of them parked; they must have been answered at the end."""

    def wait(arguments: dict[str, Any]) -> dict[str, Any]:
        with Crew(broker.url, crew.project) as other:
            return other.do("cycle_status", wait=True, **{"timeout_s": LONG, **arguments})

    with ThreadPoolExecutor(len(asked)) as pool:
        parked = [pool.submit(wait, arguments) for arguments in asked]
        until_waiting(broker, len(asked))
        yield parked
    assert all(one.result()["changed"] for one in parked)


def glance(crew: Crew, **arguments: Any) -> dict[str, Any]:
    """A wait of no length: returns the news so far."""
    return crew.do("cycle_status", wait=True, timeout_s=0, **arguments)


def steps(crew: Crew) -> Iterator[tuple[str | None, str | None]]:
    """A cycle step by step: the phase after each, and whose turn it then is; taking the lock is none of them."""
    crew.start()
    yield "frontend", "gemini"
    crew.hand_over("codex")
    yield "backend", "codex"
    crew.hand_over("gemini")
    yield "frontend_refine", "gemini"
    crew.complete()
    yield "complete", "gemini"
    crew.archive()
    yield None, None


def test_whose_turn_it_is_is_answered_at_once(crew: Crew):
    assert not glance(crew, role="codex")["changed"]
    for _, active in steps(crew):
        now = crew.status()["cursor"]
        for role in ("gemini", "codex"):
            # Only the active role has something to do, with any cursor; without a cycle no role has.
            assert glance(crew, role=role)["changed"] is (role == active)
            assert glance(crew, role=role, cursor=now)["changed"] is (role == active)
        # Without a role, news are the events after the cursor; without a cursor, those from now on.
        assert not glance(crew)["changed"]
        assert not glance(crew, cursor=now)["changed"]


def test_a_cursor_of_before_a_step_is_answered_at_once_after_it(crew: Crew):
    cursor = crew.status()["cursor"]
    for phase, active in steps(crew):
        news = glance(crew, cursor=cursor)
        assert (news["changed"], news["phase"]) == (True, phase)
        assert news["cursor"] != cursor
        for role in ("gemini", "codex"):
            theirs = glance(crew, cursor=cursor, role=role)
            # Completion and archive are news for every role, all other steps for the one whose turn it now is.
            assert theirs["changed"] is (role == active or phase in {"complete", None})
            # Who is not concerned keeps the cursor, so that a later wait misses nothing.
            assert theirs["cursor"] == (news["cursor"] if theirs["changed"] else cursor)
        cursor = news["cursor"]


def test_every_step_wakes_whoever_waits_for_any(quiet: BrokerProcess, crew: Crew):
    going = steps(crew)
    for expected in ("frontend", "backend", "frontend_refine", "complete", None):
        cursor = crew.status()["cursor"]
        with waiting(quiet, crew, {"cursor": cursor}, {}) as parked:
            phase, active = next(going)
            answers = [one.result() for one in parked]
        assert phase == expected
        assert [(one["phase"], one["active_role"]) for one in answers] == [(phase, active)] * 2


def test_taking_the_lock_again_wakes_nobody(quiet: BrokerProcess, crew: Crew):
    crew.start()
    cursor = crew.status()["cursor"]
    with waiting(quiet, crew, {"cursor": cursor}, {}, {"cursor": cursor, "role": "codex"}) as parked:
        for _ in range(3):
            crew.lock("gemini")
        assert not glance(crew, cursor=cursor)["changed"]
        crew.hand_over("codex")
        # Who had been woken before would have seen another phase.
        assert [one.result()["phase"] for one in parked] == ["backend"] * 3


def test_a_role_is_woken_by_its_own_turn_and_by_the_end(quiet: BrokerProcess, crew: Crew):
    idle = crew.status()["cursor"]
    with waiting(quiet, crew, {"role": "codex"}, {"role": "codex", "cursor": idle}) as parked:
        crew.start()
        crew.lock()
        crew.hand_over("codex")
        answers = [one.result() for one in parked]
    assert [(one["phase"], one["active_role"]) for one in answers] == [("backend", "codex")] * 2
    with waiting(quiet, crew, {"role": "gemini"}, {"role": "gemini", "cursor": idle}) as parked:
        crew.lock()
        crew.hand_over("gemini")
        assert [one.result()["phase"] for one in parked] == ["frontend_refine"] * 2
    now = crew.status()["cursor"]
    with waiting(quiet, crew, {"role": "codex"}, {"role": "codex", "cursor": now}) as parked:
        crew.lock()
        crew.complete()
        answers = [one.result() for one in parked]
    # There is no other turn to wait for.
    assert [one["phase"] for one in answers] == ["complete"] * 2
    with waiting(quiet, crew, {"role": "codex", "cursor": answers[1]["cursor"]}) as parked:
        crew.archive()
        assert [one.result()["cycle_id"] for one in parked] == [None]


def test_another_projects_steps_wake_nobody(quiet: BrokerProcess, crew: Crew):
    crew.start()
    cursor = crew.status()["cursor"]
    with waiting(quiet, crew, {"cursor": cursor}) as (parked,):
        with Crew(quiet.url, fresh_project()) as other:
            other.prepare()
            assert [phase for phase, _ in steps(other)][-1] is None
        crew.join("codex")
        crew.hand_over("codex")
        assert parked.result()["phase"] == "backend"


def test_a_wait_for_nobody_or_from_nowhere_is_refused(crew: Crew):
    log = crew.status()["cursor"].rpartition(".")[0]
    assert crew.refused("INVALID_ROLE", "cycle_status", wait=True, role="planner")["allowed"] == ["gemini", "codex"]
    assert crew.refused("INVALID_INPUT", "cycle_status", wait=True, cursor="yesterday")["field"] == "cursor"
    crew.refused("CURSOR_EXPIRED", "cycle_status", wait=True, cursor="another.1")
    crew.refused("CURSOR_EXPIRED", "cycle_status", wait=True, cursor=f"{log}.999999999999999")


def test_a_restart_during_a_wait_loses_nothing(start_broker: StartBroker, database_settings: dict[str, object]):
    broker = start_broker(**database_settings)
    with ExitStack() as stack:
        crew, waiter = (stack.enter_context(Crew(broker.url, fresh_project())) for _ in range(2))
        waiter.project = crew.project
        pool = stack.enter_context(ThreadPoolExecutor(1))
        crew.prepare().start()

        def park(role: str) -> Future[dict[str, Any]]:
            parked = pool.submit(waiter.do, "cycle_status", wait=True, timeout_s=LONG, role=role, cursor=cursor)
            until_waiting(broker, 1)
            return parked

        handing = crew.handing("codex")
        cursor = crew.status()["cursor"]
        cut_off = park("codex")
        broker.kill()
        with pytest.raises(httpx.TransportError):
            cut_off.result()
        broker.start()
        crew.do("handoff_write", **handing)
        # Events from a time without a wait are returned at once; and then the wait goes on from there.
        news = glance(crew, role="codex", cursor=cursor)
        assert (news["changed"], news["phase"]) == (True, "backend")
        handing = crew.handing("gemini")
        cursor = news["cursor"]
        answered = park("gemini")
        broker.stop()
        assert (answered.result()["changed"], answered.result()["cursor"]) == (False, cursor)
        broker.start()
        woken = park("gemini")
        crew.do("handoff_write", **handing)
        assert (woken.result()["changed"], woken.result()["phase"]) == (True, "frontend_refine")
    broker.assert_intact()
