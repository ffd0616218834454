from __future__ import annotations

import pytest

from tandem.errors import InvalidInput
from tandem.git.changes import AffectedFile
from tandem.git.hunks import parse
from tandem.git.repository import Repository
from tandem.git.word_changes import text_diff
from tests.git.sandbox import Sandbox


def test_the_digest_is_the_blob_that_a_commit_of_the_text_has(any_format: Sandbox) -> None:
    any_format.write("plan/PLAN.md", "one\ntwo\n", executable=True)
    any_format.commit()
    text = "one\r\nzwei – drei\nno newline"
    with Repository(any_format.root) as repository:
        content = repository.text_change("plan/PLAN.md", text)
        any_format.write("plan/PLAN.md", text, executable=True)
        any_format.commit()
        blob = any_format.git("rev-parse", "HEAD:plan/PLAN.md").strip()
        assert content.digest == f"{blob}:plan/PLAN.md"
        assert content.validated
        assert content.content == text
        assert content.affected_files == (AffectedFile("plan/PLAN.md", "modified", 3, 2),)
        assert content.changes == repository.raw_changes("HEAD~", "HEAD")


def test_a_text_that_is_already_committed_changes_nothing(sandbox: Sandbox, repository: Repository) -> None:
    sandbox.write("PLAN.md", "same\n")
    sandbox.commit()
    content = repository.text_change("PLAN.md", "same\n")
    (change,) = content.changes
    assert change.blob_before == change.blob_after
    assert content.affected_files == (AffectedFile("PLAN.md", "modified", 0, 0),)


@pytest.mark.parametrize(
    "path",
    [
        "",
        "../x",
        "/x",
        ".git/config",
        "a/.GIT/x",
        "plan\\x.md",
        "a\0b",
        "C:/x",
        "a/",
        "folder",
        "file/x",
        "link",
        "link/x",
    ],
)
def test_a_path_that_names_no_file_is_refused(sandbox: Sandbox, repository: Repository, path: str) -> None:
    sandbox.write("folder/x", "")
    sandbox.write("file", "")
    (sandbox.root / "link").symlink_to("folder")
    sandbox.commit()
    with pytest.raises(InvalidInput) as refused:
        repository.text_change(path, "text")
    assert refused.value.details["field"] == "path"


def test_a_text_diff_reads_like_gits() -> None:
    assert text_diff("a\nb\u2028c\n", "a\nb\u2028d\nlast", "PLAN.md") == (
        "--- a/PLAN.md\n+++ b/PLAN.md\n@@ -1,2 +1,3 @@\n a\n-b\u2028c\n+b\u2028d\n+last\n\\ No newline at end of file\n"
    )
    assert text_diff("same", "same", "PLAN.md") == ""
    for after in ("same", "other"):
        (moved,) = parse(text_diff("same", after, "AGENTS.md", "docs/a PLAN.md"))
        assert (moved.kind, moved.old_path, moved.new_path) == ("renamed", "docs/a PLAN.md", "AGENTS.md")
        assert len(moved.hunks) == (after == "other")


@pytest.mark.timeout(30)
def test_p12_texts_of_many_lines_that_repeat_are_compared_at_once() -> None:
    """The usual search for common lines takes hours for 200 kB of short lines in two orders."""
    before, after = ("".join(f"{line * step % 120}\n" for line in range(64_000)) for step in (1, 7))
    diff = text_diff(before, after, "PLAN.md")
    assert diff.startswith("--- a/PLAN.md\n+++ b/PLAN.md\n@@ -1,64000 +1,64000 @@\n 0\n-1\n")
