"""Texts with styles, and how they are laid out in lines of a terminal or a pipe.

Standard library only: a command that agents run all day has answered before a library for terminals is imported.

    Text       words, each in a style; broken where the width ends, unless it must stay whole
    Table      cells in columns, as wide as they need to be and as there is room for
    Group      one below the other
    Framed     indented, or in a box with a title
"""

from __future__ import annotations

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
_LEAST_COLUMN = 4
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
        is_whole: Whether it is never broken into several lines.
        is_cut: Whether it ends with `…` where its column does.
    """

    __slots__ = ("is_cut", "is_whole", "spans")

    def __init__(self, text: str = "", style: str = "", *, is_whole: bool = False, is_cut: bool = False) -> None:
        self.spans: list[tuple[str, str]] = [(text, style)] if text else []
        self.is_whole = is_whole
        self.is_cut = is_cut

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
        if width is None or self.is_whole:
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
                start = space + 1
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
        name: Its heading.
        style: The style of its cells that have none.
        is_whole: Whether its cells are never broken.
    """

    __slots__ = ("is_whole", "name", "style")

    def __init__(self, name: str = "", style: str = "", *, is_whole: bool = False) -> None:
        self.name, self.style, self.is_whole = name, style, is_whole


class Table:
    """Cells in columns: each as wide as its cells, and where there is too little room the widest ones narrower."""

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
            made.append(self._line([Text(column.name, "bold") for column in self.columns], widths))
            made.append(Text("─" * (sum(widths) + self.pad * (len(widths) - 1)), "dim"))
        for row in self.rows:
            cells = [self._cell(*facts) for facts in zip(row, self.columns, widths, strict=False)]
            height = max(map(len, cells), default=0)
            made += (
                self._line([cell[at] if at < len(cell) else Text() for cell in cells], widths) for at in range(height)
            )
        return made

    def _cell(self, cell: Text, column: Column, width: int) -> list[Text]:
        if column.style:
            cell = Text.assemble(*((text, style or column.style) for text, style in cell.spans))
        return cell.lines(None if column.is_whole else width)

    def _line(self, cells: list[Text], widths: list[int]) -> Text:
        made = Text()
        for at, (cell, width) in enumerate(zip(cells, widths, strict=False)):
            made.append(cell)
            if any(cells[at + 1 :]):
                made.append(" " * (max(0, width - columns(cell.plain)) + self.pad))
        return made

    def _widths(self, width: int | None) -> list[int]:
        needed = [
            max(
                [
                    columns(column.name) if self.has_head else 0,
                    *(row[at].needed() for row in self.rows if at < len(row)),
                ]
            )
            for at, column in enumerate(self.columns)
        ]
        if width is None:
            return needed
        room = width - self.pad * (len(needed) - 1)
        # Columns that may be broken share the rest of the room, the narrow ones first.
        open_ = sorted((need, at) for at, need in enumerate(needed) if not self.columns[at].is_whole)
        left = room - sum(need for at, need in enumerate(needed) if self.columns[at].is_whole)
        for number, (need, at) in enumerate(open_):
            needed[at] = min(need, max(_LEAST_COLUMN, left // (len(open_) - number)))
            left -= needed[at]
        return needed


def drawn(shown: Drawable, width: int | None, *, coloured: bool) -> str:
    """The printed form of something, each line with its end.

    Args:
        shown: The thing to print.
        width: Columns of the terminal; None for lines of any length.
        coloured: Whether styles become colours.
    """
    lines = shown.lines(width)
    return "".join(f"{line.ansi() if coloured else line.plain}".rstrip(" ") + "\n" for line in lines)
