"""Patterns of paths: which a gate sets aside, a check is for, a rule of the policy covers.

`*` and `?` stay within a folder, `**` goes through any number of them, and a pattern is of the whole path.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

from tandem.git.raw import encode_path, loosely_read

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

_ANY_FOLDERS = "(?:[^/]+/)*"
_THROUGH_FOLDERS = re.compile(r"(?<!\*)\*\*/")
# A star and the text up to the next star of the same folder may be matched for good at the first place where they
# fit, as the next star takes the rest: without this, names could be made up that take years to match.
_TOKENS = re.compile(r"(?<!\*)\*(?P<then>[^*/]+)(?=\*(?!\*))|\*\*|\*|\?")
_MEANINGS = {"**": ".*", "*": "[^/]*", "?": "[^/]"}


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path fits one of the patterns."""
    return bool(patterns) and _cached(tuple(patterns)).fullmatch(path) is not None


def compiled(patterns: Iterable[str]) -> re.Pattern[str]:
    """An expression whose `fullmatch` says whether a path fits one of the patterns; of none it fits the empty path."""
    return re.compile("|".join(f"(?:{translated(pattern)})" for pattern in patterns), re.DOTALL)


_cached = lru_cache(maxsize=64)(compiled)


def as_text(path: str) -> str:
    """A path without git's quotes, which one that is not UTF-8 has in records: in them it would fit no pattern."""
    return encode_path(path).decode("utf-8", "surrogateescape") if path.startswith('"') else path


def folded(text: str) -> str:
    """A text without its case, in one of the ways to write its accents."""
    return text.lower() if text.isascii() else _composed(_composed(text).casefold())


def _composed(text: str) -> str:
    return unicodedata.normalize("NFC", text)


# A component that is empty, `.` or `..`, or ends in dots or spaces, which Windows drops; backslashes and colons divide
# names there.
_UNUSUAL = re.compile(r"(?:^|/)\.{0,2}(?:/|$)|[. ](?:/|$)|[\\:]")


def loosely_folded(path: str) -> str:
    """A path as the file system reads it that minds least how it is written."""
    text = as_text(path)
    if text.isascii() and _UNUSUAL.search(text) is None:
        return text.lower()
    kept: list[str] = []
    for part in text.replace("\\", "/").split("/"):
        if part == "..":
            del kept[-1:]
        elif name := loosely_read(part):
            kept.append(folded(name))
    return "/".join(kept)


def translated(pattern: str) -> str:
    """A pattern as the source of an expression."""
    first, *later = _THROUGH_FOLDERS.split(pattern)
    parts = [_plain(first)]
    for number, part in enumerate(later, start=1):
        if number < len(later) and part.endswith("/") and "**" not in part:
            # Whole folders before the next `**/`: for good, too, where they fit first.
            parts.append(f"(?>{_ANY_FOLDERS}?{_plain(part)})")
        elif part or number == len(later):
            parts.append(_ANY_FOLDERS + _plain(part))
    return "".join(parts)


def _plain(part: str) -> str:
    """A pattern without `**/` as an expression."""
    parts: list[str] = []
    at = 0
    for token in _TOKENS.finditer(part):
        then = token["then"]
        parts += [
            re.escape(part[at : token.start()]),
            _MEANINGS[token.group()] if then is None else f"(?>[^/]*?{_plain(then)})",
        ]
        at = token.end()
    return "".join([*parts, re.escape(part[at:])])
