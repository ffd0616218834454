"""The dialects of diff that agents and people send, and what each cannot say."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

from tests.replaying.clone import ABSENT, SYMLINK, Change, Clone, Commit, Entry
from tests.replaying.strict import GITLINK, REGULAR

LIMIT_BYTES = 5_000_000
INFLATED_LIMIT_BYTES = 50_000_000
"""The defaults of `diff_limit_bytes` and `inflated_limit_bytes`."""

_OMITTED = re.compile(rb"^Binary files .* differ$", re.MULTILINE)
_NO_LINES = re.compile(rb"^(?:File|Only in|Symbolic links) .", re.MULTILINE)
_LOOKS_LIKE_A_DIFF = re.compile(rb"^(?:--- |diff |@@ )", re.MULTILINE)
_SECONDS = 300


class Dialect(NamedTuple):
    """A way to write a commit as a diff, with the commit staged in a clone.

    Attributes:
        name: Its name.
        write: Writes it.
        flaw: Why the broker may refuse it for any commit; empty if it may not.
    """

    name: str
    write: Callable[[Clone, Commit], bytes]
    flaw: str = ""


def _staged(*options: str, settings: tuple[str, ...] = ()) -> Callable[[Clone, Commit], bytes]:
    return lambda clone, _commit: clone.git(*settings, "diff", "--cached", *options, "HEAD", "--")


def _prefixed(clone: Clone, commit: Commit) -> bytes:
    """`c/` and `i/` as a setting of many people's has it, or prefixes of one's own."""
    if commit.number % 2:
        return _staged("--src-prefix=old/", "--dst-prefix=new/")(clone, commit)
    return _staged(settings=("-c", "diff.mnemonicPrefix=true"))(clone, commit)


def _aligned(clone: Clone, commit: Commit) -> bytes:
    return _staged("--patience" if commit.number % 2 else "--histogram")(clone, commit)


def _mailed(clone: Clone, commit: Commit) -> bytes:
    """With message and statistics around it, as `git format-patch` or `git show` print it."""
    if commit.is_merge or commit.number % 2:
        return clone.git("show", "-m", "--first-parent", commit.id)
    return clone.git("format-patch", "-1", "--stdout", commit.id)


def _compared(options: str) -> Callable[[Clone, Commit], bytes]:
    """What `diff` says of two folders."""

    def write(clone: Clone, commit: Commit) -> bytes:
        with TemporaryDirectory(prefix="replay-diff-") as name:
            folder = Path(name)
            for change in commit.changes:
                _write(clone, folder / "a" / os.fsdecode(change.path), change.before)
                _write(clone, folder / "b" / os.fsdecode(change.path), change.after)
            for side in "ab":
                (folder / side).mkdir(exist_ok=True)
            command = ["diff", options, "--no-dereference", "a", "b"]
            environment = {**os.environ, "LC_ALL": "C"}
            return subprocess.run(
                command, cwd=folder, env=environment, capture_output=True, check=False, timeout=_SECONDS
            ).stdout

    return write


def _write(clone: Clone, file: Path, entry: Entry) -> None:
    if entry.mode in {ABSENT, GITLINK}:
        return
    file.parent.mkdir(parents=True, exist_ok=True)
    if entry.mode == SYMLINK:
        file.symlink_to(os.fsdecode(clone.content(entry.oid)))
    else:
        file.write_bytes(clone.content(entry.oid))


def _all_binary(clone: Clone, commit: Commit) -> bytes:
    """Every file as a binary patch, which can say what text in another encoding is."""
    attributes = clone.root / ".git/info/attributes"
    attributes.parent.mkdir(exist_ok=True)
    attributes.write_text("* -diff\n", "utf-8")
    try:
        return _staged("--binary", "--full-index")(clone, commit)
    finally:
        attributes.unlink()


def _translated(clone: Clone, commit: Commit) -> bytes:
    """Read with universal newlines, as programs in Python do by default."""
    return _staged("--binary")(clone, commit).replace(b"\r\n", b"\n").replace(b"\r", b"\n")


WHOLE = Dialect("binary", _staged("--binary", "--full-index"))


def _for_tool(clone: Clone, commit: Commit) -> bytes:
    """What some agents' editing tools take: hunks without numbers between two marks."""
    told = _staged("--no-renames", "--no-prefix")(clone, commit)
    told = re.sub(rb"(?m)^(?:index|diff|---|old|new|deleted) .*\n", b"", told)
    told = re.sub(rb"(?m)^\+\+\+ ", b"*** Update File: ", told)
    return b"*** Begin Patch\n" + re.sub(rb"(?m)^@@ .*", b"@@", told) + b"*** End Patch\n"


ALL_BINARY = Dialect("all binary", _all_binary)
LOST_ENDS = Dialect("line ends lost", _translated)
OTHERS = (
    ALL_BINARY,
    LOST_ENDS,
    Dialect("colour", _staged("--color=always"), "colour"),
    Dialect("context diff", _compared("-rcN"), "context diff"),
    Dialect("edit tool", _for_tool, "edit tool"),
)
"""Mistakes, and a form that hides text: they may be refused, but never approved as something else."""
DIALECTS = (
    Dialect("plain", _staged()),
    WHOLE,
    Dialect("renames", _staged("-M40%")),
    Dialect("copies", _staged("-M", "-C", "--find-copies-harder")),
    Dialect("no context", _staged("-U0"), "no context"),
    Dialect("much context", _staged("-U25")),
    Dialect("no prefix", _staged("--no-prefix")),
    Dialect("other prefixes", _prefixed),
    Dialect("other alignment", _aligned),
    Dialect("mail", _mailed),
    Dialect("unified", _compared("-ruN")),
)
"""The eleven that the commits are spread over. Where one is refused for good, `FALLBACKS` bring the commit in."""

FALLBACKS = (WHOLE, ALL_BINARY)
EVERY = (*DIALECTS, *OTHERS)
REASONS = {
    "binary": "binary",
    "encoding": "Unicode|UTF-8|encoding|surrogate",
    "NUL": "NUL",
    "nothing": "empty",
    "size": "limit",
    "submodule": "submodule",
    "link": "symbolic link",
    "name": "UTF-8",
    "line ends": "line end|@@ line",
    "no context": "context",
    "colour": "colour",
    "context diff": "context|not a diff|leaves a file out",
    "edit tool": "Begin Patch",
}
"""What `limits` names: a word that a refusal for this reason has to say, as a pattern."""


def limits(clone: Clone, commit: Commit, dialect: Dialect, diff: bytes) -> set[str]:
    """Why this diff of this commit may be refused, or come to less than the commit; empty if it must be taken."""
    found = {reason for change in commit.changes for reason in _limits_of_content(clone, change)}
    found |= {"binary" for _ in _OMITTED.finditer(diff)}
    try:
        diff.decode("utf-8")
    except UnicodeDecodeError:
        found.add("encoding")
    if b"\0" in diff:
        found.add("NUL")
    if not diff.strip():
        return {"nothing"}
    # What counts is the diff that the broker draws, in which renamed and binary files are whole.
    drawn = _staged("--binary", "--full-index", "--no-renames")(clone, commit)
    if len(diff) > LIMIT_BYTES or len(drawn) > 4 * LIMIT_BYTES or _inflated_bytes(clone, commit) > INFLATED_LIMIT_BYTES:
        found.add("size")
    if dialect.flaw:
        found.add(dialect.flaw)
    if dialect is LOST_ENDS and any(_has_returns(clone, change) for change in commit.changes):
        found.add("line ends")
    if dialect.name == "unified" and _NO_LINES.search(diff):
        found.add("says less")
    if dialect.name == "unified" and not all(_is_lines_alone(clone, change) for change in commit.changes):
        found.add("says less")
    # `git show` indents the message; a mail has it as it is, and nothing tells its diffs from the commit's.
    if diff.startswith(b"From ") and _LOOKS_LIKE_A_DIFF.search(clone.message(commit)):
        found.add("says more")
    return found


def _limits_of_content(clone: Clone, change: Change) -> Iterator[str]:
    """What no diff may bring in."""
    if change.after.mode == ABSENT:
        return
    if change.after.mode == GITLINK and not _is_known(clone, change):
        yield "submodule"
    if change.after.mode == SYMLINK:
        target = os.fsdecode(clone.content(change.after.oid))
        place = os.path.normpath(Path("/root") / os.fsdecode(change.path) / ".." / target)
        if target.startswith("/") or not place.startswith("/root"):
            yield "link"
    try:
        change.path.decode("utf-8")
    except UnicodeDecodeError:
        yield "name"


def _is_known(clone: Clone, change: Change) -> bool:
    module = clone.root / os.fsdecode(change.path)
    if not (module / ".git").exists():
        return False
    asked = ("-C", str(module), "cat-file", "-e", f"{change.after.oid}^{{commit}}")
    return clone.run(*asked).returncode == 0


def _inflated_bytes(clone: Clone, commit: Commit) -> int:
    states = (clone.state(entry) for change in commit.changes for entry in (change.before, change.after))
    return sum(len(state.content) for state in states if state)


def _has_returns(clone: Clone, change: Change) -> bool:
    states = (clone.state(entry) for entry in (change.before, change.after))
    return any(b"\r" in state.content for state in states if state)


def _is_lines_alone(clone: Clone, change: Change) -> bool:
    """Whether only lines change: no mode, no link, and no empty file comes or goes."""
    modes = {change.before.mode, change.after.mode}
    if GITLINK in modes or SYMLINK in modes:
        return False
    if ABSENT not in modes:
        return len(modes) == 1
    state = clone.state(change.after) or clone.state(change.before)
    return state is not None and bool(state.content) and (change.after.mode in {ABSENT, REGULAR})
