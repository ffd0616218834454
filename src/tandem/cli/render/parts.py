"""The parts that renderings are made of."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, cast

from tandem.core.visible import visible, visible_line
from tandem.present.text import Column, Group, Table, Text, Whole

if TYPE_CHECKING:
    from tandem.git.changes import AffectedFile
    from tandem.present.text import Drawable
    from tandem.reviews.answers import ReviewRow

STATUS_STYLES = {
    "pending": "yellow",
    "claimed": "cyan",
    "in_review": "cyan",
    "changes_requested": "magenta",
    "approved": "green",
    "rejected": "red",
    "closed": "dim",
}
_PRIORITY_STYLES = {"critical": "bold red", "low": "dim"}
_MINUTE_SECONDS = 60
_HOUR_SECONDS = 3600
_DAY_SECONDS = 86_400
_WEEK_SECONDS = 7 * _DAY_SECONDS
_DIGEST_LENGTH = 12
Cell = str | Text | None


def plain(value: object, style: str = "") -> Text:
    """A value by others as one line, harmless; nothing for null."""
    return Text("" if value is None else visible_line(str(value)), style=style)


def cut(value: str) -> Text:
    """A text by others as one line that ends where its column does."""
    return Text(visible_line(value), is_cut=True)


def block(value: object, style: str = "") -> Text:
    """A text by others that may have several lines and tabs, harmless, for a place that is indented or framed."""
    return Text("" if value is None else visible(str(value)), style=style)


def state(status: str, outcome: str | None = None) -> Text:
    """A review's state in its colour."""
    text = Text(status, style=STATUS_STYLES.get(status, ""))
    return text.append(f" ({outcome})") if outcome else text


def digest(value: str | None) -> str:
    """Enough of a digest to tell it from others."""
    if value is None:
        return "none"
    return value if ":" in value else value[:_DIGEST_LENGTH]


def ago(at: str | None, *, now: datetime | None = None) -> str:
    """How long ago, or in how long, a moment is: `3 min ago`, `in 20 min`; the date when that is far off."""
    if at is None:
        return ""
    moment = datetime.fromisoformat(at)
    seconds = ((now or datetime.now(tz=UTC)) - moment).total_seconds()
    if abs(seconds) >= _WEEK_SECONDS:
        return moment.astimezone().strftime("%Y-%m-%d")
    length = duration(abs(seconds))
    return f"{length} ago" if seconds >= 0 else f"in {length}"


def review_cells(row: ReviewRow) -> tuple[str | Text, ...]:
    """What every list says of a review: id, state, priority, project, intent and by whom."""
    shown = state(row.status, row.outcome), Text(row.priority, style=_PRIORITY_STYLES.get(row.priority, ""))
    return row.review_id, *shown, row.project, cut(row.intent), row.proposer_id


def duration(seconds: float | None) -> str:
    """A span of time in its one fitting unit."""
    if seconds is None:
        return "–"
    if seconds < _MINUTE_SECONDS:
        return f"{seconds:.0f} s"
    if seconds < _HOUR_SECONDS:
        return f"{seconds // _MINUTE_SECONDS:.0f} min"
    if seconds < _DAY_SECONDS:
        return f"{seconds // _HOUR_SECONDS:.0f} h"
    return f"{seconds // _DAY_SECONDS:.0f} d"


def facts(rows: Iterable[tuple[str, object]]) -> Table:
    """Names and values, one pair a line; pairs without a value are left out."""
    table = Table([Column(style="dim", is_whole=True), Column()])
    for name, value in rows:
        if value is not None and str(value) != "":
            table.add(name, value if isinstance(value, Text) else plain(value))
    return table


def fields(answer: Any) -> Drawable:
    """Any record: its values, and below them a table for each of its lists of records."""
    rows = list(_flat("", answer))
    shown: list[Drawable] = [facts((name, _worded(value)) for name, value in rows if not _is_table(value))]
    for name, records in rows:
        if _is_table(records):
            columns = list(dict.fromkeys(column for record in records for column in record))
            cells = ([_worded(record.get(column)) for column in columns] for record in records)
            shown += [Text(f"\n{name}"), listing(", ".join(column.replace("_", " ") for column in columns), cells)]
    return Group(*shown)


def _flat(name: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The values in a record and in the records within it, each with the way there for its name."""
    if not isinstance(value, dict):
        yield name, value
        return
    for key, inner in cast("dict[str, Any]", value).items():
        yield from _flat(f"{name} {key}".strip().replace("_", " "), inner)


def _is_table(value: Any) -> bool:
    return isinstance(value, list | tuple) and any(isinstance(one, dict) for one in cast("list[Any]", value))


def _worded(value: Any) -> Text | None:
    """A value in words; None for one that says nothing."""
    if value is None or value in ("", ()):
        return None
    if isinstance(value, bool):
        return Text("yes" if value else "no")
    if isinstance(value, list | tuple) and not _is_table(value):
        return block(", ".join(map(str, cast("list[Any]", value))))
    return block(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def copied(rows: Iterable[tuple[str, str | None]], *remarks: str) -> Whole:
    """Names and values as `facts` has them, for values that are to be copied: none is ever broken."""
    given = [(name, value) for name, value in rows if value]
    width = max((len(name) for name, _ in given), default=0)
    lines = [Text.assemble((f"{name:<{width}}  ", "dim"), plain(value)) for name, value in given]
    return Whole(*lines, *(Text(remark, style="dim") for remark in remarks))


def listing(columns: str, rows: Iterable[Iterable[Cell]]) -> Table:
    """A table for a list.

    Args:
        columns: Their names, with commas between; one with a ! behind it never breaks, so that it can be copied.
        rows: The cells of each row; a text without a style is one by others.
    """
    named = (Column(name.rstrip("!"), is_whole=name.endswith("!")) for name in columns.split(", "))
    table = Table(named, has_head=True)
    for row in rows:
        table.add(*(plain(cell) if isinstance(cell, str) else cell for cell in row))
    return table


def page(columns: str, rows: Iterable[Iterable[Cell]], next_page: str | None = None, *, empty: str) -> Drawable:
    """A page of a list and how it goes on; `empty` is said where there is nothing."""
    found = list(rows)
    return Group(listing(columns, found), more_pages(next_page)) if found else Text(empty, style="dim")


def more_pages(next_page: str | None) -> Drawable:
    """How a list goes on; nothing at all behind its last page."""
    return Text(f"More with --page {next_page}", style="dim") if next_page else Group()


def files(affected: tuple[AffectedFile, ...]) -> Table:
    """The files of a change with their counts of lines."""
    table = Table([Column(), Column(), Column()], pad=1)
    for file in affected:
        counts = Text("binary", style="dim") if file.added is None else Text(f"+{file.added}", style="green")
        if file.added is not None:
            counts.append(f" -{file.removed}", style="red")
        names = file.path if file.old_path is None else f"{file.old_path} → {file.path}"
        table.add(Text(f"  {file.operation}", style="dim"), plain(names), counts)
    return table


def diff(content: str) -> Text:
    """A unified diff; coloured where the console can."""
    text = Text()
    for line in content.splitlines(keepends=True):
        text.append(visible(line), style=_diff_style(line))
    return text


def _diff_style(line: str) -> str:
    if line.startswith(("diff --git", "index ", "--- ", "+++ ", "similarity ", "rename ", "new file", "deleted file")):
        return "bold"
    if line.startswith("@@"):
        return "cyan"
    return {"+": "green", "-": "red"}.get(line[:1], "")
