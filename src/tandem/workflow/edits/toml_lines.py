"""Where the tables of a TOML document stand in its text."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, cast

_TOKEN = re.compile(
    r'"""(?:[^\\]|\\.)*?"{3,5}|'  # a text on several lines
    r"'''.*?'{3,5}|"  # the same, literal
    r'"(?:[^"\\\n]|\\.)*"|'
    r"'[^'\n]*'|"
    r"\#[^\n]*|"
    r"[\[\]{}\n]",
    re.DOTALL,
)


@dataclass(frozen=True, slots=True)
class Header:
    """A table's header and what belongs to it.

    Attributes:
        name: The way to the table.
        start: Where its line begins.
        end: Where the next header's line begins, or the text ends.
        body_end: Behind the line of its last key; comments and blank lines below belong to what follows.
    """

    name: tuple[str, ...]
    start: int
    end: int
    body_end: int


def headers(text: str) -> Iterator[Header]:
    """The tables, arrays of tables included, in the order of the text, which must be valid TOML."""
    lines = list(_statements(text))
    found = [number for number, (start, end) in enumerate(lines) if text[start:end].lstrip().startswith("[")]
    for place, number in enumerate(found):
        following = found[place + 1] if place + 1 < len(found) else len(lines)
        start, body_end = lines[number]
        for _, end in lines[number + 1 : following]:
            body_end = end
        stop = lines[following][0] if following < len(lines) else len(text)
        yield Header(_name(text[lines[number][0] : lines[number][1]]), start, stop, body_end)


def _statements(text: str) -> Iterator[tuple[int, int]]:
    """Headers and keys with their values, each from the beginning of its line to the beginning of the next."""
    start, depth = 0, 0
    blank = True
    at = 1 if text.startswith("\ufeff") else 0
    start = at
    while at < len(text):
        found = _TOKEN.search(text, at)
        stop = found.start() if found else len(text)
        blank = blank and not text[at:stop].strip()
        word = found[0] if found else ""
        at = found.end() if found else len(text)
        if word == "\n" and depth == 0:
            if not blank:
                yield start, at
            start, blank = at, True
        elif word and word != "\n" and not word.startswith("#"):
            blank = False
            depth += {"[": 1, "{": 1, "]": -1, "}": -1}.get(word, 0)
    if not blank:
        yield start, len(text)


def _name(line: str) -> tuple[str, ...]:
    """The way that a header names."""
    inner: Any = tomllib.loads(line)
    keys: list[str] = []
    while isinstance(inner, dict | list) and inner:
        if isinstance(inner, list):
            inner = cast("list[Any]", inner)[0]
            continue
        keys += cast("dict[str, Any]", inner)
        inner = cast("dict[str, Any]", inner)[keys[-1]]
    return tuple(keys)
