"""Texts by others: which of them, and which JSON values, can be kept, and how they stand in Markdown.

A text is kept if UTF-8 and both databases can hold it; a value, if it can be written again, too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, cast

JSON_LEVELS = 100
"""How deeply a value may be nested."""

LONGEST_MARKDOWN = 100_000
"""Characters of a text; longer ones are shown as they were written."""
_MOST_SIGNS = 20_000
_MOST_LINES = 10_000
_MOST_CELLS = 10_000
_DELIMITERS = re.compile(r"[-|: \t>*+0-9.)]*")
_SIGNS = "[]*_`<&|~\\!"
_CELL_END = re.compile(r"(?<!\\)\|")
_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&!])")
_TICKS = re.compile(r"`+")

_KINDS: dict[type, str] = {
    bool: "true or false",
    int: "a number",
    float: "a number",
    str: "a text",
    list: "an array",
    dict: "an object",
}


def json_kind(value: object) -> str:
    """What a value of JSON is, in words."""
    return _KINDS.get(type(value), "null")


def storable_text(text: str) -> str:
    """The text, if UTF-8 and both databases can hold it.

    Raises:
        ValueError: They cannot, and why.
    """
    if "\x00" in text:
        raise ValueError("must not contain NUL characters")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ValueError("must be valid Unicode; it contains a lone surrogate") from None
    return text


def storable_json(value: Any) -> Any:
    """The value, if every text in it is storable and it is not nested too deeply to be written again.

    Raises:
        ValueError: It is not, and why.
    """
    _check(value, JSON_LEVELS)
    return value


def _check(value: Any, levels: int) -> None:
    match value:
        case str():
            storable_text(value)
        case dict() | list() if not levels:
            raise ValueError(f"must not be nested deeper than {JSON_LEVELS} levels")
        case dict():
            for key, inner in value.items():  # pyright: ignore[reportUnknownVariableType] any JSON value
                storable_text(key)  # pyright: ignore[reportUnknownArgumentType] JSON keys are texts
                _check(inner, levels - 1)
        case list():
            for inner in value:  # pyright: ignore[reportUnknownVariableType] any JSON value
                _check(inner, levels - 1)
        case _:
            pass


def is_too_much_markdown(text: str) -> bool:
    """Whether parsing a text as Markdown would take too long: it is long, consists of signs, or is a huge table."""
    return (
        len(text) > LONGEST_MARKDOWN
        or sum(map(text.count, _SIGNS)) > _MOST_SIGNS
        or text.count("\n") > _MOST_LINES
        or _most_cells(text) > _MOST_CELLS
    )


def _most_cells(text: str) -> int:
    """How many cells the tables of a text have at most: each row gets as many as the line below the head says."""
    cells = columns = 0
    for line in text.split("\n"):
        if not line.strip():
            columns = 0
        elif "-" in line and _DELIMITERS.fullmatch(line.rstrip()):
            columns = max(columns, line.count("|") + 1)
        cells += columns
    return cells


def loses_cells(tokens: Iterable[Any], source: str) -> bool:
    """Whether a table in Markdown has cells for which its head has no column: parsers drop them without a word.

    Args:
        tokens: All of the text, as markdown-it gives them.
        source: The text.
    """
    lines = source.split("\n")
    columns = 0
    for token in tokens:
        kind, place = str(token.type), cast("list[int] | None", token.map)
        if kind in ("thead_open", "th_open"):
            columns = columns + 1 if kind == "th_open" else 0
        elif kind == "tr_open" and columns and place:
            cells = _CELL_END.split(lines[place[0]].lstrip("> \t").rstrip())
            if any(cell.strip() for cell in cells[columns + (not cells[0]) :]):
                return True
    return False


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
