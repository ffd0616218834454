"""What services decide by: limits, durations, and the patterns of paths that a gate sets aside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tandem.git.changes import Change
from tandem.rulings.globs import matches

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
    owners: tuple[str, ...]


def is_exempt(change: Change, patterns: Sequence[str]) -> bool:
    """Whether a gate sets a change aside; a link, a submodule or a program never."""
    return change.is_plain and matches(change.path, patterns)
