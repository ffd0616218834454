"""The parts that renderings are made of."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar

from tandem.cli import terminal
from tandem.core.visible import visible, visible_line
from tandem.present.facts import Fact, brief, details, duration, shape, worded
from tandem.present.facts import facts as shown_facts
from tandem.present.facts import table as fact_table
from tandem.present.shape import NEVER_BROKEN
from tandem.present.text import Column, Group, Table, Text, Whole

if TYPE_CHECKING:
    from tandem.git.changes import AffectedFile
    from tandem.present.text import Drawable

STYLES = {
    **dict.fromkeys(("active", "advanced", "approved", "passed", "running"), "green"),
    **dict.fromkeys(("doubtful", "draining", "paused", "pending", "queued", "rate_limited"), "yellow"),
    **dict.fromkeys(("claimed", "in_review"), "cyan"),
    **dict.fromkeys(("circuit_open", "critical", "error", "failed", "lost", "timeout"), "bold red"),
    **dict.fromkeys(("closed", "ended", "low", "skipped", "superseded", "terminated", "withdrawn"), "dim"),
    "changes_requested": "magenta",
    "rejected": "red",
}
"""How the states of all subjects are coloured."""
COLUMNS = {
    "ReviewRow": "review_id status outcome priority? project? intent work owed proposer_id turn updated_at",
    "FoundReview": "review_id status outcome priority? project? intent work owed proposer_id files created_at",
    "FeedEntry": "review.review_id review.status review.outcome review.intent review.work last_event.kind"
    " last_event.actor last_event.at",
    "EventView": "seq at kind subject actor old new",
    "RoundRow": "round origin author accepted_by created_at decision",
    "CycleRow": "cycle_id feature phase active_role handoffs workflow project created_at archived_at",
    "WorkflowView": "name roles mode",
    "HandoffView": "number producer phase target next_phase status written_at advanced_at review_id round",
    "ReviewerView": "reviewer_id project state drain_reason review_id doing last_output_at spawned_at reviews_completed"
    " approval_rate mean_review_seconds outcomes cost_usd",
    "SettingView": "name value origin ignored",
    "Tally": "submitted revised approved changes_requested rejected comments withdrawn approval_rate mean_rounds"
    " mean_seconds_to_claim mean_seconds_to_verdict cost_usd cost_per_verdict_usd",
    "PoolView": "supervisor_id state active max_pool_size spent_today_usd tokens_today provider model mode host"
    " last_seen_at",
}
"""The columns of a table by the type of its rows, where that has more fields than there is room for.

A `?` marks a column that is left out where all rows say the same.
"""
_WEEK_SECONDS = 7 * 86_400
_LEAST_OF_DETAILS = 40
_OF_SEVERAL_LINES = frozenset({"text", "block", "words", "json"})
Cell = str | Text | None

RENDERINGS: dict[str, Callable[..., Drawable]] = {}
"""What renders the answers of a type, by the type's name."""

F = TypeVar("F", bound="Callable[..., Drawable]")


def renders(function: F) -> F:
    """Have a function render the answers of the type that its first parameter names, which is not imported."""
    for kind in str(next(iter(function.__annotations__.values()))).split(" | "):
        RENDERINGS[kind.partition("[")[0].rpartition(".")[2]] = function
    return function


def plain(value: object, style: str = "") -> Text:
    """A value by others as one line, harmless; nothing for None."""
    return Text("" if value is None else visible_line(str(value)), style=style)


def block(value: object) -> Text:
    """A text by others that may have several lines and tabs, harmless, for a place that is indented or framed."""
    return Text("" if value is None else visible(str(value)))


def state(status: str, outcome: str | None = None) -> Text:
    """A review's state in its colour."""
    text = Text(status, style=STYLES.get(status, ""))
    return text.append(f" ({outcome})") if outcome else text


def digest(value: str | None) -> str:
    """Enough of a digest to tell it from others."""
    return "none" if value is None else brief(value)


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


def clock(at: str) -> str:
    """A moment of these hours, as the clock on the wall has it."""
    return datetime.fromisoformat(at).astimezone().strftime("%H:%M")


def facts(rows: Iterable[tuple[str, object]]) -> Table:
    """Names and values, one pair a line; pairs without a value are left out."""
    table = Table([Column(is_whole=True), Column()])
    for name, value in rows:
        if value is not None and str(value) != "":
            table.add(plain(name, "dim"), value if isinstance(value, Text) else plain(value))
    return table


def fields(kind: str, answer: Any, *more: tuple[str, object]) -> Drawable:
    """Any answer: its facts by their labels and kinds, and below them its lists, files and diffs.

    Args:
        kind: The name of its type.
        answer: Its data, as a record.
        more: Further names and values.
    """
    found = shown_facts(kind, answer)
    plain_facts = [(fact.label, shown(fact.kind, fact.value)) for fact in found if fact.kind not in _BELOW]
    tables = sum(fact.kind == "table" for fact in found)
    shown_parts: list[Drawable] = [facts([*plain_facts, *more])]
    for fact in found:
        if fact.kind == "table" and (plain_facts or tables > 1):
            shown_parts.append(Text(f"\n{fact.label}"))
        if fact.kind in _BELOW:
            shown_parts.append(_BELOW[fact.kind](fact))
    empty = [one.empty for one in shape(kind, [answer]) if one.kind == "table" and not getattr(answer, one.name, None)]
    shown_parts += [Text(words, style="dim") for words in empty if words]
    return Group(*shown_parts, more_pages(getattr(answer, "next_page", None)))


def shown(kind: str, value: Any) -> Text:
    """One value for a terminal; texts may have several lines."""
    return block(worded(kind, value)) if kind in _OF_SEVERAL_LINES else _in_line(kind, value)


def _in_line(kind: str, value: Any) -> Text:
    if kind == "time":
        return Text(ago(value))
    if kind == "step":
        return plain(terminal.in_commands(value, whole=True))
    words = visible_line(worded(kind, value))
    return Text(words, STYLES.get(words, "") if kind in {"state", "text"} else "")


def table(kind: str, rows: Sequence[Any], names: Sequence[str] = ()) -> Drawable:
    """Rows of a type, in the columns that `COLUMNS` names; else in those of all its fields that have room.

    Where none has room, the rows are one below the other. The last column has the details of each row, as facts with
    their names; the first one the rows' names, if any.
    """
    columns, cells = fact_table(kind, rows, [*_columns(COLUMNS[kind], rows)] if kind in COLUMNS else None)
    heads = [Column(one.label, is_whole=one.kind in NEVER_BROKEN) for one in columns]
    told = [field.name for field in shape(kind, rows) if field.kind == "details"]
    if not heads and not told:
        return Group(*(fields(kind, row) for row in rows))
    heads[:0] = [Column(is_whole=True)] if names else []
    drawn = Table([*heads, *(Column(least=_LEAST_OF_DETAILS) for _ in told)], has_head=True)
    for at, (row, record) in enumerate(zip(cells, rows, strict=True)):
        drawn.add(
            *map(plain, names[at : at + 1]), *map(_cell, row), *(_details(getattr(record, name)) for name in told)
        )
    return drawn


def _details(data: Any) -> Text:
    text = Text()
    for fact in details(data):
        text.append("  " if text else "").append(visible_line(f"{fact.label} "), "dim")
        text.append(_in_line(fact.kind, fact.value))
    return text


def _columns(names: str, rows: Sequence[Any]) -> Iterator[str]:
    for name in names.split():
        own = name.rstrip("?")
        if own == name or len({getattr(row, own) for row in rows}) > 1:
            yield own


def _cell(fact: Fact) -> Text | None:
    kind, value = fact.kind, fact.value
    if value is None:
        return None
    cell = _in_line(kind, brief(value) if kind == "id" else value)
    # They may be long, and end where their column does.
    cell.is_cut = fact.field.name in {"intent", "work", "owed"}
    return cell


_BELOW: dict[str, Callable[[Fact], Drawable]] = {
    "table": lambda fact: table(fact.field.inner, fact.value),
    "files": lambda fact: files(fact.value),
    "diff": lambda fact: diff(fact.value),
    "copied": lambda fact: copied([(fact.label, fact.value)]),
}


def copied(rows: Iterable[tuple[str, str | None]], *remarks: str) -> Whole:
    """Names and values as `facts` has them, for values that people copy: none is ever broken."""
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
