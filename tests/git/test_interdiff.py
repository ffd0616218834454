from __future__ import annotations

import pytest

from tandem.errors import InvalidDiff
from tandem.git.repository import Repository
from tests.git.sandbox import Sandbox, edit, new_file


def test_it_shows_only_what_changed_between_the_rounds(any_format: Sandbox) -> None:
    any_format.write("same.txt", "x\n")
    any_format.write("file.txt", "original\n")
    base = any_format.commit()
    first = edit("file.txt", "original", "first try") + edit("same.txt", "x", "y") + new_file("dropped.txt")
    second = edit("file.txt", "original", "second try") + edit("same.txt", "x", "y")
    before = any_format.fingerprint()
    with Repository(any_format.root) as repository:
        diff = repository.interdiff((first, base), (second, base))
        assert repository.interdiff((first, base), (first.rstrip("\n"), base)) == ""
    assert "-first try\n+second try\n" in diff
    assert "deleted file mode 100644" in diff
    assert "same.txt" not in diff
    assert "original" not in diff
    assert any_format.fingerprint() == before


def test_another_base_does_not_bring_in_untouched_files(sandbox: Sandbox, repository: Repository) -> None:
    sandbox.write("file.txt", "one\n")
    sandbox.write("untouched.txt", "one\n")
    old = sandbox.commit()
    sandbox.write("untouched.txt", "two\n")
    sandbox.write("only-second.txt", "base\n")
    new = sandbox.commit()
    diff = repository.interdiff(
        (edit("file.txt", "one", "two"), old),
        (edit("file.txt", "one", "three") + edit("only-second.txt", "base", "changed"), new),
    )
    assert "-two\n+three\n" in diff
    assert "+changed" in diff
    assert "untouched" not in diff


def test_a_file_may_take_a_folders_place(sandbox: Sandbox, repository: Repository) -> None:
    sandbox.write("thing", "x\n")
    base = sandbox.commit()
    gone = "diff --git a/thing b/thing\ndeleted file mode 100644\n--- a/thing\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n"
    diff = repository.interdiff((gone + new_file("thing/below"), base), (edit("thing", "x", "y"), base))
    assert "deleted file" in diff
    assert "+y" in diff


def test_bytes_that_are_no_text_are_not_shown(sandbox: Sandbox, repository: Repository) -> None:
    sandbox.write("picture", b"\0\1")
    base = sandbox.commit()
    rounds: list[tuple[str, str]] = []
    for content in (b"\0\2", b"\0\3"):
        sandbox.write("picture", content)
        rounds.append((sandbox.diff(), base))
    assert "Binary files a/picture and b/picture differ" in repository.interdiff(rounds[0], rounds[1])


def test_a_round_that_never_applied_is_refused(sandbox: Sandbox, repository: Repository) -> None:
    sandbox.write("file.txt", "one\n")
    base = sandbox.commit()
    with pytest.raises(InvalidDiff):
        repository.interdiff((edit("file.txt", "nine", "x"), base), (edit("file.txt", "one", "x"), base))
