"""`/`: what waits for the person, and for others. `/queue`: all reviews, searched; several can be closed at once."""

from __future__ import annotations

from contextlib import suppress
from typing import Any
from zlib import crc32

from starlette.responses import Response

from tandem.errors import InvalidInput, InvalidTransition, TandemError
from tandem.inbox.contract import Inbox
from tandem.present import inbox
from tandem.present.words import PRIORITIES
from tandem.projects.contract import ProjectList
from tandem.reviews.page_contract import SearchPage
from tandem.reviews.tally_contract import Statistics
from tandem.web import login
from tandem.web.page import PageRequest, PageResponse, PageRoute, address, back, see

_QUEUE = "/queue"
_ROWS = 50
_MOST_CLOSED = 200
_ALL = "all"
_STATES = ("pending", "claimed", "in_review", "changes_requested", "approved", "rejected", "closed")
_CHOICES = {
    "category": ("code_change", "plan_review", "verification", "handoff"),
    "priority": PRIORITIES,
    "turn": ("proposer", "reviewer"),
}
_SORTS = {
    "queue": "Queue order",
    "newest": "Newest first",
    "oldest": "Oldest first",
    "updated": "Latest activity first",
}
_TEXTS = {"text": "Words", "path": "Path", "project": "Project", "proposer": "Proposer", "reviewer": "Reviewer"}


async def close(request: PageRequest) -> PageResponse:
    """Close every review that was ticked, each by itself, and tell the outcome of each."""
    chosen = request.lists.get("review_id", [])
    if not chosen or len(chosen) > _MOST_CLOSED:
        problem = InvalidInput(f"Tick the reviews to close first, at most {_MOST_CLOSED}.", field="review_id")
        return await show(request, problem=problem)
    closed: list[str] = []
    refused: list[TandemError] = []
    for review_id in dict.fromkeys(chosen):
        try:
            await request.call("close_review", review_id=review_id, reason=request.form.get("reason") or None)
        except TandemError as error:
            refused.append(error)
        else:
            closed.append(review_id)
    return await show(request, closed=closed, refused=refused)


async def show(
    request: PageRequest,
    *,
    problem: TandemError | None = None,
    closed: list[str] | None = None,
    refused: list[TandemError] | None = None,
) -> PageResponse:
    """A page of the queue, also as the answer to a form."""
    state = request.query("status") or _STATES[0]
    filters = {name: request.query(name) for name in (*_TEXTS, *_CHOICES, "sort")}
    found = SearchPage(reviews=(), next_page=None, searched_back_to=None, cursor="")
    try:
        asked = {"status": None if state == _ALL else state, "page": request.query("page"), "limit": _ROWS}
        found = await request.call("search_reviews", **asked, **filters)
    except InvalidInput as error:
        # The search stays in its fields, to be corrected there.
        problem = problem or error
    counts: Statistics = await request.call("get_review_stats", project=filters["project"])
    projects: ProjectList = await request.call("list_projects")
    names = (*_STATES, _ALL)
    values = {
        "reviews": found.reviews,
        "searched_back_to": found.searched_back_to,
        "state": state,
        "tabs": [(name, address(_QUEUE, status=name, **filters), counts.open.get(name)) for name in names],
        "filters": filters,
        "texts": _TEXTS,
        "choices": _CHOICES,
        "sorts": _SORTS,
        "projects": [one.project for one in projects.projects],
        "next_address": address(_QUEUE, status=state, **filters, page=found.next_page) if found.next_page else None,
        "here": address(_QUEUE, status=state, **filters, page=request.query("page")),
        "is_filtered": any(filters.values()),
        "problem": problem,
        "closed": closed or [],
        "refused": refused or [],
        "reason": request.form.get("reason", "") if problem or refused else "",
    }
    failed = problem or (refused[0] if refused and not closed else None)
    return PageResponse("queue.html", values, status=failed.status if failed else 200)


_INBOX_ROWS = 100
_ACTIONS = {
    **dict.fromkeys(("review", "attention", "owed"), "Review"),
    **dict.fromkeys(("decide", "escalate"), "Decide"),
    "approve": "Review",
    "verdict": "Give a verdict",
    "answer": "Answer",
}
"""What a person does about a review, by why it is there; else they open it."""


async def show_inbox(request: PageRequest) -> PageResponse | Response:
    """The inbox; first the name is asked, because what waits depends on for whom."""
    found, project = request.inbox, request.query("project")
    if found is None:
        return see(login.YOU)
    if project:  # the navigation counts all projects
        found = await request.call("get_inbox", person=request.person.name, project=project, limit=_INBOX_ROWS)
    sections = inbox.sections(found)
    values = {
        "sections": sections,
        "begin": () if any(one.items for one in sections) else inbox.TO_BEGIN,
        "said": inbox.said,
        "pauses": inbox.PAUSED,
        "limit": _INBOX_ROWS,
        "actions": _ACTIONS,
        "here": address("/", project=project),
        "have": request.have or (),
        "mark_of": _mark_of,
    }
    return PageResponse("inbox.html", values)


def _mark_of(*shown: object) -> str:
    """What tells a row from the same row with other contents."""
    return f"{crc32(repr(shown).encode()):08x}"


async def seen(request: PageRequest) -> Response:
    """Take an override out of the person's inbox."""
    project, _, override_id = request.form.get("override", "").rpartition("/")
    await request.call("see_override", project=project, override_id=override_id, person=request.person.name)
    return back(request, "see_override", "/")


async def retry(request: PageRequest) -> Response:
    """Put the reviews at which reviewers failed alike back into the queue, unless they left it meanwhile."""
    for review_id in request.lists.get("review_id", []):
        with suppress(InvalidTransition):
            await request.call("retry_review", review_id=review_id)
    return back(request, "retry_review", "/")


def waiting(found: Inbox | None) -> dict[str, Any]:
    """What the navigation says of an inbox; of none, nothing."""
    if found is None:
        return {"your_turn": 0, "needing": 0, "problems": 0, "reviews": {}}
    needing = inbox.needing(inbox.sections(found))
    return {
        "your_turn": needing - found.counts.problems,
        "problems": found.counts.problems,
        "needing": needing,
        # What a notification names, so that only new ones are told.
        "reviews": {review.review_id: review.intent for review in inbox.for_person(found)},
    }


ROUTES = (
    PageRoute("/", show_inbox, inbox_rows=_INBOX_ROWS),
    PageRoute("/inbox", show_inbox, inbox_rows=_INBOX_ROWS),
    PageRoute("/inbox/seen", post=seen),
    PageRoute("/inbox/retry", post=retry),
    PageRoute(_QUEUE, show, close),
)
