"""Names in backticks are names of something: a stale comment is found when the thing that it names goes."""

from __future__ import annotations

import ast
import re
import sys
from functools import cache

from tests.architecture.pages import pages
from tests.architecture.source import ROOT, all_modules, statements

BACKTICKS = re.compile(r"(?<!`)`([^`\n]+)`(?!`)")
# A name that only code has: with an underscore, dots, capitals inside, or brackets behind it.
NAME = re.compile(
    r"(?=\w*[a-z])(?=\w*_\w|\w+\.\w|[A-Z]\w*[a-z][A-Z]|\w+\(\))([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)(?:\(\))?"
)
PATH = re.compile(r"[\w.-]*(?:/[\w.-]+)+\.(?:py|md|txt|toml|html|js|yml)|\w+\.(?:py|txt)")
COMMENT = re.compile(r"(?:^|\s)#\s(.*`.*)")
ANY_COMMENT = re.compile(r"(?:^|\s)#\s.*")
FOLDERS = ("src", "tests", "bench", "tools", "docs", "plugins", ".agents", ".github", ".ci")
HISTORY = ("CHANGELOG.md", "docs/decisions/", "docs/mistakes.md")
"""Pages that may name things of the past, or things that do not exist."""
OTHERS = frozenset({"get-shit-done/workflows/NAME.md", "hide_tab"})
"""Names and files of other programs: GSD and Textual."""


@cache
def files() -> frozenset[str]:
    """Every file of the repository, by its path and by the ends of it."""
    paths = [path for name in FOLDERS for path in (ROOT / name).rglob("*") if path.is_file()]
    paths += [path for path in ROOT.iterdir() if path.is_file()]
    wholes = (path.relative_to(ROOT).as_posix().split("/") for path in paths if "__pycache__" not in path.parts)
    return frozenset("/".join(parts[start:]) for parts in wholes for start in range(len(parts)))


@cache
def code() -> tuple[frozenset[str], tuple[tuple[str, str], ...]]:
    """Every word that code has, and the comments and docstrings, each with its place."""
    found: set[str] = set()
    said: list[tuple[str, str]] = []
    for module in all_modules():
        lines = module.path.read_text("utf-8").splitlines()
        commented = [at for at, line in enumerate(lines) if "#" in line]
        said += [(f"{module.where}:{at + 1}", match[1]) for at in commented if (match := COMMENT.search(lines[at]))]
        found |= set(module.path.relative_to(ROOT).with_suffix("").parts)
        for node, _ in statements(module.tree):
            if (
                isinstance(node, ast.Expr)
                and isinstance(node.value, ast.Constant)
                and isinstance(node.value.value, str)
            ):
                said.append((f"{module.where}:{node.lineno}", node.value.value))
                lines[node.lineno - 1 : node.end_lineno] = [""] * ((node.end_lineno or 0) - node.lineno + 1)
        for at in commented:
            lines[at] = ANY_COMMENT.sub("", lines[at])
        found |= set(re.findall(r"\w+", "\n".join(lines)))
    others = [path for name in ("src", "tests", "tools", ".github") for path in (ROOT / name).rglob("*")]
    for path in [*others, ROOT / "pyproject.toml", ROOT / "Makefile"]:
        if path.suffix in {".html", ".js", ".css", ".txt", ".toml", ".md", ".yml", ""} and path.is_file():
            found |= set(re.findall(r"\w+", path.read_text("utf-8")))
    return frozenset(found), tuple(said)


def stale(text: str) -> list[str]:
    """The names in backticks that are names of nothing."""
    words, _ = code()
    wrong: list[str] = []
    for quoted in BACKTICKS.findall(text):
        # Files with a dot in front are a user's.
        if quoted in OTHERS or quoted.startswith("."):
            continue
        if PATH.fullmatch(quoted):
            # One without a folder may be a file that a test makes.
            made = "/" not in quoted and set(quoted.split(".")) <= words
            wrong += [] if made or quoted in files() else [quoted]
        elif match := NAME.fullmatch(quoted):
            # A metric's name has a prefix, and the suffix of its kind.
            parts = {part.removeprefix("tandem_").removesuffix("_total") for part in match[1].split(".")}
            known = match[1].split(".")[0] in sys.stdlib_module_names or set(match[1].split(".")) <= words
            wrong += [] if known or parts <= words else [quoted]
    return wrong


def test_names_in_comments_and_docstrings_are_there() -> None:
    assert [f"{where} {name}" for where, text in code()[1] if "`" in text for name in stale(text)] == []


def test_names_in_pages_are_there() -> None:
    read = [page for page in pages() if not page.where.startswith(HISTORY)]
    assert [f"{page.where}: {name}" for page in read for name in stale(page.prose)] == []
