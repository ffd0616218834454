"""Renderings of the log, of statistics, gates and projects."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from tandem.cli.render.answers import render
from tandem.cli.render.parts import ago, duration, facts, listing, more_pages, plain, state
from tandem.domain import answers

_COUNTS = ("submitted", "revised", "approved", "changes_requested", "rejected", "comments", "withdrawn")
_PERCENT = 100


@render.register
def _(answer: answers.Timeline) -> RenderableType:
    return _events(answer.events)


@render.register
def _(answer: answers.AuditPage) -> RenderableType:
    if not answer.events:
        return Text("No events.", style="dim")
    more = "More with" if answer.more else "Go on from here with"
    return Group(_events(answer.events), Text(f"{more} --cursor {answer.cursor}", style="dim"))


def _events(events: tuple[answers.EventView, ...]) -> Table:
    table = listing("seq", "when", "kind", "subject", "actor", "change", fixed=("seq", "when", "kind", "subject"))
    for event in events:
        change = f"{event.old or ''} → {event.new}" if event.new and event.new != event.old else ""
        table.add_row(
            str(event.seq or ""), ago(event.at), event.kind, plain(event.subject), plain(event.actor), plain(change)
        )
    return table


@render.register
def _(answer: answers.ActivityFeed) -> RenderableType:
    if not answer.entries:
        return Text("Nothing has happened yet.", style="dim")
    table = listing("id", "state", "intent", "last event", "by", "when", fixed=("id", "state", "last event", "when"))
    for entry in answer.entries:
        review, event = entry.review, entry.last_event
        table.add_row(
            review.review_id,
            state(review.status, review.outcome),
            plain(review.intent),
            event.kind,
            plain(event.actor),
            ago(event.at),
        )
    return Group(table, more_pages(answer.next_page))


@render.register
def _(answer: answers.Statistics) -> RenderableType:
    waiting = ", ".join(f"{count} {name}" for name, count in answer.open.items() if count) or "none"
    head = facts(
        [("project", answer.project or "all"), ("since", answer.since or "the beginning"), ("open now", waiting)]
    )
    table = listing("", *_COUNTS, "approval", "to claim", "to verdict", fixed=("",))
    _add_tally(table, "all", answer.total)
    for name, tally in answer.by_category.items():
        _add_tally(table, name, tally)
    for name, tally in answer.by_reviewer.items():
        _add_tally(table, f"by {name}", tally)
    return Group(head, table)


def _add_tally(table: Table, name: str, tally: answers.Tally) -> None:
    rate = "–" if tally.approval_rate is None else f"{tally.approval_rate * _PERCENT:.0f} %"
    table.add_row(
        plain(name),
        *(str(getattr(tally, count)) for count in _COUNTS),
        rate,
        duration(tally.mean_seconds_to_claim),
        duration(tally.mean_seconds_to_verdict),
    )


@render.register
def _(answer: answers.GateDecision) -> RenderableType:
    word = Text("allowed", style="bold green") if answer.allowed else Text("refused", style="bold red")
    table = Table.grid(padding=(0, 2))
    for path in answer.paths:
        by = f"{path.review_id} round {path.round}" if path.review_id else ""
        mark = Text(path.kind or "not approved", style="green" if path.allowed else "red")
        table.add_row(mark, plain(path.path), by, plain(path.reason, "dim"))
    return Group(Text.assemble(word, "  ", plain(answer.reason)), table)


@render.register
def _(answer: answers.ProjectView) -> RenderableType:
    return facts([("project", plain(answer.project, "bold")), ("folder", answer.root)])


@render.register
def _(answer: answers.ProjectList) -> RenderableType:
    if not answer.projects:
        return Text("No project is registered; in a repository: tandem project add", style="dim")
    table = listing("project", "folder", "registered", fixed=("project", "registered"))
    for project in answer.projects:
        table.add_row(plain(project.project), plain(project.root), ago(project.registered_at))
    return table


@render.register
def _(answer: answers.ProjectRemoved) -> RenderableType:
    return Text.assemble("removed  ", plain(answer.project, "bold"))
