"""What commands import before they have answered: those that agents run all day start as fast as they can."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandem.bridge.operations import OPERATIONS
from tandem.cli import program
from tandem.cli.table import COMMANDS
from tests.commandline import NOBODY, Inside

SLOW = ("asyncio", "orjson", "pydantic", "rich", "typer")
"""Each takes longer to import than the interpreter to start."""


def test_a_command_has_said_everything_when_its_process_ends(tandem: Inside) -> None:
    for words, status in {"review list --json": 0, "review status none --json": 1, "review status": 2}.items():
        command = [sys.executable, "-m", "tandem", *words.split()]
        environment = {**os.environ, "TANDEM_BROKER": tandem.url}
        ended = subprocess.run(command, cwd=tandem.cwd, env=environment, capture_output=True, text=True, check=False)
        assert ended.returncode == status, ended
        assert json.loads(ended.stdout)["ok"] is (status == 0) if "--json" in words else ended.stderr.endswith("\n")


def test_the_command_of_every_operation_is_read_and_carried_out_without_slow_imports() -> None:
    # At once: each looks for the broker for a while.
    script = (
        "import contextlib, io, json, sys; from concurrent.futures import ThreadPoolExecutor;"
        "from tandem.cli import execution, program;\n"
        f"names = json.loads({json.dumps(json.dumps(commands()))})\n"
        "def told(name):\n"
        "    command, values = program.read(names[name])\n"
        "    assert command == name, (command, name)\n"
        "    execution.carry_out(command, values)\n"
        f"    slow = [one for one in {SLOW} if one in sys.modules]\n"
        "    assert not slow, (name, slow)\n"
        "with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):\n"
        "    [*ThreadPoolExecutor(16).map(told, names)]\n"
    )
    environment = {**os.environ, "TANDEM_BROKER": NOBODY}
    ended = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr


def commands() -> dict[str, list[str]]:
    """A command line for each operation's command that has no function of its own: all that it needs, no more."""
    found: dict[str, list[str]] = {}
    for name, command in COMMANDS.items():
        if command.function in OPERATIONS:
            words = name.split()
            for one in command.parameters:
                if one.required or (one.needed and not one.is_caller):
                    value = one.choices[0] if one.choices else "{}" if one.form == "json" else "1"
                    words += [one.names[0]] if one.kind == "flag" else [one.names[0], value]
            found[name] = words
    return found


@pytest.mark.parametrize(
    ("words", "given"),
    [
        ("review list --limit 5 --all", {"limit": 5, "all_": True, "wait": False}),
        ("review list --limit=5 --no-attention", {"limit": 5, "attention": False}),
        ("review list --timeout 1.5", {"timeout": 1.5}),
        ("review.list --status pending", {"status": "pending"}),
        ("review approve rv_1 -m well", {"review_id": "rv_1", "reason": "well"}),
        ("review approve -m well rv_1", {"review_id": "rv_1", "reason": "well"}),
        ("review status rv_1", {"review_id_argument": "rv_1", "review_id": None}),
        ("review patch accept rv_1 cp_1", {"review_id_argument": "rv_1", "counter_patch_id_argument": "cp_1"}),
        ("submit -m - --text=plan.md", {"intent": "-", "text": Path("plan.md")}),
        ("gate on --branch main --branch next", {"branch": ["main", "next"]}),
    ],
)
def test_what_is_written_as_most_is_read_without_typer(words: str, given: dict[str, object]) -> None:
    found = program.read(words.split())
    assert found is not None
    assert {name: found[1][name] for name in given} == given


@pytest.mark.parametrize(
    "words",
    [
        "",
        "help review list",
        "review",
        "review lsit",
        "review list -h",
        "review list extra",
        "review list --limit",
        "review list --limit 0",
        "review list --limit many",
        "review list --status unheard-of",
        "review list --all=yes",
        "review list --",
        "review reject rv_1",
        "review approve rv_1 -mwell",
        "list_reviews",
        "gate override -m why -- --amend",
    ],
)
def test_what_is_unusual_or_wrong_is_left_to_typer(words: str) -> None:
    assert program.read(words.split()) is None


def test_the_environment_says_what_no_option_does(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEM_AGENT", "codex")
    monkeypatch.setenv("TANDEM_BROKER", "")
    found = program.read(["submit", "-m", "why"])
    assert found is not None
    assert (found[1]["agent"], found[1]["agent_type"], found[1]["broker"]) == ("codex", "codex", None)
    found = program.read(["submit", "-m", "why", "--agent", "rita"])
    assert found is not None
    assert (found[1]["agent"], found[1]["agent_type"]) == ("rita", "codex")
