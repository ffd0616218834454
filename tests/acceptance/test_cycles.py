"""A feature's way through the built-in workflow, as the handbook tells it: every answer, and every next one."""

from __future__ import annotations

import re
from functools import partial
from typing import Any

import pytest

from tests.acceptance.cycling import FEATURE, Crew, payload
from tests.broker import BrokerProcess, fresh_project

pytest_plugins = ["tests.acceptance.cycling_crews"]

EMPTY = {"status": "empty", "updated_at": None}
TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z")
CYCLE_ID = re.compile(r"\d{8}T\d{6}Z_[a-z0-9]+(-[a-z0-9]+)*_[0-9a-z]{6}")
ROUND_TRIP = ("codex", "gemini")
"""From `frontend` to `frontend_refine`; once more is the rework loop."""
NAMES = {
    "  Login page \n": "login-page",
    "../../etc/passwd": "etc-passwd",
    "Größe & Übersicht": "groe-ubersicht",
    "\u6f22\u5b57 \U0001f680": "feature",
    "CON": "con",
    "x" * 200: "x" * 40,
    "a'; DROP TABLE cycles; --": "a-drop-table-cycles",
}
"""Features, and what becomes of them in the cycle's id."""


def is_idle(status: dict[str, Any]) -> bool:
    """Whether a status says, in every field, that no cycle is under way."""
    nothing = ("cycle_id", "feature", "phase", "active_role", "review", "created_at", "updated_at")
    return (
        all(status[name] is None for name in nothing)
        and status["mode"] == "direct"
        and status["handoffs"] == {"codex": EMPTY, "gemini": EMPTY}
        and status["lock"] == {"locked": False, "role": None, "acquired_at": None}
        and "cycle_start" in status["next_step"]
    )


def called(crew: Crew, tool: str, spelling: str = "_", **arguments: Any) -> dict[str, Any]:
    """The data of a call with exactly these arguments, by the tool's listed name or its dotted one."""
    envelope = crew.send(tool.replace("_", spelling), arguments)
    assert envelope is not None
    assert envelope["ok"], envelope
    return envelope["data"]


@pytest.mark.parametrize("spelling", ["_", "."])
def test_the_daily_procedure_from_the_keys_to_the_archive(broker: BrokerProcess, spelling: str):
    with Crew(broker.url, fresh_project()) as crew:
        do = partial(called, crew, spelling=spelling, project=crew.project)
        crew.make_keys()
        assert is_idle(do("cycle_status"))
        gemini = do("session_open", role="gemini", psk=crew.keys["gemini"])
        codex = do("session_open", role="codex", psk=crew.keys["codex"])
        assert (gemini["role"], codex["role"]) == ("gemini", "codex")
        assert gemini["session_token"].startswith("sess_")
        assert gemini["session_token"] != codex["session_token"]

        started = do("cycle_start", feature=FEATURE)
        assert (started["phase"], started["active_role"]) == ("frontend", "gemini")
        assert do("handoff_read", target="codex") == do("handoff_read", target="gemini") == {}

        session = {"session_token": gemini["session_token"]}
        lock = do("lock_acquire", **session)
        assert lock == {"cycle_id": started["cycle_id"], "role": "gemini", "lock_token": started["lock_token"]}
        sent = payload(started, "gemini", "codex")
        written = do("handoff_write", target="codex", payload=sent, lock_token=lock["lock_token"], **session)
        assert (written["ok"], written["phase"], written["active_role"]) == (True, "backend", "codex")
        assert "codex" in written["next_step"]
        assert (written["review_id"], "lock_token" in written) == (None, False)

        status = do("cycle_status")
        assert (status["cycle_id"], status["feature"]) == (started["cycle_id"], FEATURE)
        assert (status["phase"], status["active_role"], status["mode"]) == ("backend", "codex", "direct")
        assert status["handoffs"]["codex"]["status"] == "present"
        assert TIME.fullmatch(status["handoffs"]["codex"]["updated_at"])
        assert status["handoffs"]["gemini"] == EMPTY
        assert (status["lock"]["locked"], status["lock"]["role"]) == (True, "codex")
        assert "lock_token" not in status["lock"]
        assert (do("handoff_read", target="codex"), do("handoff_read", target="gemini")) == (sent, {})

        theirs = {"gemini": session, "codex": {"session_token": codex["session_token"]}}
        lock = do("lock_acquire", **theirs["codex"])
        assert (lock["cycle_id"], lock["role"]) == (started["cycle_id"], "codex")
        sent = payload(started, "codex", "gemini", todos=["Say what a wrong password gets."])
        written = do("handoff_write", target="gemini", payload=sent, lock_token=lock["lock_token"], **theirs["codex"])
        assert (written["phase"], written["active_role"]) == ("frontend_refine", "gemini")
        assert do("handoff_read", target="gemini") == sent
        assert do("handoff_read", target="codex") == payload(started, "gemini", "codex")
        assert {state["status"] for state in do("cycle_status")["handoffs"].values()} == {"present"}

        lock = do("lock_acquire", **theirs["gemini"])
        completed = do("cycle_complete", lock_token=lock["lock_token"], **theirs["gemini"])
        assert (completed["phase"], completed["active_role"]) == ("complete", "gemini")
        status = do("cycle_status")
        assert (status["phase"], status["lock"]["locked"], status["lock"]["role"]) == ("complete", True, "gemini")
        assert do("handoff_read", target="gemini") == sent
        lock = do("lock_acquire", **theirs["gemini"])
        archived = do("cycle_archive", lock_token=lock["lock_token"], **theirs["gemini"])
        assert archived["cycle_id"] == started["cycle_id"]
        assert archived["archive"].endswith(started["cycle_id"])
        assert is_idle(do("cycle_status"))
        assert do("handoff_read", target="codex") == do("handoff_read", target="gemini") == {}


def test_every_event_names_the_role_that_acted(fresh_crew: Crew):
    fresh_crew.start()
    fresh_crew.play(*ROUND_TRIP)
    fresh_crew.complete()
    fresh_crew.archive()
    actors = [
        (event["kind"], event["actor"])
        for event in fresh_crew.events()
        if event["kind"] in {"handoff_written", "cycle_advanced", "cycle_completed", "cycle_archived"}
    ]
    assert actors == [
        ("handoff_written", "gemini"),
        ("cycle_advanced", "gemini"),
        ("handoff_written", "codex"),
        ("cycle_advanced", "codex"),
        ("cycle_completed", "gemini"),
        ("cycle_archived", "gemini"),
    ]
    opened = [event["actor"] for event in fresh_crew.events() if event["kind"] == "session_opened"]
    assert sorted(opened) == ["codex", "gemini"]


def test_times_of_a_status_move_with_the_cycle_and_its_lock(crew: Crew):
    crew.start()
    first = crew.status()
    assert TIME.fullmatch(first["lock"]["acquired_at"])
    assert first["created_at"] == first["updated_at"]
    crew.hand_over("codex")
    assert crew.status()["lock"] == {"locked": True, "role": "codex", "acquired_at": None}
    crew.lock()
    assert TIME.fullmatch(crew.status()["lock"]["acquired_at"])
    crew.hand_over("gemini")
    second = crew.status()
    assert second["created_at"] == first["created_at"]
    assert second["updated_at"] > first["updated_at"]
    times = {role: state["updated_at"] for role, state in second["handoffs"].items()}
    assert first["updated_at"] < times["codex"] < times["gemini"]
    crew.play(*ROUND_TRIP)
    third = {role: state["updated_at"] for role, state in crew.status()["handoffs"].items()}
    assert times["gemini"] < third["codex"] < third["gemini"]


def test_a_second_cycle_begins_afresh_and_the_first_stays_readable(fresh_crew: Crew):
    first = fresh_crew.start("First")
    fresh_crew.play(*ROUND_TRIP)
    fresh_crew.complete()
    fresh_crew.archive()
    second = fresh_crew.start("Second")
    assert second["cycle_id"] != first["cycle_id"]
    assert second["lock_token"] != first["lock_token"]
    assert (fresh_crew.read("codex"), fresh_crew.read("gemini")) == ({}, {})
    assert fresh_crew.status()["handoffs"] == {"codex": EMPTY, "gemini": EMPTY}
    rows = fresh_crew.do("list_cycles")["cycles"]
    assert [(row["feature"], row["phase"], row["handoffs"]) for row in rows] == [
        ("Second", "frontend", 0),
        ("First", "complete", 2),
    ]
    assert [row["archived_at"] is None for row in rows] == [True, False]
    assert len(fresh_crew.do("get_cycle", cycle_id=first["cycle_id"])["handoffs"]) == 2
    assert fresh_crew.do("get_cycle")["cycle"]["cycle_id"] == second["cycle_id"]
    # The sessions of the first cycle go on being good.
    fresh_crew.play(*ROUND_TRIP)
    fresh_crew.complete()
    fresh_crew.archive()


def test_any_name_makes_an_id_that_is_safe_in_paths(crew: Crew):
    for feature, slug in NAMES.items():
        started = crew.start(feature)
        assert CYCLE_ID.fullmatch(started["cycle_id"])
        assert started["cycle_id"].split("_")[1] == slug
        assert started["feature"] == crew.status()["feature"] == feature.strip()
        crew.play(*ROUND_TRIP)
        crew.complete()
        assert crew.archive().name == started["cycle_id"]
