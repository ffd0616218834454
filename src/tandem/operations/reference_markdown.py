"""Markdown as the reference pages write it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

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


def spaced(number: int) -> str:
    """A whole number with its digits in groups of three."""
    return f"{number:,}".replace(",", " ")


def shown_default(value: Any) -> str:
    """A setting's default as a cell; nothing for null and for an empty list."""
    match value:
        case None | [] | ():
            return ""
        case bool():
            return f"`{str(value).lower()}`"
        case float() if value.is_integer():
            return f"`{int(value)}`"
        case _:
            return f"`{value}`"
