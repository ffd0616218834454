"""Characters that cannot be seen, or that turn how others are read: which they are, and how they are spelled out."""

from __future__ import annotations

from tandem.hooks.visible import HIDDEN, LONE, code, spelling, unseen

__all__ = ["HIDDEN", "LONE", "code", "spelled", "spelling", "unseen"]

_SPACES = frozenset("\xa0\u2002\u2003\u2007\u2009\u202f")


def spelled(text: str) -> str:
    """The text with the characters that cannot be seen spelled out, for places that take no markup.

    Made for prose: spaces of other widths may stay.
    """
    return spelling(text, _of_prose)


def _of_prose(char: str) -> str:
    return char if char in _SPACES else code(char)
