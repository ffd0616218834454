"""Why no reviewer of a pool takes a review, and what helps: for those who wait for its verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import orjson

from tandem.core.clock import MICROSECONDS
from tandem.pool import plan as pool_plan
from tandem.pool import profiles
from tandem.pool import queries as reviewers
from tandem.pool.contract import ProfileRules
from tandem.pool.rules import (
    AT_ONCE_SECONDS,
    CANNOT_START,
    CIRCUIT_FAILURES,
    END_OF_LOG,
    LOGINS,
    NOT_LOGGED_IN,
    Pool,
    next_try,
    plainly,
    readable,
    what_failed,
)
from tandem.present.words import duration
from tandem.reviews import queries as reviews
from tandem.reviews import seats
from tandem.reviews.context import Services
from tandem.reviews.reviewer_contract import NoReviewer
from tandem.reviews.rules import Review, State
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.event import EventKind

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


def why_none(unit: Unit, services: Services, review: Review) -> NoReviewer | None:
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
