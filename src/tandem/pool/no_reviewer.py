"""Why no reviewer of a pool takes a review, and what helps: for whoever waits for its verdict."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import orjson

from tandem.core.clock import MICROSECONDS, isoformat
from tandem.pool import queries as reviewers
from tandem.pool.rules import AT_ONCE_SECONDS, CANNOT_START, END_OF_LOG, NOT_LOGGED_IN, Pool
from tandem.reviews.answers import NoReviewer
from tandem.reviews.rules import Review, State
from tandem.store import events
from tandem.store.base import Unit
from tandem.store.context import Services
from tandem.store.event import EventKind

_LOOKED_AT: Final = 12
_TAKEN_BACK: Final = (EventKind.CLAIM_RELEASED, EventKind.REVIEW_RECLAIMED)
_LOGINS: Final = {
    "codex": "codex login",
    "claude": "claude setup-token",
    "gemini": "gemini",
    "opencode": "opencode auth login",
}


def why_none(unit: Unit, services: Services, review: Review) -> NoReviewer | None:
    """Why a review that waits for a reviewer gets none now; null if one may come any moment, or somebody has it."""
    if review.state != State.PENDING or review.counter_patch_status == "pending":
        return None
    now_us = services.clock.now_us()
    is_registered = services.projects.is_registered(review.project)
    serving = [pool for pool in reviewers.list_pools(unit) if pool.ended_at is None and pool.serves(review.project)]
    live = [pool for pool in serving if is_registered and pool.is_live(now_us)]
    found = [_of_pool(unit, pool, review, now_us) for pool in live]
    if found and (first := found[0]) is not None and all(found):
        if review.attention is None:
            return first
        return replace(first, remedy=f"{first.remedy}, and: tandem review retry {review.id}")
    if found or review.attention is not None:
        return _of_last_try(unit, review)
    if not is_registered:
        return _no_pool(review, "it has no folder here that a reviewer of a pool could read")
    return _lost(serving[-1], review) if serving else _no_pool(review, "no reviewer pool serves it")


def _stuck(reason: str, message: str, remedy: str) -> NoReviewer:
    return NoReviewer(reason, needs_person=True, message=message, remedy=remedy)


def _waits(reason: str, message: str, remedy: str) -> NoReviewer:
    return NoReviewer(reason, needs_person=False, message=message, remedy=remedy)


def _no_pool(review: Review, why: str) -> NoReviewer:
    return _waits(
        "no_pool",
        f"{review.project}: {why}; it waits for a person or another agent.",
        f"A person reviews it (tandem open {review.id}), has another agent do it, or enables a pool: tandem doctor.",
    )


def _lost(pool: Pool, review: Review) -> NoReviewer:
    return _stuck(
        "pool_lost",
        f"The reviewer pool's supervisor on {pool.host} was not heard of since {isoformat(pool.last_seen_at)}.",
        f"A person starts it again (tandem reviewers, or the broker), or reviews it: tandem open {review.id}.",
    )


def _of_pool(unit: Unit, pool: Pool, review: Review, now_us: int) -> NoReviewer | None:
    """Why this pool starts nobody; null if it may."""
    if pool.paused is not None:
        return _of_pause(pool, review)
    failed = _last_failure(unit, pool, now_us) or ""
    where = f"{pool.provider} on {pool.host}"
    if NOT_LOGGED_IN in failed:
        login = _LOGINS.get(pool.provider)
        how = f": {login}" if login else ""
        return _stuck(
            "not_logged_in",
            f"No reviewer can work ({where}). {failed}",
            f"A person logs it in{how}. Then: tandem reviewers resume",
        )
    if CANNOT_START in failed:
        return _stuck(
            "program_missing",
            f"No reviewer can work ({where}). {failed}",
            "A person installs it, or puts it on the PATH of the broker, and starts the broker anew.",
        )
    if pool.circuit_until is not None:
        return _stuck(
            "circuit_open",
            f"The reviewer pool stopped starting reviewers until {isoformat(pool.circuit_until)}, as too many in a row"
            f" failed at once; the last: {failed or 'it ended at once'}",
            "A person mends what made them fail (tandem reviewers logs). Then: tandem reviewers resume",
        )
    return None


def _of_pause(pool: Pool, review: Review) -> NoReviewer:
    either = f"or reviews it: tandem open {review.id}."
    match pool.paused_kind:
        case "quiet_hours":
            return _waits(
                "quiet_hours", "These are the reviewer pool's quiet hours.", f"Wait until they are over; {either}"
            )
        case "budget_per_day":
            return _stuck(
                "budget",
                f"The reviewer pool is paused until midnight UTC: {pool.paused}.",
                f"A person raises budget_per_day or resumes the pool (tandem reviewers resume), {either}",
            )
        case "budget_per_review":
            # Its words name another review, which may be another project's.
            return _stuck(
                "budget",
                "The reviewer pool is paused: a run went over the budget for one review.",
                f"A person raises budget_per_review or resumes the pool (tandem reviewers resume), {either}",
            )
        case _:
            return _stuck(
                "paused",
                f"The reviewer pool is paused: {pool.paused} (by {pool.paused_by}).",
                f"A person resumes it (tandem reviewers resume), {either}",
            )


def _last_failure(unit: Unit, pool: Pool, now_us: int) -> str | None:
    """How the pool's last reviewer failed at once; null if that is forgiven, or one has lasted since."""
    for one in reviewers.list_newest(unit, pool, _LOOKED_AT):
        if one.number <= pool.forgiven or one.reviews_completed:
            return None
        if one.ended_at is not None:
            why = one.end_reason or ""
            return (why.partition(END_OF_LOG)[2] or why) if one.quick else None
        if now_us - one.spawned_at > AT_ONCE_SECONDS * MICROSECONDS:
            return None
    return None


def _of_last_try(unit: Unit, review: Review) -> NoReviewer | None:
    """What became of the last run, where the review is to be tried again, or a person is asked."""
    if review.attention is not None:
        return _stuck(
            "failed", review.attention, f"A person reviews it, or has it tried again: tandem review retry {review.id}"
        )
    if review.attempts == 0:
        return None
    recent = events.list_newest(unit, _LOOKED_AT, subject=review.id)
    said = next((orjson.loads(one.data).get("reason") for one in reversed(recent) if one.kind in _TAKEN_BACK), None)
    again = f"again at {isoformat(review.not_before)}" if review.not_before is not None else "again now"
    return _waits(
        "failed",
        f"The last of {review.attempts} tries gave no verdict ({said or 'its log says why'}). It is tried {again}.",
        "Wait: it is tried again by itself.",
    )
