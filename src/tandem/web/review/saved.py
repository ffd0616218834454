"""`/reviews/{review_id}/drafts`: what the person has written there and not sent, for the page's script."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Any, cast

import orjson
from starlette.responses import Response

from tandem.errors import TandemError
from tandem.reviews.page_contract import Draft, DraftPage
from tandem.server.asgi.calls import parse_json
from tandem.web.page import PageRequest, PageRoute

_TEXTS = ("kind", "body", "file", "side", "severity", "category", "failure", "suggestion")
_NUMBERS = ("round", "line", "end_line")
_CONTENT = ("body", "severity", "category", "failure", "suggestion", "line", "end_line")


async def listed(request: PageRequest) -> Response:
    """All drafts of the person on the review, as JSON."""
    return _json({"drafts": await _all(request) if request.person.known else []})


def _json(found: dict[str, Any]) -> Response:
    return Response(orjson.dumps(found), media_type="application/json", headers={"cache-control": "no-store"})


async def _all(request: PageRequest) -> list[Draft]:
    asked: dict[str, Any] = {"review_id": request.path("review_id"), "person": request.person.name}
    page: DraftPage = await request.call("list_drafts", **asked)
    found = [*page.drafts]
    while page.next_page is not None:
        page = await request.call("list_drafts", **asked, page=page.next_page)
        found += page.drafts
    return found


async def keep(request: PageRequest) -> Response:
    """Save a draft as it is now, or discard it; answers with the draft as it is kept, or with none.

    Raises:
        NotFound: There is no such review or round, or its contents were removed.
        TooLarge: The text is too long, or they are too many.
    """
    review_id, person = request.path("review_id"), request.person.name
    draft_id, expected = request.form.get("draft_id", ""), request.form.get("expected")
    if request.form.get("do") == "discard":
        asked: dict[str, Any] = {"review_id": review_id, "person": person, "draft_ids": [draft_id]}
        await request.call("discard_draft", **asked, expected=expected)
        return _json({"draft": None})
    written: dict[str, Any] = {name: request.form.get(name) for name in _TEXTS}
    written |= {name: request.number(name) for name in _NUMBERS}
    written |= {"pre_existing": request.form.get("pre_existing") == "true", "expected": expected}
    written |= {"review_id": review_id, "person": person, "draft_id": draft_id}
    return _json({"draft": await request.call("save_draft", **written)})


async def sent(request: PageRequest) -> None:
    """Discard the drafts that a form has taken along, once it was done; one that stays is shown, and lost is none.

    Words that another window has written meanwhile were not sent, and stay.
    """
    taken: dict[str, list[str]] = {}
    for name, texts in zip(request.lists.get("draft_id", ()), request.lists.get("draft_texts", ()), strict=False):
        taken.setdefault(name, []).append(texts)
    if taken:
        with suppress(TandemError):
            found = await _all(request)
            done = [one for one in found if any(_has(text, one) for text in taken.get(one.draft_id, ()))]
            if done:
                await request.call(
                    "discard_draft",
                    review_id=request.path("review_id"),
                    person=request.person.name,
                    draft_ids=[one.draft_id for one in done],
                    expected=max(one.updated_at for one in done),
                )


async def unseen(request: PageRequest) -> list[Draft]:
    """The person's drafts on the review that the form's window did not show, or showed before they were changed."""
    shown = _shown(request)
    return [one for one in await _all(request) if not {one.updated_at, _content(one)} & {*shown.get(one.draft_id, ())}]


def shown_with(request: PageRequest, more: Sequence[Draft]) -> str:
    """What the form's window showed before, and shows now, for its next try."""
    return orjson.dumps(_shown(request) | {one.draft_id: [one.updated_at] for one in more}).decode()


def _shown(request: PageRequest) -> dict[str, list[str]]:
    """By drafts, their versions that the window showed: when each was saved, or its content while it is being saved."""
    try:
        found = parse_json((request.form.get("shown") or "{}").encode())
    except orjson.JSONDecodeError:
        return {}
    given = cast("dict[str, Any]", found) if isinstance(found, dict) else {}
    return {name: [str(one) for one in cast("list[Any]", of)] for name, of in given.items() if isinstance(of, list)}


def _content(draft: Draft) -> str:
    """As the page's script writes it, in `contentOf`."""
    return orjson.dumps([str(getattr(draft, name) or "") for name in _CONTENT]).decode()


def _has(texts: str, draft: Draft) -> bool:
    """Whether texts that were sent have all that a draft says."""
    try:
        given = parse_json(texts.encode())
    except orjson.JSONDecodeError:
        return False
    own = (draft.body, draft.failure or "", draft.suggestion or "", draft.category or "")
    return isinstance(given, list) and all(
        text.strip() in str(there) for text, there in zip(own, cast("list[Any]", given), strict=False)
    )


ROUTES = (PageRoute("/reviews/{review_id}/drafts", listed, keep, inbox_rows=0),)
