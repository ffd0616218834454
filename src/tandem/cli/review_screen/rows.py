"""The lines of a change as they are shown: pure, and harmless whatever the change holds."""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Literal

from tandem.cli.review_screen.desk import Spot
from tandem.domain import hunks
from tandem.domain.answers import DiscussionEntry
from tandem.domain.hunks import FileDiff, Hunk, Line
from tandem.domain.unusual import LONGEST_SHOWN
from tandem.faces.web.diffs.words import common_start, pairs
from tandem.hooks.visible import visible_line

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
        kind: What it is.
        text: As it is shown; nothing in it can play tricks.
        path: The file that it belongs to, as the broker calls it.
        old: Its number before the change.
        new: Its number after the change.
        hunk: Tells its hunk from every other of the change.
        whole: The line as it is, if only a part of it is shown.
    """

    kind: Kind
    text: str
    path: str
    old: int | None = None
    new: int | None = None
    hunk: int = -1
    whole: str = ""

    @property
    def spot(self) -> Spot:
        """What a comment on this line is about; the file where there is no line after the change."""
        return Spot(self.path, self.new)


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


def of_diff(diff: str) -> list[Row]:
    """The rows of a unified diff; of a text that is none, its lines as they are."""
    files = hunks.parse(diff)
    if not files:
        return [Row("fact", shown(line), "") for line in diff.splitlines()]
    rows: list[Row] = []
    count = 0
    for file in files:
        rows += _head(file)
        for hunk in file.hunks:
            rows += _hunk(file.path, hunk, count)
            count += 1
        rows += [Row("fact", shown(line), file.path) for line in file.stray]
    return rows


def _head(file: FileDiff) -> Iterator[Row]:
    name = file.path if file.old_path in {None, file.path} else f"{file.old_path} → {file.path}"
    kind = "" if file.kind == "modified" else f"  {file.kind}"
    yield Row("file", f"{shown(name)}{kind}  +{file.added} −{file.deleted}", file.path)
    if file.old_mode != file.new_mode and file.old_mode and file.new_mode:
        yield Row("fact", f"mode {file.old_mode} → {file.new_mode}", file.path)
    if file.binary:
        yield Row("fact", "binary: its content cannot be shown as lines", file.path)


def _hunk(path: str, hunk: Hunk, number: int) -> Iterator[Row]:
    place = f"lines {hunk.new_first} to {hunk.new_first + hunk.new_count - 1}" if hunk.new_count else "deleted"
    yield Row("hunk", shown(f"{place}  {hunk.heading}".rstrip()), path, hunk=number)
    lines = list(hunk.walk())
    differing = _differing(lines)
    for at, line in enumerate(lines):
        text, start = line.text, differing.get(at, 0)
        whole = text if len(text) > LONGEST_SHOWN or start > _FAR else ""
        yield Row(line.kind, shown(text, start), path, line.old_number, line.new_number, number, whole)
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
    body = [
        Row("context", shown(line), path, new=number, hunk=0, whole=line if len(line) > LONGEST_SHOWN else "")
        for number, line in enumerate(lines, 1)
    ]
    return [Row("file", shown(path), path), *body]


def with_remarks(rows: Sequence[Row], said: Iterable[DiscussionEntry], drafts: Mapping[Spot, str]) -> list[Row]:
    """The rows with what was said about each beneath it; what is about no line that is there, beneath its file."""
    waiting: dict[Spot, list[Row]] = {}
    for entry in said:
        if entry.kind == "comment" and entry.file is not None:
            spot = Spot(entry.file, entry.line)
            settled = ", settled" if entry.resolved_by else ""
            waiting.setdefault(spot, []).extend(_remark("remark", spot, f"{entry.author}{settled}", entry.body or ""))
    for spot, body in drafts.items():
        waiting.setdefault(spot, []).extend(_remark("draft", spot, "not sent yet", body))
    if not waiting:
        return list(rows)
    there = {row.spot for row in rows if row.new is not None}
    return list(_placed(rows, _moved_to_files(waiting, there)))


def _moved_to_files(waiting: Mapping[Spot, list[Row]], there: set[Spot]) -> dict[Spot, list[Row]]:
    placed: dict[Spot, list[Row]] = {}
    for spot, rows in waiting.items():
        placed.setdefault(spot if spot in there else Spot(spot.path, None), []).extend(rows)
    return placed


def _placed(rows: Sequence[Row], waiting: dict[Spot, list[Row]]) -> Iterator[Row]:
    for row in rows:
        yield row
        if row.new is not None or row.kind == "file":
            yield from waiting.pop(row.spot, ())
    for left in waiting.values():
        yield from left


def _remark(kind: Literal["remark", "draft"], spot: Spot, who: str, body: str) -> Iterator[Row]:
    place = "" if spot.line is None else f" on line {spot.line}"
    yield Row(kind, shown(f"{who}{place}:"), spot.path, new=spot.line)
    for line in body.splitlines() or [""]:
        for part in textwrap.wrap(shown(line), _REMARK_COLUMNS, drop_whitespace=False) or [""]:
            yield Row(kind, f"  {part}", spot.path, new=spot.line)


def nothing(why: str) -> list[Row]:
    """A remark in place of rows."""
    return [Row("fact", why, "")]
