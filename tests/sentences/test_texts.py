"""Every command that a text of ours names is one, and a story or another test executes it.

The stories beside this file are played by `test_stories.py`; `elsewhere.txt` names the other tests.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections import defaultdict
from collections.abc import Generator, Sequence
from functools import cache
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from tests.acceptance.tables import table
from tests.architecture.source import ROOT
from tests.sentences.elsewhere import NOT_HERE, TOKENS, covers, elsewhere, form_of_line, is_there, name_of
from tests.sentences.forms import Form, alternatives, form_of, is_group, other_form, read
from tests.sentences.named import Named, every, named, others, typed_commands
from tests.sentences.playing import STORIES, Step, steps_of

TABLES: dict[str, Any] = table("texts", Path(__file__).parent)
PARTS: dict[str, str] = TABLES["parts"]
NO_COMMANDS = {(file, words) for file, why in TABLES["no_commands"].items() for words in why}
ONLY_NAMED: dict[str, str] = TABLES["only_named"]


@pytest.fixture(autouse=True)
def tokens_in_the_environment() -> Generator[None]:
    with mock.patch.dict(os.environ, TOKENS):
        yield


def is_none(one: Named) -> bool:
    return (one.where.partition(":")[0], " ".join(one.words)) in NO_COMMANDS


@cache
def read_all() -> tuple[dict[Form, list[Named]], list[str]]:
    """The forms that the texts name, and the errors in the others."""
    forms: dict[Form, list[Named]] = defaultdict(list)
    wrong: list[str] = []
    for one in named():
        for words in alternatives([PARTS.get(word, word) for word in one.words[1:]]):
            try:
                form = read(words)
            except Exception as error:  # noqa: BLE001 - any error of the parser means that the text is wrong
                wrong += [] if is_none(one) else [f"{one}: {error!r}"]
                continue
            is_named = one.place == "named" or str(form) in ONLY_NAMED or is_group(form.command)
            if form.is_bare and (one.place == "typed" or not is_named) and not is_none(one):
                wrong.append(f"{one}: something is missing")
            forms[form.essence].append(one)
    return forms, wrong


def test_every_command_in_our_texts_is_understood_by_the_command_line() -> None:
    assert len(named()) > 1000
    assert read_all()[1] == []


@cache
def played() -> set[Form]:
    """The forms that stories and other tests execute."""
    stories = [step for path in STORIES.glob("*.txt") for step in steps_of(path.name, path.read_text("utf-8"))]
    steps = [step for step in stories if isinstance(step, Step) and not step.unplayed]
    lines = [(step.status, re.sub(r"\{\w+\}", "1", step.line)) for step in steps]
    named = [(status, one.words) for status, line in lines for one in typed_commands("", line.removesuffix(" &"))]
    # One of ours that is refused shows only that it can be typed.
    typed = [words for status, words in named if words[0] != "tandem" or status not in {1, 2}]
    found = {form_of(words[1:]) if words[0] == "tandem" else other_form(words) for words in typed}
    return {one.essence for one in found} | {form_of_line(one) for one in elsewhere_commands()}


def elsewhere_commands() -> Sequence[str]:
    return [command for commands in elsewhere().values() for command in commands]


def test_every_command_in_our_texts_is_executed_by_a_test() -> None:
    executed = played()
    told = {form: where for form, where in read_all()[0].items() if not form.is_bare}
    missing = {str(form): str(where[0]) for form, where in told.items() if form not in executed}
    assert missing == {}, "add it to a story, or name the test that executes it in elsewhere.txt"


def test_every_command_of_another_program_is_executed_too() -> None:
    executed = played()
    told = {other_form(one.words): str(one) for one in others() if not is_none(one)}
    missing = {str(form): one for form, one in told.items() if not any(covers(done, form) for done in executed)}
    assert missing == {}, "add it to a story, or name the test that executes it in elsewhere.txt"


def test_every_target_that_texts_name_is_one() -> None:
    named = {one.words[1:] for one in others() if one.words[0] == "make"}
    asked = [["make", "--dry-run", "--directory", str(ROOT), *words] for words in named]
    assert len(asked) > 10
    assert [command for command in asked if subprocess.run(command, capture_output=True, check=False).returncode] == []


def test_what_is_only_named_is_executed_too() -> None:
    commands = {form.command for form in played()}
    missing = {form.command for form in read_all()[0]} - commands
    # A group is executed where one of its commands is.
    assert [one for one in missing if not any(command.startswith(f"{one} ") for command in commands)] == []


def test_the_tests_that_execute_commands_are_there_and_always_run(request: pytest.FixtureRequest) -> None:
    tests = [name for name in elsewhere() if not name.startswith(NOT_HERE)]
    assert [name for name in tests if not is_there(name)] == []
    if request.config.args == request.config.getini("testpaths") and not request.config.getoption("keyword"):
        assert set(tests) - {name_of(item) for item in request.session.items} == set()


def test_nothing_is_left_in_the_tables_that_no_text_names() -> None:
    there = {(one.where.partition(":")[0], " ".join(one.words)) for one in every()}
    assert NO_COMMANDS - there == set()
    forms = read_all()[0]
    assert [one for one in ONLY_NAMED if not any(str(form) == one for form in forms)] == []
    known = {*forms, *(other_form(one.words) for one in others())}
    assert [line for line in elsewhere_commands() if form_of_line(line) not in known] == []


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        ("Decline it: tandem review reject REVIEW PATCH --reason '…'", True),
        ("Submit it again: tandem submit --revise", True),
        ("Submit it again: tandem submit --revise REVIEW --wait", False),
        ("Run 'tandem gate frobnicate' first.", True),
        ("As tandem init writes them, and `tandem doctor --fix`.", False),
    ],
)
def test_a_command_that_would_be_refused_is_noticed(text: str, wrong: bool) -> None:
    from tests.sentences.named import said_commands

    def refused(one: Named) -> bool:
        try:
            return read(list(one.words[1:])).is_bare
        except Exception:  # noqa: BLE001 - as above
            return True

    assert any(refused(one) for one in said_commands("", text, "told")) is wrong
