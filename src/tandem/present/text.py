"""Texts with styles, and how they are laid out in lines of a terminal or a pipe.

Standard library only: a command that agents run all day has answered before a library for terminals is imported.

    Text       words, each in a style; broken where the width ends
    Table      cells in columns, as wide as they need to be and as there is room for
    Flow       one after the other
    Group      one below the other
    Framed     indented, or in a box with a title
"""

from __future__ import annotations

import itertools
import unicodedata
from functools import lru_cache

TYPE_CHECKING = False  # `typing` takes longer to import than most answers to draw
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from typing import Protocol, Self

    class Drawable(Protocol):
        """Something that can be drawn."""

        def lines(self, width: int | None) -> list[Text]:
            """The lines, none wider than that many columns; None for any width."""
            ...


_CODES = {
    "bold": "1",
    "dim": "2",
    "italic": "3",
    "red": "31",
    "green": "32",
    "yellow": "33",
    "blue": "34",
    "magenta": "35",
    "cyan": "36",
}
_PAD = 2
_BELOW = 4
_LEAST_COLUMN = 4
_LEAST_OF_LIST = 16
_MOST_OF_CUT = 80


@lru_cache(maxsize=4096)
def _columns(letter: str) -> int:
    """How many columns of a terminal a letter takes."""
    if unicodedata.category(letter) in {"Mn", "Me", "Cf"}:
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def columns(text: str) -> int:
    """How many columns of a terminal a line takes."""
    return len(text) if text.isascii() else sum(map(_columns, text))


class Text:
    """Words, each in a style.

    Attributes:
        spans: The words with their styles, e.g. `bold red`.
        is_cut: Whether it ends with `…` where its column does.
    """

    __slots__ = ("is_cut", "spans")

    def __init__(self, text: str = "", style: str = "") -> None:
        self.spans: list[tuple[str, str]] = [(text, style)] if text else []
        self.is_cut = False

    @classmethod
    def assemble(cls, *parts: str | Text | tuple[str, str]) -> Self:
        """One text of several; a pair is words and their style."""
        made = cls()
        for part in parts:
            if isinstance(part, tuple):
                made.append(*part)
            else:
                made.append(part)
        return made

    def append(self, text: str | Text, style: str = "") -> Self:
        """Add words at the end."""
        if isinstance(text, Text):
            self.spans += text.spans
        elif text:
            self.spans.append((text, style))
        return self

    @property
    def plain(self) -> str:
        """The words alone."""
        return "".join(text for text, _ in self.spans)

    def __str__(self) -> str:
        return self.plain

    def __bool__(self) -> bool:
        return bool(self.spans)

    def lines(self, width: int | None) -> list[Text]:
        """See `Drawable`."""
        made: list[Text] = [Text()]
        for text, style in self.spans:
            first, *rest = text.split("\n")
            made[-1].append(first, style)
            made += (Text(line, style) for line in rest)
        if width is None:
            return made
        if self.is_cut:
            return [line.cut(width) for line in made]
        return [part for line in made for part in line.wrapped(width)]

    def needed(self) -> int:
        """How many columns it takes where there is room enough; a text that may be cut is, in a long list."""
        widest = max(map(columns, self.plain.split("\n")))
        return min(widest, _MOST_OF_CUT) if self.is_cut else widest

    def cut(self, width: int) -> Text:
        """The beginning of a line that fits, with `…` where something is missing."""
        return self if columns(self.plain) <= width else self._slice(0, _fitting(self.plain, width - 1)).append("…")

    def wrapped(self, width: int) -> list[Text]:
        """A line as several that fit: broken between words, else where the width ends."""
        plain, made, start = self.plain, list[Text](), 0
        while columns(plain[start:]) > width:
            end = start + max(1, _fitting(plain[start:], width))
            space = plain.rfind(" ", start, end + 1)
            # Behind the indentation of a line there is always something.
            if space > start and plain[start:space].strip():
                made.append(self._slice(start, space))
                start = space + len(plain[space:]) - len(plain[space:].lstrip(" "))
            else:
                made.append(self._slice(start, end))
                start = end
        return [*made, self._slice(start, len(plain))]

    def _slice(self, start: int, end: int) -> Text:
        made, at = Text(), 0
        for text, style in self.spans:
            made.append(text[max(0, start - at) : max(0, end - at)], style)
            at += len(text)
        return made

    def ansi(self) -> str:
        """The words with the codes that colour them."""
        return "".join(_coloured(text, style) for text, style in self.spans)


def _coloured(text: str, style: str) -> str:
    codes = ";".join(_CODES[word] for word in style.split() if word in _CODES)
    return f"\x1b[{codes}m{text}\x1b[0m" if codes else text


def _fitting(text: str, width: int) -> int:
    """How many letters of a text fit."""
    if text.isascii():
        return max(0, min(len(text), width))
    taken = 0
    for at, letter in enumerate(text):
        taken += _columns(letter)
        if taken > width:
            return at
    return len(text)


class Group:
    """One below the other."""

    __slots__ = ("parts",)

    def __init__(self, *parts: Drawable) -> None:
        self.parts: Sequence[Drawable] = parts

    def lines(self, width: int | None) -> list[Text]:
        """See `Drawable`."""
        made: list[Text] = []
        for part in self.parts:
            if made and isinstance(part, Table) and part.has_head:
                made.append(Text())
            made += part.lines(width)
        return made


class Whole(Group):
    """Texts whose lines stay whole however narrow the terminal is, so that they can be copied and piped."""

    def lines(self, width: int | None) -> list[Text]:
        """See `Drawable`."""
        del width
        return super().lines(None)


class Framed:
    """Something indented, or in a box."""

    __slots__ = ("after", "before", "inner", "left", "title")

    def __init__(
        self, inner: Drawable, *, left: int = 0, before: int = 0, after: int = 0, title: Text | None = None
    ) -> None:
        """Frame it.

        Args:
            inner: The framed part.
            left: Blanks before each line.
            before: Empty lines above.
            after: Empty lines below.
            title: In the upper edge of a box around it; None for none.
        """
        self.inner, self.left, self.before, self.after, self.title = inner, left, before, after, title

    def lines(self, width: int | None) -> list[Text]:
        """See `Drawable`."""
        inside = None if width is None else max(_LEAST_COLUMN, width - self.left - (2 * _PAD if self.title else 0))
        found = [Text(), Text()][: self.before] + self.inner.lines(inside) + [Text(), Text()][: self.after]
        if self.title is not None:
            return self._boxed(found, inside)
        return [Text.assemble(" " * self.left, line) if line else line for line in found]

    def _boxed(self, found: list[Text], inside: int | None) -> list[Text]:
        title = self.title or Text()
        wide = max([columns(title.plain) + 2, *(columns(line.plain) for line in found)]) if inside is None else inside
        rest = "─" * max(0, wide - columns(title.plain) - 1)
        top = Text.assemble(("╭─ ", "dim"), title, (f" {rest}╮", "dim"))
        middle = [
            Text.assemble(("│ ", "dim"), line, (" " * (wide - columns(line.plain)) + " │", "dim")) for line in found
        ]
        return [top, *middle, Text(f"╰{'─' * (wide + 2)}╯", "dim")]


class Rule:
    """A line across, with a title or without."""

    __slots__ = ("title",)

    def __init__(self, title: str = "") -> None:
        self.title = f" {title} " if title else ""

    def lines(self, width: int | None) -> list[Text]:
        """See `Drawable`."""
        return [Text(self.title.center(width or 80, "─"), "dim")]


class Column:
    """A column of a table.

    Attributes:
        name: Its heading; empty where the cells name their content.
        is_whole: Whether its cells are never broken.
        least: How narrow it may become in a list, where its cells are wider.
    """

    __slots__ = ("is_whole", "least", "name")

    def __init__(self, name: str = "", *, is_whole: bool = False, least: int = _LEAST_OF_LIST) -> None:
        self.name, self.is_whole, self.least = name, is_whole, least


class Table:
    """Cells in columns: each as wide as its cells, and where there is too little room the widest ones narrower.

    Of a table with a head, the last columns go below each row where there is no room for them, with their names.
    """

    __slots__ = ("columns", "has_head", "pad", "rows")

    def __init__(self, columns: Iterable[Column], *, has_head: bool = False, pad: int = _PAD) -> None:
        self.columns, self.has_head, self.pad = [*columns], has_head, pad
        self.rows: list[list[Text]] = []

    def add(self, *cells: str | Text | None) -> None:
        """Add a row."""
        self.rows.append([cell if isinstance(cell, Text) else Text(cell or "") for cell in cells])

    def lines(self, width: int | None) -> list[Text]:
        """See `Drawable`."""
        widths = self._widths(width)
        made: list[Text] = []
        if self.has_head:
            made += self._row([Text(column.name, "bold") for column in self.columns], widths)
            made.append(Text("─" * (sum(widths) + self.pad * (len(widths) - 1)), "dim"))
        for row in self.rows:
            made += self._row(row, widths)
            below = zip(self.columns[len(widths) :], row[len(widths) :], strict=False)
            named = [_named(column, cell) for column, cell in below if cell]
            if named:
                made += Framed(Flow(named), left=_BELOW).lines(width)
        return made

    def _row(self, cells: list[Text], widths: list[int]) -> list[Text]:
        laid = [cell.lines(width) for cell, width in zip(cells, widths, strict=False)]
        height = max(map(len, laid), default=0)
        return [self._line([cell[at] if at < len(cell) else Text() for cell in laid], widths) for at in range(height)]

    def _line(self, cells: list[Text], widths: list[int]) -> Text:
        made = Text()
        for at, (cell, width) in enumerate(zip(cells, widths, strict=False)):
            made.append(cell)
            if any(cells[at + 1 :]):
                made.append(" " * (max(0, width - columns(cell.plain)) + self.pad))
        return made

    def _widths(self, width: int | None) -> list[int]:
        """The widths of the columns that have room beside each other: all of them, but in a narrow list."""
        needed = [self._needed(at) for at in range(len(self.columns))]
        if width is None or sum(needed) + self.pad * (len(needed) - 1) <= width:
            return needed
        found = [self._least(at, need) for at, need in enumerate(needed)]
        if self.has_head:
            room = itertools.accumulate(least + self.pad for least in found)
            found = found[: max(1, sum(taken - self.pad <= width for taken in room))]
        left = width - sum(found) - self.pad * (len(found) - 1)
        # The columns share the rest of the room, those that want the least of it first.
        open_ = sorted((needed[at] - least, at) for at, least in enumerate(found))
        for number, (more, at) in enumerate(open_):
            given = min(more, max(0, left // (len(open_) - number)))
            found[at] += given
            left -= given
        return found

    def _needed(self, at: int) -> int:
        cells = [row[at].needed() for row in self.rows if at < len(row)]
        return max([columns(self.columns[at].name) if self.has_head else 0, *cells])

    def _least(self, at: int, needed: int) -> int:
        """How narrow a column may become: no word of a head is broken, nor a cell that stays whole."""
        column = self.columns[at]
        if not self.has_head:
            return needed if column.is_whole else min(needed, _LEAST_COLUMN)
        cells = [row[at].needed() for row in self.rows if at < len(row)]
        least = max(cells, default=0) if column.is_whole else min(column.least, max(cells, default=0))
        return max([least, *map(columns, column.name.split())])


def _named(column: Column, cell: Text) -> Text:
    """A cell with the name of its column, below a row."""
    return Text.assemble((f"{column.name} ", "dim"), cell) if column.name else Text.assemble(cell)


class Flow:
    """Texts one after the other, as many in a line as there is room for."""

    __slots__ = ("texts",)

    def __init__(self, texts: Sequence[Text]) -> None:
        self.texts = texts

    def lines(self, width: int | None) -> list[Text]:
        """See `Drawable`."""
        made: list[Text] = []
        for text in self.texts:
            taken = columns(made[-1].plain) + _PAD + columns(text.plain) if made else 0
            if made and "\n" not in text.plain and (width is None or taken <= width):
                made[-1] = Text.assemble(made[-1], " " * _PAD, text)
            else:
                made += text.lines(width)
        return made


def drawn(shown: Drawable, width: int | None, *, coloured: bool) -> str:
    """The printed form of something, each line with its end.

    Args:
        shown: The thing to print.
        width: Columns of the terminal; None for lines of any length.
        coloured: Whether styles become colours.
    """
    lines = shown.lines(width)
    return "".join(f"{line.ansi() if coloured else line.plain}".rstrip(" ") + "\n" for line in lines)
