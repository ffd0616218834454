"""The page of a plan, report or other text: as a document with its contents, as written, and what changed in it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import orjson
from markdown_it.token import Token
from markupsafe import Markup

from tandem.core.texts import is_too_much_markdown
from tandem.git.hunks import FileDiff, Hunk
from tandem.reviews.answers import Proposal
from tandem.web.diffs.documents import compare
from tandem.web.diffs.markdown import markdown, parsed, rendered
from tandem.web.diffs.syntax import Budget
from tandem.web.diffs.views import outline
from tandem.web.diffs.views import view as painted_view
from tandem.web.page import PageRequest, in_worker
from tandem.web.rendering import as_text
from tandem.web.review.files import FilePart
from tandem.web.review.view import ReviewView

_TOP, _LEVEL = 2, 3
"""Of the first headings of a document, and of a description or difference on a page."""
_NAMELESS = "description.md"
_HIGHLIGHT_SECONDS = 0.1


@dataclass(frozen=True, slots=True)
class Section:
    """A heading and the text below it, up to the next one.

    Attributes:
        anchor: Its name within the page.
        level: Of the heading, from 1; 0 for the text before the first.
        title: The heading's text; empty for the text before the first.
        line: Where it begins in the text, from 1.
        html: All of it.
    """

    anchor: str
    level: int
    title: str
    line: int
    html: Markup


def document(text: str) -> list[Section]:
    """A text in Markdown, cut at its headings. Takes a while: call it in a thread."""
    if is_too_much_markdown(text):
        return [Section("s0", 0, "", 1, markdown(text, heading=_TOP))]
    tokens = parsed(text)
    starts = [at for at, token in enumerate(tokens) if token.type == "heading_open" and token.level == 0]
    borders = sorted({0, *starts, len(tokens)})
    pieces = [tokens[first:end] for first, end in pairwise(borders) if end > first]
    budget = Budget(_HIGHLIGHT_SECONDS)
    return [_section(index, piece, budget) for index, piece in enumerate(pieces)]


def _section(index: int, tokens: Sequence[Token], budget: Budget) -> Section:
    first = tokens[0]
    is_headed = first.type == "heading_open"
    return Section(
        anchor=f"s{index}",
        level=int(first.tag[1:]) if is_headed else 0,
        title=_text(tokens[1]) if is_headed else "",
        line=(first.map[0] if first.map else 0) + 1,
        html=rendered(tokens, _TOP, budget),
    )


def _text(inline: Token) -> str:
    return "".join(child.content for child in inline.children or [] if child.type in ("text", "code_inline"))


def as_lines(text: str, path: str) -> FileDiff:
    """A text as a file of which every line is shown, so that it can be read and commented on line by line."""
    lines = text.split("\n")
    if lines[-1] == "":
        lines.pop()
    hunks = (Hunk.unchanged(1, 1, lines),) if lines else ()
    return FileDiff(path, path, "modified", None, None, binary=False, hunks=hunks)


def payload(text: str) -> Mapping[str, Any]:
    """What a hand-off carries; empty if the text is no object of JSON."""
    value = _json(text)
    return cast("Mapping[str, Any]", value) if isinstance(value, dict) else {}


def _json(text: str) -> Any:
    """What a text in JSON says; None if it is something else."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError:
        return None


def laid_out(text: str) -> str:
    """A text for Markdown; if it is JSON, as a block of code with one value a line."""
    value = _json(text)
    return f"```json\n{as_text(value)}\n```" if type(value) in (dict, list) else text


def description_html(text: str | None) -> Markup | None:
    """A description as HTML: a document, or JSON with one value a line."""
    if not text or not text.strip():
        return None
    return markdown(laid_out(text), heading=_LEVEL)


async def text_values(request: PageRequest, view: ReviewView) -> dict[str, Any]:
    """The text as the page shows it: rendered, as written, or with the changes since an earlier round."""
    show = view.more.get("show") or ("rendered" if view.since is None else "changes")
    text = view.proposal.description or ""
    values: dict[str, Any] = {"show": show, "since": view.since or view.round - 1}
    if show == "changes" and view.round > 1:
        before: Proposal = await request.call(
            "get_proposal", review_id=view.review_id, round=view.since or view.round - 1
        )
        found = await in_worker(compare, before.description or "", text, heading=_LEVEL)
        only_markup = (before.description or "") != text and not (found.changed or found.added or found.deleted)
        return values | {"changes": found, "path_before": before.path, "only_markup": only_markup}
    if show == "source":
        return values | {"part": await in_worker(_source, view)}
    fields: Mapping[str, Any] = payload(text) if view.proposal.category == "handoff" else {}
    sections = await in_worker(document, "" if fields else laid_out(text))
    return values | {"show": "rendered", "payload": fields, "document": sections}


def source(view: ReviewView) -> FileDiff:
    """The text as a file, line by line; with an earlier round, what changed in its lines."""
    changed = outline(view.diff).files if view.since is not None else ()
    if changed and changed[0].hunks:
        return changed[0]
    return as_lines(view.proposal.description or "", view.proposal.path or _NAMELESS)


def _source(view: ReviewView) -> FilePart:
    file = source(view)
    is_change = any(hunk.added or hunk.deleted for hunk in file.hunks)
    return FilePart(file, view, 0, "shown", painted_view(file, 0, layout=view.mode if is_change else "unified"))
