"""Random trees and random edits: the validated content is always the content that git would commit."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem.errors import InvalidDiff, TandemError
from tandem.git import validation
from tandem.git.changes import FORMATS, Entry, parse_raw
from tandem.git.hunks import parse, read_patches
from tandem.git.layout import decode_index, encode_index
from tandem.git.patch import ensure_meant
from tandem.git.raw import digest_of, quote, raw_bytes, unquote
from tandem.git.repository import Repository
from tandem.git.snapshot import Scope
from tandem.git.validation import Applied, apply_diff, parse_only
from tests.git.sandbox import Sandbox, edit
from tests.modes import VARIATION
from tests.test_hunks import applied

Tree = dict[str, tuple[bytes, bool]]

NAMES = [
    "a", "a/b", "a/b/c", "a-b", "a.txt", "a b/c d", "dir/x", "dir/y", "dir", 'q"u\\o', "tab\there", "grüße/語.txt",
    "z", "+++ b", "--- a/z", " ",
]  # fmt: skip
LINES = [b"one\n", b"two\n", b"--- a/z\n", b"+++ b/z\n", b"@@ -1 +1 @@\n", b"\n", b"r\r\n", "é\n".encode(), b"\xe9\n"]
CONTENTS = st.one_of(
    st.lists(st.sampled_from(LINES), max_size=12).map(b"".join),
    st.lists(st.sampled_from(LINES), max_size=4).map(lambda lines: b"".join(lines) + b"no newline"),
    st.binary(max_size=40),
)


def without_conflicts(tree: Tree) -> Tree:
    return {
        name: file for name, file in tree.items() if not any(f"{name}/" == other[: len(name) + 1] for other in tree)
    }


TREES = st.dictionaries(st.sampled_from(NAMES), st.tuples(CONTENTS, st.booleans()), max_size=9).map(without_conflicts)


@pytest.fixture(scope="module")
def playground(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return Sandbox(tmp_path_factory.mktemp("playground") / "repository")


def become(sandbox: Sandbox, tree: Tree) -> None:
    sandbox.clear()
    for name, (content, executable) in tree.items():
        sandbox.write(name, content, executable=executable)


@settings(max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(before=TREES, after=TREES)
def test_any_edit_has_the_digest_of_its_commit(playground: Sandbox, before: Tree, after: Tree) -> None:
    sandbox = playground
    become(sandbox, before)
    base = sandbox.commit("before")
    become(sandbox, after)
    with Repository(sandbox.root) as repository:
        taken = repository.working_diff()
        sandbox.git("add", "--all")
        staged = sandbox.index_digest(base)
        if not taken.diff:
            assert sandbox.diff("--cached") == ""
            return
        assert taken == repository.working_diff(Scope(staged=True))
        content = repository.validate_diff(taken.diff, taken.base)
        commit = sandbox.commit("after")
        assert content.digest == staged == sandbox.commit_digest(base, commit)
        found, said = content.affected_files, parse_only(taken.diff).affected_files
        touched = {path for file in found for path in (file.path, file.old_path or file.path)}
        assert touched == {path for file in said for path in (file.path, file.old_path or file.path)}

        sandbox.git("checkout", "-q", "--detach", base)
        done = repository.apply_to_worktree(taken.diff, base, index=True)
        assert done.changed
        assert sandbox.git("write-tree").strip() == sandbox.git("rev-parse", f"{commit}^{{tree}}").strip()
        assert (
            sandbox.git("status", "--porcelain", "--untracked-files=all").strip()
            == sandbox.git("status", "--porcelain", "--untracked-files=no").strip()
        )
        assert sandbox.git("diff", "--name-only") == ""
        sandbox.git("checkout", "-q", "--force", "main")


@VARIATION
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(data=st.data())
def test_a_damaged_diff_means_the_same_to_the_whole_tree(playground: Sandbox, data: st.DataObject) -> None:
    """The whole tree accepts and refuses the same diffs as the sparse way."""
    sandbox = playground
    become(sandbox, {"a": (b"one\n", False), "dir/x": (b"two\n", False), "z": (b"three\n", True)})
    base = sandbox.commit("fixed")
    diff = edit("a", "one", "x") + edit("dir/x", "two", "y") + edit("z", "three", "w")
    lines = diff.split("\n")
    at = data.draw(st.integers(0, len(lines) - 1))
    other = data.draw(st.sampled_from([*lines, "rename from a", "rename to q", "new file mode 100644", "--- a", ""]))
    damaged = "\n".join(data.draw(st.sampled_from([lines[:at] + lines[at + 1 :], [*lines[:at], other, *lines[at:]]])))
    with Repository(sandbox.root) as repository:
        found = repository.base(base)
        with repository.scratch() as scratch:
            patches = read_patches(damaged.encode())
            try:
                ensure_meant(damaged.encode(), patches)
            except InvalidDiff:
                return
            sparse = outcome(lambda: apply_diff(repository, scratch, damaged.encode(), found))
            whole = outcome(lambda: validation._apply_to_whole_tree(repository, scratch, found, patches))
    assert sparse == whole


def outcome(apply: Callable[[], Applied]) -> object:
    try:
        applied = apply()
    except TandemError as exc:
        return exc.message
    return applied.changes, applied.notes


BLOCKS = [
    b"def one(u):\n    check(u)\n    return u\n\n",
    b"def two(u):\n    return u\n\n",
    b"x\n",
    b"\xe9\n",
    b"r\r\n",
    b"\0",
]
DOCUMENTS = st.lists(st.sampled_from(BLOCKS), max_size=12).map(b"".join)
FILES = st.dictionaries(st.sampled_from(["README.md", "docs/README.md", "src/a b.py", "ü"]), DOCUMENTS, max_size=4)
DIALECTS = [
    ("-M",), ("-M", "-C", "--find-copies-harder"), ("--no-prefix",), ("-U1",), ("-U25",), ("--full-index",), ("-B",),
    ("--src-prefix=c/", "--dst-prefix=w/"), ("--patience",), ("--function-context",), ("--text",),
]  # fmt: skip


def shifted(found: re.Match[str]) -> str:
    return f"@@ -{int(found[1]) + 7}{found[2]} +{int(found[3]) + 7}{found[4]} @@ def elsewhere(u):"


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(before=FILES, after=FILES, dialect=st.sampled_from(DIALECTS), data=st.data())
def test_p9_what_is_shown_is_exactly_what_is_approved(
    playground: Sandbox,
    before: dict[str, bytes],
    after: dict[str, bytes],
    dialect: tuple[str, ...],
    data: st.DataObject,
) -> None:
    sandbox = playground
    become(sandbox, {name: (content, False) for name, content in before.items()})
    base = sandbox.commit("before")
    become(sandbox, {name: (content, False) for name, content in after.items()})
    sandbox.git("add", "--all")
    sent = sandbox.run("diff", "--cached", "--binary", *dialect).stdout
    lies = data.draw(st.sampled_from(["", "lines", "places"]))
    try:
        diff = sent.decode()
    except UnicodeDecodeError:
        return
    if lies == "places":
        diff = re.sub(r"^@@ -(\d+)(,\d+)? \+(\d+)(,\d+)? @@.*$", shifted, diff, flags=re.MULTILINE)
    elif lies == "lines" and diff:
        lines = diff.splitlines(keepends=True)
        at = data.draw(st.integers(0, len(lines)))
        lines[at:at] = [data.draw(st.sampled_from(["+evil\n", "-x\n", " x\n", "\n", "@@ -1 +1 @@\n", "+x\n+y\n"]))]
        diff = "".join(lines)
    with Repository(sandbox.root) as repository:
        try:
            content = repository.validate_diff(diff, base)
        except InvalidDiff:
            assert lies or not diff or "\0" in diff
            return
    if not lies:
        assert content.digest == sandbox.index_digest(base)
        assert content.notes == ()
    assert sandbox.exact_digest(content.content, base) == content.digest
    for file in () if lies else parse(content.content):
        old = sandbox.run("cat-file", "blob", f"{base}:{file.path}").stdout if file.path in before else b""
        new = after.get(file.path, b"")
        assert file.binary == (b"\0" in old + new)
        if not file.binary:
            assert applied(file, old, "latin-1" if file.latin_1 else "utf-8") == new


PATHS = st.binary(min_size=1, max_size=20).filter(lambda path: b"\0" not in path)


@given(PATHS)
def test_quoting_is_undone_by_unquoting(path: bytes) -> None:
    assert unquote(quote(path) + b" rest") == (path, b" rest")


@given(st.binary(max_size=30))
def test_unquoting_takes_anything(text: bytes) -> None:
    unquote(b'"' + text)


@pytest.mark.parametrize("name", ["sha1", "sha256"])
@given(
    entries=st.dictionaries(
        st.one_of(PATHS, st.integers(4090, 4100).map(lambda size: b"x" * size)),
        st.tuples(st.sampled_from(["100644", "100755", "120000", "160000"]), st.binary(min_size=32, max_size=32)),
        max_size=6,
    )
)
def test_an_index_is_read_as_it_was_written(name: str, entries: dict[bytes, tuple[str, bytes]]) -> None:
    objects = FORMATS[name]
    written = {path: Entry(mode, oid[: objects.size_bytes].hex()) for path, (mode, oid) in entries.items()}
    assert decode_index(encode_index(written, objects), objects) == written


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(names=st.sets(st.sampled_from(NAMES), min_size=1))
def test_the_raw_form_survives_both_ways(names: set[str], tmp_path: Path) -> None:
    raw = b"".join(b":100644 100755 %040d %040d M\0%s\0" % (1, 2, name.encode()) for name in names)
    changes = parse_raw(raw)
    assert parse_raw(raw_bytes(reversed(changes))) == changes
    assert digest_of(changes) == digest_of(reversed(changes))
