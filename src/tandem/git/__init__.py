"""The only caller of git: validation, digests, interdiffs and work trees."""

from __future__ import annotations

from tandem.git.raw import digest_of
from tandem.git.repository import Repository
from tandem.git.snapshot import Scope, WorkingDiff
from tandem.git.validation import parse_only, unified_text_diff
from tandem.git.worktree import WorktreeUpdate

__all__ = [
    "Repository",
    "Scope",
    "WorkingDiff",
    "WorktreeUpdate",
    "digest_of",
    "parse_only",
    "unified_text_diff",
]
