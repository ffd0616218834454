"""Patterns of paths: which a gate sets aside, a check is for, a rule of the policy covers.

`*` and `?` stay within a folder, `**` goes through any number of them, and a pattern is of the whole path.
"""

from __future__ import annotations

import re
from functools import lru_cache

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
    return re.compile("|".join(f"(?:{_translated(pattern)})" for pattern in patterns), re.DOTALL)


_cached = lru_cache(maxsize=64)(compiled)


def _translated(pattern: str) -> str:
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
