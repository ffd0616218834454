"""Renderings of the inbox, of searches and of marks on files."""

from __future__ import annotations

from rich.console import Group, RenderableType
from rich.text import Text

from tandem.cli.render import parts
from tandem.cli.render.answers import render
from tandem.cli.render.parts import ago, listing, more_pages, plain
from tandem.domain import inbox_answers as answers


@render.register
def _(answer: answers.Inbox) -> RenderableType:
    trays = (
        ("Your turn", "bold green", answer.your_turn, answer.counts.your_turn),
        ("Waiting on others", "bold", answer.waiting, answer.counts.waiting),
        ("Problems", "bold red", answer.problems, answer.counts.problems),
    )
    shown = [_tray(name, style, items, count) for name, style, items, count in trays if items]
    return Group(*shown) if shown else Text("Nothing waits for anybody.", style="dim")


def _tray(name: str, style: str, items: tuple[answers.InboxItem, ...], count: int) -> RenderableType:
    number = f"{len(items)}+" if count > len(items) else str(count)
    table = listing("id", "why", "what", "who", "for", fixed=("id", "for"))
    for item in items:
        table.add_row(_id(item), answers.WHY.get(item.why, item.why), _what(item), plain(item.who), ago(item.since))
    return Group(Text.assemble((f"{name} ", style), (number, "dim")), table)


def _id(item: answers.InboxItem) -> str:
    if item.review is not None:
        return item.review.review_id
    return item.pool.supervisor_id if item.pool is not None else ""


def _what(item: answers.InboxItem) -> Text:
    about = plain(item.review.intent if item.review is not None else "")
    if item.detail:
        about.append("\n" if about.plain else "").append_text(plain(item.detail, "dim"))
    return about


@render.register
def _(answer: answers.SearchPage) -> RenderableType:
    shown: list[RenderableType] = []
    if answer.reviews:
        columns = ("id", "state", "priority", "project", "intent", "by", "files", "age")
        table = listing(*columns, fixed=("id", "state", "files", "age"))
        for row in answer.reviews:
            table.add_row(*parts.review_cells(row), str(row.files), ago(row.created_at))
        shown.append(table)
    else:
        shown.append(Text("Found nothing.", style="dim"))
    if answer.searched_back_to is not None:
        shown.append(Text(f"Searched back to {ago(answer.searched_back_to)}.", style="dim"))
    shown.append(more_pages(answer.next_page))
    return Group(*shown)


@render.register
def _(answer: answers.ViewedFiles) -> RenderableType:
    if not answer.paths:
        return Text("No file of this round is marked as viewed.", style="dim")
    return Group(*(plain(path) for path in answer.paths))
