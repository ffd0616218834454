"""The page of the reviewer pool says what its rules and settings do, in the words that it has for them."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import TypeAdapter

import reference_pool
from tandem.pool.contract import PoolView, RunOutcome
from tandem.pool.reviewers import RunContext, prompt
from tandem.pool.reviewers.outcomes import Outcome
from tandem.pool.reviewers.providers import NAMES, provider
from tandem.pool.reviewers.verdicts import EXAMPLE, SCHEMA, read_answer
from tandem.pool.rules import DrainReason, PauseKind, ReviewerState


@pytest.fixture(scope="module")
def page() -> str:
    return reference_pool.reviewer_pool()


def rows(page: str, section: str) -> list[list[str]]:
    """The cells of all tables of a section, heads included."""
    text = page.partition(f"\n## {section}\n")[2].partition("\n## ")[0]
    return [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]


def names_in(page: str, section: str) -> list[str]:
    return [row[0].strip("`") for row in rows(page, section)]


def test_outcomes_states_reasons_and_pauses_are_those_that_there_are(page: str) -> None:
    assert names_in(page, "Outcomes")[2:] == [*get_args(RunOutcome)] == [*Outcome]
    assert set(names_in(page, "States")) >= {*ReviewerState}
    assert names_in(page, "Draining")[2:] == [*DrainReason]
    assert names_in(page, "Pauses")[2:] == [*get_args(PauseKind)]
    assert names_in(page, "Programs")[2:] == [*NAMES]
    told = TypeAdapter(PoolView).json_schema()["properties"]["state"]["description"]
    assert [name for name in re.findall(r"`(\w+)`", told) if name not in names_in(page, "States")] == []


def test_the_answer_that_is_shown_is_one_that_is_taken(page: str) -> None:
    shown = json.loads(page.partition("```json\n")[2].partition("\n```")[0])
    assert shown == EXAMPLE
    answer = read_answer(json.dumps(shown), nonce=shown["nonce"], digest=shown["digest"], files=None)
    assert answer.verdict == "changes_requested"
    fields = [row[0].strip("`") for row in rows(page, "The answer of a program")]
    assert [name for name in SCHEMA["properties"] if name not in fields] == []


def test_the_variables_of_templates_are_those_that_are_read(page: str) -> None:
    shown = {(row[0].strip("`"), row[1].strip("`{}")) for row in rows(page, "The prompt template")[2:]}
    assert shown == {("worker", one) for one in prompt.REVIEW.allowed} | {
        ("agent", one) for one in prompt.AGENT.allowed
    }


def room(tmp_path: Path) -> RunContext:
    return RunContext(
        workspace=str(tmp_path),
        scratch=str(tmp_path),
        model="service/model",
        effort="low",
        schema=SCHEMA,
        environment={"PATH": ""},
        reviewer_id="any-r1-abcdef",
    )


@pytest.mark.parametrize("name", NAMES)
def test_what_is_said_of_programs_is_how_they_are_run(name: str, page: str, tmp_path: Path) -> None:
    [(_, model, effort, form, _, talks)] = [row for row in rows(page, "Programs") if row[0] == f"`{name}`"]
    program: Any = provider(name, (name,))
    review = program.review(room(tmp_path), "prompt")
    agent = program.agent(room(tmp_path), "prompt", "http://127.0.0.1:8321/mcp/reviewer")
    assert {review.talks, agent.talks} == {talks == "yes"}
    given = f"{review.argv} {review.environment}"
    assert ("low" in given) is (effort != "cannot be told")
    assert "model" in given
    assert model
    held = json.dumps(SCHEMA) in review.argv or any("schema" in one for one in review.argv)
    assert held is (form == "held to the schema")
