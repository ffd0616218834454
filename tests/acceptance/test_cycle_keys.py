"""Keys of roles and the sessions that they open: made, given, replaced, taken away, closed, and idle for too long."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.acceptance.cycling import Crew
from tests.broker import BrokerProcess, StartBroker, fresh_project

KEY = re.compile(r"psk_[A-Za-z0-9_-]{43}")
OWN = "a key of my own, with umlauts: \u00e4\u00f6\u00fc"
SHOWN_ONCE = "(shown once, when it was made)"
IDLE_SECONDS = 6
IDEM = {"idempotency_key": "key-1"}


@pytest.fixture
def crew(broker: BrokerProcess) -> Iterator[Crew]:
    """A project without keys."""
    with Crew(broker.url, fresh_project()) as opened:
        yield opened


def is_key_of(crew: Crew, role: str, key: str) -> bool:
    """Whether a key opens a session of a role."""
    envelope = crew.call("session_open", role=role, psk=key)
    assert envelope["ok"] or envelope["error"]["code"] == "AUTH_FAILED", envelope
    return envelope["ok"]


# ------------------------------------------------------------------------------------------------ keys


def test_keys_are_made_once(crew: Crew):
    first = crew.do("cycle_init")
    assert set(first["keys"]) == {"gemini", "codex"}
    assert all(KEY.fullmatch(key) for key in first["keys"].values())
    assert len(set(first["keys"].values())) == 2
    assert (first["kept"], first["workflow"], first["project"]) == ([], "frontend-backend", crew.project)
    with crew.unchanged():
        second = crew.do("cycle_init")
        assert (second["keys"], second["kept"]) == ({}, ["gemini", "codex"])
    assert all(is_key_of(crew, role, key) for role, key in first["keys"].items())
    assert not is_key_of(crew, "codex", first["keys"]["gemini"])


def test_keys_of_ones_own_are_taken_and_the_others_made(crew: Crew):
    made = crew.do("cycle_init", keys={"gemini": OWN})["keys"]
    assert made["gemini"] == OWN
    assert KEY.fullmatch(made["codex"])
    assert is_key_of(crew, "gemini", OWN)
    assert not is_key_of(crew, "codex", OWN)
    details = crew.refused("INVALID_INPUT", "cycle_init", keys={"gemini": "another key of my own"})
    assert details["field"] == "keys"
    assert is_key_of(crew, "gemini", OWN)
    shortest, longest = "x" * 16, "\u6f22" * 200
    assert crew.do("cycle_rotate", role="codex", key=shortest)["keys"] == {"codex": shortest}
    assert is_key_of(crew, "codex", shortest)
    assert crew.do("cycle_rotate", role="codex", key=longest)["keys"] == {"codex": longest}
    assert is_key_of(crew, "codex", longest)


def test_keys_that_are_too_weak_or_for_nobody_are_refused_and_none_is_made(crew: Crew):
    with crew.unchanged():
        for key in ("", "x" * 15, "x" * 201, " " * 20, f" {OWN}", f"{OWN}\n", "x" * 15 + "\x07"):
            details = crew.refused("INVALID_INPUT", "cycle_init", keys={"gemini": key})
            assert details["field"] == "key"
            assert crew.refused("INVALID_INPUT", "cycle_rotate", role="gemini", key=key)["field"] == "key"
        for keys in ({"planner": OWN}, {"gemini": OWN, "planner": OWN}):
            assert crew.refused("INVALID_ROLE", "cycle_init", keys=keys)["allowed"] == ["gemini", "codex"]
        for operation in ("cycle_rotate", "cycle_revoke"):
            assert crew.refused("INVALID_ROLE", operation, role="planner")["allowed"] == ["gemini", "codex"]
            assert crew.refused("INVALID_INPUT", operation, role="gemini", workflow="none")["field"] == "workflow"
        crew.refused("NOT_FOUND", "cycle_revoke", role="gemini")
    assert not any(OWN in answer for answer in crew.refusals)
    assert crew.refused("CONFIG_INVALID", "cycle_start", feature="Any")["missing"] == ["gemini", "codex"]


def test_a_new_key_ends_the_roles_sessions_and_nothing_else(crew: Crew):
    crew.prepare().start()
    first, codex = crew.sessions["gemini"], crew.sessions["codex"]
    second = crew.join("gemini")
    lock = crew.lock()
    rotated = crew.do("cycle_rotate", role="gemini")
    assert (rotated["sessions_ended"], list(rotated["keys"])) == (2, ["gemini"])
    for session in (first, second):
        assert crew.refused("INVALID_SESSION", "lock_acquire", session_token=session)["reason"] == "rotated"
    crew.refused("AUTH_FAILED", "session_open", role="gemini", psk=crew.keys["gemini"])
    crew.keys |= rotated["keys"]
    # Phase and lock are as before: the role goes on with its new session.
    sent = {"target": "codex", "payload": crew.payload("gemini", "codex"), "lock_token": lock}
    crew.do("handoff_write", **sent, session_token=crew.join("gemini"))
    assert crew.sessions["codex"] == codex
    crew.hand_over("gemini")
    assert crew.do("cycle_rotate", role="gemini")["sessions_ended"] == 1
    assert crew.do("cycle_rotate", role="gemini")["sessions_ended"] == 0


def test_a_key_that_was_taken_away_comes_back_as_another(crew: Crew):
    crew.prepare().start()
    before = dict(crew.keys)
    session = crew.sessions["gemini"]
    assert crew.do("cycle_revoke", role="gemini")["sessions_ended"] == 1
    crew.refused("NOT_FOUND", "cycle_revoke", role="gemini")
    assert crew.do("cycle_status")["next_step"].startswith("A person makes the key for gemini: tandem cycle init")
    made = crew.do("cycle_init")
    assert (list(made["keys"]), made["kept"]) == (["gemini"], ["codex"])
    assert not is_key_of(crew, "gemini", before["gemini"])
    assert is_key_of(crew, "gemini", made["keys"]["gemini"])
    assert is_key_of(crew, "codex", before["codex"])
    # The session of before stays ended.
    assert crew.refused("INVALID_SESSION", "lock_acquire", session_token=session)["reason"] == "revoked"
    revoked = [event["kind"] for event in crew.events() if event["subject"].endswith("/gemini")]
    assert revoked == ["token_created", "token_revoked", "token_created"]


def test_a_key_can_be_replaced_before_there_was_one(crew: Crew):
    made = crew.do("cycle_rotate", role="gemini")["keys"]
    assert crew.refused("CONFIG_INVALID", "cycle_start", feature="Any")["missing"] == ["codex"]
    assert crew.do("cycle_init")["kept"] == ["gemini"]
    assert is_key_of(crew, "gemini", made["gemini"])


def test_the_keys_of_one_project_are_of_no_use_in_another(broker: BrokerProcess, crew: Crew):
    crew.make_keys()
    with Crew(broker.url, fresh_project()) as other:
        other.make_keys()
        assert not is_key_of(other, "gemini", crew.keys["gemini"])
        other.do("cycle_rotate", role="gemini")
        other.do("cycle_revoke", role="codex")
    assert all(is_key_of(crew, role, key) for role, key in crew.keys.items())


# ------------------------------------------------------------------------------------------------ sessions


def test_a_closed_session_is_over_and_the_others_are_not(crew: Crew):
    crew.prepare().start()
    closed = crew.sessions["gemini"]
    crew.join("gemini")
    first = crew.do("session_close", session_token=closed)
    assert (first["role"], first["closed"]) == ("gemini", True)
    with crew.unchanged():
        assert crew.do("session_close", session_token=closed) == first
        assert crew.refused("INVALID_SESSION", "lock_acquire", session_token=closed)["reason"] == "closed"
    crew.hand_over("codex")
    ends = [event for event in crew.events() if event["kind"] == "session_closed"]
    assert [(end["actor"], end["data"]["reason"]) for end in ends] == [("gemini", "closed")]


def test_a_session_that_nobody_uses_ends_and_one_in_use_does_not(
    start_broker: StartBroker,
):
    broker = start_broker(session_idle_seconds=IDLE_SECONDS, sweep_interval_seconds=0.1)
    with Crew(broker.url, fresh_project()) as crew:
        crew.make_keys()
        crew.start()
        cursor = crew.do("get_audit_log")["cursor"]
        crew.join("codex")
        crew.join("gemini")
        ended: list[dict[str, Any]] = []
        while not ended:
            crew.lock("gemini")
            asked = {"kind": "session_closed", "cursor": cursor, "wait": True, "timeout_s": IDLE_SECONDS / 8}
            ended = crew.do("get_audit_log", **asked)["events"]
        assert [(end["actor"], end["data"]["role"], end["data"]["reason"]) for end in ended] == [
            ("broker", "codex", "idle")
        ]
        details = crew.refused("INVALID_SESSION", "lock_acquire", session_token=crew.sessions["codex"])
        assert (details["role"], details["reason"]) == ("codex", "idle")
        crew.hand_over("codex", notes=["Still here."])
        crew.join("codex")
        crew.hand_over("gemini")
    broker.assert_intact()


# ------------------------------------------------------------------------------------------------ repeated calls

REPEATED: dict[str, Callable[[Crew], dict[str, Any]]] = {
    "session_open": lambda crew: {"role": "gemini", "psk": crew.keys["gemini"]},
    "cycle_start": lambda _: {"feature": "Once"},
    "lock_acquire": lambda crew: (crew.start(), {"session_token": crew.sessions["gemini"]})[1],
    "handoff_write": lambda crew: (crew.start(), crew.handing("codex"))[1],
    "cycle_complete": lambda crew: (crew.start(), crew.play("codex", "gemini"), crew.tokens())[2],
    "cycle_archive": lambda crew: (crew.start(), crew.play("codex", "gemini"), crew.complete(), crew.tokens())[3],
}


def test_p4_a_repeated_call_gives_the_same_answer_with_its_token_and_changes_nothing(broker: BrokerProcess):
    for operation, prepare in REPEATED.items():
        with Crew(broker.url, fresh_project()) as crew:
            arguments = prepare(crew.prepare())
            first = crew.do(operation, **arguments, **IDEM)
            with crew.unchanged():
                assert [crew.do(operation, **arguments, **IDEM) for _ in range(2)] == [first] * 2
                wrong = {**arguments, next(iter(arguments)): "another"}
                crew.refused("IDEMPOTENCY_CONFLICT", operation, **wrong, **IDEM)


def test_p4_a_repeated_call_gives_the_token_of_then(crew: Crew):
    crew.prepare()
    crew.do("cycle_start", feature="Once", **IDEM)
    crew.cycle = crew.do("cycle_start", feature="Once", **IDEM)
    session = {"session_token": crew.sessions["gemini"]}
    taken = crew.do("lock_acquire", **session, **IDEM)["lock_token"]
    assert taken == crew.cycle["lock_token"]
    crew.play("codex", "gemini")
    now = crew.lock()
    assert now != taken
    assert crew.do("lock_acquire", **session, **IDEM)["lock_token"] == taken
    assert crew.do("cycle_start", feature="Once", **IDEM)["lock_token"] == taken
    crew.refused("LOCK_DENIED", "cycle_complete", **session, lock_token=taken)
    crew.do("cycle_complete", **session, lock_token=now)


def test_p4_a_repeated_session_opens_nothing_and_is_as_dead_as_the_first(crew: Crew):
    crew.make_keys()
    arguments = {"role": "gemini", "psk": crew.keys["gemini"], **IDEM}
    token = crew.do("session_open", **arguments)["session_token"]
    crew.start()
    assert crew.do("lock_acquire", session_token=token)["role"] == "gemini"
    crew.do("session_close", session_token=token)
    assert crew.do("session_open", **arguments)["session_token"] == token
    crew.refused("INVALID_SESSION", "lock_acquire", session_token=token)


def test_p4_new_keys_are_shown_once(crew: Crew):
    keys = crew.do("cycle_init", **IDEM)["keys"]
    assert all(KEY.fullmatch(key) for key in keys.values())
    assert crew.do("cycle_init", **IDEM)["keys"] == dict.fromkeys(keys, SHOWN_ONCE)
    rotated = crew.do("cycle_rotate", role="gemini", **IDEM)
    with crew.unchanged():
        again = crew.do("cycle_rotate", role="gemini", **IDEM)
    assert again == {**rotated, "keys": {"gemini": SHOWN_ONCE}}
    assert is_key_of(crew, "gemini", rotated["keys"]["gemini"])
    crew.refused("IDEMPOTENCY_CONFLICT", "cycle_rotate", role="codex", **IDEM)


def test_p4_a_refusal_is_repeated_too(crew: Crew):
    wrong = {"role": "gemini", "psk": "not the key of gemini", **IDEM}
    crew.make_keys()
    crew.refused("AUTH_FAILED", "session_open", **wrong)
    crew.do("cycle_rotate", role="gemini", key=wrong["psk"])
    crew.refused("AUTH_FAILED", "session_open", **wrong)
    assert is_key_of(crew, "gemini", wrong["psk"])
