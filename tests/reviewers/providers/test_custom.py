"""Any program: run as it is."""

from __future__ import annotations

from pathlib import Path

from tandem.pool.reviewers import RunContext
from tests.reviewers.providing import MCP, MODEL, PROMPT, ended, made


def test_a_custom_program_is_run_as_it_is_and_told_the_rest_by_variables(room: RunContext) -> None:
    invocation = made("custom").review(room, PROMPT)
    assert invocation.argv == ("/opt/reviewer", "--flag")
    assert invocation.stdin.decode() == PROMPT
    told = {name: value for name, value in invocation.environment.items() if name.startswith("TANDEM_REVIEW_")}
    assert told.pop("TANDEM_REVIEW_SCHEMA") == str(Path(room.scratch, "schema.json"))
    assert told == {"TANDEM_REVIEW_EFFORT": "high", "TANDEM_REVIEW_MODEL": MODEL}
    assert made("custom").agent(room, PROMPT, MCP).environment["TANDEM_REVIEW_MCP_URL"] == MCP


def test_a_custom_programs_output_is_the_answer(room: RunContext) -> None:
    assert made("custom").read(ended(' {"verdict": "approved"}\n'), room).text == '{"verdict": "approved"}'
