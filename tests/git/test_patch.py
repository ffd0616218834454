"""Diffs that no repository stands behind."""

from __future__ import annotations

import pytest

from tandem.errors import InvalidDiff
from tandem.git.changes import AffectedFile
from tandem.git.validation import parse_only
from tests.git.sandbox import edit, new_file


def test_several_kinds_of_header_are_understood() -> None:
    content = parse_only(
        "From: someone\n\n--- \n"
        + edit("a", "x", "y")
        + "--- a/b\t2026-01-01\n+++ b/b\t2026-01-02\n@@ -1,2 +1 @@\n-one\n--- two\n+three\n"
        + "diff --git a/c d b/c d\nold mode 100644\nnew mode 100755\n"
        + 'diff --git "a/t\\303\\251\\t" "b/t\\303\\251\\t"\nnew file mode 100644\nindex 0000000..e69de29\n'
        + "diff --git a/from b/to\nsimilarity index 100%\nrename from from\nrename to to\n"
        + "diff --git a/p b/p\nindex 1234567..89abcde 100644\nBinary files a/p and b/p differ\n"
        + "-- \n2.50\n"
    )
    assert content.affected_files == (
        AffectedFile("a", "modified", 1, 1),
        AffectedFile("b", "modified", 1, 2),
        AffectedFile("c d", "mode", 0, 0),
        AffectedFile("p", "modified"),
        AffectedFile("to", "renamed", 0, 0, "from"),
        AffectedFile("té\t", "added", 0, 0),
    )


@pytest.mark.parametrize(
    "diff",
    [
        "",
        "looks good to me",
        "diff --git a/x b/x\n",
        new_file("../x"),
        new_file("/x"),
        new_file(".git/hooks/pre-commit"),
        new_file("a/.Git/x"),
        new_file("x", "target", "120000"),
        new_file("x", "Subproject commit 0", "160000"),
        new_file("x", "x", "040000"),
        edit("x", "a", "b") + edit("x", "b", "c"),
        "diff --git a/link b/link\nindex 1234567..89abcde 120000\n--- a/link\n+++ b/link\n@@ -1 +1 @@\n-a\n+b\n",
        "diff --git a/x b/x\nrename from x\nrename to ../y\n",
        "diff --git a/x b/x\ncopy from ../../etc/passwd\ncopy to x\n",
    ],
)
def test_what_no_review_may_bring_in_is_refused(diff: str) -> None:
    with pytest.raises(InvalidDiff):
        parse_only(diff)
