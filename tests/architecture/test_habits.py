"""The word list and the form of commits, as `make lint` holds them (`tools/words.py`, `tools/commits.py`)."""

from __future__ import annotations

import pytest

import commits
import words
from tests.architecture.source import ROOT

RULES = words.read_rules(ROOT)


def banned(text: str, where: str = "page.md") -> list[str]:
    return [one.words for one in words.in_file(where, text, RULES)]


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("Whoever reads it is asked.", ["Whoever"]),
        ("The change is\ntaken back, and put\nup again.", ["taken back", "put up"]),
        ("It says what is wrong.", ["what is"]),
        ("What is Tandem? Read on.", []),
        ("Nothing is to be seen.", ["is to be"]),
        ("`nobody` may; the amendment recommends it.", []),
        ("```text\ntandem: nobody\n```\n", []),
    ],
)
def test_banned_words_are_found_in_pages(text: str, found: list[str]) -> None:
    assert sorted(banned(text)) == sorted(found)


def test_in_python_comments_strings_and_docstrings_are_read_and_names_are_not() -> None:
    text = '"""Gives null\n\nto nobody."""\nnobody = f"{1} anew"  # Whatever\n# is put\n# up.\n'
    assert sorted(banned(text, "module.py")) == ["Whatever", "anew", "nobody", "null", "put # up"]


def test_a_folder_may_have_as_many_as_its_ceiling_and_a_clean_one_none() -> None:
    found = list(words.in_file("src/tandem/gate/rules.py", "# nobody, nobody\n", RULES))
    assert words.too_many(found, {"src/tandem/gate": 2}) == []
    assert words.too_many(found, {"src/tandem/gate": 1})[0].startswith("src/tandem/gate: 2 banned words, at most 1")
    assert words.too_many(found, {}) == [str(one) for one in found]


@pytest.mark.parametrize(
    ("subject", "is_right"),
    [
        ("gate: refuse a verdict for an old round", True),
        ("docs, tools: count banned words", True),
        ("Refuse a verdict for an old round", False),
        ("gate: refuse a verdict.", False),
        ("gate: Refuse a verdict", False),
        ("gate: the verdict", False),
        (f"gate: refuse {'x' * 60}", False),
    ],
)
def test_a_subject_has_an_area_and_a_verb(subject: str, is_right: bool) -> None:
    assert (commits.of_subject(subject) == []) is is_right
