"""Characters that cannot be seen, or that turn how others are read: which they are, and how they are spelled out."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

_NARROW, _WIDE = 0xFF, 0xFFFF
_SPACES = frozenset("\xa0\u2002\u2003\u2007\u2009\u202f")
HIDDEN = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\xa0\\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u2800\u3164\ufeff\uffa0\ufff0-\ufffc"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
"""Those that are hidden wherever they stand, as they stand between the brackets of a regular expression."""
# A joiner between two characters that are not ASCII, or a selector after one, belongs to emoji and to scripts; several
# in a row belong to none, and could spell a text.
LONE = (
    "|(?<![^\\x00-\\x7f\u200c\u200d])[\u200c\u200d]|[\u200c\u200d](?![^\\x00-\\x7f\u200c\u200d])"
    "|(?<![0-9#*\x80-\ufdff\ufe10-\U0010ffff])[\ufe00-\ufe0f]"
)
"""Those that are hidden where they join or change nothing, as further branches of a regular expression."""


def unseen(text: str) -> list[str]:
    """The characters of a text that cannot be seen."""
    return [] if text.isascii() and text.isprintable() else _unseen().findall(text)


def spelling(text: str, spell: Callable[[str], str]) -> str:
    """The text with something else in place of each character that cannot be seen."""
    if text.isascii() and text.isprintable():
        return text
    return _unseen().sub(lambda match: spell(match.group()), text)


def spelled(text: str) -> str:
    """The text with the characters that cannot be seen spelled out, for places that take no markup.

    Made for prose: spaces of other widths may stay.
    """
    return spelling(text, _of_prose)


def code(char: str) -> str:
    """A character by its number, as it is written in code."""
    if ord(char) <= _NARROW:
        return f"\\x{ord(char):02x}"
    return f"\\u{ord(char):04x}" if ord(char) <= _WIDE else f"\\U{ord(char):08x}"


@cache
def _unseen() -> re.Pattern[str]:
    # Not when it is imported: a command that says three words has no use for it.
    return re.compile(f"[{HIDDEN}]{LONE}")


def _of_prose(char: str) -> str:
    return char if char in _SPACES else code(char)
