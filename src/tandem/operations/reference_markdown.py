"""Markdown as the reference pages write it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

_GENERATED: Final = "<!-- Written by `make docs` from the source; edits here are lost. -->"


def page(title: str, *parts: str) -> str:
    """A whole page: the remark that it is generated, its title, its paragraphs, tables and headings."""
    return "\n\n".join([_GENERATED, f"# {title}", *(part.strip("\n") for part in parts)]) + "\n"


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> str:
    """A table; what stands in a cell may be any text of one paragraph."""
    lines = [list(head)]
    lines += [[" ".join(cell.split()).replace("|", "\\|") for cell in row] for row in rows]
    lines.insert(1, ["---"] * len(lines[0]))
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def code(names: Iterable[str]) -> str:
    """Names as code, separated by commas."""
    return ", ".join(f"`{name}`" for name in names)
