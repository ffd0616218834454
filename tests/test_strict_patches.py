"""The applier behind `make replay` takes what git writes, and nothing that reads otherwise than it applies."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from tests.replaying import kinds
from tests.replaying.clone import Repository, history
from tests.replaying.strict import Misshown, State, applied

EXACT = ("diff", "--binary", "--full-index", "--no-renames")
BASE = {b"a.py": State("100644", b"a\nb\nc\na\nb\nd\n")}
HEAD = b"diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"


def test_what_git_writes_gives_what_git_has(tmp_path: Path) -> None:
    with closing(Repository(kinds.build(tmp_path / "source"))) as repository:
        commits = history(repository, "main", 1_000)
        assert len(commits) > 100
        for commit in commits:
            diff = repository.git(*EXACT, commit.parent, commit.id)
            before = {change.path: repository.state(change.before) for change in commit.changes}
            after = {change.path: repository.state(change.after) for change in commit.changes}
            assert applied(diff, before.get)[0] == after, commit.id


@pytest.mark.parametrize(
    ("kind", "diff"),
    [
        ("a hunk at a line that has other text", HEAD + b"@@ -3,2 +3,3 @@\n a\n+x\n b\n"),
        ("a hunk at a line where it cannot stand", HEAD + b"@@ -4,2 +5,3 @@\n a\n+x\n b\n"),
        ("lines behind what a hunk counts", HEAD + b"@@ -1,2 +1,3 @@\n a\n+one\n b\n+two\n"),
        ("fewer lines than a hunk counts", HEAD + b"@@ -1,3 +1,4 @@\n a\n+one\n b\n"),
        ("a copy that hides lines", b"diff --git a/a.py b/b.py\nsimilarity index 100%\ncopy from a.py\ncopy to b.py\n"),
        ("another file than the base has", HEAD.replace(b"a.py", b"x/a.py") + b"@@ -1,2 +1,3 @@\n a\n+x\n b\n"),
        ("a binary file without its bytes", HEAD[:25] + b"Binary files a/a.py and b/a.py differ\n"),
    ],
)  # fmt: skip
def test_what_reads_otherwise_is_not_taken(kind: str, diff: bytes) -> None:
    with pytest.raises(Misshown) as caught:
        applied(diff, BASE.get)
    assert caught.value.kind == kind
