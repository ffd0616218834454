"""Text by others as it can be shown at a terminal or in a log: nothing in it is hidden or acts on what shows it.

The one place that decides this, for hooks, commands, logs and pages: so it stands at the bottom, and needs the
standard library only.
"""

from __future__ import annotations

import sys
import unicodedata
from functools import lru_cache

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from re import Pattern


@lru_cache(maxsize=1_000)
def folded(name: str) -> str:
    """A name without its case, its spaces at the ends and all that cannot be seen: no one is two by these."""
    text = " ".join(unicodedata.normalize("NFKC", name).casefold().split())
    hidden = _pattern(f"[{HIDDEN}\ufe0e\ufe0f]")
    seen = (letter for letter in text if unicodedata.category(letter) != "Cf" and hidden.match(letter) is None)
    # Again, as a hidden one may have kept a letter from its accent.
    return " ".join(unicodedata.normalize("NFKC", "".join(seen)).split())


_NARROW, _WIDE = 0xFF, 0xFFFF
HIDDEN = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\xa0\\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u2800\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff0-\ufffc"
    "\ud800-\udfff\U00013430-\U00013442\U00016fe4\U0001bca0-\U0001bca3\U0001d159\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Characters that are hidden wherever they stand, as they stand between the brackets of a regular expression.

With the joiners and the two selectors behind emoji, they include all of the property Default_Ignorable_Code_Point in
Unicode's DerivedCoreProperties.txt.
"""
LONE_SELECTOR = (
    "(?<![\xa9\xae\u203c\u2049\u2122\u2139\u2194-\u21aa\u231a-\u23ff\u24c2\u25aa-\u25fe\u2600-\u27bf\u2934\u2935"
    "\u2b05-\u2b55\u3030\u303d\u3297\u3299\U0001f004-\U0001faff])(?<![0-9#*](?=\ufe0f\u20e3))[\ufe0e\ufe0f]"
)
"""A selector of the look that is behind no emoji, as a branch of a regular expression: it changes nothing there."""
# A joiner between two characters that are not ASCII belongs to emoji and to scripts; several in a row belong to none,
# and could spell a text.
LONE = "|(?<![^\\x00-\\x7f\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\\x00-\\x7f\u200c\u200d])|" + LONE_SELECTOR
"""Those that are hidden where they join or change nothing, as further branches of a regular expression."""


def visible(text: str) -> str:
    """Text of several lines, with all that it could play tricks with spelled out as JSON spells it."""
    spelled = spelling(text, _escaped)
    if spelled.isprintable():
        return spelled
    return "".join(char if char in "\n\t" or char.isprintable() else _escaped(char) for char in spelled)


def visible_line(text: str) -> str:
    """As `visible`, for a text within a line: the name of a file or branch, a subject."""
    return visible(text).replace("\n", "\\n").replace("\t", "\\t")


def shortened(lines: Sequence[str], most: int, more: str = "and {} more") -> list[str]:
    """The first of some lines or words, and how many more there are, if any."""
    return [*lines[:most], *(more.format(len(lines) - most) for _ in lines[most : most + 1])]


def say(*lines: str) -> None:
    """Write to standard error; what follows a line end is indented, so that other text is not taken for ours."""
    shown = (visible(line).replace("\n", "\ntandem:   ") for line in lines)
    sys.stderr.write("".join(f"tandem: {line}\n" for line in shown))


def unseen(text: str) -> list[str]:
    """The characters of a text that cannot be seen."""
    if text.isascii() and text.isprintable():
        return []
    return _pattern(f"[{HIDDEN}]{LONE}").findall(text)


def is_blank(text: str) -> bool:
    """Whether nothing of a text can be seen: it has only spaces, hidden characters, and marks that stand on nothing."""
    # The first that can be seen settles it, which is mostly the first of all.
    return not any(char != " " and char.isprintable() and (char.isascii() or _can_be_seen(char)) for char in text)


def _can_be_seen(char: str) -> bool:
    return unicodedata.category(char)[0] != "M" and _pattern(f"[{HIDDEN}]").fullmatch(char) is None


def spelling(text: str, spell: Callable[[str], str]) -> str:
    """The text with something else in place of each character that cannot be seen."""
    if text.isascii() and text.isprintable():
        return text
    return _pattern(f"[{HIDDEN}]{LONE}").sub(lambda match: spell(match.group()), text)


def _pattern(expression: str) -> Pattern[str]:
    import re  # what a hook says is mostly ASCII, and each would pay for this

    return re.compile(expression)


def code(char: str) -> str:
    """A character by its number, as it is written in code."""
    if ord(char) <= _NARROW:
        return f"\\x{ord(char):02x}"
    return f"\\u{ord(char):04x}" if ord(char) <= _WIDE else f"\\U{ord(char):08x}"


def _escaped(char: str) -> str:
    # Carriage returns are honest in diffs of CRLF files; the others are given by number.
    if char == "\r":
        return "\\r"
    units = char.encode("utf-16-be", "surrogatepass").hex()
    return "".join(f"\\u{units[at : at + 4]}" for at in range(0, len(units), 4))
