"""Diffs drawn from content: a reviewer is shown what the files were and become, not what a client sent.

Git draws them in a scratch folder, so that no setting or attribute of a repository or a user takes part. A renamed or
copied file has all of its lines, as a deleted and a new file. A file with a NUL byte is binary.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence

from tandem.git.changes import Change
from tandem.git.handle import Handle
from tandem.git.hunks import AS_LATIN_1, read_patches
from tandem.git.layout import Scratch
from tandem.git.raw import ABSENT_MODE, decode_path, encode_path, quote

_OPTIONS = (
    "--patch",
    "--full-index",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-relative",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--no-renames",
    "--submodule=short",
    "--ignore-submodules=none",
)
_START = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_HUNK = re.compile(rb"^@@ -", re.MULTILINE)
_HUNK_LINE = re.compile(rb"^(@@ -[0-9,]+ \+[0-9,]+ @@)(.*)$", re.MULTILINE)
_GLOB = re.compile(rb"([*?\[\\])")
_EVERYTHING = b"* -diff"
_ATTRIBUTES = b".gitattributes"
_SLASH = re.compile(rb"/")
_NAMED_BYTES = 50_000
"""Of paths that are given to git as arguments."""


def draw(scratch: Scratch, tree: str, changes: Sequence[Change]) -> str:
    """The diff of some changes to a tree, whose new objects are in the scratch folder."""
    return render(scratch, _compared(scratch, tree, changes))


def moved_from(scratch: Scratch, tree: str, changes: Sequence[Change]) -> dict[str, str]:
    """Where git thinks that new files come from, among those that are deleted: by path, the path before."""
    comes = any(change.mode_before == ABSENT_MODE for change in changes)
    if not comes or not any(change.mode_after == ABSENT_MODE for change in changes):
        return {}
    command, *compared = _compared(scratch, tree, changes)
    names = scratch.run([command, "--name-status", "--find-renames", "-z", *compared]).stdout.split(b"\0")
    moved: dict[str, str] = {}
    at = 0
    while at < len(names) - 1:
        if names[at].startswith(b"R"):
            moved[decode_path(names[at + 2])] = decode_path(names[at + 1])
            at += 1
        at += 2
    return moved


_UNREAD = ("linguist-generated", "diff")
_MARKED = {b"set", b"true"}, {b"unset"}


def unread(handle: Handle, commit: str, paths: Sequence[str]) -> frozenset[str]:
    """Those of some files that need not be read, by the `.gitattributes` of a commit.

    They are marked as made by a program (`linguist-generated`), or as without lines (`-diff`, `binary`).

    Raises:
        InvalidInput: There is no such commit.
    """
    names = [encode_path(path) for path in paths]
    folders = {name[:at] for name in names for at in (0, *(place.end() for place in _SLASH.finditer(name)))}
    entries = handle.objects.entries(handle.base(commit).tree, {folder + _ATTRIBUTES for folder in folders}).entries
    if not entries:
        return frozenset()
    with handle.scratch() as scratch:
        scratch.write_index(entries)
        asked = b"".join(name + b"\0" for name in names)
        said = scratch.run(["check-attr", "--cached", "--stdin", "-z", *_UNREAD], stdin=asked).stdout.split(b"\0")
    marked = dict(zip(map(str.encode, _UNREAD), _MARKED, strict=True))
    facts = zip(said[::3], said[1::3], said[2::3], strict=False)
    return frozenset(decode_path(name) for name, attribute, value in facts if value in marked[attribute])


def _compared(scratch: Scratch, tree: str, changes: Sequence[Change]) -> list[str]:
    """The command that compares a tree, at the changed paths only, to what becomes of it."""
    before = {encode_path(one.path): one.before for one in changes if one.mode_before != ABSENT_MODE}
    after = {encode_path(one.path): one.after for one in changes if one.mode_after != ABSENT_MODE}
    paths = before.keys() | after.keys()
    # To name them spares a start of git; there may be too many.
    named = sum(map(len, paths)) < _NAMED_BYTES
    base = tree if named else scratch.tree_of(before)
    scratch.write_index(after)
    names = [f":(literal){os.fsdecode(path)}" for path in sorted(paths)] if named else []
    return ["diff-index", "--cached", base, "--", *names]


def render(scratch: Scratch, compared: Sequence[str], *, binary: bool = True) -> str:
    """The difference that a command compares, as text.

    A file with bytes that are not UTF-8 is given as a binary patch, followed by its lines as Latin-1, for reading.

    Args:
        scratch: Where everything can be read.
        compared: `diff-tree` or `diff-index`, and what to compare.
        binary: Whether binary content is given, so that the diff can be applied.
    """
    command, *rest = compared
    arguments = [command, *_OPTIONS, *(["--binary"] if binary else []), *rest]
    parts = _START.split(_with_clean_headings(scratch.run(arguments).stdout))
    unreadable = [part for part in parts if text_of(part) is None]
    if unreadable:
        scratch.write_attributes([b"%s -diff" % _pattern(patch.path) for patch in read_patches(b"".join(unreadable))])
        # The same files in the same order.
        exact = _START.split(_with_clean_headings(scratch.run(arguments).stdout))
        parts = [one if one == other else one + _as_latin_1(other) for one, other in zip(exact, parts, strict=True)]
    text = text_of(b"".join(parts))
    if text is None:
        scratch.write_attributes([_EVERYTHING])
        text = scratch.run(arguments).stdout.decode("utf-8")
    return text


def text_of(content: bytes) -> str | None:
    """The content as text; None if it is none."""
    try:
        text = content.decode("utf-8")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _with_clean_headings(data: bytes) -> bytes:
    """Git cuts the heading of a hunk after 80 bytes, in the middle of a character if need be."""
    return data if text_of(data) is not None else _HUNK_LINE.sub(_clean_heading, data)


def _clean_heading(match: re.Match[bytes]) -> bytes:
    heading = match.group(2).decode("utf-8", "ignore").replace("\0", "")
    return match.group(1) + heading.encode()


def _as_latin_1(part: bytes) -> bytes:
    """The hunks of a file whose lines could be read but for their encoding, as lines that no hunk has."""
    hunks = _HUNK.search(part)
    if b"\0" in part or hunks is None:
        return b""
    lines = part[hunks.start() :].decode("latin-1").removesuffix("\n").split("\n")
    return "".join(f"{line}\n" for line in (AS_LATIN_1, *(f"# {line}" for line in lines))).encode()


def _pattern(path: bytes) -> bytes:
    """An attribute pattern that matches this path only."""
    return quote(b"/" + _GLOB.sub(rb"\\\1", path))
