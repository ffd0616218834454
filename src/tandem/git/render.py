"""Diffs for people and for submission: always UTF-8, whatever the files and the user's settings are."""

from __future__ import annotations

import re

from tandem.core.diff_names import quote
from tandem.git.patch import read_patches
from tandem.git.scratch import Scratch

_OPTIONS = (
    "-r",
    "--patch",
    "--full-index",
    "--no-color",
    "--no-ext-diff",
    "--no-textconv",
    "--no-relative",
    "--src-prefix=a/",
    "--dst-prefix=b/",
    "--find-renames",
    "--submodule=short",
    "--ignore-submodules=none",
)
_START = re.compile(rb"^(?=diff --git )", re.MULTILINE)
_HUNK_LINE = re.compile(rb"^(@@ -[0-9,]+ \+[0-9,]+ @@)(.*)$", re.MULTILINE)
_GLOB = re.compile(rb"([*?\[\\])")
_EVERYTHING = b"* -diff"


def render_diff(scratch: Scratch, before: str, after: str, *, binary: bool) -> str:
    """The difference of two trees as text.

    Files that are not UTF-8 are treated as binary, through attributes that only the scratch folder has.

    Args:
        scratch: Where both trees can be read.
        before: Id of the first tree.
        after: Id of the second tree.
        binary: Whether binary files are given in full, so that the diff can be applied.
    """
    arguments = ["diff-tree", *_OPTIONS, *(["--binary"] if binary else []), before, after]
    data = _with_clean_headings(scratch.run(arguments).stdout)
    unreadable = _unreadable(data)
    if unreadable:
        scratch.write_attributes([b"%s -diff" % _pattern(path) for path in unreadable])
        data = _with_clean_headings(scratch.run(arguments).stdout)
    if not _is_text(data):
        scratch.write_attributes([_EVERYTHING])
        data = scratch.run(arguments).stdout
    return data.decode("utf-8")


def _is_text(data: bytes) -> bool:
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def _with_clean_headings(data: bytes) -> bytes:
    """Git cuts the heading of a hunk after 80 bytes, in the middle of a character if need be."""
    return data if _is_text(data) else _HUNK_LINE.sub(_clean_heading, data)


def _clean_heading(match: re.Match[bytes]) -> bytes:
    heading = match.group(2).decode("utf-8", "ignore").replace("\0", "")
    return match.group(1) + heading.encode()


def _unreadable(data: bytes) -> list[bytes]:
    """The paths whose part of the diff is not text; lines of content never begin like a header."""
    parts = [part for part in _START.split(data) if not _is_text(part)]
    return sorted({path for part in parts for patch in read_patches(part) for path in (patch.old, patch.new) if path})


def _pattern(path: bytes) -> bytes:
    """An attribute pattern that matches this path only."""
    return quote(b"/" + _GLOB.sub(rb"\\\1", path))
