"""Seats: what the project's policy needs of a review, who gave what of it, and what is missing.

The file of the base branch's tip says what is needed, as with checks; it is read before any transaction. A review keeps
that with its round. Each approval fills one seat, and the last one that is missing approves the review.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

import orjson

from tandem.contract.access import Names
from tandem.contract.caller import Caller
from tandem.errors import Forbidden, RequirementMissing
from tandem.reviews import finding_queries, grounds, waiver_rules, writing
from tandem.reviews import queries as reviews
from tandem.reviews.check_rules import PASSED, CheckRun, CheckStatus, Hold, outcome
from tandem.reviews.contents import Content
from tandem.reviews.context import Services, is_by_person
from tandem.reviews.rounds import Round, verdict_on, with_turn
from tandem.reviews.rules import Action, Review, State, step
from tandem.rulings import policy, policy_file
from tandem.rulings.person import CLIENTS
from tandem.rulings.policy import Facts, Need, Policy, Requirements
from tandem.rulings.policy_file import PolicyError
from tandem.store.base import Unit
from tandem.store.event import EventKind

_OF_PERSONS: Final = frozenset({policy.PERSON, policy.OWNER})
_PROFILE: Final = "agent:"
RULE: Final = "rule"


class Seat(NamedTuple):
    """An approval of a round's content.

    Attributes:
        by: Who gave it.
        is_person: Whether it is proved to be a person's.
        family: The client that gave it, such as `codex`; `RULE` for the policy's own, None if that is not known.
        verdict_id: The verdict.
        waives: The need that a person waived, which is all that this seat fills; None for an approval.
    """

    by: str
    is_person: bool
    family: str | None
    verdict_id: str = ""
    waives: str | None = None


def family(*names: str | None) -> str | None:
    """The client that goes by one of these names; None if none is known."""
    known = {name.partition("-")[0] for name in CLIENTS.values()}
    words = (name.casefold().partition("-")[0].partition("/")[0] for name in names if name)
    return next((word for word in words if word in known), None)


@lru_cache(maxsize=16)
def _parsed(content: bytes) -> Policy | PolicyError:
    try:
        return policy_file.parse(content)
    except PolicyError as error:
        return error


@lru_cache(maxsize=1_000)
def _stored(text: str) -> Requirements:
    return Requirements.from_json(text)


def of(review: Review) -> Requirements | None:
    """What a review's round needs; None without a policy."""
    return None if review.needs is None else _stored(review.needs)


def filled(review: Review) -> tuple[Seat, ...]:
    """The seats of a review's content that are taken; of one that was approved without a policy, that approval's."""
    if review.seats is None and review.approved_round is not None and review.verdict_by is not None:
        by = review.verdict_by
        return (Seat(by, is_person=False, family=family(by), verdict_id=review.verdict_id or ""),)
    return tuple(Seat(*one) for one in orjson.loads(review.seats or "[]"))


def missing(review: Review) -> tuple[Need, ...]:
    """What a round still needs beside passed checks, in the policy's order."""
    return _left_with(review)


def _without(known: Requirements, seats: Sequence[Seat], proposed_by: str | None) -> tuple[Need, ...]:
    """The needs that are left when as many as can be are met, each by a seat of its own."""
    needs = [one for one in known.needs if one.word != policy.CHECKS]
    meets: dict[int, int] = {}

    def place(at: int, tried: set[int]) -> bool:
        for number, seat in enumerate(seats):
            if number not in tried and _fits(needs[at].word, seat, proposed_by):
                tried.add(number)
                if number not in meets or place(meets[number], tried):
                    meets[number] = at
                    return True
        return False

    left = [at for at in range(len(needs)) if not place(at, set())]
    return tuple(needs[at] for at in left)


def _fits(word: str, seat: Seat, proposed_by: str | None) -> bool:
    """Whether somebody's approval can be what a word of the policy asks for."""
    if seat.waives is not None:
        return seat.waives == word
    if word == policy.UNREADABLE or seat.family == RULE:
        return False
    if seat.is_person or word in (policy.AGENT, policy.REVIEW):
        return True
    if word == policy.OTHER_PROVIDER:
        return seat.family not in (None, proposed_by)
    name = word.removeprefix(_PROFILE)
    return word.startswith(_PROFILE) and name in (seat.family, seat.by)


def waits(review: Review) -> str | None:
    """Why a person is waited for whose seat alone is missing; None where none is, or others may go on, too."""
    left = missing(review)
    if not left or any(one.word not in _OF_PERSONS for one in left):
        return None
    given = "".join(f"{one.by} approved. " for one in filled(review))
    return f"{given}Missing: {'; '.join(one.words for one in left)}."


def _needed(content: bytes, review: Review, current: Round) -> Requirements:
    """What a policy needs of a round."""
    ground = grounds.parsed(current.ground)
    files: list[dict[str, Any]] = orjson.loads(current.affected_files)
    facts = Facts(
        changes=current.entries(),
        generated=frozenset(one["path"] for one in files if one.get("generated")),
        lines=sum((one.get("added") or 0) + (one.get("removed") or 0) for one in files),
        branch=ground and ground.branch,
        category=review.category,
        proposer=review.proposer_id,
        is_agent=family(review.proposer_id, review.agent_type) is not None,
    )
    found = _parsed(content)
    return found.requirements(facts) if isinstance(found, Policy) else _unreadable(content, facts, found)


def _unreadable(content: bytes, facts: Facts, error: PolicyError) -> Requirements:
    """Nothing passes a policy that cannot be read, but for a correction of it that a person approves."""
    needs = policy_file.parse(b"match = 'all'\n[[rule]]\nneeds = ['review']\n").requirements(facts).needs
    if not any(policy.OWN_PATH in one.rules for one in needs):
        needs = (Need(policy.UNREADABLE, (str(error),), ()),)
    return Requirements(needs, source=policy_file.source_of(content))


def begun(review: Review, current: Round, content: Content, before: Review | None = None) -> Review:
    """A review at the start of a round, with what the policy needs of it; of the same content the seats stay taken.

    Args:
        review: The review.
        current: The round.
        content: Its content, with the policy.
        before: The review before the round; None for a new one.
    """
    is_same = before is not None and before.digest is not None and before.digest == review.digest
    known = None if content.policy is None else _needed(content.policy, review, current)
    runs_any = any(one.required and one.status == CheckStatus.QUEUED for one in content.checks)
    attention = None if before is not None and review.attention == waits(before) else review.attention
    begins = review._replace(
        needs=known and known.as_json(),
        seats=before.seats if is_same and before is not None else None,
        waived=before.waived if is_same and before is not None else None,
        owed_until=before.owed_until if is_same and before is not None else None,
        by_checks=int(known is not None and known.only_checks and runs_any),
    )
    return with_turn(begins._replace(attention=attention or waits(begins)))


def seat_of(unit: Unit, services: Services, caller: Caller, name: str, *, is_proved: bool) -> Seat:
    """The seat that somebody would take; a person's only with the proof of one."""
    provider = services.pool.provider_of(unit, name)
    is_person = is_proved and provider is None and is_by_person(unit, services, caller, name)
    return Seat(name, is_person, provider or family(name, caller.agent))


def check(review: Review, seat: Seat, names: Names) -> None:
    """Refuse the approval, and the claim, of who gives nothing that is missing.

    Raises:
        RequirementMissing: They approved this content already, or others have to.
        Forbidden: Theirs would do if it was proved to be a person's.
    """
    left = missing(review)
    if not left:
        return
    if any(names.include(one.by) for one in filled(review)):
        raise _refused(review, left, "You approved this content already: others have to.")
    if len(_left_with(review, seat)) < len(left):
        return
    if (
        seat.family is None
        and not seat.is_person
        and len(_left_with(review, seat._replace(is_person=True))) < len(left)
    ):
        raise Forbidden(
            f"The policy asks for a person's approval, which takes the proof that a person decides: run 'tandem review"
            f" approve {review.id}' at a terminal, or open the page: tandem open {review.id}",
            review_id=review.id,
            needed="person",
        )
    raise _refused(review, left, "Your approval is none of those that are missing.")


def _left_with(review: Review, *more: Seat) -> tuple[Need, ...]:
    known = of(review)
    proposed_by = family(review.agent_type, review.proposer_id)
    return () if known is None else _without(known, (*_filled_or_waived(review), *more), proposed_by)


def _filled_or_waived(review: Review) -> tuple[Seat, ...]:
    waivers = (Seat(one.by, is_person=True, family=None, waives=one.need) for one in waiver_rules.waived(review))
    return (*filled(review), *waivers)


def fits(review: Review, word: str, seat: Seat) -> bool:
    """Whether somebody's approval can be what a word of a review's policy asks for."""
    return _fits(word, seat, family(review.agent_type, review.proposer_id))


def _refused(review: Review, left: Iterable[Need], why: str) -> RequirementMissing:
    return RequirementMissing(
        f"{why} Missing: {'; '.join(one.words for one in left)}.",
        review_id=review.id,
        missing=[{"need": one.word, "rules": list(one.rules), "paths": list(one.paths)} for one in left],
    )


def taken(review: Review, seat: Seat) -> Review:
    """The review with one more approval of its content; as it is without a policy."""
    if review.needs is None:
        return review
    return review._replace(seats=orjson.dumps([tuple(one) for one in (*filled(review), seat)]).decode())


def held(unit: Unit, asked: grounds.Asked, review_id: str, number: int) -> Hold | None:
    """What keeps an approved round back by the policy as it is now; None if nothing does.

    What its review was told that it needs was the policy's word then.
    """
    named = asked.policies if asked.branch is None else {asked.branch}
    wanted = {content for name in named if (content := asked.policies.get(name)) is not None}
    if not wanted:
        return None
    review, current = reviews.get(unit, review_id), reviews.get_round(unit, review_id, number)
    runs = reviews.list_checks(unit, review_id, number)
    for content in wanted:
        known = of(review)
        if known is None or known.source != policy_file.source_of(content):
            known = _needed(content, review, current)
        if left := _without(known, _filled_or_waived(review), family(review.agent_type, review.proposer_id)):
            words = f"the policy asks for more: {'; '.join(one.words for one in left)}"
            return Hold(words, is_pending=False, code=RequirementMissing.code)
        if lacks_checks(known, review, runs):
            words = "the policy asks for passed checks, and none has passed"
            return Hold(words, is_pending=True, code=RequirementMissing.code)
    return None


def lacks_checks(known: Requirements, review: Review, runs: Sequence[CheckRun]) -> bool:
    """Whether checks have to have passed and have not; where they alone would do, a reviewer's approval does, too."""
    if _have_passed(runs) or any(one.need == policy.CHECKS for one in waiver_rules.waived(review)):
        return False
    by_reviewer = any(one.family != RULE for one in filled(review))
    return any(one.word == policy.CHECKS for one in known.needs) and not (known.only_checks and by_reviewer)


def _have_passed(runs: Sequence[CheckRun]) -> bool:
    """Whether a check has passed, and none that is required has not."""
    return outcome(runs) == PASSED and any(one.status == CheckStatus.PASSED for one in runs)


def approve_by_rule(unit: Unit, review: Review, runs: Sequence[CheckRun], now: int) -> Review:
    """Approve a review whose policy needs nothing but passed checks, once they have; else it stays as it is."""
    known = of(review)
    is_free = review.state == State.PENDING and review.attention is None
    if not (review.by_checks and is_free and known is not None and _have_passed(runs)):
        return review
    if any(one.is_open for one in finding_queries.list_of_review(unit, review.id)):
        return review
    by = ", ".join(known.by_rule)
    given = verdict_on(review, f"vd_rule_{review.id}_{review.round}", "approved", f"Approved by rule: {by}", RULE, now)
    found = step(Action.APPROVE_BY_RULE, review)
    seat = Seat(RULE, is_person=False, family=RULE, verdict_id=given.id)
    after = taken(review, seat)._replace(
        state=found.to or review.state,
        verdict=given.verdict,
        verdict_reason=given.reason,
        verdict_id=given.id,
        verdict_by=RULE,
        decided_at=now,
        approved_round=review.round,
        updated_at=now,
    )
    data = {"verdict": given.verdict, "round": review.round, "digest": review.digest, "rules": known.by_rule}
    return writing.change_review(
        unit,
        review,
        with_turn(after),
        actor=RULE,
        kind=EventKind.VERDICT_SUBMITTED,
        data={**data, "policy": known.source},
        rows=writing.Rows(verdict=given),
    )
