"""The numbers and patterns that decisions depend on: limits, durations, and the paths that a gate sets aside."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

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
"""What GSD keeps up by itself, and what it only says after the fact."""

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


@dataclass(frozen=True, slots=True)
class Policy:
    """Limits and durations; the defaults are the contract's.

    Attributes:
        claim_timeout_seconds: How long a lease lasts from its latest renewal.
        review_deadline_seconds: How long after its claim a lease can be renewed at all.
        wait_max_seconds: The longest wait that one call may take.
        diff_limit_bytes: The largest diff, in UTF-8 bytes.
        text_limit_bytes: The largest description, message, reason or metadata, in UTF-8 bytes.
        page_limit: The most rows in a page.
        idempotency_ttl_seconds: How long an idempotency key is remembered.
        session_idle_seconds: How long after its last use a hand-off session ends.
        webhook_retry_seconds: How long after a first failure an event is posted again; four times as long each time.
        webhook_give_up_seconds: How long an event is tried at the most.
        retention_days: How long a closed review or an archived cycle keeps its contents; 0 for ever.
        gate_exempt: Patterns of the paths that a gate sets aside.
        checks_on_tip: Whether the gate waits for checks on what the base branch is now.
        checks_at_once: How many checks the broker runs at a time; 0 for none.
    """

    claim_timeout_seconds: float = 1200
    review_deadline_seconds: float = 3600
    wait_max_seconds: float = 50.0
    diff_limit_bytes: int = 5_000_000
    text_limit_bytes: int = 256_000
    page_limit: int = 200
    idempotency_ttl_seconds: float = 86_400
    session_idle_seconds: float = 43_200
    webhook_retry_seconds: float = 5
    webhook_give_up_seconds: float = 259_200
    retention_days: float = 0
    gate_exempt: tuple[str, ...] = DEFAULT_PATTERNS
    checks_on_tip: bool = False
    checks_at_once: int = 1
