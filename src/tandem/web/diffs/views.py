"""A diff ready for the templates: its size, the tree of its folders, and one file as rows, unified or side by side."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby, islice
from typing import Literal, NamedTuple

from markupsafe import Markup

from tandem.core.visible import unseen
from tandem.git.hunks import FileDiff, Gap, Hunk, Line, gaps, join_renames, parse
from tandem.git.word_changes import CommonRun, Marks, Pair, changed_words, common_runs, pairs
from tandem.reviews.unusual import LONGEST_SHOWN, Unusual, of_diff
from tandem.web.diffs.code import LONGEST_OPENED, code, shown
from tandem.web.diffs.syntax import Budget, Words, highlighted, language_of

Layout = Literal["unified", "split"]
Side = Literal["before", "after"]

MOST_LINES = 2_000
"""Lines of a diff that are shown at once; the rest is asked for."""
_MARK_LENGTH = 80
"""Characters of HTML, about, that a character takes that cannot be seen."""
_MOST_STRAY = 200
_HEADING_MARKUP = 1_000
"""Characters of HTML, about, of a file without its lines."""


class Cell(NamedTuple):
    """One line on one side.

    Attributes:
        kind: `context`, `added` or `deleted`.
        side: The side whose number it is known by.
        line: That number.
        other: Its number on the other side; None for a changed line.
        code: Its text.
        anchor: Stable name within a page.
        bare: Whether it is the last line and no newline follows it.
    """

    kind: str
    side: Side
    line: int
    other: int | None
    code: Markup
    anchor: str
    bare: bool


class Row(NamedTuple):
    """A row of the table.

    Attributes:
        kind: `line`, `hunk` (where a hunk begins), or `stray` (what the diff says outside of its hunks).
        left: In a unified diff the line; side by side the line before.
        right: Side by side, the line after.
        gap: The lines left out before a hunk; or after the last one.
        text: A hunk's heading, or the stray line.
    """

    kind: str
    left: Cell | None = None
    right: Cell | None = None
    gap: Gap | None = None
    text: Markup = Markup()


@dataclass(frozen=True, slots=True)
class ShownFile:
    """A file of a diff as its heading shows it.

    Attributes:
        file: The change to it.
    """

    file: FileDiff

    @property
    def path(self) -> str:
        """As the file is known by; any text."""
        return self.file.path

    @property
    def name(self) -> Markup:
        """The same as HTML in which everything can be seen."""
        return shown(self.file.path)

    @property
    def old_name(self) -> Markup | None:
        """Where a moved or copied file came from, as `name`."""
        old = self.file.old_path
        return shown(old) if old and old != self.file.path else None

    @property
    def notes(self) -> list[str]:
        """Further facts: modes, binary content, line ends."""
        return notes(self.file)

    @property
    def lines(self) -> int:
        """All lines of the file's diff."""
        return sum(hunk.old_count + hunk.added for hunk in self.file.hunks)


@dataclass(frozen=True, slots=True)
class FileView(ShownFile):
    """A file of a diff, or a part of it, with its lines.

    Attributes:
        anchor: Stable name within a page, `f` and its place in the diff.
        layout: How `rows` are meant.
        rows: The rows.
        next_start: Where to go on; None when this is the end.
        plain: Whether highlighting was left out because it would have taken too long just now.
        followed_by: How many files come after it for which there was no room.
    """

    anchor: str
    layout: Layout
    rows: tuple[Row, ...]
    next_start: int | None
    plain: bool
    followed_by: int = 0


def view(
    file: FileDiff,
    index: int,
    *,
    layout: Layout = "unified",
    start: int = 0,
    limit: int = MOST_LINES,
    budget: Budget | None = None,
    prefix: str = "",
) -> FileView:
    """A file of a diff, ready for the macros of `diff.html`. Takes a while: call it in a thread.

    Args:
        file: From `parse`, perhaps `widened`.
        index: Its place in the diff, from 0; anchors begin with it.
        layout: One column of code or two; a file that is new or gone as a whole is always shown in one.
        start: Lines of its diff to pass over, for going on where a view ended.
        limit: Most lines to show.
        budget: Time for highlighting and room for HTML, shared by the files of a page; half a second without one.
        prefix: What anchors begin with, where one page shows several diffs.
    """
    spending = budget or Budget(0.5)
    lines = islice((line.text for hunk in file.hunks for line in hunk.walk()), start, start + limit)
    anchor = f"{prefix}f{index}"
    painter = _Painter(anchor, language_of(file.path), _drops_returns(file), spending)
    total = ShownFile(file).lines
    fits = fitting(lines, spending)
    if fits < total - start:
        limit = fits
    if file.old_path is None or file.new_path is None:
        layout = "unified"
    rows = tuple(_rows(file, painter, layout, start, limit))
    end = start + limit
    return FileView(file, anchor, layout, rows, end if end < total else None, painter.plain)


def views(files: Sequence[FileDiff], budget: Budget, prefix: str, most_lines: int = 1_000) -> list[FileView]:
    """Files one below the other, and their lines, as many as there is room for; at least one line of each file.

    Args:
        files: From `parse`.
        budget: Time for highlighting and room for HTML.
        prefix: What anchors begin with.
        most_lines: How many lines in all.
    """
    found: list[FileView] = []
    for index, file in enumerate(files):
        if not budget.take(_HEADING_MARKUP) and found:
            found[-1] = replace(found[-1], followed_by=len(files) - index)
            break
        found.append(view(file, index, limit=max(most_lines, 1), budget=budget, prefix=prefix))
        most_lines -= found[-1].lines
    return found


def context_rows(
    path: str, index: int, texts: Sequence[str], gap: Gap, *, layout: Layout = "unified"
) -> tuple[Row, ...]:
    """Rows for unchanged lines that take the place of a gap, or of its beginning: `texts` begin where it begins."""
    painter = _Painter(f"f{index}", language_of(path), drops_returns=True, budget=Budget(0.5))
    hunk = Hunk.unchanged(gap.old_first, gap.new_first, texts)
    return tuple(_hunk_rows(list(hunk.walk()), painter, layout))


def fitting(texts: Iterable[str], budget: Budget) -> int:
    """How many lines there is room for; at least one where there was all of it."""
    first = budget.is_whole
    count = 0
    for text in texts:
        shown = text[:LONGEST_OPENED]
        if not budget.take(len(shown) + _MARK_LENGTH * (1 + len(unseen(shown)))) and (count or not first):
            return count
        count += 1
    return count


def _rows(file: FileDiff, painter: _Painter, layout: Layout, start: int, limit: int) -> Iterator[Row]:
    left_out = gaps(file)
    passed, end = 0, start + limit
    for hunk, gap in zip(file.hunks, left_out, strict=False):
        size = hunk.old_count + hunk.added
        first, last = max(start - passed, 0), min(end - passed, size)
        if first < last or (size == 0 and start <= passed < end):
            if first == 0 and (gap or hunk.heading or passed):
                yield Row("hunk", gap=gap, text=shown(hunk.heading))
            yield from _hunk_rows(list(islice(hunk.walk(), first, last)), painter, layout)
        passed += size
        if passed >= end:
            break
    if passed <= end and left_out[-1]:
        yield Row("hunk", gap=left_out[-1])
    if passed < end:
        for text in file.stray[:_MOST_STRAY]:
            shown_part = text if len(text) <= LONGEST_SHOWN else f"{text[: LONGEST_SHOWN - 1]}…"
            yield Row("stray", text=code(shown_part, None, (), "ins"))
        if len(file.stray) > _MOST_STRAY:
            yield Row(
                "stray", text=Markup("{:,} more lines that git passes over").format(len(file.stray) - _MOST_STRAY)
            )


def _hunk_rows(lines: list[Line], painter: _Painter, layout: Layout) -> Iterator[Row]:
    painter.read(lines)
    deleted: list[Line] = []
    added: list[Line] = []
    for line in lines:
        if line.kind == "context":
            yield from _block_rows(deleted, added, painter, layout)
            deleted, added = [], []
            cell = painter.cell(line)
            yield Row("line", cell, cell if layout == "split" else None)
        elif line.kind == "added":
            added.append(line)
        else:
            if added:
                yield from _block_rows(deleted, added, painter, layout)
                deleted, added = [], []
            deleted.append(line)
    yield from _block_rows(deleted, added, painter, layout)


def _block_rows(deleted: list[Line], added: list[Line], painter: _Painter, layout: Layout) -> Iterator[Row]:
    """The rows of lines that took the place of others."""
    if not deleted and not added:
        return
    together = pairs([line.text for line in deleted], [line.text for line in added])
    left_marks: dict[int, Marks] = {}
    right_marks: dict[int, Marks] = {}
    for left, right in together:
        if left is not None and right is not None:
            left_marks[left], right_marks[right] = changed_words(deleted[left].text, added[right].text)
    lefts = [painter.cell(line, left_marks.get(at, ())) for at, line in enumerate(deleted)]
    rights = [painter.cell(line, right_marks.get(at, ())) for at, line in enumerate(added)]
    if layout == "unified":
        for cell in (*lefts, *rights):
            yield Row("line", cell)
        return
    for left, right in _side_by_side(together):
        yield Row("line", None if left is None else lefts[left], None if right is None else rights[right])


def _side_by_side(together: list[Pair]) -> Iterator[Pair]:
    """Lines without a counterpart stand beside each other rather than below, to save height."""
    lefts: list[int] = []
    rights: list[int] = []
    for left, right in [*together, (-1, -1)]:
        if left is not None and right is not None:
            for at in range(max(len(lefts), len(rights))):
                yield lefts[at] if at < len(lefts) else None, rights[at] if at < len(rights) else None
            lefts, rights = [], []
            if left >= 0:
                yield left, right
        elif left is not None:
            lefts.append(left)
        elif right is not None:
            rights.append(right)


def _drops_returns(file: FileDiff) -> bool:
    """Whether carriage returns at line ends go without saying: all lines have one, or none does."""
    ends = [line.endswith("\r") for hunk in file.hunks for line in hunk.body if line[:1] != "\\"]
    return all(ends)


class _Painter:
    """Paints the lines of one file, hunk by hunk."""

    def __init__(self, anchor: str, language: str | None, drops_returns: bool, budget: Budget) -> None:  # noqa: FBT001 - private
        self._anchor = anchor
        self._language = language
        self._drops_returns = drops_returns
        self._budget = budget
        self._words: dict[tuple[Side, int], Words] = {}
        self.plain = False

    def read(self, lines: list[Line]) -> None:
        """Take in a hunk: its lines before and after are two texts, each read as a whole."""
        self._words = {}
        self._budget.missed = False
        after = [line for line in lines if line.kind != "added"]
        while after and after[-1].kind == "context":
            after.pop()
        self._side("before", after)
        self._side("after", [line for line in lines if line.kind != "deleted"])
        self.plain = self.plain or self._budget.missed

    def _side(self, side: Side, lines: list[Line]) -> None:
        words = highlighted(self._language, [line.text.rstrip("\r") for line in lines], self._budget)
        for line, read in zip(lines, words or (), strict=False):
            number = line.old_number if side == "before" else line.new_number
            self._words[side, number or 0] = read

    def cell(self, line: Line, marks: Marks = ()) -> Cell:
        """A line, painted."""
        side: Side = "before" if line.kind == "deleted" else "after"
        number = (line.old_number if side == "before" else line.new_number) or 0
        text = line.text
        words = self._words.get((side, number))
        if text.endswith("\r"):
            if self._drops_returns:
                text = text.rstrip("\r")
            else:
                words = None
        return Cell(
            line.kind,
            side,
            number,
            line.old_number if line.kind == "context" else None,
            code(text, words, marks, "del" if side == "before" else "ins"),
            f"{self._anchor}-{'L' if side == 'before' else 'R'}{number}",
            line.no_newline,
        )


_MODES = {"100644": "file", "100755": "program", "120000": "symbolic link", "160000": "submodule", "040000": "folder"}


def notes(file: FileDiff) -> list[str]:
    """Short remarks: modes, binary content, line ends, and that nothing but the name changed."""
    said: list[str] = []
    old, new = file.old_mode, file.new_mode
    if old and new and old != new:
        said.append(f"mode {_mode(old)} → {_mode(new)}")
    elif (only := new or old) and only not in {"100644", "040000"}:
        said.append(_mode(only))
    if file.binary:
        said.append("binary content")
    elif file.latin_1:
        said.append("not UTF-8: shown as Latin-1")
    elif not file.hunks and file.kind in {"renamed", "copied"}:
        said.append("content unchanged")
    elif not file.hunks and file.kind in {"added", "deleted"}:
        said.append("empty file")
    ends = {line.endswith("\r") for hunk in file.hunks for line in hunk.body if line[:1] != "\\"}
    if ends == {True}:
        said.append("CRLF line ends")
    elif ends == {True, False}:
        said.append("mixed line ends: \\x0d marks a carriage return")
    return said


def _mode(mode: str) -> str:
    return f"{mode} ({_MODES[mode]})" if mode in _MODES else mode


_DEEPEST = 24
"""Folders within folders; what lies deeper is shown with the rest of its path as its name."""
_KEPT_CHARACTERS = 1_000_000


@dataclass(frozen=True, slots=True)
class OutlineFolder:
    """A line of the tree: a folder or a file.

    Attributes:
        name: As HTML; folders that hold one folder only are one line (`src/app/`).
        path: From the repository's root.
        file: The file's place in the diff; None for a folder.
        closes: How many folders end with this line.
    """

    name: Markup
    path: str
    file: int | None
    closes: int


@dataclass(frozen=True, slots=True)
class Outline:
    """A diff as a whole.

    Attributes:
        files: In the diff's order.
        added: Lines added.
        deleted: Lines deleted.
        tree: The lines of the tree, folders before files at each level.
        unusual: The remarks beside Approve.
    """

    files: tuple[FileDiff, ...]
    added: int
    deleted: int
    tree: tuple[OutlineFolder, ...]
    unusual: tuple[Unusual, ...]


def outline(diff: str, *, calm: bool = False, origins: Mapping[str, str] | None = None) -> Outline:
    """A diff as a whole; the last few of usual size are kept, so that each of their files can be asked for cheaply.

    Args:
        diff: The diff.
        calm: Without lines that change in the amount of whitespace alone; the files keep their places.
        origins: Where renamed files come from, by path; see `join_renames`.
    """
    moved = tuple(sorted((origins or {}).items()))
    return (_kept if len(diff) <= _KEPT_CHARACTERS else _kept_large)(diff, calm, moved)


def _outline(diff: str, calm: bool, moved: tuple[tuple[str, str], ...]) -> Outline:  # noqa: FBT001 - private
    origins = dict(moved)
    files = map(_calmed, outline(diff, origins=origins).files) if calm else join_renames(parse(diff), origins)
    files = tuple(files)
    added, deleted = sum(file.added for file in files), sum(file.deleted for file in files)
    return Outline(files, added, deleted, tree(files, range(len(files))), of_diff(files))


_kept, _kept_large = lru_cache(maxsize=16)(_outline), lru_cache(maxsize=2)(_outline)
_SPACES = re.compile("[ \t\r]+")
_MOST_EDITS = 400


def _calmed(file: FileDiff) -> FileDiff:
    hunks = (_calmed_hunk(hunk) for hunk in file.hunks)
    return replace(file, hunks=tuple(hunk for hunk in hunks if hunk.added or hunk.deleted))


def _calmed_hunk(hunk: Hunk) -> Hunk:
    """The hunk with its lines after the change as unchanged ones, where nothing else changes in them."""
    body: list[str] = []
    for is_changed, lines in groupby(hunk.body, key=lambda line: line[:1] in {"-", "+"}):
        block = list(lines)
        body += _calmed_block(block) if is_changed else block
    changed = Counter(line[:1] for line in body)
    return replace(hunk, body=tuple(body), added=changed["+"], deleted=changed["-"])


def _calmed_block(block: list[str]) -> Iterator[str]:
    before, after = ([line for line in block if line[0] == sign] for sign in "-+")
    old, new = ([_SPACES.sub(" ", line[1:]).strip(" ") for line in lines] for lines in (before, after))
    left = right = 0
    for run in [*common_runs(old, new, _MOST_EDITS), CommonRun(len(old), len(new), 0)]:
        yield from before[left : run.left]
        yield from after[right : run.right]
        left, right = run.left + run.length, run.right + run.length
        yield from (f" {line[1:]}" for line in after[run.right : right])


@dataclass(slots=True)
class _Folder:
    path: str
    name: str
    folders: dict[str, _Folder] = field(default_factory=dict[str, "_Folder"])
    files: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])


def tree(files: tuple[FileDiff, ...], indexes: Iterable[int]) -> tuple[OutlineFolder, ...]:
    """The lines of a tree of some files."""
    root = _Folder("", "")
    for index in indexes:
        *folders, name = files[index].path.split("/", _DEEPEST)
        at = root
        for folder in folders:
            at = at.folders.setdefault(folder, _Folder(f"{at.path}{folder}/", folder))
        at.files.append((name, index))
    return tuple(_lines(root, files))


def _lines(folder: _Folder, files: tuple[FileDiff, ...]) -> Iterator[OutlineFolder]:
    """The lines of a folder, down to the deepest; its last line closes it."""
    for _, below in sorted(folder.folders.items()):
        inner, name = below, below.name
        while len(inner.folders) == 1 and not inner.files:
            (inner,) = inner.folders.values()
            name += f"/{inner.name}"
        yield OutlineFolder(shown(f"{name}/"), inner.path, None, 0)
        *lines, last = _lines(inner, files)
        yield from lines
        yield replace(last, closes=last.closes + 1)
    for name, index in sorted(folder.files):
        yield OutlineFolder(shown(name), files[index].path, index, 0)
