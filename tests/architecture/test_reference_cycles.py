"""The page of hand-off cycles says what the rules do, in the words that it has for them."""

from __future__ import annotations

from typing import Any

import pytest

import reference
import reference_cycles
from reference_parts import Undocumented
from tandem.cycles import payloads as handoffs
from tandem.cycles.answers import CycleHistory, CycleRow, HandoffView, LockState
from tandem.cycles.archives import archive_files
from tandem.cycles.requests import LockAcquire
from tandem.cycles.rules import started, transition
from tandem.errors import ConfigInvalid
from tandem.reviews.rules import State
from tandem.settings import workflows
from tandem.settings.workflows import BUILT_IN


@pytest.fixture(scope="module")
def page() -> str:
    return reference_cycles.cycles()


def refusal_of(table: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigInvalid) as refused:
        workflows.load({"mine": table})
    return refused.value.details["allowed"]


def test_every_step_of_the_built_in_workflow_is_on_the_page(page: str) -> None:
    for phase in BUILT_IN.phases.values():
        for target, following in phase.handoffs.items():
            assert f"| `{phase.name}` | `handoff_write` to `{target}` | {phase.role} | `{following}` |" in page
    assert "| `frontend_refine` | `cycle_complete` | gemini | `complete` | stays with gemini |" in page


def test_the_lock_is_said_to_move_where_the_role_changes() -> None:
    alone = workflows.load({"frontend-backend": {"archiver": "codex"}})["frontend-backend"]
    shown = reference_cycles.transitions(alone)
    assert "| `frontend_refine` | `cycle_complete` | gemini | `complete` | new token, for codex |" in shown
    assert "| `complete` | `cycle_archive` | codex | idle |" in shown


def test_every_field_of_the_payload_is_on_both_pages(page: str) -> None:
    operations = reference.operations()
    for name, about in {**handoffs.TEXTS, **handoffs.ARRAYS, handoffs.EXTRAS: handoffs.EXTRAS_ABOUT}.items():
        assert f"\n| `{name}` | " in page
        assert f"| {about} |" in operations


def test_the_payload_that_is_shown_is_one_that_is_taken() -> None:
    shown = reference_cycles.example()
    cycle = started(shown["cycle_id"], BUILT_IN, project="shop", feature=shown["feature"], now_us=0)
    assert handoffs.checked(shown, cycle, transition(cycle, BUILT_IN, shown["consumer"])) == shown


def test_the_keys_of_workflows_and_phases_are_those_that_are_read() -> None:
    assert sorted(refusal_of({"nonsense": 1})) == sorted(reference_cycles.WORKFLOW)
    table = {**BUILT_IN.as_dict(), "phases": {"frontend": {"nonsense": 1}}}
    assert sorted(refusal_of(table)) == sorted(reference_cycles.PHASE)


def test_the_files_of_an_archive_are_those_that_are_written() -> None:
    row = CycleRow("c", "shop", "w", "f", "direct", "complete", "gemini", 1, None, "", "", "", "", None)
    view = HandoffView(1, "codex", "gemini", "frontend", "backend", "advanced", None, None, "", "", {})
    history = CycleHistory(row, LockState(locked=False, role=None, acquired_at=None), {}, (view,))
    assert [name.replace("001-codex", "NNN-ROLE") for name in archive_files(history)] == [*reference_cycles.ARCHIVE]


def test_every_state_of_a_gated_hand_off_is_told(page: str) -> None:
    assert [*reference_cycles.GATED] == [*State]
    assert "| `claimed` | `INVALID_PHASE` with the `review_id` |" in page


def test_an_operation_without_words_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LockAcquire, "refusals", ())
    with pytest.raises(Undocumented, match="lock_acquire"):
        reference_cycles.cycles()
    monkeypatch.undo()
    monkeypatch.delitem(reference_cycles.PROOFS, "lock_acquire")
    with pytest.raises(Undocumented, match="lock_acquire"):
        reference_cycles.cycles()


def test_the_tools_of_cycles_are_said_to_be_at_their_own_endpoint_only() -> None:
    page = reference.operations()
    assert "| MCP | tool `handoff_write` at `/mcp/handoff` |" in page
    assert "| MCP | tool `get_audit_log` at `/mcp`, `/mcp/operator` |" in page
    section = page.partition("\n## cycle_rotate\n")[2].partition("\n## ")[0]
    assert "| MCP | not offered |" in section


def test_codes_of_other_places_are_said_to_come_from_there() -> None:
    rows = {line.split("`")[1]: line for line in reference.errors().splitlines() if line.startswith("| `")}
    assert "| the endpoint `/mcp/handoff`; " in rows["INVALID_TOOL"]
    assert "[`session_open`](operations.md#session_open)" in rows["CONFIG_INVALID"]
    assert rows["CONFIG_INVALID"].endswith("the command line, at start; supervisors, at theirs |")
    assert rows["TOO_LARGE"].endswith("| any operation |")
