"""A proposer's next steps, in every state of a review: commands in a shell, operations for callers of them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tandem.cli.table import COMMANDS
from tandem.rulings import next_steps
from tandem.server.catalogue import REGISTRY

TOOLS = {operation.name for operation in REGISTRY if operation.listed}
OPERATION = re.compile(rf"\b(?:{'|'.join(operation.name for operation in REGISTRY)})\b")
COMMAND = re.compile(rf"\btandem ({'|'.join(sorted(COMMANDS, key=len, reverse=True))})\b")
ACTIONS = (
    "wait", "answer_message", "decide_counter_patch", "revise", "apply_and_close", "revert", "escalate", "none",
)  # fmt: skip
FACTS: dict[str, tuple[Any, ...]] = {
    "status": ("pending", "approved", "rejected"),
    "outcome": (None, "withdrawn"),
    "digest": (None, "0a1b", "0a1b:plan.md"),
    "path": (None, "plan.md"),
    "checks": (None, "failed", "doubtful"),
    "revision": (None, "main..HEAD"),
    "followed": (False, True),
    "unapproved_range": (None, "main..HEAD"),
    "conflict_with": (None, "main"),
    "counter_patch_status": (None, "accepted"),
    "question_id": (None, "ms_1"),
    "no_reviewer": (None, {"reason": "no_pool", "message": "No pool serves this project."}),
}
"""The facts that the next step depends on, with their values."""


def states() -> Iterator[dict[str, Any]]:
    for action, *values in product(ACTIONS, *FACTS.values()):
        facts = dict(zip(FACTS, values, strict=True))
        shared = {"review_id": "rv_1", "round": 4, "objections": 3, "counter_patch_id": "cp_1"}
        yield {**shared, "next_action": action, **facts}


def test_no_line_for_a_shell_names_a_tool_and_no_sentence_for_a_caller_a_command_that_is_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # In no repository, and with few folders above in which one is looked for.
    monkeypatch.chdir(tmp_path.anchor)
    # Each text once: most states differ only in facts that no text names.
    said = {next_steps.operations(state) for state in states()}
    lines = {line for state in states() for line in next_steps.commands(state)}
    assert [line for line in lines if OPERATION.search(line)] == []
    # A command stands there only where no tool does it, such as `tandem apply`, or where a person types it.
    named = {name for text in said for name in COMMAND.findall(text)}
    assert {COMMANDS[name].function for name in named} & TOOLS == set()
    assert len(lines) > len(ACTIONS)
    assert len(said) > len(ACTIONS)


def test_every_operation_has_a_command_and_no_help_names_an_operation() -> None:
    assert {f"{one.noun} {one.verb}" for one in REGISTRY} - COMMANDS.keys() == set()
    helps = {command.about for command in COMMANDS.values()}
    helps |= {one.help or "" for command in COMMANDS.values() for one in command.parameters}
    assert sorted(text for text in helps if OPERATION.search(text)) == []
