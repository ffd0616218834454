"""Who owns paths by a CODEOWNERS file, as GitHub and GitLab read it.

Our own reader: the library for it (`codeowners` 0.9) lets the last pattern of all sections count, tells no optional
section from others, takes a section's line with default owners for a pattern, and fails as a whole at one pattern with
an open bracket. Case and accents do not matter here, so that a look-alike of a path has its owners.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Final

from tandem.rulings.globs import folded, loosely_folded, translated

PLACES: Final = (".github/CODEOWNERS", ".gitlab/CODEOWNERS", "CODEOWNERS", "docs/CODEOWNERS")
"""Where the file may be; the first that exists counts."""

_SECTION = re.compile(r"(?P<optional>\^)?\[(?P<name>[^\]]+)\](?:\[\d+\])?(?:\s+(?P<owners>.*))?")
_WORD = re.compile(r"(?:\\.|[^\s\\])+")
_STARS = re.compile(r"\*+")


def groups(content: bytes, paths: Iterable[str]) -> dict[frozenset[str], tuple[str, ...]]:
    """The paths of each group of owners, any one of whom may speak for the group; paths without owners are left out.

    Within a section the last pattern that fits a path counts; each section that is not optional asks for itself.
    """
    sections = _sections(content)
    found: dict[frozenset[str], list[str]] = {}
    for path in paths:
        looked_at = loosely_folded(path)
        for owners in {section.owners_of(looked_at) for section in sections}:
            if owners:
                found.setdefault(owners, []).append(path)
    return {owners: tuple(owned) for owners, owned in found.items()}


@dataclass(slots=True)
class _Section:
    """The patterns of a section, each with its owners, and one expression of all, in which the last is tried first."""

    is_optional: bool
    defaults: frozenset[str] = frozenset()
    rules: list[tuple[str, frozenset[str]]] = field(default_factory=list[tuple[str, frozenset[str]]])
    expression: re.Pattern[str] = re.compile("")

    def compile(self) -> None:
        """Make the expression of the patterns."""
        self.rules.reverse()
        self.expression = re.compile("|".join(f"({_expression(pattern)})" for pattern, _ in self.rules), re.DOTALL)

    def owners_of(self, path: str) -> frozenset[str]:
        """Whom the last pattern names that fits a path; empty if it names none, or none fits."""
        found = self.expression.fullmatch(path)
        return self.rules[found.lastindex - 1][1] if found is not None and found.lastindex else frozenset()


def _expression(pattern: str) -> str:
    """A pattern as an expression for whole paths."""
    parts = [part if part == "**" else _STARS.sub("*", part) for part in folded(pattern.removeprefix("/")).split("/")]
    if "/" not in pattern[:-1]:
        return f"(?:.*/)?{translated(parts[0])}" + ("/.*" if pattern.endswith("/") else "(?:/.*)?")
    source = translated("/".join(parts))
    if pattern.endswith("/"):
        return f"{source}.*"
    # GitHub's `docs/*` is of the files in the folder, and of none below.
    return source if parts[-1] in {"*", "**"} else f"{source}(?:/.*)?"


@lru_cache(maxsize=8)
def _sections(content: bytes) -> tuple[_Section, ...]:
    sections: dict[str, _Section] = {"": _Section(is_optional=False)}
    current = sections[""]
    for line in content.decode("utf-8", "replace").split("\n"):
        text = line.strip()
        if (head := _SECTION.fullmatch(text)) is not None:
            is_optional = head["optional"] is not None
            current = sections.setdefault(head["name"].strip().casefold(), _Section(is_optional))
            current.is_optional = current.is_optional and is_optional
            current.defaults = _owners(_words(head["owners"] or ""))
        elif words := _words(text):
            _add(current, words)
    for section in sections.values():
        section.compile()
    return tuple(section for section in sections.values() if not section.is_optional and section.rules)


def _words(text: str) -> list[str]:
    words: list[str] = []
    for found in _WORD.findall(text):
        if found.startswith("#"):
            break
        words.append(found)
    return words


def _owners(words: list[str]) -> frozenset[str]:
    return frozenset(word for word in words if "@" in word)


def _add(section: _Section, words: list[str]) -> None:
    """Add a line; one whose owners are none is left out, as both do."""
    pattern, *named = words
    if pattern.startswith("!"):
        # GitLab: the paths have no owner in this section.
        section.rules.append((re.sub(r"\\(.)", r"\1", pattern[1:]), frozenset()))
    elif not named or _owners(named):
        section.rules.append((re.sub(r"\\(.)", r"\1", pattern), _owners(named) or section.defaults))
