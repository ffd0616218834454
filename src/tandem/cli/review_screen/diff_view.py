"""A change on the screen: its lines, always harmless, of which only the visible ones are drawn."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Any, ClassVar, Literal

from pygments.lexer import Lexer
from pygments.lexers import get_lexer_for_filename  # pyright: ignore[reportUnknownVariableType] - its options are anything
from pygments.token import Token
from pygments.util import ClassNotFound
from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from rich.text import Text
from textual import events
from textual.binding import BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.reactive import reactive
from textual.scroll_view import ScrollView
from textual.strip import Strip

from tandem.cli.review_screen.desk import LineRef, line_of
from tandem.cli.review_screen.screens import LineDialog, TextDialog, host
from tandem.cli.review_screen.texts import bindings
from tandem.core.visible import visible, visible_line
from tandem.git import hunks
from tandem.git.changes import origins_of
from tandem.git.hunks import FileDiff, Hunk, Line
from tandem.git.word_changes import common_start, pairs
from tandem.present.findings import come_from, together
from tandem.reviews.answers import Proposal
from tandem.reviews.finding_contract import FindingView, GivenFinding, GivenSettling
from tandem.reviews.page_contract import Draft, as_finding
from tandem.reviews.unusual import LONGEST_SHOWN

Kind = Literal["file", "fact", "hunk", "context", "added", "deleted", "remark", "draft"]
TAB_COLUMNS = 4
_FAR = 200
"""Characters that two lines begin with together before their beginning gives room to where they differ."""
_BEFORE = 10
_REMARK_COLUMNS = 96


@dataclass(frozen=True, slots=True)
class Row:
    """One line on the screen.

    Attributes:
        kind: Its kind.
        text: As it is shown; nothing in it can play tricks.
        path: The file that it belongs to, as the broker calls it.
        origin: The file's path before the change, if it is another one.
        old: Its number before the change.
        new: Its number after the change.
        hunk: Tells its hunk from every other of the change.
        whole: The line as it is; empty if it is no line of the content.
        finding: The finding, or the draft of one, that it tells of.
    """

    kind: Kind
    text: str
    path: str
    old: int | None = None
    new: int | None = None
    hunk: int = -1
    whole: str = ""
    finding: str = ""
    origin: str = ""

    @property
    def spots(self) -> tuple[LineRef, ...]:
        """What findings beneath it are about: the line after the change and before it, or the file."""
        before = self.origin or self.path
        if self.kind == "file":
            return tuple(LineRef(path, None) for path in dict.fromkeys((self.path, before)))
        after = () if self.new is None else (LineRef(self.path, self.new),)
        return after if self.old is None else (*after, LineRef(before, self.old, "old"))

    @property
    def spot(self) -> LineRef:
        """What a finding on this line is about; the file where it is no line of it."""
        return next(iter(self.spots), LineRef(self.path, None))


def shown(text: str, differs_at: int = 0) -> str:
    """One line of a text by others, harmless, with its tabs filled and not endless.

    Args:
        text: The line.
        differs_at: Where it begins to differ from the one that it replaces, or that replaces it.
    """
    start = differs_at - _BEFORE if differs_at > _FAR else 0
    rest = len(text) - start - LONGEST_SHOWN
    line = visible_line(text[start : start + LONGEST_SHOWN].expandtabs(TAB_COLUMNS))
    before = f"… {start:,} alike … " if start else ""
    return f"{before}{line}" + (f" … {rest:,} more characters: Enter shows all" if rest > 0 else "")


def of_diff(diff: str, origins: Mapping[str, str] | None = None) -> list[Row]:
    """The rows of a unified diff, with the files of `origins` joined; of a text that is none, its lines as they are."""
    files = hunks.join_renames(hunks.parse(diff), origins or {})
    if not files:
        return [Row("fact", shown(line), "") for line in diff.splitlines()]
    rows: list[Row] = []
    count = 0
    for file in files:
        start = len(rows)
        rows += _head(file)
        for hunk in file.hunks:
            rows += _hunk(file.path, hunk, count)
            count += 1
        rows += [Row("fact", shown(line), file.path) for line in file.stray]
        if file.old_path not in {None, file.path}:
            rows[start:] = [replace(row, origin=file.old_path) for row in rows[start:]]
    return rows


def _head(file: FileDiff) -> Iterator[Row]:
    name = file.path if file.old_path in {None, file.path} else f"{file.old_path} → {file.path}"
    kind = "" if file.kind == "modified" else f"  {file.kind}"
    yield Row("file", f"{shown(name)}{kind}  +{file.added} −{file.deleted}", file.path)
    if file.old_mode != file.new_mode and file.old_mode and file.new_mode:
        yield Row("fact", f"mode {file.old_mode} → {file.new_mode}", file.path)
    if file.binary:
        yield Row("fact", "binary: its content cannot be shown as lines", file.path)
    if file.latin_1:
        yield Row("fact", "not UTF-8: shown as Latin-1", file.path)


def _hunk(path: str, hunk: Hunk, number: int) -> Iterator[Row]:
    place = f"lines {hunk.new_first} to {hunk.new_first + hunk.new_count - 1}" if hunk.new_count else "deleted"
    yield Row("hunk", shown(f"{place}  {hunk.heading}".rstrip()), path, hunk=number)
    lines = list(hunk.walk())
    differing = _differing(lines)
    for at, line in enumerate(lines):
        row = shown(line.text, differing.get(at, 0))
        yield Row(line.kind, row, path, line.old_number, line.new_number, number, line.text)
        if line.no_newline:
            yield Row("fact", "no newline at the end", path, hunk=number)


def _differing(lines: Sequence[Line]) -> dict[int, int]:
    """Where long lines begin to differ from their counterparts, by their position."""
    found: dict[int, int] = {}
    for is_change, run in groupby(range(len(lines)), key=lambda at: lines[at].kind != "context"):
        block = list(run)
        if not is_change or all(len(lines[at].text) <= _FAR for at in block):
            continue
        gone = [at for at in block if lines[at].kind == "deleted"]
        new = [at for at in block if lines[at].kind == "added"]
        for one, other in pairs([lines[at].text for at in gone], [lines[at].text for at in new]):
            if one is not None and other is not None:
                left, right = gone[one], new[other]
                found[left] = found[right] = common_start(lines[left].text, lines[right].text)
    return found


def of_text(path: str, text: str) -> list[Row]:
    """The rows of a text that is up for review as a whole."""
    lines = text.removesuffix("\n").split("\n")
    body = [Row("context", shown(line), path, new=at, hunk=0, whole=line) for at, line in enumerate(lines, 1)]
    return [Row("file", shown(path), path), *body]


def of_round(proposal: Proposal, since: int | None) -> list[Row]:
    """The rows of a round's content, or of what changed in it since an earlier one."""
    origins = origins_of(proposal.affected_files)
    if since is not None:
        rows = of_diff(proposal.interdiff or "", origins)
        return rows or [Row("fact", f"Nothing changed since round {since}.", "")]
    if proposal.diff is not None:
        return of_diff(proposal.diff, origins)
    if proposal.path is not None:
        return of_text(proposal.path, proposal.description or "")
    return [Row("fact", "There is no change in this review: see its texts (2).", "")]


def with_findings(
    rows: Sequence[Row],
    found: Iterable[FindingView],
    drafts: Iterable[tuple[LineRef, Draft]],
    answers: Mapping[str, GivenSettling],
) -> list[Row]:
    """The rows, each with its findings beneath it; those on lines that are gone stand beneath their file."""
    waiting: dict[LineRef, list[Row]] = {}
    for group in together(found):
        # All below the lines of the gravest one; each names its own.
        below = waiting.setdefault(line_of(group[0]), [])
        for one in group:
            below += _finding(one, line_of(one), answers.get(one.finding_id))
    for spot, unsent in drafts:
        draft = as_finding(unsent)
        marks = ", ".join([draft.severity, *_kind(draft), "not sent yet"])
        waiting.setdefault(spot, []).extend(_remark("draft", spot, marks, "\n".join(_said(draft)), unsent.draft_id))
    return list(_placed(rows, waiting))


def _finding(one: FindingView, spot: LineRef, settled: GivenSettling | None) -> Iterator[Row]:
    marks = [one.severity, one.state, *(["blocking"] if one.blocking else []), *_kind(one)]
    marks += filter(None, [come_from(one)])
    said = (one.answer and f"Answer: {one.answer}", one.settled_reason and f"{one.settled_by}: {one.settled_reason}")
    body = "\n".join([*_said(one), *(part for part in said if part)])
    yield from _remark("remark", spot, f"{', '.join(marks)}: {one.author}", body, one.finding_id)
    if settled is not None:
        yield from _remark("draft", spot, f"{settled.answer}, not sent yet", settled.reason or "", one.finding_id)


def _kind(one: FindingView | GivenFinding) -> list[str]:
    """What kind of fault it is, beside its severity."""
    return [*([one.category] if one.category else []), *(["was there before"] if one.pre_existing else [])]


def _said(one: FindingView | GivenFinding) -> list[str]:
    """What its reviewer says."""
    failure = [f"How it fails: {one.failure}"] if one.failure else []
    return [one.claim, *failure, *([] if one.suggestion is None else [f"Suggestion:\n{one.suggestion}"])]


def _placed(rows: Sequence[Row], waiting: Mapping[LineRef, list[Row]]) -> Iterator[Row]:
    there = {spot for row in rows for spot in row.spots}
    placed: dict[LineRef, list[Row]] = {}
    for spot, below in waiting.items():
        placed.setdefault(spot if spot in there else LineRef(spot.path, None), []).extend(below)
    for row in rows:
        yield row
        for spot in row.spots:
            yield from placed.pop(spot, ())
    for left in placed.values():
        yield from left


def _remark(kind: Literal["remark", "draft"], spot: LineRef, who: str, body: str, finding: str = "") -> Iterator[Row]:
    old, new = (spot.line, None) if spot.side == "old" else (None, spot.line)
    place = "" if spot.line is None else f" on {spot.words}"
    yield Row(kind, shown(f"{who}{place}:"), spot.path, old, new, finding=finding)
    for line in body.splitlines() or [""]:
        for part in textwrap.wrap(shown(line), _REMARK_COLUMNS, drop_whitespace=False) or [""]:
            yield Row(kind, f"  {part}", spot.path, old, new, finding=finding)


_MOST_LINES = 400
_MOST_CHARACTERS = 40_000
_LONGEST_LINE = 500
"""Beyond these a hunk is shown in one colour: a lexer may take long for unusual content."""

_STYLES: dict[tuple[str, ...], str] = {
    Token.Comment: "italic dim",
    Token.Keyword: "magenta",
    Token.Literal.String: "yellow",
    Token.Literal.Number: "cyan",
    Token.Name.Function: "blue",
    Token.Name.Class: "blue",
    Token.Name.Decorator: "blue",
    Token.Name.Tag: "blue",
    Token.Name.Builtin: "cyan",
    Token.Name.Attribute: "cyan",
}
_SIGNS = {"added": "+", "deleted": "-"}
_NUMBERED = frozenset({"context", "added", "deleted"})
_SIDE_STEP = 8
_LONGEST_OPENED = 200_000


def _lexer_for(path: str) -> Lexer | None:
    """The lexer of a file's language, by its name; None where there is none."""
    try:
        return get_lexer_for_filename(path.rpartition("/")[2], stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _highlighted(rows: Sequence[Row], lexer: Lexer) -> dict[int, Text]:
    """The texts of a hunk's lines by their position in it; the two sides are read each as a whole."""
    if len(rows) > _MOST_LINES or sum(len(row.text) for row in rows) > _MOST_CHARACTERS:
        return {}
    if any(len(row.text) > _LONGEST_LINE for row in rows):
        return {}
    found: dict[int, Text] = {}
    for kinds in ({"context", "deleted"}, {"context", "added"}):
        positions = [position for position, row in enumerate(rows) if row.kind in kinds]
        texts = _lines([rows[position].text for position in positions], lexer)
        found.update(zip(positions, texts, strict=False))
    return found


def _lines(lines: Sequence[str], lexer: Lexer) -> list[Text]:
    texts = [Text(end="", no_wrap=True)]
    for kind, value in lexer.get_tokens("\n".join(lines)):
        style = _style(kind)
        for position, part in enumerate(value.split("\n")):
            if position:
                texts.append(Text(end="", no_wrap=True))
            texts[-1].append(part, style)
    # A lexer that loses or adds something must not change the content under review.
    same = len(texts) >= len(lines) and all(text.plain == line for text, line in zip(texts, lines, strict=False))
    return texts[: len(lines)] if same else []


def _style(kind: Any) -> str:
    # A kind of token is a tuple of names, from the general to the particular.
    for length in range(len(kind), 0, -1):
        if kind[:length] in _STYLES:
            return _STYLES[kind[:length]]
    return ""


class DiffView(ScrollView, can_focus=True):
    """Rows with a cursor on one of them.

    Attributes:
        rows: The rows that are shown.
    """

    COMPONENT_CLASSES: ClassVar[set[str]] = {
        f"diff--{part}" for part in ("file", "fact", "hunk", "context", "added", "deleted", "remark", "draft", "gutter")
    } | {"diff--cursor"}
    BINDINGS: ClassVar[list[BindingType]] = bindings("diff")
    cursor: reactive[int] = reactive(0)

    class Moved(Message):
        """The cursor is on another file."""

        def __init__(self, path: str) -> None:
            self.path = path
            super().__init__()

    def __init__(self, *, id: str) -> None:  # noqa: A002 - Textual's own name for it
        super().__init__(id=id)
        self.rows: Sequence[Row] = ()
        self._anchor: int | None = None
        self._hunks: dict[int, int] = {}
        self._coloured: dict[int, dict[int, Text]] = {}
        self._digits = 0
        self._path = ""
        self._sought = ""

    @property
    def row(self) -> Row | None:
        """The row under the cursor."""
        return self.rows[self.cursor] if self.cursor < len(self.rows) else None

    @property
    def _chosen(self) -> range:
        """The rows that are chosen, or the one under the cursor."""
        top, bottom = sorted((self.cursor, self.cursor if self._anchor is None else self._anchor))
        return range(top, bottom + 1)

    @property
    def spot(self) -> LineRef | None:
        """What a finding here is about: the chosen lines on the side of the last one, or the file."""
        if self._chosen.stop > len(self.rows) or not self.rows[self._chosen.stop - 1].path:
            return None
        *rows, last = (self.rows[at] for at in self._chosen)
        before = (one for row in rows if row.kind in _NUMBERED for one in row.spots if one.side == last.spot.side)
        numbers = [one.line for one in before if one.line is not None and one.line < (last.spot.line or 0)]
        return replace(last.spot, first=min(numbers, default=None))

    def lines_of(self, spot: LineRef) -> str:
        """The text of lines after the change; empty if not all of them are shown."""
        texts = {row.new: row.whole for row in self.rows if row.path == spot.path and row.kind in _NUMBERED}
        numbers = range(spot.first or spot.line or 0, (spot.line or 0) + 1)
        is_whole = spot.side == "new" and all(number in texts for number in numbers)
        return "\n".join(texts[number] for number in numbers).replace("\r", "") if is_whole else ""

    def show_rows(self, rows: Sequence[Row], *, keep_place: bool) -> None:
        """Show other rows.

        Args:
            rows: All of them.
            keep_place: Whether the cursor stays on its line, for rows that are nearly the same.
        """
        before = self.row
        self.rows, self._anchor = rows, None
        self._coloured.clear()
        self._hunks = {}
        for position, row in enumerate(rows):
            if row.hunk >= 0:
                self._hunks.setdefault(row.hunk, position)
        numbers = [number for row in rows for number in (row.old, row.new) if number is not None]
        self._digits = len(str(max(numbers, default=0)))
        width = max((cell_len(row.text) for row in rows), default=0)
        self.virtual_size = Size(self._gutter_width + width + 1, len(rows))
        self.cursor = _same_place(rows, before, self.cursor) if keep_place and before else 0
        self._follow()
        self.refresh()

    @property
    def _gutter_width(self) -> int:
        return 2 * self._digits + 4

    def jump_to_file(self, path: str) -> None:
        """Put the cursor on the head of a file."""
        self._move(next((at for at, row in enumerate(self.rows) if row.kind == "file" and row.path == path), None))

    def action_step(self, by: int) -> None:
        """Move the cursor by some lines."""
        self._move(self.cursor + by)

    def action_extend(self, by: int) -> None:
        """Choose one line more, or fewer; never of two files."""
        to, anchor = self.cursor + by, self.cursor if self._anchor is None else self._anchor
        if 0 <= to < len(self.rows) and self.rows[to].path == self.rows[anchor].path:
            self._move(to)
            self._anchor = anchor

    def next_line(self) -> None:
        """Move the cursor to the next line of the content."""
        after = range(self._chosen.stop, len(self.rows))
        self._move(next((at for at in after if self.rows[at].kind in _NUMBERED), None))

    def action_page(self, by: int) -> None:
        """Move the cursor by some pages."""
        self._move(self.cursor + by * max(1, self.scrollable_content_region.height - 1))

    def action_jump(self, to: int) -> None:
        """Move the cursor to the last line (1), or to the first one (-1)."""
        self._move(len(self.rows) - 1 if to > 0 else 0)

    def action_search(self) -> None:
        """Ask for a text, and go to the next line with it."""

        def ended(text: str | None) -> None:
            if text is not None:
                self._sought = text.lower()
                if text:
                    self._go_to_hit(text)

        host(self).push_screen(LineDialog("Search the change and its file names; empty for none", self._sought), ended)

    def action_seek_file(self, by: int) -> None:
        """Move the cursor to the next, or previous, file; while something is searched, to the line with it."""
        if not self._seek(by, self._is_sought()) and self._sought:
            self.notify(f"There is no further '{self._sought}'.", markup=False)

    def _go_to_hit(self, text: str) -> None:
        """Move the cursor to the next hit; if all are above it, as the first file's name is at first, to the first."""
        hits = [at for at, is_hit in enumerate(self._is_sought()) if is_hit]
        self._move(next((at for at in hits if at > self.cursor), hits[0] if hits else None))
        if not hits:
            self.notify(f"There is no '{text}' here.", markup=False)

    def _is_sought(self) -> list[bool]:
        """Of each row, whether it has the text that is searched; without one, whether it is the head of a file."""
        sought = self._sought
        return [sought in (row.whole or row.text).lower() if sought else row.kind == "file" for row in self.rows]

    def action_seek_change(self, by: int) -> None:
        """Move the cursor to the first line of the next, or previous, change."""
        is_change = [row.kind in _SIGNS for row in self.rows]
        self._seek(by, [one and not (at and is_change[at - 1]) for at, one in enumerate(is_change)])

    def seek_finding(self, by: int) -> bool:
        """Move the cursor to the next, or previous, finding; whether there is one."""
        named = [row.finding for row in self.rows]
        return self._seek(by, [bool(name) and (at == 0 or named[at - 1] != name) for at, name in enumerate(named)])

    def _seek(self, by: int, is_wanted: Sequence[bool]) -> bool:
        span = range(self.cursor + 1, len(self.rows)) if by > 0 else range(self.cursor - 1, -1, -1)
        found = next((at for at in span if is_wanted[at]), None)
        self._move(found)
        return found is not None

    def action_aside(self, by: int) -> None:
        """Scroll to the side."""
        self.scroll_to(x=max(0, self.scroll_offset.x + by * _SIDE_STEP), animate=False)

    def action_open(self) -> None:
        """Show all of the line, however long it is."""
        row = self.row
        if row is None:
            return
        text, place = row.whole or row.text, row.path if row.new is None and row.old is None else _named(row)
        left = len(text) - _LONGEST_OPENED
        rest = f"\n… {left:,} more characters: tandem review proposal REVIEW has them" if left > 0 else ""
        host(self).push_screen(TextDialog(visible(place), visible(text[:_LONGEST_OPENED]) + rest))

    def on_click(self, event: events.Click) -> None:
        """Put the cursor on the line that was clicked."""
        self._move(self.scroll_offset.y + event.y)

    def _move(self, to: int | None) -> None:
        if to is not None and self.rows:
            self._anchor = None
            self.cursor = max(0, min(to, len(self.rows) - 1))
            self._follow()

    def _follow(self) -> None:
        region = Region(self.scroll_offset.x, self.cursor, 1, 1)
        self.scroll_to_region(region, animate=False, force=True)
        self.refresh()
        path = self.row.path if self.row else ""
        if path != self._path:
            self._path = path
            self.post_message(self.Moved(path))

    def render_line(self, y: int) -> Strip:
        """One visible line."""
        width = self.size.width
        at = self.scroll_offset.y + y
        if at >= len(self.rows):
            return Strip.blank(width, self.rich_style)
        row = self.rows[at]
        style = self.get_component_rich_style(f"diff--{row.kind}")
        if at in self._chosen and self.has_focus:
            style += Style(bgcolor=self.get_component_rich_style("diff--cursor").bgcolor)
        line = Text(end="", no_wrap=True)
        line.append(self._gutter(row), self.get_component_rich_style("diff--gutter").without_color + Style(dim=True))
        line.append_text(self._text(at, row))
        parts = line.render(host(self).console)
        segments = [Segment(part.text, style + part.style if part.style else style) for part in parts]
        x = self.scroll_offset.x
        strip = Strip(segments)
        if strip.cell_length <= x + width:
            return strip.crop_extend(x, x + width, style)
        # Code must not hide beyond the edge: a line that goes on is marked.
        return Strip.join([strip.crop_extend(x, x + width - 1, style), Strip([Segment("→", style + Style(bold=True))])])

    def _gutter(self, row: Row) -> str:
        if row.kind not in _NUMBERED:
            return "" if row.kind in {"file", "hunk", "fact"} else " " * self._gutter_width
        old, new = ("" if number is None else str(number) for number in (row.old, row.new))
        return f"{old:>{self._digits}} {new:>{self._digits}} {_SIGNS.get(row.kind, ' ')} "

    def _text(self, at: int, row: Row) -> Text:
        if row.kind in _NUMBERED and row.hunk >= 0:
            found = self._hunk(row.hunk).get(at - self._hunks[row.hunk])
            if found is not None:
                return found
        return Text(row.text, end="", no_wrap=True)

    def _hunk(self, hunk: int) -> dict[int, Text]:
        if hunk not in self._coloured:
            first = self._hunks[hunk]
            end = first
            while end < len(self.rows) and self.rows[end].kind != "file" and self.rows[end].hunk in {hunk, -1}:
                end += 1
            lexer = _lexer_for(self.rows[first].path)
            self._coloured[hunk] = _highlighted(self.rows[first:end], lexer) if lexer else {}
        return self._coloured[hunk]


def _named(row: Row) -> str:
    return f"{row.path}, line {row.old} before" if row.new is None else f"{row.path}, line {row.new}"


def _same_place(rows: Sequence[Row], before: Row, at: int) -> int:
    nearest = sorted(range(len(rows)), key=lambda other: abs(other - at)) if len(rows) < at else ()
    for other in (*range(min(at, len(rows) - 1), -1, -1), *range(at, len(rows)), *nearest):
        if rows[other] == before:
            return other
    return min(at, max(0, len(rows) - 1))
