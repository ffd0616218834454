"""Who waits for whom, and why: where each open review and each pool stands in a person's inbox. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from textwrap import shorten
from typing import Final, Literal

from tandem.core.clock import MICROSECONDS
from tandem.gate.rules import Override
from tandem.pool.rules import Pool, Reviewer, circuit_seconds, failure_cause, next_try, plainly
from tandem.present.words import duration
from tandem.reviews import rounds
from tandem.reviews.claim_rules import beside
from tandem.reviews.rules import NO_VERDICT, Review, State, next_action

ListName = Literal["your_turn", "waiting", "problems"]
Why = Literal[
    "review", "approve", "verdict", "answer", "decide", "revise", "apply", "draft", "owed",
    "queued", "reviewing", "proposer",
    "attention", "escalate", "revert", "stuck", "paused", "rate_limited", "circuit_open", "lost", "overridden",
]  # fmt: skip

STUCK_SECONDS: Final = 1800
"""A review that waits so long although a pool runs is stuck."""

OVERDUE_SECONDS: Final = 60
"""A lease that ran out so long ago should have been released by now."""

LOST_SECONDS: Final = 86_400
"""After this long without a heartbeat a supervisor is no longer listed."""

SHOWN_SECONDS: Final = 30 * LOST_SECONDS
"""So long an override is shown to a person who has not seen it."""

_LONGEST: Final = 200
_OF_PROPOSER: Final[dict[str, Why]] = {
    "answer_message": "answer",
    "decide_counter_patch": "decide",
    "revise": "revise",
    "apply_and_close": "apply",
    "revert": "revert",
}


@dataclass(frozen=True, slots=True)
class InboxContext:
    """The facts that decide where a review stands, besides the review itself.

    Attributes:
        person: Whose inbox it is.
        now_us: The time.
        authored: Whether the current content is the person's own, so that somebody else gives the verdict.
        pool: The running pool that takes the review's project; None if none does.
        blocked: A pool for the project that starts nothing now, or the silent reviewer that keeps it full.
        drafted: Whether the person wrote something about it and has not sent it.
        standing: Whether a commit of the review stands, neither reverted nor replaced, as far as hooks reported.
        seat: Why the policy asks for a person's approval, where it asks for nothing else; else None.
        seated: Whether the person approved it already.
        silent_us: Since when the program of its reviewer, one of a pool, neither writes nor works.
    """

    person: str
    now_us: int
    authored: bool = False
    pool: Pool | None = None
    blocked: Pool | Reviewer | None = None
    drafted: bool = False
    standing: bool = False
    silent_us: int | None = None
    seat: str | None = None
    seated: bool = False


@dataclass(frozen=True, slots=True)
class Placement:
    """Where something stands in an inbox.

    Attributes:
        tray: Which of the three lists it is in.
        why: Why.
        since_us: Since when; microseconds since the epoch, UTC.
        who: Whom it waits for, where that is known.
        detail: Further facts.
        cause: The id of the pool or the reviewer that holds it up, and that stands there in its place; where
            reviewers failed, with how they did behind it.
    """

    tray: ListName
    why: Why
    since_us: int
    who: str | None = None
    detail: str | None = None
    cause: str | None = None


def rank(review: Review, person: str) -> tuple[bool, int, int, str]:
    """Sort key within a list: reviews that concern the person, then the rest, each in queue order."""
    concerns = person in (review.proposer_id, review.reviewer_id, review.verdict_by)
    return (not concerns, review.priority, review.created_at, review.id)


def place(review: Review, around: InboxContext) -> Placement:
    """Where an open review stands; a problem is nothing else besides."""
    return _problem(review, around) or _owed(review, around) or _turn(review, around) or _waiting(review, around)


def _owed(review: Review, around: InboxContext) -> Placement | None:
    """Where a review stands that lacks one after the fact; its author goes on with it as with any other."""
    owed = rounds.owed(review)
    if not owed or (around.authored and review.turn is not None):
        return None
    detail = "; ".join(one.words(around.now_us) for one in owed)
    return Placement("waiting" if around.authored else "your_turn", "owed", owed[0].waived_at, detail=detail)


def _problem(review: Review, around: InboxContext) -> Placement | None:
    since = waits_since(review)
    if review.awaits_person is not None and review.awaits_person == around.seat:
        by = around.authored or around.seated
        detail = plainly(review.awaits_person)
        return Placement("waiting" if by else "your_turn", "queued" if by else "approve", since, detail=detail)
    if review.awaits_person is not None:
        return _attention(review, review.awaits_person, around.pool or around.blocked)
    if review.state == State.REJECTED and around.standing:
        return Placement("problems", "revert", since, detail=review.verdict_reason)
    if next_action(review) == "escalate":
        return Placement("problems", "escalate", since, detail=review.verdict_reason)
    return _stuck(review, around, since)


def _stuck(review: Review, around: InboxContext, since: int) -> Placement | None:
    lease = review.lease_expires_at
    is_overdue = lease is not None and around.now_us - lease > OVERDUE_SECONDS * MICROSECONDS
    silent = lease if is_overdue else around.silent_us
    if review.held and silent is not None:
        return Placement("problems", "stuck", silent, review.reviewer_id, cause=review.reviewer_id)
    if not _is_queued(review) or around.drafted or _is_asked(review, around.person):
        return None
    is_late = around.now_us - since > STUCK_SECONDS * MICROSECONDS
    by = (around.pool if is_late else None) if around.pool else around.blocked
    if isinstance(by, Reviewer):
        return Placement("problems", "stuck", by.said()["silent_us"], by.id, cause=by.id)
    return Placement("problems", "stuck", since, pool_name(by), cause=by.id) if by else None


def _attention(review: Review, said: str, by: Pool | Reviewer | None) -> Placement:
    """Where a review stands that waits for a person; those at which a pool's programs failed alike have one cause."""
    number, _, failure = said.partition(NO_VERDICT)
    if not failure:
        return Placement("problems", "attention", review.updated_at, detail=plainly(said))
    # What `report_outcome` puts before the reason says less than the reason.
    why = failure_cause(re.sub(r"^\w+: ", "", failure))
    # Durations and request numbers differ from run to run.
    alike = re.sub(r"\S*\d\S*", "", why).casefold()
    detail = f"{number} reviewers gave no verdict: {why}"
    return Placement("problems", "attention", review.updated_at, detail=detail, cause=f"{by.id if by else ''} {alike}")


def _turn(review: Review, around: InboxContext) -> Placement | None:
    since, person = waits_since(review), around.person
    if _is_asked(review, person):
        return Placement("your_turn", "answer", since)
    if _is_queued(review) and not around.drafted:
        return None if around.authored or around.pool else Placement("your_turn", "review", since)
    if any(one.holder == person for one in beside(review)):
        return Placement("your_turn", "verdict", since)
    if review.turn == "reviewer" and _reviewer(review) == person:
        return Placement("your_turn", "verdict" if review.held else "answer", since)
    if review.turn == "proposer" and review.proposer_id == person:
        why = _OF_PROPOSER.get(next_action(review))
        return Placement("your_turn", why, since) if why else None
    return Placement("your_turn", "draft", since) if around.drafted else None


def _waiting(review: Review, around: InboxContext) -> Placement:
    since = waits_since(review)
    if _is_queued(review):
        return Placement("waiting", "queued", since, around.pool and pool_name(around.pool))
    if review.turn == "reviewer":
        return Placement("waiting", "reviewing", since, _reviewer(review))
    return Placement("waiting", "proposer", since, review.proposer_id)


def _is_asked(review: Review, person: str) -> bool:
    """Whether the person has to answer a question although the review waits for a reviewer."""
    return review.question_id is not None and review.proposer_id == person and review.turn != "proposer"


def _is_queued(review: Review) -> bool:
    return review.state == State.PENDING and review.turn == "reviewer"


def _reviewer(review: Review) -> str | None:
    """Who has to say something, where it is the reviewer's turn: after a verdict, who gave it."""
    return review.reviewer_id if review.held else review.verdict_by


def waits_since(review: Review) -> int:
    """Since when a review has waited for the side whose turn it is."""
    if review.state == State.PENDING and review.round == 1 and review.claim_generation == 0:
        # Messages and counter-patches change nothing about how long it has been in the queue.
        return review.created_at
    if review.held and review.speaker is None and review.claimed_at is not None:
        return review.claimed_at
    return review.updated_at


def pool_place(pool: Pool, now_us: int) -> Placement | None:
    """Where a pool stands; None for one that runs, or has ended."""
    if pool.ended_at is not None:
        return None
    if not pool.is_live(now_us):
        gone = now_us - pool.last_seen_at > LOST_SECONDS * MICROSECONDS
        return None if gone else Placement("problems", "lost", pool.last_seen_at, pool.host)
    if pool.paused is not None:
        why: Why = "paused" if pool.paused_until is None else "rate_limited"
        return Placement("problems", why, pool.paused_at or pool.last_seen_at, pool.paused_by)
    if pool.circuit_until is not None:
        opened = pool.circuit_until - circuit_seconds(max(pool.circuit_opened - 1, 0)) * MICROSECONDS
        return Placement("problems", "circuit_open", opened)
    return None


def overrode(override: Override) -> str:
    """Who overrode the gate and why, in a line."""
    branch = f" on {override.branch}" if override.branch else ""
    why = shorten(override.reason, _LONGEST, placeholder=" …")
    return f"{override.overridden_by} overrode the gate of {override.project}{branch}: {why}"


def takes(pool: Pool, project: str, now_us: int) -> bool:
    """Whether a pool runs now and is for a project, if that is registered."""
    is_running = pool.is_live(now_us) and pool.paused is None and pool.circuit_until is None
    return is_running and pool.serves(project)


def pool_name(pool: Pool) -> str:
    """What people call a pool."""
    return f"{pool.provider} on {pool.host}"


def cause(pool: Pool | str, place: Placement, waiting: int, now_us: int, why: str = "") -> str:
    """What happened to a pool, which says `why` it starts nothing, or to a reviewer of that name, in a line.

    Of reviews at which reviewers failed, how they did.
    """
    since = duration((now_us - place.since_us) / MICROSECONDS)
    behind = f"; {waiting} review{'s wait' if waiting > 1 else ' waits'}" if waiting else ""
    if place.why == "attention":
        return f"{place.detail}{behind}"
    if isinstance(pool, str):
        return f"{pool} has been silent for {since}{behind}"
    name, again = pool_name(pool), next_try(pool.paused_until or pool.circuit_until, now_us).lower()
    match place.why:
        case "lost":
            said = f"{name} has been silent for {since}"
        case "rate_limited":
            said = f"{name} is rate limited{' (429)' if '429' in (pool.paused or '') else ''}; {again}"
        case "circuit_open":
            said = f"{name}: {why}; {again}"
        case "paused" if pool.paused_kind == "budget_per_review":
            # Its words name another review, which may be another project's.
            said = f"{name} is paused: a run went over the budget for one review"
        case "paused":
            is_named = pool.paused_kind == "manual" and pool.paused_by != "operator"
            by = f"{pool.paused_by} paused {name}" if is_named else f"{name} is paused"
            said = f"{by}: {(pool.paused or '').rstrip('.')}"
        case _:
            said = f"{name} has taken nothing for {since}"
    return said + behind
