"""Colours for the words of a programming language, a hunk at a time and never for long."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename  # pyright: ignore[reportUnknownVariableType] - its options are anything
from pygments.token import Token
from pygments.util import ClassNotFound
from rich.text import Text

from tandem.cli.review_screen.rows import Row

_MOST_LINES = 400
_MOST_CHARACTERS = 40_000
_LONGEST_LINE = 500
"""Beyond these a hunk is shown in one colour: a lexer may take its time with what it was not made for."""

_STYLES: dict[tuple[str, ...], str] = {
    Token.Comment: "italic dim",
    Token.Keyword: "magenta",
    Token.Literal.String: "yellow",
    Token.Literal.Number: "cyan",
    Token.Name.Function: "blue",
    Token.Name.Class: "blue",
    Token.Name.Decorator: "blue",
    Token.Name.Tag: "blue",
    Token.Name.Builtin: "cyan",
    Token.Name.Attribute: "cyan",
}


def lexer_for(path: str) -> Lexer | None:
    """The lexer of a file's language, by its name; null where there is none."""
    try:
        return get_lexer_for_filename(path.rpartition("/")[2], stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def coloured(rows: Sequence[Row], lexer: Lexer) -> dict[int, Text]:
    """The texts of a hunk's lines by their position in it; the two sides are read each as a whole."""
    if len(rows) > _MOST_LINES or sum(len(row.text) for row in rows) > _MOST_CHARACTERS:
        return {}
    if any(len(row.text) > _LONGEST_LINE for row in rows):
        return {}
    found: dict[int, Text] = {}
    for kinds in ({"context", "deleted"}, {"context", "added"}):
        positions = [position for position, row in enumerate(rows) if row.kind in kinds]
        texts = _lines([rows[position].text for position in positions], lexer)
        found.update(zip(positions, texts, strict=False))
    return found


def _lines(lines: Sequence[str], lexer: Lexer) -> list[Text]:
    texts = [Text(end="", no_wrap=True)]
    for kind, value in lexer.get_tokens("\n".join(lines)):
        style = _style(kind)
        for position, part in enumerate(value.split("\n")):
            if position:
                texts.append(Text(end="", no_wrap=True))
            texts[-1].append(part, style)
    # A lexer that loses or adds something must not change what is reviewed.
    same = len(texts) >= len(lines) and all(text.plain == line for text, line in zip(texts, lines, strict=False))
    return texts[: len(lines)] if same else []


def _style(kind: Any) -> str:
    # A kind of token is a tuple of names, from the general to the particular.
    for length in range(len(kind), 0, -1):
        if kind[:length] in _STYLES:
            return _STYLES[kind[:length]]
    return ""
