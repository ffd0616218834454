"""Warnings beside Approve: parts of a change that a person may not have seen, or could take for something else."""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from tandem.core.visible import unseen
from tandem.git.hunks import FileDiff

LONGEST_SHOWN = 2_000
"""Characters of a line that are shown at once; the rest opens."""
MOST_PLACES = 10
"""Places that are named of each kind."""

_PROGRAM, _LINK, _SUBMODULE = "100755", "120000", "160000"
_PLAIN = re.compile(r"[\t -~]*")
_FAR = re.compile("[ \t\u3000]{100}|\t{25}")
_TURNED = re.compile("[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc\U00010800-\U00010fff\U0001e800-\U0001efff]")
_WORD = re.compile(r"\w+")
_SIGN = re.compile(r"[ \t,;.()]")
_BETWEEN = re.compile(r"\W")
_LATIN = re.compile("[A-Za-z]")
# Signs that pass for others, and strokes over the letter before; those below also have a plain form of their own.
_SIGNS = re.compile("[\u01c0-\u01c3\u02d0\u0334-\u0338\u2044\u2215\u2216\u2223\u2236\ua789]")
_WIDE, _NONE = re.compile("[\u3000\uff01-\uff5e]"), re.compile("(?!)")
_EAST_ASIAN = re.compile("[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")
_UNLIKE = ("<super>", "<sub>", "<circle>")
_ALIKE = re.compile("[АВЕЅІЈКМНОРСТУХавеѕіјкмнорстухһԁԛԝαονρυΑΒΕΖΗΙΚΜΝΟΡΤΥΧ]")


class Location(NamedTuple):
    """Where something is.

    Attributes:
        file: The file's place in the diff, from 0.
        path: The file.
        before: Whether the line's number is the one before the change.
        line: The line; None for the file as a whole.
        at: How many lines of the file's diff stand before it.
    """

    file: int
    path: str
    before: bool = False
    line: int | None = None
    at: int = 0

    @property
    def name(self) -> str:
        """As it is named: `src/a.py:12`."""
        return self.path if self.line is None else f"{self.path}:{self.line}{' (before)' if self.before else ''}"


@dataclass(frozen=True, slots=True)
class Unusual:
    """One kind of unusual things in a change.

    Attributes:
        what: How many of which, in words.
        places: The first of them.
        more: How many more places there are.
    """

    what: str
    places: tuple[Location, ...]
    more: int

    @property
    def line(self) -> str:
        """All of it as one line; paths are as others wrote them."""
        more = f" and {self.more:,} more" if self.more else ""
        return ": ".join(filter(None, (self.what, ", ".join(place.name for place in self.places)))) + more


Look = Callable[[str], Sequence[str]]
"""Finds the pieces of an added line that are odd; one empty piece stands for the line as a whole."""


class _Kind(NamedTuple):
    one: str
    many: str
    look: Look


_PIECE = 50_000
_FARTHEST = 100
_MOST_NAMES = 3


def _spans(text: str) -> Iterable[tuple[int, int]]:
    """Where the pieces of a long line begin and end: an expression that searches megabytes stops all other threads."""
    return ((0, len(text)),) if len(text) <= _PIECE else _pieces(text)


def _pieces(text: str) -> Iterator[tuple[int, int]]:
    start = 0
    while start < len(text):
        # No word is in two pieces. Behind such a sign nothing joins the text before it, either.
        between = _SIGN.search(text, start + _PIECE, start + 2 * _PIECE) or _BETWEEN.search(text, start + _PIECE)
        end = len(text) if between is None else between.end()
        yield start, end
        start = end


def _long(text: str) -> list[str]:
    return [""] * (len(text) > LONGEST_SHOWN)


def _far(text: str) -> list[str]:
    text = text.rstrip()
    return [""] * any(_FAR.search(text, max(0, start - _FARTHEST), end) for start, end in _spans(text))


def _turned(text: str) -> list[str]:
    return [""] * any(_TURNED.search(text, *span) for span in _spans(text))


def _invisible(text: str) -> list[str]:
    text = text.removesuffix("\r")
    return [char for start, end in _spans(text) for char in unseen(text[start:end])]


def _mixed(text: str) -> list[str]:
    words = (word for span in _spans(text) if _ALIKE.search(text, *span) for word in _WORD.findall(text, *span))
    return [word for word in words if _LATIN.search(word) and _ALIKE.search(word)]


@lru_cache(4_096)
def _passes_for_ascii(char: str) -> bool:
    if _SIGNS.match(char):
        return True
    plain = unicodedata.normalize("NFKC", char)
    return (
        char > "~"
        and len(plain) == 1
        and " " <= plain <= "~"
        and not unicodedata.decomposition(char).startswith(_UNLIKE)
    )


def _signs(text: str) -> list[str]:
    found = {char for start, end in _spans(text) for char in text[start:end] if char > "~"}
    # Beside East Asian letters wide forms are the usual ones.
    usual = _WIDE if any(map(_EAST_ASIAN.match, found)) else _NONE
    return [char for char in sorted(found) if _passes_for_ascii(char) and not unseen(char) and not usual.match(char)]


def _named(odd: Iterable[str]) -> str:
    """The characters that are odd by their Unicode names, as they follow the number of them."""
    names = sorted(unicodedata.name(char, f"U+{ord(char):04X}") for char in odd)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f" ({', '.join(names[:_MOST_NAMES])}{more})" if names else ""


_LONG = _Kind(
    f"line longer than {LONGEST_SHOWN:,} characters",
    f"lines longer than {LONGEST_SHOWN:,} characters",
    _long,
)
_FAR_KIND = _Kind(
    "line with something after a long blank",
    "lines with something after a long blank",
    _far,
)
_FOREIGN = (
    _Kind("invisible character", "invisible characters", _invisible),
    _Kind(
        "word with letters that look like Latin ones",
        "words with letters that look like Latin ones",
        _mixed,
    ),
    _Kind(
        "line with letters written from right to left, which can change the order in which it is shown",
        "lines with letters written from right to left, which can change the order in which they are shown",
        _turned,
    ),
    _Kind("character that looks like a plain one", "characters that look like plain ones", _signs),
)
_ORDER = (_LONG, *_FOREIGN, _FAR_KIND)
_OF_NAMES = tuple(
    _Kind(f"file name with {what}", f"file names with {what}", kind.look)
    for what, kind in zip(
        (
            *("invisible characters", "letters that look like Latin ones", "letters written from right to left"),
            "characters that look like plain ones",
        ),
        _FOREIGN,
        strict=True,
    )
)


def of_diff(files: tuple[FileDiff, ...]) -> tuple[Unusual, ...]:
    """The unusual parts of a change."""
    names = (
        (Location(index, path), path, True)
        for index, file in enumerate(files)
        for path in dict.fromkeys(filter(None, (file.old_path, file.new_path)))
    )
    return (*_of_files(files), *_of_lines(names, _OF_NAMES), *_of_lines(_lines(files)))


def of_text(path: str, text: str) -> tuple[Unusual, ...]:
    """The unusual parts of a text that is up for review as a whole."""
    lines = enumerate(text.split("\n"))
    return tuple(_of_lines((Location(0, path, line=at + 1, at=at), line, True) for at, line in lines))


def _lines(files: tuple[FileDiff, ...]) -> Iterator[tuple[Location, str, bool]]:
    """Every changed line, and whether it is an added one."""
    for index, file in enumerate(files):
        at = 0
        for hunk in file.hunks:
            if hunk.added or hunk.deleted:
                for count, line in enumerate(hunk.walk(), at):
                    if line.new_number is None:
                        yield Location(index, file.path, before=True, line=line.old_number, at=count), line.text, False
                    elif line.old_number is None:
                        yield Location(index, file.path, line=line.new_number, at=count), line.text, True
            at += hunk.old_count + hunk.added


def _of_lines(lines: Iterable[tuple[Location, str, bool]], order: tuple[_Kind, ...] = _ORDER) -> Iterator[Unusual]:
    counts: Counter[_Kind] = Counter()
    places: dict[_Kind, list[Location]] = {}
    odd: dict[_Kind, set[str]] = {}
    for place, text, is_added in lines:
        is_plain = _PLAIN.fullmatch(text) is not None
        kinds = (_LONG,) if not is_added else (_LONG, _FAR_KIND) if is_plain else order
        for kind in kinds:
            found = kind.look(text)
            if found:
                counts[kind] += len(found)
                places.setdefault(kind, []).append(place)
                odd.setdefault(kind, set()).update(*found)
    for kind in order:
        names = _named(
            char for char in odd.get(kind, ()) if _ALIKE.match(char) or unseen(char) or _passes_for_ascii(char)
        )
        yield from counted(counts[kind], kind.one + names, kind.many + names, places.get(kind, []))


def _of_files(files: tuple[FileDiff, ...]) -> Iterator[Unusual]:
    def those(is_one: Callable[[FileDiff], bool]) -> list[Location]:
        return [Location(index, file.path) for index, file in enumerate(files) if is_one(file)]

    folded = "whose unchanged lines are folded"
    for one, many, places in (
        (f"renamed file, {folded}", f"renamed files, {folded}", those(lambda file: file.kind == "renamed")),
        ("binary file", "binary files", those(lambda file: file.binary)),
        ("file that is not UTF-8", "files that are not UTF-8", those(lambda file: file.latin_1)),
        ("file becomes a program", "files become programs", those(lambda file: _becomes(file, _PROGRAM))),
        ("symbolic link", "symbolic links", those(lambda file: _becomes(file, _LINK))),
        ("submodule", "submodules", those(lambda file: _becomes(file, _SUBMODULE))),
    ):
        yield from counted(len(places), one, many, places)


def _becomes(file: FileDiff, mode: str) -> bool:
    return file.new_path is not None and file.new_mode == mode and (file.old_mode != mode or mode != _PROGRAM)


def of_round(*, drawn: bool, notes: Iterable[str]) -> Iterator[Unusual]:
    """Warnings about a round's diff as a whole, before any file.

    Args:
        drawn: Whether Tandem drew it from the files.
        notes: What git did that the diff as it was sent did not say.
    """
    if not drawn:
        yield Unusual("The diff is shown as it was sent: its lines and places may be wrong", (), 0)
    yield from (Unusual(note, (), 0) for note in notes)


def counted(count: int, one: str, many: str, places: list[Location]) -> Iterator[Unusual]:
    """One kind, if there is any."""
    if count:
        named = tuple(places[:MOST_PLACES])
        yield Unusual(f"{count:,} {one if count == 1 else many}", named, len(places) - len(named))
