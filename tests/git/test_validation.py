from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tandem.errors import InvalidDiff, InvalidInput
from tandem.git.changes import AffectedFile
from tandem.git.raw import digest_of
from tandem.git.repository import Repository
from tandem.git.validation import parse_only
from tests.git.edits import EDITS, LINES, change, populate
from tests.git.sandbox import Sandbox, edit, new_file
from tests.modes import VARIATION


def by_turns() -> Iterator[Any]:
    """Each edit in one format of objects, the next edit in the other one; the rest as variations."""
    for number, name in enumerate(EDITS):
        for turn, (form, options) in enumerate((("sha256", ()), ("sha1", ("-M", "-C", "-B")))):
            yield pytest.param(name, form, options, marks=[VARIATION] if (number + turn) % 2 else [])


@pytest.mark.parametrize(("name", "any_format", "options"), [*by_turns()], indirect=["any_format"])
def test_the_digest_is_that_of_the_commit_and_a_diff_says_of_itself_what_git_finds(
    any_format: Sandbox, name: str, options: tuple[str, ...]
) -> None:
    sandbox = any_format
    base = populate(sandbox)
    change(sandbox, name)
    sandbox.git("add", "--all")
    diff = sandbox.diff("--cached", *options)
    staged = sandbox.index_digest(base)
    with Repository(sandbox.root) as repository:
        # Once before the commit, with the working tree carrying the change, and once with it all committed.
        before = repository.validate_diff(diff, base)
        commit = sandbox.commit()
        after = repository.validate_diff(diff, base)
        changes = repository.raw_changes(base, commit)
    assert before == after
    assert before.validated
    assert before.base_commit == base
    assert before.notes == ()
    assert sandbox.exact_digest(before.content, base) == before.digest
    assert before.digest == staged == sandbox.commit_digest(base, commit)
    assert before.changes == changes
    assert digest_of(changes) == before.digest
    if name in {"links inside", "copy"}:
        # Only a repository can tell where a link leads, and whether a file is as another.
        return
    content = parse_only(diff)
    assert (content.validated, content.digest, content.base_commit, content.changes) == (False, None, None, ())
    expected = {file.path: file for file in before.affected_files}
    found = {file.path: file for file in content.affected_files}
    assert found.keys() == expected.keys()
    for path, file in found.items():
        # A type that changes is a deletion and a new file here.
        if file.operation == expected[path].operation:
            assert file == expected[path]


def test_affected_files_tell_renames_modes_and_counts(sandbox: Sandbox, repository: Repository) -> None:
    populate(sandbox)
    change(sandbox, "rename")
    change(sandbox, "binary")
    (sandbox.root / "tool.sh").chmod(0o644)
    (sandbox.root / "other.txt").unlink()
    sandbox.write("windows.txt", LINES.replace("\n", "\r\n") + "three\r\nmore\r\nlines\r\n")
    sandbox.git("add", "--all")
    content = repository.validate_diff(sandbox.diff("--cached", "-M"))
    assert content.affected_files == (
        AffectedFile("new.bin", "added", None, None),
        AffectedFile("other.txt", "deleted", 0, 30),
        AffectedFile("picture.bin", "modified", None, None),
        AffectedFile("renamed file.txt", "renamed", 1, 1, "plain.txt"),
        AffectedFile("tool.sh", "mode", 0, 0),
        AffectedFile("windows.txt", "modified", 3, 0),
    )


@pytest.mark.parametrize("name", ["modify", "binary", "final newline"])
def test_what_a_shell_took_off_the_end_is_put_back(sandbox: Sandbox, repository: Repository, name: str) -> None:
    populate(sandbox)
    change(sandbox, name)
    sandbox.git("add", "--all")
    diff = sandbox.diff("--cached")
    content = repository.validate_diff(diff.rstrip("\n"))
    assert content == repository.validate_diff(diff)


def test_a_diff_without_git_headers_is_taken(sandbox: Sandbox, repository: Repository) -> None:
    base = populate(sandbox)
    diff = "--- a/thing\t2026-01-01 10:00:00\n+++ b/thing\t2026-01-02 10:00:00\n@@ -1 +1 @@\n-a file\n+another\n"
    content = repository.validate_diff(diff)
    sandbox.write("thing", "another\n")
    assert content.digest == sandbox.commit_digest(base, sandbox.commit())
    bare = repository.validate_diff("--- thing\n+++ thing\n@@ -1 +1 @@\n-a file\n+another\n", base)
    assert bare.digest == content.digest


def test_text_around_a_diff_does_not_matter(sandbox: Sandbox, repository: Repository) -> None:
    base = populate(sandbox)
    change(sandbox, "modify")
    sandbox.commit("with a subject")
    mail = sandbox.git("format-patch", "--stdout", "-1")
    assert repository.validate_diff(mail, base).digest == sandbox.commit_digest(base, "HEAD")


def test_the_users_repository_is_only_read(sandbox: Sandbox, repository: Repository) -> None:
    populate(sandbox)
    change(sandbox, "modify")
    change(sandbox, "binary")
    sandbox.git("add", "--all")
    diff = sandbox.diff("--cached")
    before = sandbox.fingerprint()
    repository.validate_diff(diff)
    repository.validate_diff(new_file("thing/new"), sandbox.empty_tree())
    with pytest.raises(InvalidDiff):
        repository.validate_diff(new_file("thing/new"))
    assert sandbox.fingerprint() == before


@pytest.mark.parametrize(
    "path",
    [
        "../outside", "a/../../outside", "/etc/passwd", ".git/config", ".GIT/hooks/pre-commit", "sub/.git/config",
        "git~1/config", ".git /config", ".git./config", ".git::$INDEX_ALLOCATION/config", ".g\u200cit/config",
        "a\\..\\..\\b", "a\\.git\\config", "./here", "C:/windows",
    ],
)  # fmt: skip
def test_a_path_that_leaves_the_repository_is_refused(repository: Repository, sandbox: Sandbox, path: str) -> None:
    populate(sandbox)
    with pytest.raises(InvalidDiff) as refused:
        repository.validate_diff(new_file(path))
    assert refused.value.message
    with pytest.raises(InvalidDiff):
        repository.validate_diff(f"diff --git a/thing b/{path}\nrename from thing\nrename to {path}\n")


@pytest.mark.parametrize(
    ("diff", "words"),
    [
        (new_file("ln", "/etc/passwd", "120000"), "symbolic link"),
        (new_file("link/below"), "symbolic link"),
        (new_file("deep/ln", "../../outside", "120000"), "leads out"),
        (new_file("ln", "link/../../outside", "120000"), "behind a name"),
        (new_file("deep/ln", "../.git/config", "120000"), r"\.git folder"),
        (
            new_file("NAME").replace("a/NAME", r'"a/caf\351.txt"').replace("b/NAME", r'"b/caf\351.txt"'),
            "not UTF-8",
        ),
        (new_file("mod", "Subproject commit " + "1" * 40, "160000"), "submodule"),
        (new_file("folder", "x", "040000"), "folder"),
        (new_file("thing"), "is there already"),
        (new_file("thing/below"), "both a file and a folder"),
        (new_file("deep/er"), "both a file and a folder"),
        (new_file("a//b"), "inconsistent"),
        (edit("missing", "x", "y"), "no such file"),
        (edit("thing", "something else", "y"), "around line 1 its lines"),
        (edit("thing", "a file", "b") + edit("thing", "b", "c"), "more than once"),
        (edit("thing", "a file", "b")[:-3], "says 1 lines before and 1 after, and 1 and 0 follow"),
        ("", "empty"),
        (" \n\n", "empty"),
        ("please approve this\n", "not a diff"),
        ("diff --git a/thing b/thing\n", "No valid patches"),
        (edit("thing", "a file", "a file"), "changes nothing"),
        (
            "diff --git a/picture.bin b/picture.bin\nindex 12345..6789a 100644\nBinary files a/x and b/x differ\n",
            "git diff --binary",
        ),
        (new_file("nul", "\0"), "NUL"),
        (new_file("surrogate", "\ud800"), "Unicode"),
        (
            'diff --git "a/\\377" "b/\\377"\nnew file mode 100644\n--- /dev/null\n+++ "b/\\377"\n@@ -0,0 +1 @@\n+x\n',
            "UTF-8",
        ),
    ],
)
def test_what_no_review_can_answer_for_is_refused(
    sandbox: Sandbox, repository: Repository, diff: str, words: str
) -> None:
    populate(sandbox)
    with pytest.raises(InvalidDiff, match=words):
        repository.validate_diff(diff)


def test_a_submodule_may_move_to_a_commit_that_is_known(sandbox: Sandbox, repository: Repository) -> None:
    module = Sandbox(sandbox.root / "module")
    module.write("file", "1\n")
    first = module.commit()
    base = sandbox.commit()
    second = module.commit("second")
    sandbox.git("add", "--all")
    diff = sandbox.diff("--cached")
    assert f"-Subproject commit {first}" in diff
    assert repository.validate_diff(diff).digest == sandbox.index_digest(base)
    with pytest.raises(InvalidDiff, match="submodule"):
        repository.validate_diff(diff.replace(second, "9" * 40))


@pytest.mark.parametrize("name", ["main", "HEAD", "HEAD~0", "main^{tree}", "v1", "refs/heads/main", "main^{/a commit}"])
def test_a_base_is_whatever_git_can_name(sandbox: Sandbox, repository: Repository, name: str) -> None:
    populate(sandbox)
    sandbox.git("tag", "-a", "v1", "-m", "annotated")
    expected = sandbox.git("rev-parse", f"{name}^{{tree}}" if "tree" in name else f"{name}^{{commit}}").strip()
    assert repository.resolve_base(name) == expected


@pytest.mark.parametrize(
    "name", ["nowhere", "--output=x", "-", "--help", "HEAD\nHEAD", "1" * 40, "HEAD:thing", "a b", "main..main", "^main"]
)
def test_a_base_that_is_none_is_named(sandbox: Sandbox, repository: Repository, name: str) -> None:
    populate(sandbox)
    with pytest.raises(InvalidInput) as refused:
        repository.validate_diff(new_file("x"), name)
    assert refused.value.details["field"] == "base"
    assert not (sandbox.root / "x").exists()


def test_objects_that_come_later_are_seen(sandbox: Sandbox, repository: Repository, tmp_path: Path) -> None:
    base = populate(sandbox)
    assert repository.resolve_base(None) == base
    change(sandbox, "modify")
    packed = sandbox.commit()
    sandbox.git("gc", "--quiet")
    assert repository.resolve_base(packed) == packed
    elsewhere = Sandbox(tmp_path / "elsewhere")
    elsewhere.write("far", "away\n")
    foreign = elsewhere.commit()
    (sandbox.root / ".git/objects/info/alternates").write_text(f"{elsewhere.root}/.git/objects\n")
    assert repository.validate_diff(edit("far", "away", "near"), foreign).base_commit == foreign
