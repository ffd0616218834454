"""A diff of git reads back as the same change; any other text reads back without harm."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tandem.git.hunks import FileDiff, Gap, gaps, parse, split_files, widened
from tests.git.sandbox import Sandbox
from tests.replaying.strict import LINE

Tree = dict[str, tuple[bytes, bool]]

NAMES = [
    "a", "a.txt", "dir/x", "dir/y y", 'q"u\\o', "tab\there", "grüße/語.txt", "+++ b", "--- a/z", " ", "x b/x",
]  # fmt: skip
LINES = [
    b"one\n", b"two\n", b"--- a/z\n", b"+++ b/z\n", b"@@ -1 +1 @@\n", b"\n", b"r\r\n", "é\n".encode(), b"-- \n",
    b"diff --git a/a b/a\n", b"\\ No newline at end of file\n", b"\x0c\n", b"\r\n", b" \n", b"a\rb\n",
]  # fmt: skip
CONTENTS = st.one_of(
    st.lists(st.sampled_from(LINES), max_size=25).map(b"".join),
    st.lists(st.sampled_from(LINES), max_size=4).map(lambda lines: b"".join(lines) + b"no newline"),
)
TREES = st.dictionaries(st.sampled_from(NAMES), st.tuples(CONTENTS, st.booleans()), max_size=8)


@pytest.fixture(scope="module")
def sandbox(tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return Sandbox(tmp_path_factory.mktemp("hunks") / "repository")


def committed(sandbox: Sandbox, *trees: Tree) -> None:
    """Commits of these trees on the branches t0, t1, …, all in one process."""

    def commands() -> Iterator[bytes]:
        for number, tree in enumerate(trees):
            yield b"reset refs/heads/t%d\n" % number
            yield b"commit refs/heads/t%d\ncommitter A <a@example.org> 0 +0000\ndata 0\ndeleteall\n" % number
            for name, (content, executable) in tree.items():
                quoted = name.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t").encode()
                yield b'M %s inline "%s"\n' % (b"100755" if executable else b"100644", quoted)
                yield b"data %d\n%s\n" % (len(content), content)

    sandbox.run("fast-import", "--quiet", "--force", stdin=b"".join(commands()))


def applied(file: FileDiff, before: bytes, encoding: str = "utf-8") -> bytes:
    """The file after its hunks are applied: the smallest patch program that there is."""
    old: list[bytes] = LINE.findall(before)
    new: list[bytes] = []
    at = 0
    for hunk in file.hunks:
        new += old[at : hunk.old_first - 1]
        at = hunk.old_first - 1
        for line in hunk.lines:
            content = (line.text if line.no_newline else f"{line.text}\n").encode(encoding, "surrogateescape")
            if line.kind != "added":
                assert (line.old_number, content) == (at + 1, old[at])
                at += 1
            if line.kind != "deleted":
                new.append(content)
                assert line.new_number == len(new)
    return b"".join(new + old[at:])


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(before=TREES, after=TREES, context=st.integers(0, 4))
def test_a_diff_by_git_reads_back_as_the_same_change(sandbox: Sandbox, before: Tree, after: Tree, context: int) -> None:
    committed(sandbox, before, after)
    arguments = ("diff-tree", "-r", "--no-renames", "--text", "t0", "t1")
    diff = sandbox.run(*arguments, f"-U{context}").stdout.decode()
    counted = sandbox.git(*arguments, "--numstat", "-z").split("\0")[:-1]
    files = parse(diff)
    assert [f"{file.added}\t{file.deleted}\t{file.path}" for file in files] == counted
    for file in files:
        old, new = before.get(file.path), after.get(file.path)
        assert (file.old_path is None, file.new_path is None) == (old is None, new is None)
        if old and new:
            assert file.kind == ("mode" if old[0] == new[0] else "modified")
        assert applied(file, old[0] if old else b"") == (new[0] if new else b"")
        assert file.stray == ()
    parts = split_files(diff)
    assert tuple(file for file, _ in parts) == files
    assert [parse(part) for _, part in parts] == [(file,) for file in files]
    assert "".join(part for _, part in parts) == diff


def shown(file: FileDiff) -> set[int]:
    return {line.new_number for hunk in file.hunks for line in hunk.lines if line.new_number is not None}


def test_names_modes_and_moves_are_read(sandbox: Sandbox) -> None:
    body = b"".join(b"line %d\n" % number for number in range(30))
    committed(
        sandbox,
        {"old name": (body, False), "x b/x": (b"q\n", False), "mode": (b"x\n", False), "bin": (b"\0\1", False)},
        {"neu/größe": (body + b"more\n", True), "mode": (b"x\n", True), "bin": (b"\0\2", False), "empty": (b"", False)},
    )
    for how in ("--binary", "--full-index"):
        diff = sandbox.run("diff-tree", "-r", "-p", "-M", how, "t0", "t1").stdout.decode()
        files = {file.path: file for file in parse(diff)}
        moved = files["neu/größe"]
        assert (moved.kind, moved.old_path, moved.added, moved.deleted) == ("renamed", "old name", 1, 0)
        assert (moved.old_mode, moved.new_mode) == ("100644", "100755")
        assert (files["mode"].kind, files["mode"].old_mode, files["mode"].new_mode) == ("mode", "100644", "100755")
        assert (files["bin"].binary, files["bin"].kind, files["bin"].hunks, files["bin"].stray) == (
            True, "modified", (), (),
        )  # fmt: skip
        assert (files["empty"].kind, files["empty"].old_path) == ("added", None)
        assert (files["x b/x"].kind, files["x b/x"].new_path) == ("deleted", None)


def test_a_mail_with_a_patch_and_a_plain_diff_are_read() -> None:
    mail = (
        "From 1234 Mon Sep 17 00:00:00 2001\nSubject: x\n\n a | 2 +-\n\n"
        "diff --git a/a b/a\nindex 1..2 100644\n--- a/a\n+++ b/a\n@@ -1 +1 @@ def f():\n-x\n+y\n-- \n2.39.2\n\n"
    )
    (file,) = parse(mail)
    (hunk,) = file.hunks
    assert (hunk.heading, file.added, file.deleted) == ("def f():", 1, 1)
    plain = (
        "--- a/one\t2020-01-01\n+++ b/one\t2020-01-01\n@@ -1 +1 @@\n-x\n+y\n"
        "--- /dev/null\n+++ b/two\n@@ -0,0 +1 @@\n+z\n"
    )
    assert [(file.path, file.kind) for file in parse(plain)] == [("one", "modified"), ("two", "added")]


def test_lines_beyond_wrong_counts_are_not_hidden() -> None:
    diff = "diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1 +1 @@\n-x\n+y\n+smuggled in\nnot a line of a diff\n"
    (file,) = parse(diff)
    assert [line.text for line in file.hunks[0].lines] == ["x", "y", "smuggled in"]
    assert file.added == 2
    assert file.stray == ("not a line of a diff",)
    (short,) = parse("diff --git a/a b/a\n--- a/a\n+++ b/a\n@@ -1,9 +1,9 @@\n-x\n")
    assert (short.hunks[0].old_count, short.hunks[0].new_count) == (1, 0)


def test_gaps_lie_between_hunks() -> None:
    diff = "--- a/f\n+++ b/f\n@@ -4,3 +4,4 @@\n a\n+b\n c\n d\n@@ -20,3 +21,3 @@\n e\n-f\n+g\n h\n"
    (file,) = parse(diff)
    assert gaps(file) == (Gap(1, 1, 3), Gap(7, 8, 13), Gap(23, 24, None))
    wide = widened(file, 1, [f"l{number}" for number in range(1, 12)])
    assert [(hunk.new_start, hunk.new_count) for hunk in wide.hunks] == [(1, 11), (21, 3)]
    assert gaps(wide)[:2] == (None, Gap(11, 12, 9))
    assert gaps(parse("--- /dev/null\n+++ b/f\n@@ -0,0 +1 @@\n+x\n")[0]) == (None, None)


@given(
    st.lists(
        st.one_of(
            st.sampled_from(
                ["diff --git a/a b/b", "diff --git ", "diff --cc x", "diff --cc", "--- a/a", "+++ b/a", "@@ -1 +1 @@",
                 "@@ -9999999999999999999999999 +1 @@", "@@ -5,0 +4 @@", "@@ @@", "+x", "-x", " x", "\\", "", "\r",
                 "rename from x", 'rename to "x\\', "index a", "old mode 99999999999999", "GIT binary patch", "-- "]
            ),
            st.text(max_size=12),
        ),
        max_size=30,
    )
)  # fmt: skip
def test_no_text_at_all_makes_it_raise(lines: list[str]) -> None:
    text = "\n".join(lines)
    parts = split_files(text)
    # Nothing of a diff is in no part, wherever it stands.
    assert "".join(part for _, part in parts).rstrip("\n") == (text.rstrip("\n") if parts else "")
    for file in parse(text):
        assert isinstance(file.path, str)
        for hunk in file.hunks:
            assert len([line for line in hunk.lines if line.kind != "added"]) == hunk.old_count
            assert len([line for line in hunk.lines if line.kind != "deleted"]) == hunk.new_count
        gaps(file)
        widened(file, 1, ["x"] * 50)


HEAD = "diff --git a/a b/a\n--- a/a\n+++ b/a\n"


@pytest.mark.parametrize(
    "diff",
    [
        f"{HEAD}@@ -0,0 +1 @@\n+{'x' * 5_000_000}\n",
        f"{HEAD}@@ -0,0 +1,100000 @@\n" + f"+{'x' * 48}\n" * 100_000,
        HEAD + "@@ -1,3 +1,3 @@ heading\n context\n-before\n+after\n" * 50_000,
        "diff --git a/a b/a\n" * 40_000,
        "diff --git " + "a " * 1_000_000,
        'diff --git "' + "\\" * 2_000_000,
        HEAD + "@@ -1,999999999999 +1,999999999999 @@\n" + "+\n" * 500_000,
    ],
    ids=["one-line", "many-lines", "many-hunks", "many-files", "spaces", "escapes", "short-lines"],
)
def test_reading_is_linear_in_hostile_diffs(diff: str) -> None:
    started = time.thread_time()
    parse(diff)
    # Twenty times what a quiet machine takes; anything quadratic takes hours.
    assert time.thread_time() - started < 20
