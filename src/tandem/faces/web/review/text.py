"""What the page of a plan, report or other text is given."""

from __future__ import annotations

from typing import Any

from tandem.domain.hunks import FileDiff
from tandem.faces.web.asking import Ask
from tandem.faces.web.diffs.documents import compare
from tandem.faces.web.diffs.views import view as painted_view
from tandem.faces.web.review.about import metadata
from tandem.faces.web.review.document import as_lines, document, payload, pretty_json
from tandem.faces.web.review.files import FilePart, change
from tandem.faces.web.review.view import ReviewView
from tandem.faces.web.workers import in_worker

_LEVEL = 3
_NAMELESS = "description.md"


async def text_values(ask: Ask, view: ReviewView) -> dict[str, Any]:
    """The text as it is to be shown: rendered, as written, or with what changed since an earlier round."""
    show = view.more.get("show") or ("rendered" if view.since is None else "changes")
    text = view.proposal["description"] or ""
    values: dict[str, Any] = {
        "show": show,
        "since": view.since or view.round - 1,
        "metadata": metadata(view.proposal["metadata"]),
    }
    if show == "changes" and view.round > 1:
        before = await ask.call("get_proposal", review_id=view.review_id, round=view.since or view.round - 1)
        return values | {"changes": await in_worker(compare, before["description"] or "", text, heading=_LEVEL)}
    if show == "source":
        return values | {"part": await in_worker(_source, view)}
    fields = payload(text) if view.proposal["category"] == "handoff" else ()
    laid_out = "" if fields else _laid_out(text)
    return values | {"show": "rendered", "payload": fields, "document": await in_worker(document, laid_out)}


def _laid_out(text: str) -> str:
    laid_out = pretty_json(text)
    return f"```json\n{laid_out}\n```\n" if laid_out else text


def source(view: ReviewView) -> FileDiff:
    """The text as a file, line by line; with an earlier round, what changed in its lines."""
    changed = change(view).files if view.since is not None else ()
    return changed[0] if changed else as_lines(view.proposal["description"] or "", view.proposal["path"] or _NAMELESS)


def _source(view: ReviewView) -> FilePart:
    file = source(view)
    is_change = any(hunk.added or hunk.deleted for hunk in file.hunks)
    return FilePart(view, 0, file, "shown", painted_view(file, 0, layout=view.mode if is_change else "unified"))
