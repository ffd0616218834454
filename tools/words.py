"""Holds every text to the word list in `pyproject.toml` (`[tool.words]`).

    python tools/words.py             fails on a banned word, and suggests the field's
    python tools/words.py --list DIR  shows each place below a folder
    python tools/words.py --write     lowers the ceilings in `tools/words.txt`

Folders that are not clean yet stand in `tools/words.txt` with a ceiling, which may only fall: `--write` refuses where
the sum has risen. In Markdown code is left out: it quotes the product. In Python comments and strings count.
"""

from __future__ import annotations

import argparse
import ast
import io
import re
import sys
import tokenize
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
CEILINGS = Path("tools/words.txt")
FOLDERS = ("docs", "src", "tests", "bench", "tools", "plugins", ".ci", ".github")
SUFFIXES = {".md", ".py", ".txt", ".html", ".toml", ".yml", ".yaml"}
# Written by generators: the words are those of the source, which is read itself.
GENERATED = re.compile(
    r"docs/reference/(?:commands|cycles|errors|events|life-cycle|operations|reviewer-pool|settings)\.md"
    r"|docs/mistakes\.md|plugins/|tools/words\.txt|src/tandem/client/methods\.py"
)
_CODE = re.compile(r"^```.*?^```$|^ {4,}\S.*$|`[^`\n]+`", re.MULTILINE | re.DOTALL)


@dataclass(frozen=True)
class Rule:
    """A banned word: its pattern, what to write instead, and whether it is banned in docstrings of Python only."""

    pattern: re.Pattern[str]
    instead: str
    docstrings_only: bool


@dataclass(frozen=True)
class Found:
    """A banned word in a text."""

    where: str
    line: int
    words: str
    instead: str

    def __str__(self) -> str:
        return f"{self.where}:{self.line}: {self.words!r}: write {self.instead}"


def main() -> int:
    """Check, list or lower; the exit status."""
    parser = argparse.ArgumentParser(description="Hold every text to the word list.")
    parser.add_argument("--list", metavar="FOLDER", help="show each place below a folder")
    parser.add_argument("--write", action="store_true", help="lower the ceilings")
    options = parser.parse_args()
    found = list(places(ROOT))
    if options.list is not None:
        print("\n".join(str(one) for one in found if one.where.startswith(options.list)))
        return 0
    if options.write:
        return _write(Counter(folder(one.where) for one in found))
    wrong = too_many(found, ceilings(ROOT))
    print("\n".join(wrong) or f"{len(found)} banned words are left, none more than before")
    return int(bool(wrong))


def too_many(found: list[Found], allowed: dict[str, int]) -> list[str]:
    """The faults: every place where a folder has none left, else the folder and by how much it is over."""
    wrong: list[str] = []
    for name, count in sorted(Counter(folder(one.where) for one in found).items()):
        ceiling = allowed.get(name, 0)
        if count > ceiling:
            here = [one for one in found if folder(one.where) == name]
            wrong += map(str, here) if ceiling == 0 else [
                f"{name}: {count} banned words, at most {ceiling}: python tools/words.py --list {name}"
            ]  # fmt: skip
    return wrong


def ceilings(root: Path) -> dict[str, int]:
    """How many banned words each folder may still have."""
    lines = (root / CEILINGS).read_text("utf-8").splitlines()
    rows = [line.split() for line in lines if line and not line.startswith("#")]
    return {name: int(count) for count, name in rows}


def _write(counts: Counter[str]) -> int:
    before = sum(ceilings(ROOT).values())
    if counts.total() > before:
        print(f"{counts.total()} banned words, at most {before}: the sum may only fall", file=sys.stderr)
        return 1
    comments = [line for line in (ROOT / CEILINGS).read_text("utf-8").splitlines() if line.startswith("#")]
    rows = [f"{count:>5} {name}" for name, count in sorted(counts.items())]
    (ROOT / CEILINGS).write_text("\n".join([*comments, *rows, ""]), "utf-8")
    return 0


def folder(where: str) -> str:
    """The folder with a ceiling of its own: a package of the source, the decisions, else the first of the path."""
    parts = where.split("/")
    if where == "docs/architecture.md" or where.startswith("docs/decisions/"):
        return "/".join(parts[:2])
    return "/".join(parts[:3]) if parts[0] == "src" and len(parts) > 3 else parts[0]  # noqa: PLR2004 - src/tandem/name


def places(root: Path) -> Iterator[Found]:
    """Every banned word in the texts of a repository, in the order of the files."""
    rules = read_rules(root)
    paths = [*root.glob("*.md"), *(path for name in FOLDERS for path in (root / name).rglob("*"))]
    for path in sorted(paths):
        where = path.relative_to(root).as_posix()
        if path.suffix in SUFFIXES and path.is_file() and not GENERATED.match(where) and "/vendor/" not in where:
            yield from in_file(where, path.read_text("utf-8"), rules)


def read_rules(root: Path) -> list[Rule]:
    """The word list: pattern, and the words to write instead."""
    table = tomllib.loads((root / "pyproject.toml").read_text("utf-8"))["tool"]["words"]
    everywhere, docstrings = table["banned"], table["banned-in-docstrings"]
    return [_rule(*row, docstrings_only=False) for row in everywhere.items()] + [
        _rule(*row, docstrings_only=True) for row in docstrings.items()
    ]


def _rule(pattern: str, instead: str, *, docstrings_only: bool) -> Rule:
    spaced = pattern.replace(" ", r"[\s#]+")
    return Rule(re.compile(rf"\b(?:{spaced})\b", re.IGNORECASE), instead, docstrings_only)


def in_file(where: str, text: str, rules: list[Rule]) -> Iterator[Found]:
    """The banned words of one file."""
    for first, part, is_docstring in _parts(where, text):
        for rule in rules:
            if rule.docstrings_only and not is_docstring:
                continue
            for match in rule.pattern.finditer(part):
                line = first + part.count("\n", 0, match.start())
                yield Found(where, line, " ".join(match[0].split()), rule.instead)


def _parts(where: str, text: str) -> Iterator[tuple[int, str, bool]]:
    """The parts of a file that are read: first line, text, and whether it is a docstring."""
    if where.endswith(".py"):
        yield from _of_python(text)
    elif where.endswith(".md"):
        yield 1, _CODE.sub(lambda match: re.sub(r"\S", "`", match[0]), text), False
    else:
        yield 1, text, False


def _of_python(text: str) -> Iterator[tuple[int, str, bool]]:
    tree = ast.parse(text)
    lines = text.splitlines(keepends=True)
    docstrings = {id(one) for one in _docstrings(tree)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            is_docstring = id(node) in docstrings
            # A docstring as it stands, so that its lines are counted; else the text, which may be part of an f-string.
            source = "".join(lines[node.lineno - 1 : node.end_lineno])
            yield node.lineno, source if is_docstring else node.value, is_docstring
    yield from _comments(text)


def _comments(text: str) -> Iterator[tuple[int, str, bool]]:
    """Comments; those in lines that follow one another are one text."""
    first, block = 0, list[str]()
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type != tokenize.COMMENT:
            continue
        if block and token.start[0] != first + len(block):
            yield first, "\n".join(block), False
            block = []
        first = first if block else token.start[0]
        block.append(token.string)
    if block:
        yield first, "\n".join(block), False


def _docstrings(tree: ast.Module) -> Iterator[ast.Constant]:
    """String literals that stand alone: docstrings, and texts below a constant."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.value


if __name__ == "__main__":
    sys.exit(main())
