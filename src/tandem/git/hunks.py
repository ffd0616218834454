"""A unified diff as git writes it, read into files, hunks and lines.

For showing, and to know where to look: what a change does is decided by applying it with git. Nothing raises here, and
everything is linear in the diff's length, because any text may come as a diff: what cannot be placed is kept as
`stray`, never dropped from a file that it stands in.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Literal, NamedTuple

from tandem.git.patch import FilePatch, take_header
from tandem.git.raw import decode_path, encode_path
from tandem.git.word_changes import text_diff

FileKind = Literal["added", "deleted", "modified", "renamed", "copied", "mode"]
LineKind = Literal["context", "added", "deleted"]

# Longer numbers are no line numbers, and Python refuses to read very long ones.
_HUNK = re.compile(r"@@ -(\d{1,15})(?:,(\d{1,15}))? \+(\d{1,15})(?:,(\d{1,15}))? @@ ?(.*)")
_GIT = "diff --git "
_COMBINED = ("diff --cc ", "diff --combined ")
_CONTENTS = ("literal ", "delta ")
_SHOWN_CHARACTERS = 100
_VERSION = re.compile(r"\d+\.|$")
_PARTS_OF_HUNKS = ("+", "-", " ", "@", "\\", ">")
_MAILS = ("From ", "commit ", "# HG changeset patch")
"""What begins the message of a commit, in which anything may stand, as mails and logs have it between files."""
_BETWEEN = re.compile(r"Index: |diff |={3,}|```|[0-9a-f]{7,64} |$")
"""What else stands between files, behind which a text may follow."""
_LEFT_OUT = re.compile(
    r"(?:Binary )?[Ff]iles? .* (?:differ|has changed)$|Symbolic links .* differ$|File (?=.* is an? ).+ while file ."
    r"|Only in .+: .|Submodule .+ [0-9a-f]{4,}\.{2,3}[0-9a-f]{4,}|\* Unmerged path |Cannot display: |=== renamed "
    r"|Property changes on: |\*{3} (?:Begin Patch|(?:Add|Update|Delete) File:|\d+(?:,\d+)? \*{4}$)|<{5,9} "
)
"""What tools write in place of a file's lines, or of lines that git reads; git passes it over."""
AS_LATIN_1 = "# Not UTF-8. Its lines as Latin-1:"
"""Begins the lines of a file whose exact bytes only a binary patch can hold, each behind `# `."""
_LATIN_1_LINE = "# "


class Line(NamedTuple):
    """One line of a hunk, without its sign and its newline (a carriage return stays)."""

    kind: LineKind
    old_number: int | None
    new_number: int | None
    text: str
    no_newline: bool


@dataclass(frozen=True, slots=True)
class Hunk:
    """A run of changed lines with the lines around them.

    Attributes:
        old_start: First line before, from 1; with `old_count` 0 the line before it.
        old_count: Lines before, as the body has them, even if the header says otherwise.
        new_start: As `old_start`, after the change.
        new_count: As `old_count`, after the change.
        heading: What git took for the heading of this part of the file.
        body: The lines with their signs, and the marks for a missing final newline.
        added: Lines added.
        deleted: Lines deleted.
    """

    old_start: int
    old_count: int
    new_start: int
    new_count: int
    heading: str
    body: tuple[str, ...]
    added: int
    deleted: int

    @classmethod
    def unchanged(cls, old_first: int, new_first: int, texts: Sequence[str]) -> Hunk:
        """One of lines that are the same before and after."""
        body = tuple(f" {text}" for text in texts)
        return cls(old_first, len(body), new_first, len(body), "", body, 0, 0)

    @property
    def lines(self) -> tuple[Line, ...]:
        """The lines; each call makes them again."""
        return tuple(self.walk())

    def walk(self) -> Iterator[Line]:
        """The lines one after the other, for hunks of which only a part is wanted."""
        old, new = self.old_first, self.new_first
        body = self.body
        for at, line in enumerate(body):
            sign = line[:1]
            if sign == "\\":
                continue
            bare = at + 1 < len(body) and body[at + 1].startswith("\\")
            if sign == "+":
                yield Line("added", None, new, line[1:], bare)
                new += 1
            elif sign == "-":
                yield Line("deleted", old, None, line[1:], bare)
                old += 1
            else:
                yield Line("context", old, new, line[1:] if sign == " " else line, bare)
                old += 1
                new += 1

    @property
    def old_first(self) -> int:
        """The number that the first line before has, or would have."""
        return self.old_start if self.old_count else self.old_start + 1

    @property
    def new_first(self) -> int:
        """As `old_first`, after the change."""
        return self.new_start if self.new_count else self.new_start + 1


@dataclass(frozen=True, slots=True)
class FileDiff:
    """What a diff does to one file.

    Attributes:
        old_path: Path before; None for a new file.
        new_path: Path after; None for a deleted file.
        kind: `mode` only when nothing but the file mode changes.
        old_mode: File mode before, six octal digits, where the diff says it.
        new_mode: File mode after, where the diff says it.
        binary: Whether the content is not lines.
        hunks: The changed parts, in the file's order.
        stray: Lines of the file's part that are neither header nor hunk; git writes none.
        latin_1: Whether the lines are not UTF-8, and each byte is shown as the Latin-1 character that it would be.
    """

    old_path: str | None
    new_path: str | None
    kind: FileKind
    old_mode: str | None
    new_mode: str | None
    binary: bool
    hunks: tuple[Hunk, ...]
    stray: tuple[str, ...] = ()
    latin_1: bool = False

    @property
    def path(self) -> str:
        """The path that the file is known by."""
        return self.new_path if self.new_path is not None else self.old_path or ""

    @property
    def added(self) -> int:
        """Lines added."""
        return sum(hunk.added for hunk in self.hunks)

    @property
    def deleted(self) -> int:
        """Lines deleted."""
        return sum(hunk.deleted for hunk in self.hunks)


def parse(diff: str) -> tuple[FileDiff, ...]:
    """The files of a diff in its order; empty for a text that is no diff. Never raises."""
    return tuple(_file(*found) for found in _Reader(diff, "utf-8").files)


def split_files(diff: str) -> list[tuple[FileDiff, str]]:
    """The files of a diff, each with its part of the text; these are the whole text. Empty if it is no diff."""
    reader = _Reader(diff, "utf-8")
    if not reader.files:
        return []
    starts = [0, *reader.starts[1:]]
    parts = pairwise([*starts, None])
    return [(_file(*found), reader.text(*lines)) for found, lines in zip(reader.files, parts, strict=True)]


def read_patches(diff: bytes) -> list[FilePatch]:
    """The headers of a diff's files in its order; other text is passed over, as git does."""
    return [patch for patch, *_ in _read(diff)]


def read_files(diff: bytes) -> list[tuple[FilePatch, FileDiff]]:
    """As `read_patches`, each with its file, whose lines are as Latin-1."""
    return [(found[0], _file(*found)) for found in _read(diff)]


def _read(diff: bytes) -> list[_Found]:
    # As Latin-1 any bytes are a text, and become the same bytes again.
    return _Reader(diff.decode("latin-1"), "latin-1").files


# A hunk's lines begin with a blank or a sign, and a binary patch's have no blanks: this is always a header.
_FILE_START = re.compile(r"^(?=diff --git )", re.MULTILINE)


def only_files(diff: str, paths: Collection[str]) -> str:
    """The parts of a diff that touch any of the paths, before or after; empty if none does."""
    wanted = {encode_path(path) for path in paths}
    parts = ((part, read_patches(part.encode())) for part in _FILE_START.split(diff))
    return "".join(part for part, patches in parts if any({one.old, one.new} & wanted for one in patches))


def _file(patch: FilePatch, hunks: list[Hunk], stray: list[str]) -> FileDiff:
    before, after = _mode(patch.mode_before), _mode(patch.mode_after)
    kind: FileKind = "modified"
    if patch.renamed or patch.copied:
        kind = "renamed" if patch.renamed else "copied"
    elif (patch.old is None) != (patch.new is None):
        kind = "added" if patch.old is None else "deleted"
    elif before != after and not hunks and not patch.binary:
        kind = "mode"
    is_binary, latin_1 = patch.binary, False
    if is_binary and stray[:1] == [AS_LATIN_1]:
        shown = "\n".join(line.removeprefix(_LATIN_1_LINE) for line in stray[1:])
        hunks, stray, is_binary, latin_1 = _Reader(shown, "utf-8", headless=True).files[0][1], [], False, True
    elif is_binary:
        stray = []
    names = _name(patch.old), _name(patch.new)
    return FileDiff(*names, kind, before, after, is_binary, tuple(hunks), tuple(stray), latin_1)


def _name(name: bytes | None) -> str | None:
    return None if name is None else decode_path(name)


def _mode(value: bytes | None) -> str | None:
    return value.decode() if value is not None and len(value) <= 6 and value.isdigit() else None  # noqa: PLR2004 - six octal digits


_Found = tuple[FilePatch, list[Hunk], list[str]]
"""A file's header, its hunks, and the lines that are neither."""


class _Reader:
    """Goes through a diff once, line by line, never taking a hunk's content for a header.

    Attributes:
        files: The files found, with paths.
        starts: The line at which each of them begins, from 0.
    """

    def __init__(self, diff: str, encoding: str, *, headless: bool = False) -> None:
        self._lines = diff.removesuffix("\n").split("\n") if diff else []
        self._encoding = encoding
        self._at = 0
        self.starts: list[int] = []
        self.files: list[_Found] = list(self._read(FilePatch() if headless else None))
        strip = not any(patch.has_prefix is False for patch, _, _ in self.files)
        for patch, _, _ in self.files:
            patch.resolve(strip=strip)

    def text(self, start: int | None, end: int | None) -> str:
        """Lines as they stand, each with its end."""
        return "".join(f"{line}\n" for line in self._lines[start:end])

    def _read(self, header: FilePatch | None) -> Iterator[_Found]:
        hunks: list[Hunk] = []
        stray: list[str] = []
        # A fault before the first file is reported with that one.
        place, faulty = "text" if header is None else "file", header or FilePatch()
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if self._starts_file(line, place):
                if header is not None:
                    yield header, hunks, stray
                self.starts.append(self._at)
                found, hunks, stray, place = self._header(line), [], [], "file"
                found.passed_over = found.passed_over or (faulty.passed_over if header is None else None)
                header = faulty = found
            elif header is not None and (match := _HUNK.match(line)):
                hunks.append(self._hunk(match, header, len(hunks) + 1))
            else:
                if header is not None and (not header.binary or stray or line == AS_LATIN_1):
                    stray.append(line)
                place = self._place(line, place)
                self._at += 1
                faulty.passed_over = faulty.passed_over or self._passed_over(line, place, faulty)
        if header is not None:
            yield header, hunks, stray

    def _place(self, line: str, before: str) -> str:
        """Whether a line stands in the part of a `file`, in a `text` between files, or in the `message` of a commit."""
        if line.startswith(_MAILS):
            return "message"
        if before == "message":
            return "text" if line == "---" else before
        return "text" if self._is_signature(self._at) or (line and _BETWEEN.match(line)) else before

    def _passed_over(self, line: str, place: str, header: FilePatch) -> str | None:
        """The fault of a line that is in no hunk, so that git passes it over; None if it has none."""
        if place != "message" and _LEFT_OUT.match(line):
            return f"line {self._at} of the diff leaves a file out: {line[:_SHOWN_CHARACTERS]}"
        if line.startswith("@@" if place != "file" else "@"):
            return f"line {self._at} of the diff begins no hunk for git, which are headed @@ -LINE,COUNT +LINE,COUNT @@"
        is_part = line.startswith(_PARTS_OF_HUNKS if place == "file" else "+++ ")
        if is_part or (place == "file" and line.strip() and not header.binary):
            return (
                f"line {self._at} of the diff is in no hunk: it is one more than an @@ line says, or none is before it"
            )
        return None

    def _bytes(self, line: str) -> bytes:
        return line.encode(self._encoding, "surrogatepass")

    def _starts_file(self, line: str, place: str) -> bool:
        is_combined = line.startswith(_COMBINED) and place != "message"
        return is_combined or line.startswith(_GIT) or self._starts_plain_patch(self._at)

    def _starts_plain_patch(self, at: int) -> bool:
        """Whether a file begins here without a line of git's own: old name, new name, hunk."""
        lines = self._lines
        return (
            lines[at].startswith("--- ")
            and at + 2 < len(lines)
            and lines[at + 1].startswith("+++ ")
            and lines[at + 2].startswith("@@ -")
        )

    def _header(self, line: str) -> FilePatch:
        header = FilePatch(converted=line.endswith("\r"))
        if line.startswith(_GIT):
            header.git = self._bytes(line[len(_GIT) :].rstrip("\r"))
            self._at += 1
        elif line.startswith(_COMBINED):
            name = self._bytes(line[line.index(" ", 5) + 1 :])
            header.names |= {b"rename from ": name, b"rename to ": name}
            header.passed_over = "this is the combined diff of a merge: send `git diff BASE COMMIT`"
            self._at += 1
        while self._at < len(self._lines):
            line = self._lines[self._at].rstrip("\r")
            if line.startswith(("Binary files ", "GIT binary patch")):
                header.binary, header.cut = True, header.cut or line.startswith("B")
                if not header.cut and not "".join(self._lines[self._at + 1 : self._at + 2]).startswith(_CONTENTS):
                    header.passed_over = f"the binary patch at line {self._at + 1} of the diff has no content"
            elif not take_header(header, self._bytes(line)):
                break
            self._at += 1
        return header

    def _hunk(self, match: re.Match[str], header: FilePatch, number: int) -> Hunk:
        old_start, old_count, new_start, new_count, heading = match.groups()
        old, new = int(old_count or "1"), int(new_count or "1")
        self._at += 1
        lines, at, first = self._lines, self._at, self._at
        added = deleted = context = 0
        for at in range(first, len(lines) + 1):
            if at == len(lines):
                break
            line = lines[at]
            sign = line[:1]
            # Counts that are too small hide nothing: the lines that follow at once belong to the hunk all the same.
            if old <= deleted + context and new <= added + context and self._ends_hunk(sign, at):
                break
            if sign == "+":
                added += 1
            elif sign == "-":
                deleted += 1
            elif sign == " " or not sign or sign == "\r":
                context += 1
            elif sign != "\\":
                break
        self._at = at
        found = context + deleted, context + added
        if (old, new) != found:
            header.fault = header.fault or (
                f"the @@ line of hunk {number} (line {first} of the diff) says {old} lines before and {new} after, and"
                f" {found[0]} and {found[1]} follow"
            )
        header.hunks = number
        if not context:
            header.without_context.add(number)
            is_inside = not deleted and int(old_start) > 0
            header.unplaced = header.unplaced or number * is_inside
        body = tuple(lines[first : self._at])
        return Hunk(int(old_start), found[0], int(new_start), found[1], heading.rstrip("\r"), body, added, deleted)

    def _ends_hunk(self, sign: str, at: int) -> bool:
        return not sign or sign == "\r" or self._is_signature(at) or (sign == "-" and self._starts_plain_patch(at))

    def _is_signature(self, at: int) -> bool:
        """Whether a mail's text ends here, perhaps without the blank that an editor took off."""
        return self._lines[at] == "-- " or (
            self._lines[at] == "--" and _VERSION.match("".join(self._lines[at + 1 : at + 2])) is not None
        )


@dataclass(frozen=True, slots=True)
class Gap:
    """Unchanged lines that a diff does not show.

    Attributes:
        old_first: First of them before the change, from 1.
        new_first: First of them after the change.
        count: How many; None after the last hunk, where only the file itself can tell.
    """

    old_first: int
    new_first: int
    count: int | None

    @property
    def old_last(self) -> int | None:
        """Last of them before the change."""
        return None if self.count is None else self.old_first + self.count - 1

    @property
    def new_last(self) -> int | None:
        """Last of them after the change."""
        return None if self.count is None else self.new_first + self.count - 1


def gaps(file: FileDiff) -> tuple[Gap | None, ...]:
    """The gap before each hunk and the one after the last; None where nothing is left out, or that is unknown."""
    if file.kind == "renamed" and not file.hunks and not file.binary:
        return (Gap(1, 1, None),)
    if not file.hunks or file.latin_1:
        return (None,) * (len(file.hunks) + 1)
    found: list[Gap | None] = []
    old, new = 1, 1
    for hunk in file.hunks:
        count = hunk.new_first - new
        found.append(Gap(old, new, count) if count > 0 and hunk.old_first - old == count else None)
        old, new = hunk.old_first + hunk.old_count, hunk.new_first + hunk.new_count
    found.append(None if _ends_with_file(file) else Gap(old, new, None))
    return tuple(found)


def _ends_with_file(file: FileDiff) -> bool:
    """Whether the last hunk reaches the file's end, as far as the diff itself shows it."""
    if file.old_path is None or file.new_path is None:
        return True
    last = file.hunks[-1]
    if any(line.startswith("\\") for line in last.body[-3:]):
        return True
    usual = max((_unchanged(hunk.body) for hunk in file.hunks if hunk.new_first > 1), default=None)
    return usual is not None and _unchanged(last.body[::-1]) < usual


def _unchanged(body: Sequence[str]) -> int:
    return next((at for at, line in enumerate(body) if line[:1] in {"+", "-"}), len(body))


def widened(file: FileDiff, new_first: int, texts: Sequence[str]) -> FileDiff:
    """The diff with unchanged lines put where it left them out; lines that it shows already are passed over.

    Args:
        file: The parsed diff.
        new_first: Number of the first line, after the change.
        texts: The lines as they are after the change.
    """
    hunks: list[Hunk] = []
    for at, gap in enumerate(gaps(file)):
        filling = _filling(gap, new_first, texts) if gap else None
        if filling:
            hunks.append(filling)
        if at < len(file.hunks):
            hunks.append(file.hunks[at])
    return replace(file, hunks=tuple(_merged(hunks)))


def _filling(gap: Gap, new_first: int, texts: Sequence[str]) -> Hunk | None:
    first = max(gap.new_first, new_first)
    end = new_first + len(texts)
    if gap.new_last is not None:
        end = min(end, gap.new_last + 1)
    if first >= end:
        return None
    return Hunk.unchanged(first - gap.new_first + gap.old_first, first, texts[first - new_first : end - new_first])


def _merged(hunks: list[Hunk]) -> list[Hunk]:
    """Neighbours that touch become one."""
    merged: list[Hunk] = []
    run: list[Hunk] = []
    for hunk in hunks:
        if run and run[-1].new_first + run[-1].new_count != hunk.new_first:
            merged.append(_joined(run))
            run = []
        run.append(hunk)
    return [*merged, _joined(run)] if run else merged


def _joined(run: list[Hunk]) -> Hunk:
    if len(run) == 1:
        return run[0]
    return Hunk(
        run[0].old_first,
        sum(hunk.old_count for hunk in run),
        run[0].new_first,
        sum(hunk.new_count for hunk in run),
        run[0].heading,
        tuple(line for hunk in run for line in hunk.body),
        sum(hunk.added for hunk in run),
        sum(hunk.deleted for hunk in run),
    )


def join_renames(files: Sequence[FileDiff], origins: Mapping[str, str]) -> tuple[FileDiff, ...]:
    """The files of a drawn diff with each renamed one as one file, of which only the lines that differ are there.

    For showing: the diff itself has all lines of both.

    Args:
        files: The parsed files.
        origins: By path, the path before.
    """
    gone = {file.path: file for file in files if file.kind == "deleted"}
    found = {file.path: gone.pop(origins.get(file.path, ""), None) for file in files if file.kind == "added"}
    joined = {file.path for file in found.values() if file is not None}
    left = (file for file in files if file.kind != "deleted" or file.path not in joined)
    return tuple(file if (before := found.get(file.path)) is None else _joined_rename(before, file) for file in left)


def _joined_rename(before: FileDiff, after: FileDiff) -> FileDiff:
    lines = parse(text_diff(_content(before), _content(after), "b", "a"))
    return replace(
        after,
        old_path=before.old_path,
        kind="renamed",
        old_mode=before.old_mode,
        binary=before.binary or after.binary,
        hunks=lines[0].hunks,
        latin_1=before.latin_1 or after.latin_1,
    )


def _content(file: FileDiff) -> str:
    """What a file is that is new or gone as a whole."""
    lines = (line for hunk in file.hunks for line in hunk.walk())
    return "".join(line.text if line.no_newline else f"{line.text}\n" for line in lines)
