"""Profiles: the kinds of a pool's reviewers, the reviews that each takes, and why one starts nothing for now.

A pool without any has one that has no name. One without a vote has its turn once a round, before those that vote;
nothing waits for it while it cannot come.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Final, NamedTuple

import orjson

from tandem.contract.caller import Names
from tandem.core.clock import MICROSECONDS, utc_day
from tandem.pool import queries as reviewers
from tandem.pool.contract import PoolRules, ProfileRules
from tandem.pool.rules import (
    CIRCUIT_FAILURES,
    LIVE_SECONDS,
    PauseKind,
    Pool,
    Reviewer,
    circuit_seconds,
    failures_in_a_row,
    start_at,
)
from tandem.reviews import queries as reviews
from tandem.reviews import seats
from tandem.reviews.claim_rules import at_work, voting
from tandem.reviews.queries import Waiting
from tandem.reviews.rules import Review
from tandem.reviews.seats import Seat
from tandem.rulings.globs import as_text, matches
from tandem.store.base import Unit

_LOOKED_AT: Final = 12


class Out(NamedTuple):
    """Why a profile starts nothing.

    Attributes:
        kind: The limit that was reached.
        why: In words.
        at: Since when, microseconds since the epoch.
        until: When it goes on by itself, likewise; None for the next day of a day's budget, or when a person says so.
    """

    kind: PauseKind
    why: str
    at: int
    until: int | None = None

    def is_over(self, now_us: int) -> bool:
        """Whether it goes on by itself by now."""
        if self.kind == "budget_per_day":
            return utc_day(self.at) != utc_day(now_us)
        return self.until is not None and self.until <= now_us


@lru_cache(maxsize=256)
def _parsed(rules: str) -> PoolRules:
    return PoolRules.model_validate_json(rules)


def rules_of(pool: Pool) -> PoolRules:
    """The numbers that a pool is run by."""
    return _parsed(pool.rules)


def of(pool: Pool) -> Sequence[ProfileRules]:
    """A pool's profiles."""
    unnamed = ProfileRules.model_construct(name="", provider=pool.provider, model=pool.model)
    return rules_of(pool).profile or (unnamed,)


def of_reviewer(unit: Unit, reviewer: Reviewer) -> tuple[Pool, ProfileRules | None]:
    """The pool of a reviewer, and its profile; None for one that is gone."""
    pool = reviewers.get_pool(unit, reviewer)
    return pool, next((one for one in of(pool) if one.name == (reviewer.profile or "")), None)


def outs(pool: Pool) -> dict[str, Out]:
    """The profiles that start nothing for now, by their names."""
    return {name: Out(*said) for name, said in orjson.loads(pool.profiles_out or "{}").items()}


def stored(found: dict[str, Out]) -> str | None:
    """As `outs` reads it."""
    return orjson.dumps({name: tuple(out) for name, out in found.items()}).decode() if found else None


def failures(unit: Unit, pool: Pool, one: ProfileRules) -> int:
    """How many of a profile's newest reviewers ended at once, in a row."""
    return failures_in_a_row(newest(unit, pool, one), pool.forgiven)


def newest(unit: Unit, pool: Pool, one: ProfileRules | None) -> list[Reviewer]:
    """The newest reviewers of a profile, or of the whole pool, newest first."""
    return reviewers.list_newest(unit, pool, _LOOKED_AT, one and one.name)


def opens_at(unit: Unit, pool: Pool, one: ProfileRules, now_us: int) -> int:
    """When a profile may start its next reviewer, its pool's own limits aside; a far time where a person has to act.

    Each has a circuit of its own, by its newest reviewers alone: one that fails holds up no other.
    """
    if (out := outs(pool).get(one.name)) is not None and not out.is_over(now_us):
        return out.until or _NEVER
    found = newest(unit, pool, one) if one.name else []
    failed = failures_in_a_row(found, pool.forgiven)
    if failed < CIRCUIT_FAILURES:
        return start_at(found[0], failed, rules_of(pool)) if failed else 0
    return found[0].spawned_at + circuit_seconds(failed - CIRCUIT_FAILURES) * MICROSECONDS


_NEVER: Final = 2**62


def suits(pool: Pool, one: ProfileRules, waiting: Waiting, who: str = "") -> bool:
    """Whether a review that waits is one for a profile's reviewers, or for the one of this id."""
    review = waiting.review
    if one.name in review.had_turn or not pool.serves(review.project):
        return False
    if one.projects and review.project not in one.projects:
        return False
    if one.paths and not any(matches(as_text(path), one.paths) for path in waiting.paths):
        return False
    if not one.voting or (review.held and not voting(at_work(review))):
        # One without a vote has its turn alone, as far as pools go.
        return not review.held
    gives = seats.may_join if review.held else seats.gives
    return gives(review, _seat(one, who), Names.of(who, by_token=False))


def seats_of(one: ProfileRules, review: Review) -> int:
    """How many approvals a held review lacks that a profile's reviewers could give, beside those at work."""
    return seats.free_for(review, _seat(one))


def _seat(one: ProfileRules, who: str = "") -> Seat:
    return Seat(who, is_person=False, family=one.provider, called=(one.name, one.provider, who))


def advisers(unit: Unit, pools: Iterable[Pool], now_us: int) -> list[tuple[Pool, ProfileRules]]:
    """The profiles without a vote of which a reviewer may come now, each with its pool."""
    kinds = ((pool, one) for pool in pools if pool.paused is None and pool.is_live(now_us) for one in of(pool))
    return [
        (pool, one)
        for pool, one in kinds
        if not one.voting and one.name not in outs(pool) and not failures(unit, pool, one)
    ]


def is_awaited(found: Iterable[tuple[Pool, ProfileRules]], waiting: Waiting) -> bool:
    """Whether one of these advisers has its turn at a review before those that vote."""
    return any(suits(pool, one, waiting) for pool, one in found)


# --------------------------------------------------------------------------- what reviews ask of their reviewers


def called(unit: Unit, who: str, client: str | None) -> tuple[str, ...]:
    """The names by which a policy may ask for an agent.

    A pool's reviewer that has not ended has those of its profile and its client. An outside agent has its own, and its
    client's; but not one that a profile has, of whichever pool: only the pool's own reviewers are of a profile.
    """
    found = reviewers.find(unit, who)
    if found is not None and found.ended_at is None:
        return tuple(name for name in (found.profile, found.provider, who) if name)
    taken = names(unit)
    return tuple(name for name in (client, who) if name and name not in taken)


def names(unit: Unit) -> set[str]:
    """The names of all profiles, those of pools that have ended included."""
    return {one.name for pool in reviewers.list_pools(unit) for one in rules_of(pool).profile}


def advises(unit: Unit, who: str) -> str | None:
    """The profile of a pool's reviewer that has no vote, or none any more; None for everybody else."""
    found = reviewers.find(unit, who)
    if found is None or found.profile is None:
        return None
    _, one = of_reviewer(unit, found)
    return None if one is not None and one.voting else found.profile


def takes(unit: Unit, review: Review, who: str, now_us: int) -> bool:
    """Whether a reviewer takes a review from the queue, by its profile: others come and go as they like."""
    found = reviewers.find(unit, who)
    if found is None:
        return True
    pool, one = of_reviewer(unit, found)
    waiting = reviews.get_waiting(unit, review)
    if one is None or one.name in outs(pool) or not suits(pool, one, waiting, who):
        return False
    live = reviewers.list_heard(unit, now_us - LIVE_SECONDS * MICROSECONDS)
    return not one.voting or not is_awaited(advisers(unit, live, now_us), waiting)
