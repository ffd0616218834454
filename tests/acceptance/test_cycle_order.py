"""A call with several faults is refused for the first in the contract's order.

A call begins with every fault; each test fixes one after the other, and expects the next complaint each time.
"""

from __future__ import annotations

from typing import Any

from tests.acceptance.cycling import FEATURE, Crew
from tests.broker import BrokerProcess, fresh_project

ROUND_TRIP = ("codex", "gemini")
TOO_MUCH = "x" * 256_001
"""More than a text may have by default."""


def test_of_several_complaints_about_a_hand_off_the_first_in_order_is_made(broker: BrokerProcess):
    with Crew(broker.url, fresh_project()) as crew:
        sent: dict[str, Any] = {"target": "stranger", "lock_token": "none", "session_token": "none"}
        sent["payload"] = {"notes": [TOO_MUCH]}

        def complaint(code: str) -> dict[str, Any]:
            with crew.unchanged():
                return crew.refused(code, "handoff_write", **sent)

        complaint("CONFIG_INVALID")
        crew.prepare()
        complaint("INVALID_SESSION")
        sent["session_token"] = crew.sessions["codex"]
        complaint("NO_ACTIVE_CYCLE")
        crew.start()
        complaint("INVALID_TARGET")
        sent["target"] = "gemini"
        complaint("INVALID_PHASE")
        sent["target"] = "codex"
        assert "codex" in complaint("LOCK_DENIED").values()
        sent["session_token"] = crew.sessions["gemini"]
        assert "codex" not in complaint("LOCK_DENIED").values()
        sent["lock_token"] = crew.lock()
        assert complaint("SCHEMA_INVALID")["problems"]
        sent["payload"] = crew.payload("gemini", "codex", notes=[TOO_MUCH])
        assert complaint("TOO_LARGE")["limit"] == 256_000
        sent["payload"] = crew.payload("gemini", "codex")
        crew.do("handoff_write", **sent)


def test_of_several_complaints_about_an_end_the_first_in_order_is_made(broker: BrokerProcess):
    with Crew(broker.url, fresh_project()) as crew:
        sent = {"lock_token": "none", "session_token": "none"}

        def complaint(code: str, *operations: str) -> None:
            with crew.unchanged():
                for operation in operations:
                    crew.refused(code, operation, **sent)

        complaint("CONFIG_INVALID", "cycle_complete", "cycle_archive")
        crew.prepare()
        complaint("INVALID_SESSION", "cycle_complete", "cycle_archive")
        sent["session_token"] = crew.sessions["codex"]
        complaint("NO_ACTIVE_CYCLE", "cycle_complete")
        complaint("ARCHIVE_NOT_ALLOWED", "cycle_archive")
        crew.start()
        complaint("INVALID_PHASE", "cycle_complete")
        complaint("ARCHIVE_NOT_ALLOWED", "cycle_archive")
        crew.play(*ROUND_TRIP)
        complaint("LOCK_DENIED", "cycle_complete")
        assert '"requestedRole": "codex"' in crew.refusals[-1]
        sent["session_token"] = crew.sessions["gemini"]
        complaint("LOCK_DENIED", "cycle_complete")
        assert "lock_acquire" in crew.refusals[-1]
        complaint("ARCHIVE_NOT_ALLOWED", "cycle_archive")
        crew.complete()
        complaint("INVALID_PHASE", "cycle_complete")
        complaint("LOCK_DENIED", "cycle_archive")
        crew.archive()


def test_of_several_complaints_about_a_beginning_the_first_in_order_is_made(broker: BrokerProcess):
    with Crew(broker.url, fresh_project()) as crew:
        crew.refused("CONFIG_INVALID", "session_open", role="stranger", psk="wrong")
        crew.refused("CONFIG_INVALID", "cycle_start", feature="")
        crew.refused("CONFIG_INVALID", "lock_acquire", session_token="none")
        crew.prepare()
        crew.refused("INVALID_ROLE", "session_open", role="stranger", psk="wrong")
        crew.refused("AUTH_FAILED", "session_open", role="codex", psk="wrong")
        crew.refused("INVALID_SESSION", "lock_acquire", session_token="none")
        crew.refused("NO_ACTIVE_CYCLE", "lock_acquire", session_token=crew.sessions["codex"])
        for feature in ("", "x" * 201):
            assert crew.refused("SCHEMA_INVALID", "cycle_start", feature=feature)["field"] == "feature"
        crew.start()
        crew.refused("SCHEMA_INVALID", "cycle_start", feature=" \n\t")
        crew.refused("CYCLE_ALREADY_ACTIVE", "cycle_start", feature=FEATURE)
        with crew.unchanged():
            denied = crew.refused("LOCK_DENIED", "lock_acquire", session_token=crew.sessions["codex"])
        assert denied == {"activeRole": "gemini", "requestedRole": "codex", "phase": "frontend"}
