"""P6 for cycles: who waits with `cycle_status` hears of every step that concerns it, once, and of nothing else."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import httpx
import pytest

from tests.acceptance.cycling import Crew, audit, until_waiting
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.postgres import PostgresServer

LONG = 30
"""Seconds that no wait here ever takes, unless it was not woken."""


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def quiet(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker in which nobody else waits, on each database; audited at the end."""
    with ExitStack() as stack:
        settings: dict[str, object] = {}
        if request.param == "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            url = server.create_database()
            stack.callback(server.drop_database, url)
            settings["database_url"] = url
        started = stack.enter_context(BrokerProcess(tmp_path_factory.mktemp("broker"), **settings))
        yield started
        audit(started)


@pytest.fixture
def crew(quiet: BrokerProcess) -> Iterator[Crew]:
    with Crew(quiet.url, fresh_project()) as opened:
        yield opened.prepare()


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
    """A wait of no length: what is news already."""
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
            # There is something to do, whatever the role has seen; while all is idle there is not.
            assert glance(crew, role=role)["changed"] is (role == active)
            assert glance(crew, role=role, cursor=now)["changed"] is (role == active)
        # Without a role, news is what comes after the cursor; without a cursor, what comes from now on.
        assert not glance(crew)["changed"]
        assert not glance(crew, cursor=now)["changed"]


def test_a_cursor_of_before_a_step_is_answered_at_once_after_it(crew: Crew):
    cursor = crew.status()["cursor"]
    for phase, active in steps(crew):
        news = glance(crew, cursor=cursor)
        assert (news["changed"], news["phase"]) == (True, phase)
        assert news["cursor"] != cursor
        # The end of it all is news for every role.
        theirs = glance(crew, cursor=cursor, role=active or "codex")
        assert (theirs["changed"], theirs["phase"]) == (True, phase)
        if active == "gemini":
            # The other's cursor stays where it was, so that a later wait misses nothing.
            assert glance(crew, cursor=cursor, role="codex")["cursor"] == cursor
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


def test_a_role_is_woken_by_its_own_turn_only(quiet: BrokerProcess, crew: Crew):
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
    with waiting(quiet, crew, {"role": "codex"}, {"role": "codex", "cursor": idle}) as parked:
        crew.complete()
        crew.archive()
        # Not by gemini's completion; but when all is over.
        assert [one.result()["cycle_id"] for one in parked] == [None] * 2


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


def test_a_wait_that_ends_without_news_keeps_its_place(quiet: BrokerProcess, crew: Crew):
    crew.start()
    cursor = crew.status()["cursor"]
    for asked in ({"cursor": cursor}, {"cursor": cursor, "role": "codex"}):
        answer = crew.do("cycle_status", wait=True, timeout_s=0.1, **asked)
        assert (answer["changed"], answer["cursor"], answer["phase"]) == (False, cursor, "frontend")
    crew.hand_over("codex")
    assert glance(crew, cursor=cursor, role="codex")["changed"]
    until_waiting(quiet, 0)


def test_a_wait_for_nobody_or_from_nowhere_is_refused(crew: Crew):
    log = crew.status()["cursor"].rpartition(".")[0]
    assert crew.refused("INVALID_ROLE", "cycle_status", wait=True, role="planner")["allowed"] == ["gemini", "codex"]
    assert crew.refused("INVALID_INPUT", "cycle_status", wait=True, cursor="yesterday")["field"] == "cursor"
    crew.refused("CURSOR_EXPIRED", "cycle_status", wait=True, cursor="another.1")
    crew.refused("CURSOR_EXPIRED", "cycle_status", wait=True, cursor=f"{log}.999999")


@pytest.mark.parametrize("end", ["kill", "stop"])
def test_a_restart_during_a_wait_loses_nothing(
    start_broker: StartBroker, database_settings: dict[str, object], end: str
):
    broker = start_broker(**database_settings)
    with Crew(broker.url, fresh_project()) as crew, ThreadPoolExecutor(1) as pool:
        crew.prepare().start()
        handing = crew.handing("codex")
        cursor = crew.status()["cursor"]
        asked = {"wait": True, "role": "codex", "cursor": cursor}
        with Crew(broker.url, crew.project) as waiter:
            parked = pool.submit(waiter.do, "cycle_status", timeout_s=LONG, **asked)
            until_waiting(broker, 1)
            if end == "kill":
                broker.kill()
                with pytest.raises(httpx.TransportError):
                    parked.result()
            else:
                broker.stop()
                assert (parked.result()["changed"], parked.result()["cursor"]) == (False, cursor)
            broker.start()
            crew.do("handoff_write", **handing)
            # What happened while nobody waited is told at once; and then the wait goes on from there.
            answer = glance(crew, role="codex", cursor=cursor)
            assert (answer["changed"], answer["phase"]) == (True, "backend")
            again = {"wait": True, "cursor": answer["cursor"], "timeout_s": LONG}
            parked = pool.submit(waiter.do, "cycle_status", **again)
            until_waiting(broker, 1)
            crew.hand_over("gemini")
            assert parked.result()["phase"] == "frontend_refine"
    audit(broker)
