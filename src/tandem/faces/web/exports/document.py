"""A review as Markdown.

What agents and people wrote cannot break out of its place: prose stands in quotations, or in a fence when there is
HTML in it; single lines are escaped.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from markdown_it import MarkdownIt

from tandem.domain.unseen import spelled
from tandem.faces.web.diffs.markdown import is_too_much
from tandem.faces.web.exports.facts import facts, happened, said

_SPECIAL = re.compile(r"([\\`*_\[\]<>#|~&!])")
_TICKS = re.compile(r"`+")
_parser = MarkdownIt("commonmark").enable("table")


def markdown(proposal: dict[str, Any], discussion: dict[str, Any], timeline: dict[str, Any]) -> str:
    """The whole review.

    Args:
        proposal: As `get_proposal` answers it.
        discussion: As `get_discussion` answers it, with the entries of all its pages.
        timeline: As `get_review_timeline` answers it.
    """
    return "\n\n".join(_parts(proposal, discussion, timeline)) + "\n"


def _parts(proposal: dict[str, Any], discussion: dict[str, Any], timeline: dict[str, Any]) -> Iterator[str]:
    yield f"# {_line(str(proposal['intent']))}"
    yield _table(("", ""), [(f"**{name}**", _line(value)) for name, value in facts(proposal)])
    if proposal.get("description"):
        yield "## Description"
        yield _prose(str(proposal["description"]))
    files = proposal.get("affected_files") or ()
    if files:
        yield "## Files"
        yield _table(("File", "Change", "Added", "Removed"), [_file(file) for file in files])
    if proposal.get("diff"):
        yield "## Changes"
        yield _fence(str(proposal["diff"]), "diff")
    entries = said(discussion)
    if entries:
        yield "## Discussion"
    for entry in entries:
        yield f"### {_line(entry.title)}"
        if entry.remark:
            yield f"*{_line(entry.remark)}*"
        if entry.body:
            yield _prose(entry.body)
        if entry.diff:
            yield _fence(entry.diff, "diff")
    events = happened(timeline)
    if events:
        yield "## Timeline"
        yield _table(("At", "Who", "What"), [tuple(map(_line, event)) for event in events])


def _file(file: dict[str, Any]) -> tuple[str, ...]:
    came = f" (from {file['old_path']})" if file.get("old_path") else ""
    counts = ("–" if file.get(name) is None else str(file[name]) for name in ("added", "removed"))
    return _line(f"{file['path']}{came}"), _line(str(file.get("operation"))), *counts


def _table(heads: tuple[str, ...], rows: list[tuple[str, ...]]) -> str:
    lines = [heads, ("---",) * len(heads), *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _line(text: str) -> str:
    """A text as one line without meaning for Markdown."""
    return _SPECIAL.sub(r"\\\1", spelled(" ".join(text.split())))


def _prose(text: str) -> str:
    readable = spelled(text.replace("\r\n", "\n")).strip("\n")
    if is_too_much(readable) or _has_html(readable):
        return _fence(readable, "markdown")
    return "\n".join(f"> {line}" if line else ">" for line in readable.split("\n"))


def _has_html(text: str) -> bool:
    tokens = _parser.parse(text)
    return any(
        token.type == "html_block" or any(child.type == "html_inline" for child in token.children or ())
        for token in tokens
    )


def _fence(text: str, language: str) -> str:
    ticks = "`" * max(3, 1 + max((len(run) for run in _TICKS.findall(text)), default=0))
    return f"{ticks}{language}\n{text.removesuffix(chr(10))}\n{ticks}"
