"""The answer, the costs and the error in what each program prints."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tandem.pool.reviewers import ProgramOutput, RunContext
from tests.reviewers.providing import ended, made

Event = dict[str, Any]

VERDICT = '{"verdict": "approved"}'
USAGE = {"input_tokens": 100, "cache_creation_input_tokens": 5, "cache_read_input_tokens": 40, "output_tokens": 20}
RESULT: Event = {"type": "result", "is_error": False, "result": "words", "usage": USAGE, "total_cost_usd": 0.25}
NOT_LOGGED_IN = "Not logged in · Please run /login"
LIMITED = "You've hit your session limit"
ASSISTANT = {"type": "message", "role": "assistant", "delta": True}
TOKENS = {"input": 100, "output": 20, "reasoning": 5, "cache": {"read": 7, "write": 3}}
STEP = {"type": "step_finish", "part": {"tokens": TOKENS, "cost": 0.125}}


def api_error(message: str, status: int, **more: Any) -> Event:
    return {"type": "error", "error": {"name": "APIError", "data": {"message": message, "statusCode": status, **more}}}


REPLIES: dict[str, tuple[list[Event], ProgramOutput]] = {
    "claude, structured": (
        [{**RESULT, "structured_output": json.loads(VERDICT)}],
        ProgramOutput(VERDICT, 145, 20, 0.25),
    ),
    "claude, in words": ([RESULT], ProgramOutput("words", 145, 20, 0.25)),
    "claude, failed": (
        [{"type": "system"}, {**RESULT, "is_error": True, "result": NOT_LOGGED_IN}],
        ProgramOutput(None, 145, 20, 0.25, NOT_LOGGED_IN),
    ),
    "claude, limited": (
        [
            {"type": "rate_limit_event", "rate_limit_info": {"status": "rejected", "resetsAt": 1_795_730_000}},
            {"type": "result", "is_error": True, "result": LIMITED},
        ],
        ProgramOutput(None, error=f"{LIMITED} (resets at 1795730000)"),
    ),
    "claude, trying again": (
        [{"type": "system", "subtype": "api_retry", "error_status": 429, "error": "rate_limit"}],
        ProgramOutput(None, error="rate_limit (status 429)"),
    ),
    "codex": (
        [
            {"type": "item.completed", "item": {"type": "agent_message", "text": "Let me see."}},
            {"type": "item.completed", "item": {"type": "agent_message", "text": VERDICT}},
            {"type": "turn.completed", "usage": {"input_tokens": 200, "cached_input_tokens": 80, "output_tokens": 40}},
        ],
        ProgramOutput(VERDICT, 200, 40),
    ),
    "gemini": (
        [
            {"type": "message", "role": "user", "content": "the prompt"},
            {**ASSISTANT, "content": "I read first."},
            {"type": "tool_use", "tool_name": "read_file"},
            {"type": "tool_result", "output": "x"},
            {**ASSISTANT, "content": '{"verdict": '},
            {**ASSISTANT, "content": '"approved"}'},
            {"type": "result", "status": "success", "stats": {"total_tokens": 136, "input_tokens": 110}},
        ],
        ProgramOutput(VERDICT, 110, 26),
    ),
    "gemini, failed": (
        [{"type": "result", "status": "error", "error": {"type": "Error", "message": "API key not valid."}}],
        ProgramOutput(None, error="API key not valid."),
    ),
    "opencode": (
        [STEP, {"type": "text", "part": {"text": "So."}}, {"type": "text", "part": {"text": "{}"}}, STEP],
        ProgramOutput("{}", 220, 50, 0.25),
    ),
    "opencode, failed": (
        [api_error("Incorrect API key provided", 401)],
        ProgramOutput(None, error="Incorrect API key provided (status 401)"),
    ),
    "opencode, limited": (
        [api_error("Too many requests", 429, responseHeaders={"retry-after": "20"})],
        ProgramOutput(None, error="Too many requests, retry after 20 (status 429)"),
    ),
    "custom": ([json.loads(VERDICT)], ProgramOutput(VERDICT)),
}


@pytest.mark.parametrize("case", REPLIES)
def test_what_a_program_prints_is_read(room: RunContext, case: str) -> None:
    events, expected = REPLIES[case]
    printed = " \n".join(map(json.dumps, events))
    assert made(case.partition(",")[0]).read(ended(f"{printed}\n"), room) == expected
