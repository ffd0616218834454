"""Text as it can be trusted on a page: escaped, and with nothing in it that cannot be seen."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from markupsafe import Markup

_SPECIAL = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"}
_NARROW, _WIDE = 0xFF, 0xFFFF
_SPACES = frozenset("\xa0\u2002\u2003\u2007\u2009\u202f")
# A joiner between two characters that are not ASCII, or a selector after one, belongs to emoji and to scripts.
_HIDDEN = (
    "\\x00-\\x08\\x0b-\\x1f\\x7f-\\xa0\\xad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f"
    "\u2000-\u200b\u200e\u200f\u2028-\u202f\u205f-\u206f\u3164\ufeff\uffa0\ufff0-\ufffc"
    "\ud800-\udfff\U0001bca0-\U0001bca3\U0001d173-\U0001d17a\U000e0000-\U000e0fff"
)
_LONE = (
    "|(?<![^\\x00-\\x7f])[\u200c\u200d]|[\u200c\u200d](?![^\\x00-\\x7f])"
    "|(?<![0-9#*\x80-\ufdff\ufe10-\U0010ffff])[\ufe00-\ufe0f]"
)
_CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f]")
_NOT_PLAIN = re.compile("[^\\t\\n -%'-;=?-~]")
_UNSEEN = re.compile(f"[{_HIDDEN}]{_LONE}")
_CHANGED = re.compile(f"[&<>\"'{_HIDDEN}]{_LONE}")


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


def spelled(text: str) -> str:
    """The text with the characters that cannot be seen spelled out, for places that take no markup.

    Made for prose: spaces of other widths may stay.
    """
    return _UNSEEN.sub(lambda match: _of_prose(match.group()), text)


def _of_prose(char: str) -> str:
    return char if char in _SPACES else _code(char)


def _mark(match: re.Match[str]) -> str:
    char = match.group()
    plain = _SPECIAL.get(char)
    if plain is not None:
        return plain
    code = _code(char)
    return f'<span class="hidden-char" title="{unicodedata.name(char, "control character")}">{code}</span>'


def _code(char: str) -> str:
    if ord(char) <= _NARROW:
        return f"\\x{ord(char):02x}"
    return f"\\u{ord(char):04x}" if ord(char) <= _WIDE else f"\\U{ord(char):08x}"
