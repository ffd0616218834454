"""From a typed request to the one service function that does it."""

from __future__ import annotations

from typing import Any

from tandem.contract.caller import Caller
from tandem.domain import answers
from tandem.domain.reviews import Side
from tandem.operations import requests as ask
from tandem.services import attention, claims, counter_patches, discussion, proposals, reports, reviews, verdicts
from tandem.services.contents import Submitted
from tandem.services.context import Call, Services
from tandem.services.discussion import NewMessage
from tandem.services.proposals import NewProposal
from tandem.services.reviews import Filter, Wait
from tandem.services.verdicts import NewVerdict, Remark


def call_of(caller: Caller) -> Call:
    """Who asks, as the services see it."""
    return Call(agent=caller.agent, key=caller.key, access=caller.access)


def wait_of(request: Any) -> Wait | None:
    """How a request wants to wait; null if it does not."""
    return Wait(request.cursor, request.timeout_s) if request.wait else None


async def create_review(services: Services, request: ask.CreateReview, caller: Caller) -> answers.ReviewCreated:
    """Put up a review, or a new round of one."""
    call = call_of(caller)
    proposal = NewProposal(
        intent=request.intent,
        agent_type=request.agent_type,
        agent_role=request.agent_role,
        content=Submitted(request.description, request.diff, request.base, request.path, request.skip_diff_validation),
        phase=request.phase,
        plan=request.plan,
        task=request.task,
        category=request.category,
        metadata=request.metadata or {},
        proposer_id=request.proposer_id,
        parent_id=request.parent_id,
    )
    if request.review_id is not None:
        return await proposals.revise(services, call, request.review_id, request.project, proposal)
    project = services.projects.require(request.project, caller.project)
    return await proposals.create(services, call, project, proposal)


async def get_review_status(services: Services, request: ask.GetReviewStatus, caller: Caller) -> answers.ReviewStatus:
    """Where a review stands."""
    waiter: Side = "reviewer" if caller.role == "reviewer" else "proposer"
    return await reviews.status(
        services,
        request.review_id,
        project=request.project,
        wait=wait_of(request),
        cursor=request.cursor,
        side=None if request.wake_on == "any" else waiter,
    )


async def get_proposal(services: Services, request: ask.GetProposal, _caller: Caller) -> answers.Proposal:
    """A round's content."""
    return await reviews.proposal(
        services,
        request.review_id,
        project=request.project,
        number=request.round,
        since=request.since_round,
        files=request.files,
    )


async def list_reviews(services: Services, request: ask.ListReviews, caller: Caller) -> answers.ReviewPage:
    """A page of the queue."""
    wanted = Filter(
        project=services.projects.resolve(request.project, caller.project),
        status=request.status,
        category=request.category,
        priority=request.priority,
        turn=request.turn,
        attention=request.attention,
    )
    return await reviews.list_page(
        services, wanted, limit=request.limit, page=request.page, wait=wait_of(request), cursor=request.cursor
    )


async def claim_review(services: Services, request: ask.ClaimReview, caller: Caller) -> answers.Claim:
    """Claim a review, or the next one."""
    project = request.project
    if request.review_id is None:
        project = services.projects.resolve(request.project, caller.project)
    return await claims.claim(
        services,
        call_of(caller),
        reviewer_id=request.reviewer_id,
        review_id=request.review_id,
        project=project,
        category=request.category,
    )


async def renew_claim(services: Services, request: ask.RenewClaim, caller: Caller) -> answers.ClaimRenewed:
    """Extend a lease."""
    call = call_of(caller)
    return await claims.renew(services, call, request.review_id, request.project, request.claim_generation)


async def release_claim(services: Services, request: ask.ReleaseClaim, caller: Caller) -> answers.ClaimReleased:
    """Give a claim back."""
    call = call_of(caller)
    return await claims.release(
        services, call, request.review_id, request.project, request.claim_generation, request.reason
    )


async def submit_verdict(services: Services, request: ask.SubmitVerdict, caller: Caller) -> answers.VerdictGiven:
    """Give a verdict."""
    sent = NewVerdict(
        verdict=request.verdict,
        reason=request.reason,
        counter_patch=request.counter_patch,
        comments=tuple(Remark(item.file, item.line, item.body) for item in request.comments or ()),
        claim_generation=request.claim_generation,
        reviewer_id=request.reviewer_id,
        round=request.round,
    )
    call = call_of(caller)
    return await verdicts.submit(services, call, request.review_id, request.project, sent)


async def accept_counter_patch(
    services: Services, request: ask.AcceptCounterPatch, caller: Caller
) -> answers.CounterPatchDecided:
    """Take a counter-patch as the next round."""
    call = call_of(caller)
    return await counter_patches.accept(
        services, call, request.review_id, request.project, request.counter_patch_id, request.reason
    )


async def reject_counter_patch(
    services: Services, request: ask.RejectCounterPatch, caller: Caller
) -> answers.CounterPatchDecided:
    """Decline a counter-patch."""
    call = call_of(caller)
    return await counter_patches.reject(
        services, call, request.review_id, request.project, request.counter_patch_id, request.reason
    )


async def add_message(services: Services, request: ask.AddMessage, caller: Caller) -> answers.MessageSent:
    """Say something."""
    sent = NewMessage(
        sender_role=request.sender_role,
        body=request.body,
        metadata=request.metadata,
        resolves=request.resolves,
        reviewer_id=request.reviewer_id,
        claim_generation=request.claim_generation,
    )
    call = call_of(caller)
    return await discussion.say(services, call, request.review_id, request.project, sent)


async def get_discussion(services: Services, request: ask.GetDiscussion, _caller: Caller) -> answers.Discussion:
    """What was said."""
    return await discussion.read(
        services,
        request.review_id,
        project=request.project,
        round_number=request.round,
        limit=request.limit,
        page=request.page,
    )


async def close_review(services: Services, request: ask.CloseReview, caller: Caller) -> answers.ReviewClosed:
    """End a review."""
    call = call_of(caller)
    return await reviews.close(services, call, request.review_id, request.project, request.reason)


async def get_review_timeline(services: Services, request: ask.GetReviewTimeline, _caller: Caller) -> answers.Timeline:
    """Every event of a review."""
    return await reports.timeline(services, request.review_id, request.project)


async def get_activity_feed(services: Services, request: ask.GetActivityFeed, caller: Caller) -> answers.ActivityFeed:
    """Reviews by latest activity."""
    return await reports.feed(
        services,
        project=services.projects.resolve(request.project, caller.project),
        status=request.status,
        category=request.category,
        limit=request.limit,
        page=request.page,
        wait=wait_of(request),
        cursor=request.cursor,
    )


async def get_audit_log(services: Services, request: ask.GetAuditLog, caller: Caller) -> answers.AuditPage:
    """Events of the log; of every project unless one is named."""
    return await reports.audit_log(
        services,
        project=request.project or caller.project,
        review_id=request.review_id,
        kind=request.kind,
        actor=request.actor,
        limit=request.limit,
        wait=wait_of(request),
        cursor=request.cursor,
    )


async def get_review_stats(services: Services, request: ask.GetReviewStats, caller: Caller) -> answers.Statistics:
    """Counts and mean times."""
    project = services.projects.resolve(request.project, caller.project)
    return await reports.statistics(services, project=project, since=request.since)


async def register_project(services: Services, request: ask.RegisterProject, caller: Caller) -> answers.ProjectView:
    """Register a folder."""
    return await services.projects.register(request.root, request.name, caller.agent or caller.principal)


async def list_projects(services: Services, _request: ask.ListProjects, _caller: Caller) -> answers.ProjectList:
    """All registered projects."""
    return await services.projects.list_all()


async def remove_project(services: Services, request: ask.RemoveProject, caller: Caller) -> answers.ProjectRemoved:
    """Forget a folder."""
    return await services.projects.remove(request.name, caller.agent or caller.principal)


async def retry_review(services: Services, request: ask.RetryReview, caller: Caller) -> answers.ReviewStatus:
    """Let a review be tried again."""
    return await attention.retry(services, call_of(caller), request.review_id, request.project)
