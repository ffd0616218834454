"""One line of code as HTML: what kind of word each is, which of them changed, and nothing that cannot be seen."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Literal

from markupsafe import Markup

from tandem.core.visible import HIDDEN, LONE, spelling
from tandem.core.visible import code as code_point
from tandem.git.word_changes import Mark, Marks
from tandem.reviews.unusual import LONGEST_SHOWN
from tandem.web.diffs.syntax import Words

_SPECIAL = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"}
_CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f]")
_NOT_PLAIN = re.compile("[^\\t\\n -%'-;=?-~]")
_CHANGED = re.compile(f"[&<>\"'{HIDDEN}]{LONE}")


_SPACES = frozenset("\xa0\u2002\u2003\u2007\u2009\u202f")


def spelled(text: str) -> str:
    """The text with the characters that cannot be seen spelled out, for places that take no markup.

    Made for prose: spaces of other widths may stay.
    """
    return spelling(text, lambda char: char if char in _SPACES else code_point(char))


def shown(text: str) -> Markup:
    """The text as HTML, with a labelled mark in place of each character that cannot be seen."""
    return Markup(escape(text))  # noqa: S704 - escaped by the line below it


def escape(text: str) -> str:
    """As `shown`, as plain `str` for building larger pieces."""
    return _CHANGED.sub(_mark, text)


def escaping(text: str) -> Callable[[str], str]:
    """What escapes pieces of this text between tags: nothing needs to be done for most lines of code."""
    return _escape_code if _NOT_PLAIN.search(text) else str


def _escape_code(text: str) -> str:
    if _NOT_PLAIN.search(text) is None:
        return text
    if text.isascii() and _CONTROL.search(text) is None:
        return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
    return _CHANGED.sub(_mark, text)


def _mark(match: re.Match[str]) -> str:
    char = match.group()
    plain = _SPECIAL.get(char)
    if plain is not None:
        return plain
    name = unicodedata.name(char, "control character")
    return f'<span class="hidden-char" title="{name}">{code_point(char)}</span>'


LONGEST_OPENED = 200_000
"""Characters of a line that open; of a longer one only the patch has all."""
_AROUND = 60
_MOST_WINDOWS = 20


def code(text: str, words: Words | None, marks: Marks, tag: Literal["ins", "del"]) -> Markup:
    """A line of code.

    Args:
        text: The line, of any length.
        words: The same line, highlighted.
        marks: Its changed stretches.
        tag: What a changed stretch is put into.
    """
    if len(text) > LONGEST_SHOWN:
        return Markup("".join(_long(text, marks, tag)))  # noqa: S704 - escaped piece by piece
    if marks:
        return Markup(_marked(text, words, marks, tag))  # noqa: S704 - escaped piece by piece
    safe = escaping(text)
    if words is None:
        return Markup(safe(text))  # noqa: S704 - escaped
    if safe is str:
        spans = [f'<span class="{kind}">{word}</span>' if kind else word for kind, word in words]
    else:
        spans = [f'<span class="{kind}">{safe(word)}</span>' if kind else safe(word) for kind, word in words]
    return Markup("".join(spans))  # noqa: S704 - escaped piece by piece, and the kinds are ours


def _long(text: str, marks: Marks, tag: str) -> Iterator[str]:
    """A long line: its beginning and what changed of it, and between them the rest, which opens."""
    at, left = 0, LONGEST_OPENED
    for start, end in _windows(marks, len(text)):
        if start - at > left:
            yield f'<span class="cut">… {start - at:,} more characters: the exported patch has them …</span>'
        elif start > at:
            left -= start - at
            yield f'<details class="rest"><summary>{start - at:,} more characters</summary>'
            yield f"{_marked(text[at:start], None, _within(marks, at, start), tag)}</details>"
        yield _marked(text[start:end], None, _within(marks, start, end), tag)
        at = end


def _windows(marks: Marks, length: int) -> Iterator[tuple[int, int]]:
    """What of a long line is shown at once; the last stretch is empty, at the line's end."""
    at, end = 0, LONGEST_SHOWN
    for mark in marks[:_MOST_WINDOWS]:
        first = mark.start - _AROUND
        if first > end:
            yield at, end
            at = first
        end = max(end, min(mark.end, mark.start + LONGEST_SHOWN) + _AROUND)
    yield at, min(end, length)
    yield length, length


def _within(marks: Marks, start: int, end: int) -> Marks:
    """The marks of a stretch of a line, counted from its start."""
    return tuple(
        Mark(max(mark.start, start) - start, min(mark.end, end) - start)
        for mark in marks
        if mark.start < end and mark.end > start
    )


def _marked(text: str, words: Words | None, marks: Marks, tag: str) -> str:
    """The pieces of the line between any two borders of words and marks, marks outermost."""
    kinds = [(kind, len(word)) for kind, word in words] if words else [("", len(text))]
    safe = escaping(text)
    out: list[str] = []
    at = word = used = 0
    for start, end, marked in _stretches(marks, len(text)):
        if marked:
            out.append(f"<{tag}>")
        at = start
        while at < end:
            kind, length = kinds[word]
            taken = min(end - at, length - used)
            piece = safe(text[at : at + taken])
            out.append(f'<span class="{kind}">{piece}</span>' if kind else piece)
            at += taken
            used += taken
            if used == length:
                word, used = word + 1, 0
        if marked:
            out.append(f"</{tag}>")
    return "".join(out)


def _stretches(marks: Marks, length: int) -> list[tuple[int, int, bool]]:
    """All of a line, and what of it is marked: by turns not and so, from its start to its end."""
    borders = [0, *(at for mark in marks for at in mark), length]
    return [(start, end, at % 2 == 1) for at, (start, end) in enumerate(pairwise(borders)) if start < end]
