"""Sizes, names and words that keep the source readable."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from tests.architecture.source import ROOT, all_modules, comments, functions, package_modules

# A module is as long as its concept; one that is longer has two.
LONGEST_FILE = 600
GENERATED = {"src/tandem/client/methods.py", "src/tandem/cli/table.py"}
LONGEST_FUNCTION = 60
# A migration is a list of columns: as long as the table.
LISTS = ("src/tandem/store/migrations/versions/",)
NAMES_THAT_SAY_NOTHING = {"utils", "util", "helpers", "helper", "manager", "managers", "common", "misc", "shared"}

# Brackets in the middle of a word keep these patterns from finding themselves.
LATER = re.compile(r"\b(?:TOD[O]|FIXM[E]|XX[X]|HAC[K])\b")
OF_ONE_MACHINE = re.compile(r"/wor[k]/(?:main|shared)|/roo[t]/|/User[s]/\w|py[p]i\.org|pythonhoste[d]\.org")

# Which check is suppressed, then why: `BLE001 - the loop must go on`.
SUPPRESSION = re.compile(
    r"#\s*(?:(?:ruff:\s*)?noqa|type:\s*ignore|pyright:\s*ignore|pragma:\s*no\s*(?:cover|branch))\b"
)
WITH_RULE_AND_REASON = re.compile(
    r"#\s*(?:(?:ruff:\s*)?noqa:\s*[A-Z]+\d*(?:,\s*[A-Z]+\d*)*|pyright:\s*ignore\[[^\]]+\]|pragma:\s*no\s*\w+)"
    r"[\s:–—#(-]+(?P<reason>\S.{7,})"
)

TEXT = {".md", ".toml", ".txt", ".html", ".css", ".js", ".json", ".yaml", ".yml", ".sh", ".sql", ".ini", ""}
PROSE_FOLDERS = ("docs", "src", ".ci", ".github")


def prose() -> list[Path]:
    """Everything of ours that is text and not Python."""
    # In a linked working tree `.git` is a file.
    files = [path for path in ROOT.iterdir() if path.is_file() and path.name != ".git"]
    for folder in PROSE_FOLDERS:
        files += (ROOT / folder).rglob("*")
    return [path for path in sorted(files) if path.is_file() and path.suffix in TEXT and path.name != ".coverage"]


def lines_with(pattern: re.Pattern[str], paths: list[Path]) -> list[str]:
    return [
        f"{path.relative_to(ROOT).as_posix()}:{number}"
        for path in paths
        for number, line in enumerate(path.read_text("utf-8").splitlines(), 1)
        if pattern.search(line)
    ]


def test_files_are_short_enough_to_read() -> None:
    long = [
        f"{module.where}: {module.lines} lines"
        for module in all_modules()
        if module.lines > LONGEST_FILE and module.where not in GENERATED and not module.where.startswith(LISTS)
    ]
    assert long == [], "split it by concept"


def test_functions_are_short_enough_to_read() -> None:
    long: list[str] = []
    for module in all_modules():
        for function in functions(module):
            lines = (function.end_lineno or function.lineno) - function.lineno + 1
            if lines > LONGEST_FUNCTION and not module.where.startswith(LISTS):
                long.append(f"{module.where}:{function.lineno} {function.name}: {lines} lines")
    assert long == []


def test_names_say_what_is_inside() -> None:
    vague: list[str] = []
    for module in all_modules():
        words = {word for part in Path(module.where).with_suffix("").parts for word in part.lower().split("_")}
        if words & NAMES_THAT_SAY_NOTHING:
            vague.append(module.where)
    assert vague == [], "name it for its content"


def test_nothing_is_put_off() -> None:
    assert lines_with(LATER, [module.path for module in all_modules()]) == []
    unfinished = [
        f"{module.where}:{node.lineno}"
        for module in package_modules()
        if "NotImplementedError" in module.path.read_text("utf-8")
        for node in ast.walk(module.tree)
        if isinstance(node, ast.Name) and node.id == "NotImplementedError"
    ]
    assert unfinished == []


def test_every_suppression_names_its_rule_and_its_reason() -> None:
    wrong = [
        f"{module.where}:{line} {comment}"
        for module in all_modules()
        # Most have none, and tokenizing takes long.
        if SUPPRESSION.search(module.path.read_text("utf-8"))
        for line, comment in comments(module)
        if SUPPRESSION.search(comment) and not WITH_RULE_AND_REASON.search(comment)
    ]
    assert wrong == [], "write `noqa: RULE - the reason`"


def test_names_no_place_of_one_machine() -> None:
    assert lines_with(OF_ONE_MACHINE, [module.path for module in all_modules()]) == []
    assert lines_with(OF_ONE_MACHINE, prose()) == []


def test_every_module_says_what_it_is() -> None:
    silent = [module.where for module in package_modules() if not ast.get_docstring(module.tree)]
    assert silent == []
