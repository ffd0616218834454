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
_WILD = frozenset("*?")


def groups(content: bytes, paths: Iterable[str]) -> dict[frozenset[str], tuple[str, ...]]:
    """The paths of each group of owners, any one of whom may speak for the group; paths without owners are left out.

    Within a section the last pattern that fits a path counts; each section that is not optional asks for itself.
    """
    sections = _sections(content)
    for section in sections:
        section.known.clear()
    found: dict[frozenset[str], list[str]] = {}
    for path in paths:
        looked_at = _Keys(loosely_folded(path))
        for owners in {section.owners_of(looked_at) for section in sections}:
            if owners:
                found.setdefault(owners, []).append(path)
    return {owners: tuple(owned) for owners, owned in found.items()}


class _Keys:
    """A path, and the names in it under which a pattern may be kept; those of folders end in a slash."""

    def __init__(self, path: str) -> None:
        *folders, name = path.split("/")
        self.path = path
        self.names = [*(f"{folder}/" for folder in folders), name]
        self.starts: list[str] = []
        start = ""
        for part in self.names:
            start += part
            self.starts.append(start)


@dataclass(slots=True)
class _Section:
    """The patterns of a section, by their kind: in a list of 1,000 most are plain names."""

    is_optional: bool
    defaults: frozenset[str] = frozenset()
    owners: list[frozenset[str]] = field(default_factory=list[frozenset[str]])
    """Of each pattern."""
    starts: dict[str, int] = field(default_factory=dict[str, int])
    """Of plain paths from the top, the number of the last pattern."""
    names: dict[str, int] = field(default_factory=dict[str, int])
    """The same of plain names that may stand in any folder."""
    wild: dict[bool, list[tuple[int, str]]] = field(default_factory=lambda: {True: [], False: []})
    """The others' numbers and expressions, by whether they begin at the top."""
    expressions: dict[bool, re.Pattern[str]] = field(default_factory=dict[bool, re.Pattern[str]])
    known: dict[str, int] = field(default_factory=dict[str, int])
    """Of names that were looked up in this call."""

    def add(self, pattern: str, owners: frozenset[str]) -> None:
        """Add a pattern after the others."""
        number = len(self.owners)
        self.owners.append(owners)
        is_from_top = "/" in pattern[:-1]
        pattern = folded(pattern.removeprefix("/"))
        if _WILD.isdisjoint(pattern):
            plain = self.starts if is_from_top else self.names
            plain[pattern] = plain[f"{pattern.removesuffix('/')}/"] = number
            if pattern.endswith("/"):
                plain.pop(pattern[:-1], None)
        else:
            self.wild[is_from_top].append((number, _expression(pattern, is_from_top=is_from_top)))

    def compile(self) -> None:
        """Make one expression of each kind, in which the last pattern is tried first."""
        for is_from_top, wild in self.wild.items():
            wild.reverse()
            self.expressions[is_from_top] = re.compile("|".join(f"({source})" for _, source in wild), re.DOTALL)

    def owners_of(self, keys: _Keys) -> frozenset[str]:
        """Whom the last pattern names that fits a path; empty if it names none, or none fits."""
        last = max(self.starts.get(start, -1) for start in keys.starts)
        last = max(last, self._wild(keys.path, is_from_top=True), *map(self._named, keys.names))
        return self.owners[last] if last >= 0 else frozenset()

    def _named(self, name: str) -> int:
        known = self.known.get(name)
        if known is None:
            known = self.known[name] = max(self.names.get(name, -1), self._wild(name, is_from_top=False))
        return known

    def _wild(self, text: str, *, is_from_top: bool) -> int:
        found = self.expressions[is_from_top].fullmatch(text)
        return -1 if found is None or not found.lastindex else self.wild[is_from_top][found.lastindex - 1][0]


def _expression(pattern: str, *, is_from_top: bool) -> str:
    """A pattern with stars: of a path from the top, or of a name, which of a folder ends in a slash."""
    parts = [part if part == "**" else _STARS.sub("*", part) for part in pattern.split("/")]
    source = translated("/".join(parts))
    if not is_from_top:
        return source if pattern.endswith("/") else f"{source}/?"
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
    return tuple(section for section in sections.values() if not section.is_optional and section.owners)


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
        section.add(re.sub(r"\\(.)", r"\1", pattern[1:]), frozenset())
    elif not named or _owners(named):
        section.add(re.sub(r"\\(.)", r"\1", pattern), _owners(named) or section.defaults)
