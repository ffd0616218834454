"""Commands of our texts that another test executes, as `elsewhere.txt` lists them; that it does is checked as it runs.

A line without indentation is a test, or `not here:` with the reason why no test can; the commands follow, indented.
"""

from __future__ import annotations

import ast
import os
import re
import shlex
from collections.abc import Generator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING
from unittest import mock

import pytest

from tandem.bridge.credentials import LOCK_VARIABLE, SESSION_VARIABLE
from tandem.rulings.state import COMMITS
from tests.architecture.source import ROOT
from tests.recording import executed, started

if TYPE_CHECKING:
    from tests.sentences.forms import Form

TABLE = Path(__file__).with_name("elsewhere.txt")
NOT_HERE = "not here: "
TOKENS = {SESSION_VARIABLE: "there", LOCK_VARIABLE: "there"}
"""Options that stand in the environment instead."""


@cache
def elsewhere() -> dict[str, tuple[str, ...]]:
    """Tests, or reasons, and the commands of each."""
    found: dict[str, list[str]] = {}
    commands: list[str] = []
    for line in TABLE.read_text("utf-8").splitlines():
        if line.startswith("    "):
            commands.append(line.strip())
        elif line and not line.startswith("#"):
            commands = found.setdefault(line, [])
    return {name: tuple(lines) for name, lines in found.items()}


def is_there(test: str) -> bool:
    """Whether there is such a test."""
    path, _, name = test.partition("::")
    tree = ast.parse((ROOT / path).read_bytes())
    return any(isinstance(one, ast.FunctionDef) and one.name == name.partition("[")[0] for one in tree.body)


def covers(played: Form, wanted: Form) -> bool:
    """Whether it is the same command; a test may give it further options."""
    return played.command == wanted.command and {*wanted.essence.given} <= {*played.given}


def form_of_line(line: str) -> Form:
    """The form of a command as the table has it, of `tandem` or of another program."""
    from tests.sentences.forms import form_of, other_form, words_of

    return form_of(words_of(line)).essence if line.startswith("tandem ") else other_form(shlex.split(line))


def name_of(item: pytest.Item) -> str:
    """Its name in the table, which leaves out the gate's mode: whose turn it is changes with the rows before."""
    return re.sub(rf"\[({'|'.join(COMMITS)})-", "[", item.nodeid)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None]:
    """A test that is said to execute commands fails if it did not."""
    wanted = elsewhere().get(name_of(item), ())
    before, others = len(executed), len(started)
    yield
    if wanted:
        from tests.sentences.forms import form_of, other_form
        from tests.sentences.named import typed_commands

        lines = [words[-1] for words in started[others:] if words[1:2] == ("-c",)]
        shells = [one for line in lines for one in typed_commands("", line)]
        played = {other_form(words) for words in [*started[others:], *(one.words for one in shells)]}
        with mock.patch.dict(os.environ, TOKENS):
            for words in executed[before:]:
                try:
                    played.add(form_of(words).essence)
                except Exception:  # noqa: BLE001 - a deliberate typing mistake is no form
                    continue
            missing = [line for line in wanted if not any(covers(one, form_of_line(line)) for one in played)]
        assert missing == [], f"elsewhere.txt says that {item.nodeid} executes this, and it does not"
