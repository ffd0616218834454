"""Reading a diff's own headers: which files it names, and how git would take them.

This is not what decides: git applies the diff, and only git's result counts. It says where to look, tells renames
apart from a deletion and a new file, and is all there is where no repository stands behind a review.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from tandem.git.paths import unquote

_HUNK = re.compile(rb"@@ -\d+(?:,(\d+))? \+\d+(?:,(\d+))? @@")
_GIT_HEADER = b"diff --git "
_LONGEST_NAMES = 8_192
"""Of a header's two names, as far as they are looked through: every space may be where the second begins."""
_NOWHERE = b"/dev/null"
_BINARY = (b"GIT binary patch", b"Binary files ")


@dataclass(slots=True)
class FilePatch:
    """One file's part of a diff.

    Attributes:
        old: Path before; None when the file is new.
        new: Path after; None when the file goes.
        renamed: Whether the diff says that the file moved.
        copied: Whether the diff says that the file is a copy.
        modes: The file modes that its headers name.
        mode_after: The mode that its headers give the result, where they do.
        added: Lines added.
        removed: Lines removed.
        hunks: How many hunks it has.
        binary: Whether its content is not lines.
    """

    old: bytes | None = None
    new: bytes | None = None
    renamed: bool = False
    copied: bool = False
    modes: set[bytes] = field(default_factory=set[bytes])
    mode_after: bytes | None = None
    added: int = 0
    removed: int = 0
    hunks: int = 0
    binary: bool = False

    @property
    def path(self) -> bytes:
        """The path that the file is known by."""
        return self.new if self.new is not None else self.old or b""


def read_patches(diff: bytes) -> list[FilePatch]:
    """The files of a diff in its order; what is no diff is passed over, as git does."""
    return list(_Reader(diff).patches())


class _Reader:
    """Goes through a diff once, line by line, never taking a hunk's content for a header."""

    def __init__(self, diff: bytes) -> None:
        self._lines = diff.split(b"\n")
        self._at = 0

    def patches(self) -> Iterator[FilePatch]:
        current: FilePatch | None = None
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.startswith(_GIT_HEADER):
                if current is not None:
                    yield current
                current = self._git_header(line)
            elif self._starts_plain_patch():
                if current is not None:
                    yield current
                current = self._plain_header()
            elif current is not None and line.startswith(b"@@ -"):
                self._hunk(current)
            else:
                self._at += 1
        if current is not None:
            yield current

    def _next(self) -> bytes:
        self._at += 1
        return self._lines[self._at] if self._at < len(self._lines) else b""

    def _git_header(self, line: bytes) -> FilePatch:
        name = _common_name(line[len(_GIT_HEADER) :])
        patch = FilePatch(old=name, new=name)
        line = self._next()
        while self._at < len(self._lines) and not line.startswith((_GIT_HEADER, b"@@ -")):
            if line.startswith(_BINARY):
                patch.binary = True
                break
            if not _extended_header(patch, line):
                break
            line = self._next()
        return patch

    def _starts_plain_patch(self) -> bool:
        lines = self._lines[self._at : self._at + 3]
        return (
            len(lines) == 3  # noqa: PLR2004 old name, new name, hunk
            and lines[0].startswith(b"--- ")
            and lines[1].startswith(b"+++ ")
            and lines[2].startswith(b"@@ -")
        )

    def _plain_header(self) -> FilePatch:
        patch = FilePatch(old=_side(self._lines[self._at][4:]), new=_side(self._lines[self._at + 1][4:]))
        self._at += 2
        return patch

    def _hunk(self, patch: FilePatch) -> None:
        match = _HUNK.match(self._lines[self._at])
        self._at += 1
        if match is None:
            return
        patch.hunks += 1
        old, new = (1 if count is None else int(count) for count in match.groups())
        while (old > 0 or new > 0) and self._at < len(self._lines):
            kind = self._lines[self._at][:1]
            if kind == b"-":
                old -= 1
                patch.removed += 1
            elif kind == b"+":
                new -= 1
                patch.added += 1
            elif kind in {b" ", b"", b"\r"}:
                old -= 1
                new -= 1
            elif kind != b"\\":
                return  # The counts are wrong; git says so.
            self._at += 1


def _extended_header(patch: FilePatch, line: bytes) -> bool:
    """Takes one header line in; False when it is none."""
    for start, take in _HEADERS:
        if line.startswith(start):
            take(patch, line[len(start) :])
            return True
    return False


def _old_mode(patch: FilePatch, value: bytes) -> None:
    patch.modes.add(value.strip())


def _new_mode(patch: FilePatch, value: bytes) -> None:
    patch.mode_after = value.strip()
    patch.modes.add(patch.mode_after)


def _new_file(patch: FilePatch, value: bytes) -> None:
    _new_mode(patch, value)
    patch.old = None


def _deleted(patch: FilePatch, value: bytes) -> None:
    _old_mode(patch, value)
    patch.new = None


def _index(patch: FilePatch, value: bytes) -> None:
    _, _, mode = value.partition(b" ")
    if mode:
        _new_mode(patch, mode)


def _old_name(patch: FilePatch, value: bytes) -> None:
    patch.old = _side(value)


def _new_name(patch: FilePatch, value: bytes) -> None:
    patch.new = _side(value)


def _renamed_from(patch: FilePatch, value: bytes) -> None:
    patch.old = _plain(value)
    patch.renamed = True


def _copied_from(patch: FilePatch, value: bytes) -> None:
    patch.old = _plain(value)
    patch.copied = True


def _moved_to(patch: FilePatch, value: bytes) -> None:
    patch.new = _plain(value)


def _nothing(_: FilePatch, __: bytes) -> None:
    pass


_HEADERS = (
    (b"--- ", _old_name),
    (b"+++ ", _new_name),
    (b"index ", _index),
    (b"new file mode ", _new_file),
    (b"deleted file mode ", _deleted),
    (b"old mode ", _old_mode),
    (b"new mode ", _new_mode),
    (b"rename from ", _renamed_from),
    (b"rename old ", _renamed_from),
    (b"copy from ", _copied_from),
    (b"rename to ", _moved_to),
    (b"rename new ", _moved_to),
    (b"copy to ", _moved_to),
    (b"similarity index ", _nothing),
    (b"dissimilarity index ", _nothing),
)


def _plain(value: bytes) -> bytes:
    """A name without a prefix, perhaps quoted."""
    quoted = unquote(value)
    return value.rstrip(b"\r") if quoted is None else quoted[0]


def _side(value: bytes) -> bytes | None:
    """The name in a `---` or `+++` line: a tab ends it, one leading folder is a prefix."""
    quoted = unquote(value)
    name = value.split(b"\t", 1)[0].rstrip(b"\r") if quoted is None else quoted[0]
    return None if name == _NOWHERE else _without_prefix(name)


def _without_prefix(name: bytes) -> bytes:
    _, slash, rest = name.partition(b"/")
    return rest if slash else name


def _common_name(value: bytes) -> bytes | None:
    """The name in `diff --git a/NAME b/NAME`, which is all there is when neither content nor name changes."""
    quoted = unquote(value)
    if quoted is not None:
        return _without_prefix(quoted[0])
    if len(value) > _LONGEST_NAMES:
        return None
    start = value.find(b"/") + 1
    at = value.find(b" ")
    while at >= 0:
        left = slice(start if start <= at else 0, at)
        other = unquote(value[at + 1 :]) if value.startswith(b'"', at + 1) else None
        if other is not None:
            if value[left] == _without_prefix(other[0]):
                return value[left]
        else:
            # Most places are told apart by length, without a copy of the names: a hostile header is all spaces.
            begin = value.find(b"/", at + 1) + 1 or at + 1
            if len(value) - begin == at - left.start and value[begin:] == value[left]:
                return value[left]
        at = value.find(b" ", at + 1)
    return None
