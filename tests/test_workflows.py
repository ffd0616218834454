"""Workflows: a parsed definition, the built-in one, and one definition under two names."""

from __future__ import annotations

from typing import Any

from tandem.settings.workflows import BUILT_IN, Phase, Workflow, load, parse
from tests.relay import relay

FRONTEND_BACKEND: dict[str, Any] = {
    "roles": ["gemini", "codex"],
    "start": "frontend",
    "archiver": "gemini",
    "mode": "direct",
    "phases": {
        "frontend": {"role": "gemini", "handoff": {"codex": "backend"}},
        "backend": {"role": "codex", "handoff": {"gemini": "frontend_refine"}},
        "frontend_refine": {"role": "gemini", "handoff": {"codex": "backend"}, "complete": True},
    },
}


def test_the_built_in_workflow_is_the_contracts() -> None:
    phases = {
        "frontend": Phase("frontend", "gemini", {"codex": "backend"}, completes=False),
        "backend": Phase("backend", "codex", {"gemini": "frontend_refine"}, completes=False),
        "frontend_refine": Phase("frontend_refine", "gemini", {"codex": "backend"}, completes=True),
    }
    expected = Workflow("frontend-backend", ("gemini", "codex"), "frontend", phases, "gemini", "direct")
    assert load({}) == {"frontend-backend": expected}
    assert expected == BUILT_IN
    assert BUILT_IN.as_dict() == FRONTEND_BACKEND


def test_who_completes_also_archives_unless_somebody_is_named() -> None:
    two_ends = relay(phases__plan__complete=True)
    assert [parse("relay", two_ends).archiver_after(name) for name in ("plan", "test")] == ["planner", "tester"]
    named = parse("relay", {**two_ends, "archiver": "builder"})
    assert [named.archiver_after(name) for name in ("plan", "test")] == ["builder", "builder"]


def test_an_archiver_without_a_phase_has_its_work_after_completion() -> None:
    table = relay(roles=["planner", "builder", "tester", "librarian"], archiver="librarian")
    assert parse("relay", table).archiver_after("test") == "librarian"


def test_the_built_in_workflow_can_be_gated_without_writing_it_out() -> None:
    gated = load({"frontend-backend": {"mode": "approval"}})["frontend-backend"]
    assert gated.as_dict() == {**FRONTEND_BACKEND, "mode": "approval"}
    assert load({"frontend-backend": {}})["frontend-backend"] == BUILT_IN
    assert load({"frontend-backend": {"archiver": "codex"}})["frontend-backend"].archiver == "codex"


def test_the_built_in_workflow_can_be_replaced_as_a_whole() -> None:
    assert load({"frontend-backend": relay()})["frontend-backend"] == parse("frontend-backend", relay())


def test_a_workflow_can_be_like_another_under_its_own_name() -> None:
    found = load(
        {
            "third": {"like": "second", "archiver": "codex"},
            "second": {"like": "frontend-backend", "mode": "approval"},
            "again": {"like": "relay"},
            "relay": relay(),
        }
    )
    assert list(found) == ["frontend-backend", "third", "second", "again", "relay"]
    assert found["second"].as_dict() == {**FRONTEND_BACKEND, "mode": "approval"}
    assert found["third"].as_dict() == {**FRONTEND_BACKEND, "mode": "approval", "archiver": "codex"}
    assert found["again"] == parse("again", relay())


def test_a_workflow_like_the_built_in_follows_what_the_configuration_makes_of_it() -> None:
    found = load({"second": {"like": "frontend-backend"}, "frontend-backend": {"mode": "approval"}})
    assert found["second"].mode == "approval"
    assert load({"frontend-backend": {"like": "relay"}, "relay": relay()})["frontend-backend"].start == "plan"
