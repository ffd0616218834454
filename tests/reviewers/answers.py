"""Answers of a reviewer program, as tests of reading them begin with."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tandem.pool.reviewers.proof import Part
from tandem.pool.reviewers.verdicts import ReviewerAnswer, read_answer

DIGEST = "5f" * 32
FILES = frozenset({"src/a.py", "docs/plan.md"})
NONCE = "0f" * 16
FINDING: dict[str, Any] = {
    "file": "src/a.py",
    "line": 3,
    "end_line": None,
    "severity": "major",
    "category": "correctness",
    "claim": "Off by one.",
    "failure": "The last row is lost.",
    "suggestion": None,
    "pre_existing": False,
}
GOOD: dict[str, Any] = {
    "nonce": NONCE,
    "digest": DIGEST,
    "files": [],
    "summary": None,
    "answers": [],
    "findings": [FINDING],
    "reason": "The last row is lost.",
    "verdict": "changes_requested",
    "counter_patch": None,
}
APPROVAL: dict[str, Any] = {**GOOD, "verdict": "approved", "reason": "Read all of it.", "findings": []}
GOOD_TEXT = json.dumps(GOOD)
DELETED = object()
SURROGATE = "\ud800"


def changed(base: dict[str, Any] = GOOD, **values: Any) -> dict[str, Any]:
    return {name: value for name, value in {**base, **values}.items() if value is not DELETED}


def read(
    text: str,
    *,
    digest: str | None = DIGEST,
    files: frozenset[str] | None = FILES,
    parts: Sequence[Part] = (),
    asked: Mapping[str, str] | None = None,
) -> ReviewerAnswer:
    return read_answer(text, nonce=NONCE, digest=digest, files=files, parts=parts, asked=asked or {})
