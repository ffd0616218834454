"""The runs of a pool's reviewers: verdicts, runs without one, and their use of tokens and money.

Those who wait for a verdict are told why no reviewer takes their review, and what helps.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import orjson
from typing_extensions import override

from tandem.contract.answer import shown, time_or_none
from tandem.contract.caller import Caller
from tandem.core.clock import MICROSECONDS, utc_day
from tandem.errors import Forbidden, UnknownReviewer
from tandem.pool import plan as pool_plan
from tandem.pool import profiles
from tandem.pool import queries as reviewers
from tandem.pool.contract import OutcomeReported, PoolRules, ProfileRules, ReportOutcome, RunOutcome
from tandem.pool.profiles import Out
from tandem.pool.rules import (
    AT_ONCE_SECONDS,
    CANNOT_START,
    CIRCUIT_FAILURES,
    END_OF_LOG,
    LOGINS,
    NOT_LOGGED_IN,
    RATE_LIMITED,
    DrainReason,
    PauseKind,
    Pool,
    Reviewer,
    ReviewerState,
    limit,
    next_try,
    plainly,
    readable,
    what_failed,
)
from tandem.present.words import duration
from tandem.reviews import claims, seats
from tandem.reviews import queries as reviews
from tandem.reviews.claim_rules import beside, seen_by, seen_from
from tandem.reviews.claims import Failure
from tandem.reviews.context import Decision, Participant, Services
from tandem.reviews.reviewer_contract import Holder, NoReviewer
from tandem.reviews.rules import Review, State
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
        return _why_none(unit, services, review)

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


_LOOKED_AT: Final = 12
_TAKEN_BACK: Final = (EventKind.CLAIM_RELEASED, EventKind.REVIEW_RECLAIMED)
_HAPPENED: Final = {
    "timeout": "The reviewer took too long",
    "crashed": "The reviewer's program failed",
    "cancelled": "The reviewer was stopped before it had decided",
}
LONGEST_QUOTA_SECONDS: Final = 2 * 3600
"""For how long an agent waits for a provider's quota; of a longer wait it tells its person."""
_RESUME: Final = "tandem reviewers resume"


def _why_none(unit: Unit, services: Services, review: Review) -> NoReviewer | None:
    """Why a review that waits for a reviewer gets none now; None if one may come any moment, or works on it."""
    if review.state != State.PENDING or review.counter_patch_status == "pending":
        return _of_holder(unit, services, review) if review.held and services.has_pools.is_set() else None
    now_us = services.clock.now_us()
    is_registered = services.projects.is_registered(review.project)
    # Each proposal asks this: where there never was a pool, without a look at the database.
    pools = reviewers.list_pools(unit) if services.has_pools.is_set() else []
    serving = [pool for pool in pools if pool.ended_at is None and pool.serves(review.project)]
    live = [pool for pool in serving if is_registered and pool.is_live(now_us)]
    found = [_of_pool(unit, pool, review, now_us) for pool in live]
    if found and (first := found[0]) is not None and all(found):
        if review.attention is None:
            return first
        return replace(first, remedy=f"{first.remedy}, and: tandem review retry {review.id}")
    if found or review.attention is not None:
        return _of_last_try(unit, review, now_us)
    if serving and is_registered:
        return _lost(serving[-1], review, now_us)
    message = "No reviewer pool serves this project: a person, or another agent, reviews it."
    return _others("no_pool", message, review)


def _of_holder(unit: Unit, services: Services, review: Review) -> NoReviewer | None:
    """That the pool's reviewer who holds a review is silent; None if it works."""
    one = reviewers.find(unit, review.reviewer_id or "")
    doing, since = (None, None) if one is None else one.doing(review.claimed_at)
    if one is None or doing != "silent" or since is None:
        return None
    silent = duration((services.clock.now_us() - since) / MICROSECONDS)
    found = _waits("silent", f"{one.name} has been silent for {silent}.", review)
    ends = f"A person ends it: tandem review claim {review.id} --take-over"
    return replace(found, remedy=f"{found.remedy}. {ends}")


def _stuck(reason: str, message: str, helps: str) -> NoReviewer:
    """No reviewer comes before a person has done something: an agent stops, and tells its person."""
    return NoReviewer(reason, needs_person=True, message=message, remedy=f"Tell your person: {helps}")


def _waits(reason: str, message: str, review: Review) -> NoReviewer:
    """It goes on by itself: an agent waits."""
    wait = f"Wait: tandem review status {review.id} --wait"
    return NoReviewer(reason, needs_person=False, message=message, remedy=wait)


def _others(reason: str, message: str, review: Review) -> NoReviewer:
    """A person, or an agent that is of no pool, may review it at any time."""
    found = _waits(reason, message, review)
    return replace(found, remedy=f"{found.remedy}. A person reviews it: tandem open {review.id}")


def _lost(pool: Pool, review: Review, now_us: int) -> NoReviewer:
    silent = duration((now_us - pool.last_seen_at) / MICROSECONDS)
    return _stuck(
        "pool_lost",
        f"The reviewer pool on {pool.host} does not answer; it was last heard of {silent} ago.",
        f"start it there again, or review it: tandem open {review.id}",
    )


def _of_pool(unit: Unit, pool: Pool, review: Review, now_us: int) -> NoReviewer | None:
    """Why this pool starts no reviewer; None if it may."""
    if pool.paused is not None:
        return _of_pause(pool, review, now_us)
    if review.attention is None:
        waiting = reviews.get_waiting(unit, review)
        kinds = [one for one in profiles.of(pool) if one.voting and profiles.suits(pool, one, waiting)]
        if not kinds:
            return _none_fits(unit, pool, review)
        found = [_of_kind(unit, pool, one, review, now_us) for one in kinds]
        return found[0] if all(found) else None
    return _failed(unit, pool, None, now_us)


def _none_fits(unit: Unit, pool: Pool, review: Review) -> NoReviewer:
    """That no reviewer of the pool could give what the review lacks, so that none is started in vain."""
    named = ", ".join(one.name for one in profiles.of(pool) if one.name)
    whose = f"No profile ({named})" if named else pool.provider
    left = seats.listed(review)
    why = f"gives the approval that is missing: {left}" if left else "is for this review, or may try it again"
    message = f"No reviewer is started on {pool.host}. {whose} {why}."
    if seats.named(review) & profiles.names(unit):
        helps = f"change the profiles of [reviewer_pool] so that one fits, or review it: tandem open {review.id}"
        return _stuck("no_profile", message, helps)
    return _others("no_profile", message, review)


def _of_kind(unit: Unit, pool: Pool, one: ProfileRules, review: Review, now_us: int) -> NoReviewer | None:
    """Why a profile that fits starts no reviewer; None if it may."""
    out = profiles.outs(pool).get(one.name)
    if out is None:
        return _failed(unit, pool, one if one.name else None, now_us)
    either = f"resume the pool ({_RESUME}), or review it: tandem open {review.id}"
    if out.kind != "quota":
        return _stuck("budget", f"The profile '{one.name}' starts nothing: {out.why}.", f"raise it, {either}")
    said = f"{one.provider} is rate limited ({plainly(out.why)}). {next_try(out.until, now_us)}."
    is_long = (out.until or 0) - now_us > LONGEST_QUOTA_SECONDS * MICROSECONDS
    return _stuck("rate_limited", said, f"wait, {either}") if is_long else _waits("rate_limited", said, review)


def _failed(unit: Unit, pool: Pool, one: ProfileRules | None, now_us: int) -> NoReviewer | None:
    """That the newest reviewers, perhaps of one profile, failed at once; None if they did not."""
    failed = _last_failure(unit, pool, one, now_us) or ""
    said = readable(failed) or "it ended at once"
    provider = pool.provider if one is None else one.provider
    where = f"{provider} on {pool.host}"
    if NOT_LOGGED_IN in failed:
        login = f" ({LOGINS[provider]})" if provider in LOGINS else ""
        return _stuck(
            "not_logged_in",
            f"No reviewer can work ({where}). {said}",
            f"log it in{login}, then resume the pool: {_RESUME}",
        )
    if CANNOT_START in failed:
        return _stuck(
            "program_missing",
            f"No reviewer can work ({where}). {said}",
            f"install it in a folder on the PATH of the broker, then resume the pool: {_RESUME}",
        )
    until = pool.circuit_until
    if one is not None and profiles.failures(unit, pool, one) >= CIRCUIT_FAILURES:
        until = profiles.opens_at(unit, pool, one, now_us)
    if until is not None:
        return _stuck(
            "circuit_open",
            f"{what_failed(profiles.newest(unit, pool, one), pool.forgiven)}. {next_try(until, now_us)}.",
            f"see why (tandem reviewers logs), correct it, then resume the pool: {_RESUME}",
        )
    return None


def _of_pause(pool: Pool, review: Review, now_us: int) -> NoReviewer:
    either = f"or review it: tandem open {review.id}"
    match pool.paused_kind:
        case "quota" if (pool.paused_until or 0) - now_us > LONGEST_QUOTA_SECONDS * MICROSECONDS:
            said = pool_plan.what_pauses(pool, now_us)
            return _stuck("rate_limited", said, f"it goes on by itself then; resume it before ({_RESUME}), {either}")
        case "quota":
            return _waits("rate_limited", pool_plan.what_pauses(pool, now_us), review)
        case "quiet_hours":
            return _waits("quiet_hours", "These are the reviewer pool's quiet hours; it goes on after them.", review)
        case "budget_per_day":
            left = duration(pool_plan.until_next_day(now_us) / MICROSECONDS)
            return _stuck(
                "budget",
                f"The reviewer pool is paused until midnight UTC, for {left}: {pool.paused}.",
                f"raise budget_per_day, resume the pool ({_RESUME}), {either}",
            )
        case "budget_per_review":
            # Its words name another review, which may be another project's.
            return _stuck(
                "budget",
                "The reviewer pool is paused: a run went over the budget for one review.",
                f"raise budget_per_review, resume the pool ({_RESUME}), {either}",
            )
        case _:
            return _stuck("paused", pool_plan.what_pauses(pool, now_us), f"resume it ({_RESUME}), {either}")


def _last_failure(unit: Unit, pool: Pool, kind: ProfileRules | None, now_us: int) -> str | None:
    """How the pool's, or profile's, last reviewer failed at once; None if forgiven, or if one has lasted since."""
    for one in profiles.newest(unit, pool, kind):
        if one.number <= pool.forgiven or one.reviews_completed:
            return None
        if one.ended_at is not None:
            why = one.end_reason or ""
            return (why.partition(END_OF_LOG)[2] or why) if one.quick else None
        if now_us - one.spawned_at > AT_ONCE_SECONDS * MICROSECONDS:
            return None
    return None


def _of_last_try(unit: Unit, review: Review, now_us: int) -> NoReviewer | None:
    """What became of the last run, where the review is tried again, or waits for a person."""
    if review.attention is not None:
        helps = f"review it (tandem open {review.id}), or have it tried again: tandem review retry {review.id}"
        return _stuck("failed", review.attention, helps)
    if review.attempts == 0:
        return None
    recent = events.list_newest(unit, _LOOKED_AT, subject=review.id)
    said = next((orjson.loads(one.data).get("reason") for one in reversed(recent) if one.kind in _TAKEN_BACK), None)
    outcome, _, why = str(said or "").partition(": ")
    happened = _HAPPENED.get(outcome, "The reviewer gave no usable answer")
    again = next_try(review.not_before, now_us)
    why = readable(why or outcome).rstrip(".") or "no reason given"
    return _waits("failed", f"{happened} ({why}). {again}.", review)
