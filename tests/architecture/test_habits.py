"""The word list and the form of commits, as `make lint` holds them (`tools/words.py`, `tools/commits.py`)."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import commits
import words
from tests.architecture.source import ROOT

RULES = words.read_rules(ROOT)
TABLE = '[tool.commits]\nafter = "{base}"\ngenerated = ["*.lock"]\n'


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


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "tools").mkdir()
    shutil.copy(ROOT / "tools/commits.py", tmp_path / "tools")
    git(tmp_path, "init", "--quiet", "--initial-branch=main")
    git(tmp_path, "commit", "--quiet", "--allow-empty", "-m", "Before the rule.")
    base = git(tmp_path, "rev-parse", "HEAD").strip()
    (tmp_path / "pyproject.toml").write_text(TABLE.format(base=base), "utf-8")
    return tmp_path


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout


def checked(folder: Path) -> tuple[int, str]:
    done = subprocess.run([sys.executable, "tools/commits.py"], cwd=folder, check=False, capture_output=True, text=True)
    return done.returncode, done.stdout


def test_a_large_commit_gives_its_reason_and_a_merge_needs_none(repository: Path) -> None:
    (repository / "uv.lock").write_text("x\n" * 2000, "utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "tools: pin versions")
    git(repository, "switch", "--quiet", "-c", "side")
    git(repository, "commit", "--quiet", "--allow-empty", "-m", "tools: stay aside")
    git(repository, "switch", "--quiet", "main")
    git(repository, "merge", "--quiet", "--no-ff", "side", "-m", "Merged.")
    assert checked(repository)[0] == 0
    (repository / "data.txt").write_text("x\n" * 1001, "utf-8")
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "tests: add a table", "-m", "Issue: 28")
    status, said = checked(repository)
    assert (status, "1,001 changed lines" in said) == (1, True)
    reason = "The table is one file, and a part of it would be refused by its own test."
    git(repository, "commit", "--quiet", "--amend", "-m", "tests: add a table", "-m", reason)
    assert checked(repository) == (0, "3 commits have the form that CONTRIBUTING.md describes\n")


def test_where_the_history_is_missing_it_says_that_it_checked_nothing(repository: Path) -> None:
    git(repository, "add", ".")
    git(repository, "commit", "--quiet", "-m", "Not checked.")
    git(repository, "clone", "--quiet", "--depth=1", repository.as_uri(), "shallow")
    assert checked(repository / "shallow")[0] == 0
    assert "no commit was checked" in checked(repository / "shallow")[1]
    shutil.rmtree(repository / ".git")
    assert checked(repository) == (0, "this is no git repository: no commit was checked\n")
