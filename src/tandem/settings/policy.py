"""What services decide by: limits, durations, and patterns of paths, which a gate sets aside or a check is for."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from tandem.git.changes import Change
from tandem.git.raw import ABSENT_MODE

DEFAULT_PATTERNS = (
    ".planning/STATE.md",
    ".planning/ROADMAP.md",
    ".planning/REQUIREMENTS.md",
    ".planning/workstreams/*/STATE.md",
    ".planning/workstreams/*/ROADMAP.md",
    ".planning/workstreams/*/REQUIREMENTS.md",
    ".planning/**/*SUMMARY.md",
    ".planning/**/*DISCUSSION-LOG.md",
)
"""The files that GSD keeps up by itself, and its reports after the fact."""


class Policy(NamedTuple):
    """The settings that services decide by, and no other: `Settings` describes them, and has secrets beside them."""

    wait_max_seconds: float
    claim_timeout_seconds: float
    review_deadline_seconds: float
    diff_limit_bytes: int
    text_limit_bytes: int
    page_limit: int
    checks_at_once: int
    checks_on_tip: bool
    idempotency_ttl_seconds: float
    session_idle_seconds: float
    webhook_retry_seconds: float
    webhook_give_up_seconds: float
    retention_days: float
    gate_exempt: tuple[str, ...]


_PLAIN_MODES = frozenset({"100644", ABSENT_MODE})
"""A link, a submodule or a program is never exempt."""

_ANY_FOLDERS = "(?:[^/]+/)*"
_TOKENS = re.compile(r"\*\*/|\*\*|\*|\?")
_MEANINGS = {"**/": _ANY_FOLDERS, "**": ".*", "*": "[^/]*", "?": "[^/]"}


def is_exempt(change: Change, patterns: Sequence[str]) -> bool:
    """Whether a gate sets a change aside; plain files only."""
    plain = {change.mode_before, change.mode_after} <= _PLAIN_MODES
    return plain and matches(change.path, patterns)


def matches(path: str, patterns: Sequence[str]) -> bool:
    """Whether a path fits one of the patterns."""
    return bool(patterns) and _expression(tuple(patterns)).fullmatch(path) is not None


@lru_cache(maxsize=64)
def _expression(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{_translated(pattern)})" for pattern in patterns), re.DOTALL)


def _translated(pattern: str) -> str:
    """A pattern as an expression: `*` and `?` stay within a folder, `**` goes through any number of them."""
    parts: list[str] = []
    at = 0
    for token in _TOKENS.finditer(pattern):
        parts += [re.escape(pattern[at : token.start()]), _MEANINGS[token.group()]]
        at = token.end()
    return "".join([*parts, re.escape(pattern[at:])])
