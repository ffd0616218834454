"""`/reviews/{review_id}`: the whole page, the parts of it that follow the review, and the marks on its files.

Beside the verdict stands the fate of a review: commits, an override, the cost of its reviewers, and the next review.
"""

from __future__ import annotations

import asyncio
from typing import Any

from starlette.responses import JSONResponse, Response

from tandem.errors import InvalidInput
from tandem.gate.contract import CommitPage, CommitRecord
from tandem.inbox.contract import Inbox
from tandem.landings.contract import LandingList
from tandem.present.facts import worded
from tandem.present.inbox import for_person
from tandem.present.words import WHY
from tandem.reviews.answers import AuditPage, FullReview, ReviewRow
from tandem.reviews.rules import State
from tandem.web.page import PageRequest, PageResponse, PageRoute, in_worker, see
from tandem.web.rendering import sentence
from tandem.web.review import discussion
from tandem.web.review.acting import NOTHING, Fact, FormResult
from tandem.web.review.checks import checks_of
from tandem.web.review.counter_patch import counter_patch_values
from tandem.web.review.files import listed, parts_of
from tandem.web.review.offers import MOST_FILES, whitespace_lines
from tandem.web.review.text import description_html, text_values
from tandem.web.review.view import ReviewView, load

_LONG_DIGEST = 16
_NO_CONTENT = 204


async def whole(request: PageRequest, acting: FormResult = NOTHING) -> PageResponse:
    """The page, also as the answer to a form that was refused.

    Args:
        request: The request; the review, the round and the form to show are taken from its address.
        acting: How the form came back.

    Raises:
        NotFound: There is no such review or round.
    """
    view = await load(request, events=True)
    if view.shape == "diff":
        content = await in_worker(_diff_values, view, request.number("first") or 0)
    else:
        content = await text_values(request, view)
    values = {**await _values(request, view), **content, "acting": acting}
    return PageResponse("review/page.html", values, acting.status, heavy=True)


async def parts(request: PageRequest, acting: FormResult = NOTHING) -> PageResponse:
    """All that changes when something happens to the review: to bring a page up to date, or to answer a form."""
    view = await load(request, events=True, interdiff=False)
    values = {**await _values(request, view), "acting": acting}
    return PageResponse("review/parts.html", values, acting.status, heavy=True, is_part=True)


async def _values(request: PageRequest, view: ReviewView) -> dict[str, Any]:
    digest = view.proposal.digest
    fate, cost, following = await asyncio.gather(
        facts_of(request, view), spent(request, view), _next_review(request, view)
    )
    return {
        "view": view,
        "fate": fate,
        "cost": cost,
        "next_review": following,
        "checks": checks_of(view),
        # A text's digest has its path behind it, which the page says anyway.
        "digest": digest.partition(":")[0][:_LONG_DIGEST] if digest else None,
        **await in_worker(counter_patch_values, view),
        **discussion.values(view, request),
    }


def _diff_values(view: ReviewView, first: int) -> dict[str, Any]:
    found = listed(view.outline, first)
    made = parts_of(view, found)
    return {
        "outline": found,
        "hidden": whitespace_lines(view.diff, view.origins) if view.is_calm else 0,
        "first": first,
        "firsts": range(0, len(found.files), MOST_FILES),
        "parts": made,
        "by_index": {part.index: part for part in made},
        "by_path": {part.path: part for part in made},
        "about": description_html(view.proposal.description),
    }


async def mark(request: PageRequest) -> Response:
    """Mark a file as viewed, or as not; a script is told nothing, a browser goes back to where it was.

    Raises:
        InvalidInput: The form is not complete.
    """
    number, path, viewed = request.number("round"), request.form.get("path"), request.form.get("viewed")
    if number is None or path is None or viewed not in ("yes", "no"):
        raise InvalidInput(
            "Say which file of which round is viewed: round, path, and viewed=yes or no.", field="viewed"
        )
    await request.call(
        "mark_viewed",
        review_id=request.path("review_id"),
        round=number,
        path=path,
        viewed=viewed == "yes",
        person=request.person.name,
    )
    if request.form.get("quiet"):
        return Response(status_code=_NO_CONTENT)
    view = await load(request, interdiff=False)
    index = request.number("index")
    return see(view.link() + ("" if index is None else f"#f{index}"))


async def viewed_files(request: PageRequest) -> Response:
    """The paths that the person has marked in a round, for a window that was not looked at for a while."""
    paths: tuple[str, ...] = ()
    if request.person.known:
        review_id, number = request.path("review_id"), request.number("round") or 1
        found: FullReview = await request.call(
            "get_review", review_id=review_id, round=number, files=[], person=request.person.name
        )
        paths = found.viewed
    return JSONResponse({"paths": paths}, headers={"cache-control": "no-store"})


ROUTES = (
    PageRoute("/reviews/{review_id}", whole),
    PageRoute("/reviews/{review_id}/parts", parts, inbox_rows=0),
    PageRoute("/reviews/{review_id}/viewed", viewed_files, mark, inbox_rows=0),
)


_SHORT = 7
_MOST = 200
_MOST_REVIEWERS = 10


async def facts_of(request: PageRequest, view: ReviewView) -> list[Fact]:
    """Facts to be told beside the state, in the words of the inbox."""
    state, project = State(view.state), view.proposal.project
    if state is State.CHANGES_REQUESTED and view.status.next_action == "escalate" and not view.status.attention:
        return [Fact(sentence(WHY["escalate"]))]
    if state is State.APPROVED or view.status.outcome == "approved":
        return await _landed(request, view, await _commits(request, view))
    overrides: AuditPage = await request.call("get_audit_log", project=project, kind="gate_overridden", limit=_MOST)
    same = [one for one in overrides.events if view.proposal.digest and one.data.get("digest") == view.proposal.digest]
    told = [Fact(f"Overridden by {one.actor}: {one.data.get('reason')}", one.at) for one in same[-1:]]
    commits = await _commits(request, view) if told or state is State.REJECTED else []
    verb = sentence(WHY["revert"]) if state is State.REJECTED else "Committed"
    return [*told, *(_committed(verb, one) for one in commits[-1:])]


async def _commits(request: PageRequest, view: ReviewView) -> list[CommitRecord]:
    project = view.proposal.project
    found: CommitPage = await request.call("list_commits", project=project, review_id=view.review_id, limit=_MOST)
    return [one for one in found.commits if not (one.replaced_by or one.rolled_back_by)]


async def _landed(request: PageRequest, view: ReviewView, commits: list[CommitRecord]) -> list[Fact]:
    ground = view.proposal.ground
    for one in reversed(commits):
        if ground is not None and one.branch == ground.branch:
            return [_committed("Landed", one)]
    line: LandingList = await request.call("list_landings", project=view.proposal.project, limit=_MOST)
    for row in line.landings:
        if row.state == "landed" and row.commit and view.review_id in row.review_ids:
            return [Fact(f"Landed as {row.commit[:_SHORT]} on {row.branch}", row.changed_at)]
    told = view.status.closed_reason or ""
    if not commits and told.startswith("Committed as"):
        return [Fact(told.rstrip("."))]
    return [_committed("Committed", one) for one in commits[-1:]]


def _committed(verb: str, commit: CommitRecord) -> Fact:
    on = f" on {commit.branch}" if commit.branch else ""
    return Fact(f"{verb} as {commit.commit[:_SHORT]}{on}", commit.recorded_at)


async def spent(request: PageRequest, view: ReviewView) -> str | None:
    """What the runs of pools' reviewers cost by their programs' own account; None without any run."""
    claims = (one.data.get("reviewer_id") for one in view.timeline if one.kind == "review_claimed")
    names = [name for name in dict.fromkeys(claims) if name][-_MOST_REVIEWERS:]
    pages: list[AuditPage] = await asyncio.gather(
        *(
            request.call("get_audit_log", review_id=f"reviewer:{name}", kind="reviewer_outcome", limit=_MOST)
            for name in names
        )
    )
    runs = [one.data for page in pages for one in page.events if one.data.get("review_id") == view.review_id]
    # A program that says no cost is recorded with 0.
    cost_usd = sum(float(one.get("cost_usd") or 0) for one in runs)
    return (worded("money", cost_usd) if cost_usd else "–") if runs else None


async def _next_review(request: PageRequest, view: ReviewView) -> ReviewRow | None:
    """The next review that needs the person, once this one is decided."""
    if not request.person.known or view.is_held or view.state == State.PENDING or not request.may("get_inbox"):
        return None
    found: Inbox = request.inbox or await request.call("get_inbox", person=request.person.name, limit=2)
    return next((row for row in for_person(found) if row.review_id != view.review_id), None)
