"""From a typed request on a reviewer pool to the one service function that does it."""

from __future__ import annotations

from tandem.contract.caller import Caller
from tandem.domain import pool_answers as answers
from tandem.domain.reviewers import PoolRules, supervisor_id
from tandem.operations import pool_requests as ask
from tandem.operations.handlers import call_of, wait_of
from tandem.services import pool, pool_admin, reviewer_runs
from tandem.services.context import Services
from tandem.services.pool import Beat, NewPool, Sighting
from tandem.services.reviewer_runs import Run


async def list_reviewers(services: Services, request: ask.ListReviewers, caller: Caller) -> answers.ReviewerList:
    """Who reviews."""
    return await pool_admin.list_all(services, request.project or caller.project)


async def spawn_reviewer(services: Services, request: ask.SpawnReviewer, caller: Caller) -> answers.ReviewerView:
    """Start one."""
    project = services.projects.require(request.project, caller.project)
    return await pool_admin.spawn(services, call_of(caller), project)


async def kill_reviewer(services: Services, request: ask.KillReviewer, caller: Caller) -> answers.ReviewerView:
    """End one."""
    return await pool_admin.kill(services, call_of(caller), request.reviewer_id, force=request.force)


async def pause_reviewers(services: Services, request: ask.PauseReviewers, caller: Caller) -> answers.PoolsChanged:
    """Start none any more."""
    return await pool_admin.pause(services, call_of(caller), request.supervisor_id, request.reason)


async def resume_reviewers(services: Services, request: ask.ResumeReviewers, caller: Caller) -> answers.PoolsChanged:
    """Start some again."""
    return await pool_admin.resume(services, call_of(caller), request.supervisor_id)


async def supervisor_register(
    services: Services, request: ask.SupervisorRegister, caller: Caller
) -> answers.Registered:
    """A supervisor starts."""
    new = NewPool(
        supervisor_id=supervisor_id(request.secret),
        incarnation=request.incarnation,
        host=request.host,
        provider=request.provider,
        mode=request.mode,
        model=request.model,
        projects=request.projects,
        rules=PoolRules(**request.rules.model_dump()),
    )
    return await pool.register(services, call_of(caller), new)


async def supervisor_heartbeat(services: Services, request: ask.SupervisorHeartbeat, _caller: Caller) -> answers.Orders:
    """A supervisor reports, and asks what to do."""
    beat = Beat(
        supervisor_id=supervisor_id(request.secret),
        incarnation=request.incarnation,
        reviewers=[Sighting(**one.model_dump()) for one in request.reviewers],
        quiet=request.quiet,
        closing=request.closing,
    )
    return await pool.heartbeat(services, beat, wait_of(request))


async def report_outcome(services: Services, request: ask.ReportOutcome, caller: Caller) -> answers.OutcomeReported:
    """How a run ended."""
    run = Run(
        reviewer_id=request.reviewer_id,
        review_id=request.review_id,
        claim_generation=request.claim_generation,
        outcome=request.outcome,
        reason=request.reason,
        seconds=request.seconds,
        tokens_in=request.tokens_in or 0,
        tokens_out=request.tokens_out or 0,
        cost_usd=request.cost_usd or 0.0,
        exit_code=request.exit_code,
    )
    return await reviewer_runs.report(services, call_of(caller), run)
