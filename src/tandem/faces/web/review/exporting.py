"""A review as a file to keep or send: Markdown, a patch, or one HTML page."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from starlette.responses import Response

from tandem.errors import NotFound
from tandem.faces.web import exports
from tandem.faces.web.asking import Ask
from tandem.faces.web.review.view import ReviewView, load
from tandem.faces.web.routes import PageRoute
from tandem.faces.web.workers import in_worker


def _markdown(view: ReviewView) -> str:
    return exports.markdown(dict(view.proposal), _said(view), _happened(view))


def _patch(view: ReviewView) -> bytes:
    return exports.patch(dict(view.proposal))


def _page(view: ReviewView) -> str:
    return exports.page(dict(view.proposal), _said(view), _happened(view))


def _said(view: ReviewView) -> dict[str, object]:
    return {"entries": list(view.discussion)}


def _happened(view: ReviewView) -> dict[str, object]:
    return {"events": list(view.timeline)}


Kind = Literal["md", "patch", "html"]

_KINDS: dict[str, tuple[Kind, Callable[[ReviewView], str | bytes], str]] = {
    "md": ("md", _markdown, "text/markdown; charset=utf-8"),
    "patch": ("patch", _patch, "text/x-diff; charset=utf-8"),
    "html": ("html", _page, "text/html; charset=utf-8"),
}


async def export(ask: Ask) -> Response:
    """The file; never opened as a page of ours, because it is an attachment.

    Raises:
        NotFound: There is no such kind of file.
        InvalidInput: A patch was asked for, and the review has no diff.
    """
    found = _KINDS.get(ask.path("kind"))
    if found is None:
        raise NotFound(f"A review is exported as {', '.join(_KINDS)}.", kind=ask.path("kind")[:20])
    kind, make, media_type = found
    view = await load(ask, ask.path("review_id"))
    body = await in_worker(make, view)
    name = exports.file_name(dict(view.proposal), kind)
    headers = {"content-disposition": f'attachment; filename="{name}"', "cache-control": "no-store"}
    return Response(body, media_type=media_type, headers=headers)


ROUTES = (PageRoute("/reviews/{review_id}/export.{kind}", export),)
