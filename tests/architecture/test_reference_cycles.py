"""The page of hand-off cycles says what the rules do, in the words that it has for them."""

from __future__ import annotations

import re
from typing import Any

import pytest

import reference_cycles
from tandem.cycles import payloads as handoffs
from tandem.cycles.answers import CycleHistory, CycleRow, HandoffView, LockState
from tandem.cycles.payloads import archive_files
from tandem.cycles.rules import started, transition
from tandem.errors import ConfigInvalid
from tandem.reviews.rules import State
from tandem.server.catalogue import REGISTRY
from tandem.settings import workflows
from tandem.settings.workflows import BUILT_IN


@pytest.fixture(scope="module")
def page() -> str:
    return reference_cycles.cycles()


def refusal_of(table: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigInvalid) as refused:
        workflows.load({"mine": table})
    return refused.value.details["allowed"]


def test_the_payload_that_is_shown_is_one_that_is_taken() -> None:
    shown = reference_cycles.example()
    cycle = started(shown["cycle_id"], BUILT_IN, project="shop", feature=shown["feature"], now_us=0)
    assert handoffs.checked(shown, cycle, transition(cycle, BUILT_IN, shown["consumer"])) == shown


def test_the_keys_of_workflows_and_phases_are_those_that_are_read(page: str) -> None:
    assert sorted(refusal_of({"nonsense": 1})) == sorted(named(page, "key", 0))
    table = {**BUILT_IN.as_dict(), "phases": {"frontend": {"nonsense": 1}}}
    assert sorted(refusal_of(table)) == sorted(named(page, "key", 1))


def test_the_files_of_an_archive_are_those_that_are_written(page: str) -> None:
    row = CycleRow("c", "shop", "w", "f", "direct", "complete", "gemini", 1, None, "", "", "", "", None)
    view = HandoffView(1, "codex", "gemini", "frontend", "backend", "advanced", None, None, "", "", {})
    history = CycleHistory(row, LockState(locked=False, role=None, acquired_at=None), {}, (view,))
    assert [name.replace("001-codex", "NNN-ROLE") for name in archive_files(history)] == named(page, "file")


def test_every_operation_and_every_state_of_a_gated_hand_off_is_told(page: str) -> None:
    operations = [one.name for one in REGISTRY if one.request.__module__.startswith("tandem.cycles.")]
    assert [name.partition("`")[0].strip("[") for name in named(page, "operation")] == operations
    assert named(page, "state") == [*State]
    assert "| `claimed` | `INVALID_PHASE` with the `review_id` |" in page


def named(page: str, head: str, number: int = 0) -> list[str]:
    """The first cells of a table, by the name of its first column."""
    tables = re.findall(rf"(?m)^\| {head} \|.*\n\| --- .*\n((?:\|.*\n)+)", page)
    return [line.split("|")[1].replace("`", "", 1).strip().removesuffix("`") for line in tables[number].splitlines()]
