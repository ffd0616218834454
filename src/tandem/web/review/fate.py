"""The fate of a review beside its verdict: commits, an override, the cost of its reviewers, and the next review."""

from __future__ import annotations

import asyncio

from tandem.gate.contract import CommitPage, CommitRecord
from tandem.inbox.contract import Inbox
from tandem.landings.contract import LandingList
from tandem.present.facts import worded
from tandem.present.inbox import for_person
from tandem.present.words import WHY
from tandem.reviews.answers import AuditPage, ReviewRow
from tandem.reviews.rules import State
from tandem.web.page import PageRequest
from tandem.web.rendering import sentence
from tandem.web.review.acting import Fact
from tandem.web.review.view import ReviewView

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


async def next_review(request: PageRequest, view: ReviewView) -> ReviewRow | None:
    """The next review that needs the person, once this one is decided."""
    if not request.person.known or view.is_held or view.state == State.PENDING or not request.may("get_inbox"):
        return None
    found: Inbox = request.inbox or await request.call("get_inbox", person=request.person.name, limit=2)
    return next((row for row in for_person(found) if row.review_id != view.review_id), None)
