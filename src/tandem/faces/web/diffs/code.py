"""One line of code as HTML: what kind of word each is, which of them changed, and nothing that cannot be seen."""

from __future__ import annotations

from typing import Literal

from markupsafe import Markup

from tandem.faces.web.diffs.syntax import Words
from tandem.faces.web.diffs.visible import escaping
from tandem.faces.web.diffs.words import Marks

LONGEST_SHOWN = 2_000
"""Characters of a line; how many more there are is said."""


def code(text: str, words: Words | None, marks: Marks, tag: Literal["ins", "del"]) -> Markup:
    """A line of code.

    Args:
        text: The line, of any length.
        words: The same line, highlighted.
        marks: Its changed stretches.
        tag: What a changed stretch is put into.
    """
    rest = len(text) - LONGEST_SHOWN
    if rest > 0:
        shown = text[:LONGEST_SHOWN]
        cut = f'{escaping(shown)(shown)}<span class="cut">… {rest:,} more characters</span>'
        return Markup(cut)  # noqa: S704 - the text was escaped
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
    stretches: list[tuple[int, int, bool]] = []
    at = 0
    for start, end in marks:
        if start > at:
            stretches.append((at, start, False))
        stretches.append((start, end, True))
        at = end
    if length > at:
        stretches.append((at, length, False))
    return stretches
