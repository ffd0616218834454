"""The runs of a pool's reviewers: verdicts, runs without one, and their use of tokens and money."""

from __future__ import annotations

import orjson
from typing_extensions import override

from tandem.contract.answer import shown, time_or_none
from tandem.contract.caller import Caller
from tandem.core.clock import MICROSECONDS, utc_day
from tandem.errors import Forbidden, UnknownReviewer
from tandem.pool import no_reviewer, profiles
from tandem.pool import plan as pool_plan
from tandem.pool import queries as reviewers
from tandem.pool.contract import OutcomeReported, PoolRules, ProfileRules, ReportOutcome, RunOutcome
from tandem.pool.profiles import Out
from tandem.pool.rules import RATE_LIMITED, DrainReason, PauseKind, Pool, Reviewer, ReviewerState, limit
from tandem.reviews import claims, seats
from tandem.reviews import queries as reviews
from tandem.reviews.claim_rules import beside, seen_by, seen_from
from tandem.reviews.claims import Failure
from tandem.reviews.context import Decision, Participant, Services
from tandem.reviews.reviewer_contract import Holder, NoReviewer
from tandem.reviews.rules import Review
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

_SUPERVISOR = "supervisor"


class PoolReviews(Participant):
    """Reviews that reviewers of a pool do: their verdicts are counted, and that none comes is explained."""

    @override
    def why_none(self, unit: Unit, services: Services, review: Review) -> NoReviewer | None:
        """Why no pool starts a reviewer for it."""
        return no_reviewer.why_none(unit, services, review)

    @override
    def decided(self, unit: Unit, services: Services, decision: Decision) -> None:
        """Count a verdict for the reviewer who gave it; people and outside agents have no row to count it in."""
        before = reviewers.find(unit, decision.reviewer)
        if before is None:
            return
        verdict, review, now_us = decision.verdict, decision.review, decision.at_us
        took = now_us - (review.claimed_at or now_us)
        after = _counted(before, "verdict", now_us)._replace(
            reviews_completed=before.reviews_completed + 1,
            approvals=before.approvals + int(verdict == "approved"),
            rejections=before.rejections + int(verdict == "rejected"),
            review_us=before.review_us + took,
        )
        data = {"outcome": "verdict", "verdict": verdict, "review_id": review.id, "seconds": took / MICROSECONDS}
        reviewers.put(unit, before, after, EventKind.REVIEWER_OUTCOME, before.id, now_us, **data)


def reclaim(unit: Unit, before: Review, reason: str, outcome: RunOutcome, now_us: int) -> None:
    """Take a held, locked review from its holder; for a reviewer of a pool this is a run without a verdict.

    Args:
        unit: The unit of work.
        before: The review as its holder sees it.
        reason: Why, in words, for the log.
        outcome: How the run ended; one that was cancelled is not a try that counts.
        now_us: The time.
    """
    holder = reviewers.find(unit, before.reviewer_id or "")
    tried = _tried(unit, holder) if holder is not None and outcome != "cancelled" else (None, None)
    failure = Failure(EventKind.REVIEW_RECLAIMED, pool_plan.BROKER, reason, *tried)
    claims.take_back(unit, reviews.get(unit, before.id), before.claim_generation, failure, now_us)
    if holder is not None:
        # Read again: only now is it locked.
        current = require(unit, holder.id)
        facts = {"outcome": outcome, "review_id": before.id, "reason": reason}
        counted = _counted(current, outcome, now_us)
        reviewers.put(unit, current, counted, EventKind.REVIEWER_OUTCOME, pool_plan.BROKER, now_us, **facts)


def _tried(unit: Unit, reviewer: Reviewer) -> tuple[float | None, str | None]:
    """What follows from a reviewer's failed run: the wait for the next try, or that its profile has had its turn."""
    pool, one = profiles.of_reviewer(unit, reviewer)
    if one is not None and one.allow_failure:
        return None, one.name
    return pool_plan.rules_of(pool).retry_delay_seconds, None


def expire(unit: Unit, review_id: str, generation: int, now_us: int) -> None:
    """End a claim whose lease has run out. A reviewer of a pool is ended: it is stuck."""
    before = seen_by(reviews.get(unit, review_id, lock=True), generation)
    reclaim(unit, before, "lease expired", "timeout", now_us)
    # Else it would count as one who works, and none would be started in its place.
    _end(unit, before.reviewer_id, DrainReason.STUCK, pool_plan.BROKER, now_us)


def take_over(unit: Unit, before: Review, by: str, now_us: int) -> None:
    """Take a locked review from the reviewers of pools that hold it, which are ended at once; others keep it."""
    for one in (*(seen_from(before, other) for other in beside(before)), before):
        if one.held and project_of(unit, one.reviewer_id or "") is not None:
            reclaim(unit, one, f"{by} took it over", "cancelled", now_us)
            _end(unit, one.reviewer_id, DrainReason.MANUAL, by, now_us)


def _end(unit: Unit, reviewer_id: str | None, reason: DrainReason, actor: str, now_us: int) -> None:
    reviewer = reviewers.find(unit, reviewer_id or "")
    if reviewer is not None and reviewer.ended_at is None:
        pool_plan.drain(unit, reviewer, reason, actor=actor, now_us=now_us, kill=True)


def holder(unit: Unit, review: Review) -> Holder | None:
    """Who holds a review; of a pool's reviewer also its activity."""
    if not review.held or review.reviewer_id is None:
        return None
    found = reviewers.find(unit, review.reviewer_id)
    name = review.reviewer_id if found is None else found.name
    doing, since = (None, None) if found is None else found.doing(review.claimed_at)
    return Holder(name, time_or_none(review.claimed_at), doing, time_or_none(since))


async def reclaim_abandoned(services: Services) -> int:
    """Reclaim the reviews of reviewers whose processes have ended; how many reviews there were."""
    found = await services.store.read(reviewers.list_abandoned)
    done = 0
    for review_id, holder in found:
        done += await services.store.write(
            lambda unit, review=review_id, who=holder: _reclaim_from(unit, services, review, who)
        )
    return done


def _reclaim_from(unit: Unit, services: Services, review_id: str, holder: str) -> int:
    before = seen_by(reviews.get(unit, review_id, lock=True), None, holder)
    reviewer = require(unit, holder)
    if not before.held or before.reviewer_id != holder or reviewer.ended_at is None:
        return 0
    # Whom we ended, or lost with its supervisor, has not failed.
    on_its_own = reviewer.drain_reason is None and reviewer.exit_code not in (None, RATE_LIMITED)
    outcome: RunOutcome = "cancelled" if not on_its_own else "crashed" if reviewer.exit_code else "no_verdict"
    why = f"its reviewer has ended ({reviewer.end_reason})"
    reclaim(unit, before, why, outcome, services.clock.now_us())
    seats.go_on(unit, services, reviews.get(unit, before.id), services.clock.now_us())
    return 1


async def report_outcome(services: Services, caller: Caller, request: ReportOutcome) -> OutcomeReported:
    """Take in how a run ended: without a verdict the claim is released, and its use is counted.

    Raises:
        UnknownReviewer: No pool has such a reviewer.
        NotFound: There is no such review.
        Forbidden: The caller is neither the reviewer nor a supervisor.
    """
    access = caller.access
    if access is not None and _SUPERVISOR not in access.roles and not access.owns(request.reviewer_id):
        raise Forbidden("Only a reviewer itself, or a supervisor, says how its runs ended.", field="reviewer_id")

    def work(unit: Unit) -> OutcomeReported:
        now = services.clock.now_us()
        before = reviews.get(unit, request.review_id, lock=True)
        own = seen_by(before, request.claim_generation)
        holds = own.held and own.reviewer_id == request.reviewer_id
        if request.outcome == "verdict" or not holds or own.claim_generation != request.claim_generation:
            after = before
        else:
            back = claims.take_back(unit, before, own.claim_generation, _failure(unit, request), now)
            after = seats.go_on(unit, services, back, now)
        events.lock(unit)
        reviewer = require(unit, request.reviewer_id)
        pool, one = profiles.of_reviewer(unit, reviewer)
        _use(unit, reviewer, request, now)
        if request.retry_after_s is not None:
            said = request.reason or "quota"
            pool = pool_plan.wait_for_quota(unit, pool, said, request.retry_after_s, now, reviewer.profile)
        paused = _check_budgets(unit, pool, one, request, now)
        again = time_or_none(after.not_before)
        about = {"review_id": after.id, "status": after.state, "not_before": again, "paused": paused.paused}
        return shown(OutcomeReported, after, **about)

    return await transact(services, caller, work)


def _failure(unit: Unit, request: ReportOutcome) -> Failure:
    reviewer = require(unit, request.reviewer_id)
    # Who was stopped has not failed, nor has a review whose provider takes no requests: it may be taken at once.
    counts = request.outcome != "cancelled" and request.retry_after_s is None
    words = f"{request.outcome}: {request.reason}" if request.reason else request.outcome
    tried = _tried(unit, reviewer) if counts else (None, None)
    return Failure(EventKind.CLAIM_RELEASED, request.reviewer_id, words, *tried)


def _use(unit: Unit, before: Reviewer, request: ReportOutcome, now_us: int) -> None:
    """Write what the run used up; a verdict itself was counted when it was given."""
    used = {"tokens_in": request.tokens_in or 0, "tokens_out": request.tokens_out or 0}
    cost_usd = request.cost_usd or 0.0
    if request.outcome != "verdict":
        after = _counted(before, request.outcome, now_us)
    elif profiles.advises(unit, before.id) is not None:
        after = _counted(before, "verdict", now_us)._replace(reviews_completed=before.reviews_completed + 1)
    else:
        after = before
    after = after._replace(
        **{name: getattr(before, name) + tokens for name, tokens in used.items()},
        cost_microusd=before.cost_microusd + round(cost_usd * 1_000_000),
    )
    if after == before:
        return
    stated = {name: getattr(request, name) for name in ("outcome", "review_id", "reason", "seconds", "exit_code")}
    facts = {name: value for name, value in stated.items() if value is not None} | used | {"cost_usd": cost_usd}
    reviewers.put(unit, before, after, EventKind.REVIEWER_OUTCOME, request.reviewer_id, now_us, **facts)


def _check_budgets(unit: Unit, pool: Pool, one: ProfileRules | None, request: ReportOutcome, now_us: int) -> Pool:
    """Leave a profile out, or pause a pool, whose run, or day, cost more than it may."""
    if one is not None and one.name and one.name not in profiles.outs(pool):
        over = _overrun(unit, pool, one, request, now_us)
        if over is not None:
            pool = pool_plan.leave_out(unit, pool, one.name, Out(*over, now_us))
    over = _overrun(unit, pool, pool_plan.rules_of(pool), request, now_us)
    if over is not None:
        kind, why = over
        pool = pool_plan.pause(unit, pool, why, kind, actor=pool_plan.BROKER, now_us=now_us)
    return pool


def _overrun(
    unit: Unit, pool: Pool, limits: PoolRules | ProfileRules, request: ReportOutcome, now_us: int
) -> tuple[PauseKind, str] | None:
    """The budget of a pool, or of a profile, that a run or its day went over, and that in words."""
    run, budget, profile = f"a run of {request.reviewer_id} on {request.review_id}", "budget", None
    if isinstance(limits, ProfileRules):
        run, budget, profile = "a run", f"budget of '{limits.name}'", limits.name
    cost_usd, tokens = request.cost_usd or 0.0, (request.tokens_in or 0) + (request.tokens_out or 0)
    if cost_usd > limit(limits.budget_per_review) or tokens > limit(limits.token_budget_per_review):
        return "budget_per_review", f"{run} went over the {budget} for one review ({cost_usd:.2f} USD, {tokens} tokens)"
    day = utc_day(now_us)
    cost_usd, tokens = reviewers.spent_on(unit, pool.id, day, profile)
    if cost_usd >= limit(limits.budget_per_day) or tokens >= limit(limits.token_budget_per_day):
        return "budget_per_day", f"the {budget} for {day} is used up ({cost_usd:.2f} USD, {tokens} tokens)"
    return None


def _counted(before: Reviewer, outcome: RunOutcome, now_us: int) -> Reviewer:
    outcomes: dict[str, int] = orjson.loads(before.outcomes)
    outcomes[outcome] = outcomes.get(outcome, 0) + 1
    return before._replace(outcomes=orjson.dumps(outcomes).decode(), last_active_at=now_us, activity=None)


def require(unit: Unit, reviewer_id: str) -> Reviewer:
    """A reviewer of a pool.

    Raises:
        UnknownReviewer: No pool of this broker has it.
    """
    found = reviewers.find(unit, reviewer_id)
    if found is None:
        raise unknown(reviewer_id)
    return found


def unknown(reviewer_id: str) -> UnknownReviewer:
    """The refusal of an id that no reviewer has."""
    return UnknownReviewer(
        f"No pool of this broker has a reviewer '{reviewer_id}'; list_reviewers shows those that there are.",
        reviewer_id=reviewer_id,
    )


def is_draining(unit: Unit, reviewer_id: str) -> bool:
    """Whether a reviewer of a pool takes nothing new."""
    found = reviewers.find(unit, reviewer_id)
    return found is not None and found.state != ReviewerState.ACTIVE


def project_of(unit: Unit, reviewer_id: str) -> str | None:
    """The project of a pool's reviewer that has not ended; None for everybody else."""
    found = reviewers.find(unit, reviewer_id)
    return found.project if found is not None and found.state != ReviewerState.TERMINATED else None


def provider_of(unit: Unit, reviewer_id: str) -> str | None:
    """The client of a pool's reviewer; None for everybody else."""
    found = reviewers.find(unit, reviewer_id)
    return found and found.provider


def has_form(unit: Unit, reviewer_id: str) -> bool:
    """Whether a worker of ours asks for the answer of a reviewer, and not the reviewer itself gives it."""
    found = reviewers.find(unit, reviewer_id)
    return found is not None and found.mode == "worker"


list_models = reviewers.list_models
called, advises, takes = profiles.called, profiles.advises, profiles.takes
