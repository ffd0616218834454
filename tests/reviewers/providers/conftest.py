"""A room for a run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tandem.pool.reviewers import RunContext
from tests.reviewers.providing import MODEL, OFFERED, SCHEMA


@pytest.fixture
def room(tmp_path: Path) -> RunContext:
    """A run in a repository with an awkward name, of a user with a home folder."""
    for name in ("user", "repository $(touch x) ; `touch x`\n'\"\\{}", "run"):
        (tmp_path / name).mkdir()
    return RunContext(
        workspace=str(tmp_path / "repository $(touch x) ; `touch x`\n'\"\\{}"),
        scratch=str(tmp_path / "run"),
        model=MODEL,
        effort="high",
        schema=SCHEMA,
        environment={"PATH": os.defpath, "HOME": str(tmp_path / "user"), **OFFERED},
        reviewer_id="codex-r1-abcdef",
    )
