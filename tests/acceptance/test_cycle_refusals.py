"""What a cycle refuses, with which code and facts; and that a refusal changes nothing."""

from __future__ import annotations

from typing import Any

import pytest

from tests.acceptance.cycling import FEATURE, Crew
from tests.broker import BrokerProcess, fresh_project

pytest_plugins = ["tests.acceptance.cycling_crews"]

ROLES = ("gemini", "codex")
WAYS: dict[str, tuple[str, ...]] = {"frontend": (), "backend": ("codex",), "frontend_refine": ("codex", "gemini")}
"""By which hand-offs a cycle comes into a phase."""
NO_LOCK = "lock_000000_" + "0" * 64
NO_SESSION = "sess_000000000000000000_000000_" + "0" * 64


def completed(crew: Crew) -> dict[str, Any]:
    """A cycle that waits to be archived."""
    started = crew.start()
    crew.play(*WAYS["frontend_refine"])
    crew.complete()
    return started


def sensitive(crew: Crew) -> dict[str, dict[str, Any]]:
    """Every operation that needs keys, with arguments that are as good as they can be."""
    session = {"session_token": crew.sessions.get("gemini", NO_SESSION)}
    lock = {"lock_token": crew.cycle.get("lock_token", NO_LOCK)}
    cycle = crew.cycle or {"cycle_id": "none", "feature": FEATURE}
    return {
        "session_open": {"role": "gemini", "psk": crew.keys.get("gemini", "none")},
        "cycle_start": {"feature": FEATURE},
        "lock_acquire": session,
        "handoff_write": {"target": "codex", "payload": {"cycle_id": cycle["cycle_id"]}, **lock, **session},
        "cycle_complete": {**lock, **session},
        "cycle_archive": {**lock, **session},
    }


# ------------------------------------------------------------------------------------------------ keys and roles


@pytest.mark.parametrize("role", ROLES)
def test_with_a_role_whose_key_was_revoked_nothing_sensitive_can_be_done(fresh_crew: Crew, role: str):
    fresh_crew.start()
    fresh_crew.hand_over("codex")
    fresh_crew.do("cycle_revoke", role=role)
    with fresh_crew.unchanged():
        for operation, arguments in sensitive(fresh_crew).items():
            assert fresh_crew.refused("CONFIG_INVALID", operation, **arguments)["missing"] == [role]
        # To look is no more sensitive than before.
        assert fresh_crew.status()["phase"] == "backend"
        assert fresh_crew.read("codex") == fresh_crew.payload("gemini", "codex")
    fresh_crew.make_keys()
    fresh_crew.join(role)
    fresh_crew.hand_over("gemini")


def test_only_a_role_of_the_workflow_with_its_own_key_gets_a_session(crew: Crew):
    with crew.unchanged():
        for role in ("planner", "Gemini", " gemini", "", "complete"):
            details = crew.refused("INVALID_ROLE", "session_open", role=role, psk=crew.keys["gemini"])
            assert details == {"role": role, "allowed": [*ROLES]}
        # A text that cannot be a name is not repeated.
        for role in ("gemini\u200b", "gemini\n", crew.keys["gemini"]):
            details = crew.refused("INVALID_ROLE", "session_open", role=role, psk=crew.keys["gemini"])
            assert details == {"role": None, "allowed": [*ROLES]}
        key = crew.keys["gemini"]
        for psk in (crew.keys["codex"], "", "x", key[:-1], f"{key} ", key.upper(), "\u2603" * 200):
            assert crew.refused("AUTH_FAILED", "session_open", role="gemini", psk=psk) == {"role": "gemini"}


# ------------------------------------------------------------------------------------------------ sessions


def bad_sessions(crew: Crew, broker: BrokerProcess) -> dict[str, str]:
    """Every kind of session token that is none."""
    good = crew.sessions["gemini"]
    ended = crew.join("gemini")
    crew.do("session_close", session_token=ended)
    crew.sessions["gemini"] = good
    with Crew(broker.url, fresh_project()) as elsewhere:
        elsewhere.prepare()
    flipped = good[:-1] + ("0" if good[-1] != "0" else "1")
    return {
        "unknown": NO_SESSION,
        "garbage": "garbage",
        "empty": "",
        "another project's": elsewhere.sessions["gemini"],
        "ended": ended,
        "a digit wrong": flipped,
        "cut off": good[:-1],
        "in capitals": good.upper(),
        "the key": crew.keys["gemini"],
        "not ASCII": "s\u00e9ss\u2603",
        "its id": good[:24],
    }


def test_a_session_that_is_none_can_do_nothing(crew: Crew, broker: BrokerProcess):
    crew.start()
    bad = bad_sessions(crew, broker)
    for phase in ("frontend", "complete"):
        with crew.unchanged():
            for token in bad.values():
                for operation, arguments in sensitive(crew).items():
                    if "session_token" in arguments:
                        crew.refused("INVALID_SESSION", operation, **{**arguments, "session_token": token})
        if phase == "frontend":
            crew.play(*WAYS["frontend_refine"])
            crew.complete()
    crew.refused("INVALID_SESSION", "session_close", session_token=bad["unknown"])
    assert crew.do("session_close", session_token=bad["ended"])["closed"]


# ------------------------------------------------------------------------------------------------ the lock


def test_a_lock_token_is_good_for_its_cycle_and_its_turn_only(crew: Crew):
    first = completed(crew)
    last_of_first = crew.lock()
    crew.archive()
    stale = crew.start()["lock_token"]
    crew.hand_over("codex")
    codex = crew.lock("codex")
    crew.hand_over("gemini")
    right = crew.tokens("gemini")
    last = right["lock_token"]
    wrong = {
        "of the turn before": codex,
        "of the role's own turn before": stale,
        "of the first cycle": first["lock_token"],
        "of the first cycle's end": last_of_first,
        "of nothing": NO_LOCK,
        "a digit wrong": last[:-1] + ("0" if last[-1] != "0" else "1"),
        "empty": "",
        "the session": crew.sessions["gemini"],
        "not ASCII": "l\u00f6ck\u2603",
        "in capitals": last.upper(),
    }
    hand_over = {**crew.handing("codex"), **right}
    with crew.unchanged():
        for token in wrong.values():
            for operation, arguments in {"handoff_write": hand_over, "cycle_complete": right}.items():
                details = crew.refused("LOCK_DENIED", operation, **{**arguments, "lock_token": token})
                assert details["activeRole"] == "gemini"
                assert "lock_acquire" in crew.refusals[-1]
    crew.do("cycle_complete", **right)
    with crew.unchanged():
        for token in wrong.values():
            crew.refused("LOCK_DENIED", "cycle_archive", **{**right, "lock_token": token})
    crew.do("cycle_archive", **right)
