"""Texts by others in a Markdown document, where they cannot break out of their place."""

from __future__ import annotations

import re

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&!])")
_TICKS = re.compile(r"`+")


def escaped(line: str) -> str:
    """A line in which nothing means anything to Markdown."""
    return _SPECIAL.sub(r"\\\1", line)


def quoted(text: str) -> str:
    """A text as a quotation."""
    return "\n".join(f"> {line}" if line else ">" for line in text.split("\n"))


def fence(text: str, language: str = "") -> str:
    """A text as a block of code, in a fence that is longer than every one within it."""
    ticks = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    return f"{ticks}{language}\n{text.removesuffix(chr(10))}\n{ticks}"
