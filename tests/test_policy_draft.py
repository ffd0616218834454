"""The first policy of a repository can be used as it is."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tandem.git.changes import Change
from tandem.git.raw import REGULAR
from tandem.rulings.policy import Facts
from tandem.rulings.policy_file import init_text, parse

FILES = (
    "README.md",
    "requirements.txt",
    "docs/guide/a.md",
    "docs/conf.py",
    "src/app/Auth/login.py",
    "src/db/migrations/1.sql",
    "src/locale/de/app.po",
    "src/app/main.py",
    ".github/workflows/test.yml",
)


def needed(text: str, path: str) -> list[str]:
    changes = (Change(path, REGULAR, "1" * 40, REGULAR, "2" * 40),)
    asked = Facts(changes, frozenset(), 10, "main", "code_change", "claude", is_agent=True)
    return [one.word for one in parse(text.encode()).requirements(asked).needs]


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("README.md", ["checks"]),
        ("docs/new.md", ["checks"]),
        ("docs/conf.py", ["review"]),
        ("requirements.txt", ["review"]),
        ("src/locale/fr/app.po", ["checks"]),
        ("src/app/main.py", ["review"]),
        ("src/app/auth/login.py", ["agent", "owner"]),
        ("src/db/migrations/README.md", ["agent", "owner"]),
        (".github/workflows/test.yml", ["agent", "owner"]),
        (".tandem/policy.toml", ["person"]),
    ],
)
def test_documents_pass_by_checks_and_risks_need_more(path: str, words: list[str]) -> None:
    assert needed(init_text(FILES, has_codeowners=True, checks=["tests"]), path) == words


def test_without_owners_a_person_looks_at_risks_and_without_checks_all_is_reviewed() -> None:
    text = init_text(FILES, has_codeowners=False, checks=[])
    assert needed(text, "src/app/auth/a.py") == ["agent", "person"]
    assert needed(text, "README.md") == ["review"]
    assert "# There are no checks yet" in text


def test_rules_that_are_comments_can_be_switched_on() -> None:
    text = init_text(FILES, has_codeowners=False, checks=[])
    text = re.sub(r"^# (?=\[\[|\w+ = )", "", text, flags=re.MULTILINE)
    assert needed(text, "README.md") == ["checks"]
    assert needed(text, "src/a.py") == ["review"]


@given(files=st.lists(st.text()), has_codeowners=st.booleans(), checks=st.lists(st.text(), max_size=2))
def test_it_can_be_read_for_any_repository(files: list[str], has_codeowners: bool, checks: list[str]) -> None:
    assert parse(init_text(files, has_codeowners=has_codeowners, checks=checks).encode()).rules
