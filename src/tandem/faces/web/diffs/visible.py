"""Text as it can be trusted on a page: escaped, and with nothing in it that cannot be seen."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable

from markupsafe import Markup

from tandem.domain.unseen import HIDDEN, LONE, code, spelled

__all__ = ["escape", "escaping", "shown", "spelled"]

_SPECIAL = {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&#34;", "'": "&#39;"}
_CONTROL = re.compile("[\\x00-\\x08\\x0b-\\x1f\\x7f]")
_NOT_PLAIN = re.compile("[^\\t\\n -%'-;=?-~]")
_CHANGED = re.compile(f"[&<>\"'{HIDDEN}]{LONE}")


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
    return f'<span class="hidden-char" title="{name}">{code(char)}</span>'
