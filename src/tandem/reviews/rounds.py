"""The records of a review's rounds, verdicts, messages, counter-patches and waivers; and which side speaks next.

A waiver is a requirement of the policy that a person let a change pass without: a debt until it is reviewed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import orjson

from tandem.contract.request import Work
from tandem.core.clock import DAY_US, instant_us, isoformat
from tandem.errors import InvalidInput, TurnViolation
from tandem.git.changes import Change
from tandem.reviews.rules import ASKED, Review, Side, whose_turn
from tandem.rulings.policy import in_words


@dataclass(frozen=True, slots=True, kw_only=True)
class Round(Work):
    """One immutable round of a review, under the names of its table's columns."""

    review_id: str
    """The review."""
    round: int
    """Its number, from 1."""
    origin: str
    """`proposal`, `revision` or `counter_patch`."""
    author: str
    """Who wrote the content."""
    intent: str
    """What the change is for."""
    agent_type: str
    """The proposing agent."""
    agent_role: str
    """What the agent was doing."""
    description_id: str | None
    """The content with the description, or with the whole text of `path`."""
    diff_id: str | None
    """The content with the diff; None for a text."""
    base: str | None
    """What the diff is against, as the proposer named it."""
    base_commit: str | None
    """The commit that the diff was validated against."""
    path: str | None
    """The file whose whole content was proposed; None for another change."""
    metadata: str
    """Further facts for readers, as JSON."""
    digest: str | None
    """What an approval binds to; None if nothing was validated."""
    validated: int
    """1 if the broker computed the digest from a repository."""
    affected_files: str
    """The files that it touches, as JSON."""
    changes: str
    """Its raw changes by path and blob, as JSON."""
    created_at: int
    """Microseconds since the epoch, UTC."""
    accepted_by: str | None = None
    """Who accepted the counter-patch that it was; None where that may have been its author."""
    base_files_id: str | None = None
    """The content with the touched files as the base has them, as JSON, where the proposer sent them along."""
    notes: str | None = None
    """What git did that the diff as it was sent did not say, as JSON; None for a diff that is as it was sent."""
    ground: str | None = None
    """Its ground when it was validated, as `grounds` writes it; None where there was no repository."""

    def entries(self) -> tuple[Change, ...]:
        """Its raw changes. There may be 80,000: call it in a thread."""
        return tuple(Change(**change) for change in orjson.loads(self.changes))


@dataclass(frozen=True, slots=True)
class CounterPatch:
    """A reviewer's replacement for a round's content. Field order is the column order of its table."""

    id: str
    """`cp_…`."""
    review_id: str
    """The review."""
    seq: int
    """The number of the event that brought it."""
    round: int
    """The round that it would replace."""
    author: str
    """The reviewer who wrote it."""
    content_id: str
    """The content with its diff or text."""
    is_text: int
    """1 if it replaces a text."""
    digest: str | None
    """What an approval would bind to; None if it was not validated."""
    affected_files: str
    """The files that it touches, as JSON."""
    status: str
    """`pending` until it is `accepted`, `rejected` or `superseded`."""
    reason: str | None
    """Why it was decided so, in words."""
    created_at: int
    """Microseconds since the epoch, UTC."""
    decided_at: int | None
    """Likewise; None while it is pending."""
    sent_by: str | None = None
    """What its author's client calls itself; None if it did not say."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """A reviewer's verdict on one round. Field order is the column order of its table."""

    id: str
    review_id: str
    seq: int
    round: int
    claim_generation: int
    verdict: str
    reason: str | None
    reviewer_id: str
    created_at: int


def verdict_on(
    review: Review, verdict_id: str, verdict: str, reason: str | None, reviewer: str, now_us: int
) -> Verdict:
    """A verdict of that id on a review's current round; its event gives it its number."""
    return Verdict(verdict_id, review.id, 0, review.round, review.claim_generation, verdict, reason, reviewer, now_us)


def decided_by(review: Review, given: Verdict) -> Review:
    """The review with a verdict that decides its current round; its state is the caller's."""
    return review._replace(
        verdict=given.verdict,
        verdict_reason=given.reason,
        verdict_id=given.id,
        verdict_by=given.reviewer_id,
        decided_at=given.created_at,
        approved_round=given.round if given.verdict == "approved" else None,
    )


@dataclass(frozen=True, slots=True)
class Message:
    """A message. Field order is the column order of its table."""

    id: str
    review_id: str
    seq: int
    round: int
    kind: str
    """`message`, or `question` of a person from the side."""
    sender_role: str
    sender_id: str
    body: str
    metadata: str = "{}"
    resolves: str | None = None
    resolved_by: str | None = None
    created_at: int = 0


def check_turn(review: Review, side: Side) -> None:
    """Refuse a second message in a row from one side.

    Raises:
        TurnViolation: The other side has not answered yet.
    """
    if review.speaker != side or review.speaker_kind == ASKED:
        return
    other = "reviewer" if side == "proposer" else "proposer"
    raise TurnViolation(
        f"The {side} spoke last in this round; wait for the {other} (get_review_status with wait), then answer.",
        review_id=review.id,
        expected=other,
        actual=side,
    )


def record_speaker(review: Review, side: Side, how: str) -> Review:
    """The review after a side took its turn (`message`, `verdict` or `decision`)."""
    said = with_turn(review._replace(speaker=side, speaker_kind=how))
    return said if side == "proposer" or review.verdict == "approved" else objected(said)


def objected(review: Review) -> Review:
    """The review after a reviewer objected to its round, which counts once."""
    if review.objected_round == review.round:
        return review
    return review._replace(objections=review.objections + 1, objected_round=review.round)


def disagreement(review: Review) -> str | None:
    """Why a person decides on a review; None while too few rounds were objected to."""
    rounds = review.objections
    return f"{rounds} rounds ended without agreement: a person decides." if rounds >= review.most_objections else None


def asked(review: Review) -> str | None:
    """That a person who holds the claim asked something, and reads the answer also after it; None where none did."""
    if not review.held or review.speaker_kind not in ("question", "answer"):
        return None
    return asked_by(review.reviewer_id or "")


def asked_by(person: str) -> str:
    """That a person asked something, and reads the answer."""
    return f"{person} asked something: a person reads the answer first."


def why_stopped(review: Review) -> str | None:
    """Why only a person has a review go on, or would after this round or claim; None where agents may."""
    return review.attention if review.is_disputed else asked(review) or disagreement(review)


def reset_turn(review: Review) -> Review:
    """The review with no one having spoken, as at the start of a round or claim."""
    return with_turn(review._replace(speaker=None, speaker_kind=None))


def left_asked(review: Review) -> Review:
    """The review as at the start of a claim; what an earlier reviewer asked still waits for the proposer."""
    return with_turn(review._replace(speaker_kind=ASKED)) if review.is_unanswered else reset_turn(review)


def with_turn(review: Review) -> Review:
    """The review with `turn` as its state implies."""
    turn = whose_turn(review)
    # Most steps leave it, and a copy of so many columns costs as much as a statement.
    return review if turn == review.turn else review._replace(turn=turn)


def next_round(review: Review, *, digest: str | None, validated: bool, now_us: int) -> Review:
    """The review with a new round of other content: nothing was said, decided or checked about it yet.

    After too many that a reviewer objected to, a person looks first.
    """
    return reset_turn(
        review._replace(
            round=review.round + 1,
            digest=digest,
            validated=int(validated),
            approved_round=None,
            verdict=None,
            verdict_reason=None,
            verdict_id=None,
            verdict_by=None,
            decided_at=None,
            not_before=None,
            attempts=0,
            attention=review.attention or disagreement(review),
            checks=None,
            looked=None,
            updated_at=now_us,
        )
    )


MOST_WAIVED_DAYS: Final = 90
"""A debt may stay open no longer."""


class Waiver(NamedTuple):
    """One requirement that was waived for a round's content; times are microseconds since the epoch, UTC.

    Attributes:
        need: The policy's word for it.
        by: Who waived it.
        reason: Why.
        waived_at: When.
        until: When the review after the fact is due.
        settled_by: Who reviewed it then; None while it is owed.
        settled_at: When.
        objection: Who looked at it and objects, and why; None if no one does.
    """

    need: str
    by: str
    reason: str
    waived_at: int
    until: int
    settled_by: str | None = None
    settled_at: int | None = None
    objection: str | None = None

    def words(self, now_us: int) -> str:
        """The debt as a sentence without its end."""
        due = isoformat(self.until)[: len("2026-12-01T09:30")].replace("T", " ")
        overdue = ", overdue" if self.until < now_us else ""
        objection = f"; {self.objection}" if self.objection else ""
        need = in_words(self.need)
        return f"{need} is owed until {due} UTC{overdue}: {self.by} waived it ({self.reason}){objection}"


def waived(review: Review) -> tuple[Waiver, ...]:
    """The waivers of a review's content."""
    return tuple(Waiver(*one) for one in orjson.loads(review.waived or "[]"))


def owed(review: Review) -> tuple[Waiver, ...]:
    """Those that are still owed: of content whose approval stands."""
    return tuple(one for one in waived(review) if one.settled_at is None and review.approved_round is not None)


def approving(review: Review) -> Waiver | None:
    """The waiver that approved a review in place of a reviewer, if one did."""
    made = (review.verdict_by, review.decided_at)
    return next((one for one in waived(review) if review.approved_round and (one.by, one.waived_at) == made), None)


def with_waivers(review: Review, waivers: Sequence[Waiver]) -> Review:
    """The review with these waivers."""
    due = (one.until for one in waivers if one.settled_at is None)
    return review._replace(waived=orjson.dumps(list(map(tuple, waivers))).decode(), owed_until=min(due, default=None))


def with_waiver(review: Review, changed: Waiver) -> Review:
    """The review with another record of a need's waiver; an objection to one of them asks for a person."""
    every = [changed if one.need == changed.need else one for one in waived(review)]
    return with_waivers(review, every)._replace(attention=waiver_objections(every) or None)


def waiver_objections(waivers: Iterable[Waiver]) -> str:
    """What those say who objected after the fact."""
    return "; ".join(one.objection for one in waivers if one.objection)


def objection_by(who: str, reason: str | None) -> str:
    """That somebody objects, and why."""
    return f"{who} objects: {reason}"


def held_by_objection(review: Review) -> str:
    """The objections to waived requirements, and their end; empty without any."""
    said = waiver_objections(waived(review)).rstrip(".")
    way = f"'tandem review approve {review.id}'"
    if review.approved_round is not None:
        way = f"'tandem review settle {review.id} approved'"
    return said and f"{said}. An approval of the kind that was waived ends this: {way}"


def waived_until_us(text: str, now_us: int) -> int:
    """Microseconds since the epoch of an ISO 8601 time to come, UTC unless it says otherwise.

    Raises:
        InvalidInput: It is none, has been, or is too far away.
    """
    try:
        found = instant_us(text)
    except ValueError as error:
        raise InvalidInput("until must be an ISO 8601 time, such as 2026-12-01T09:30:00Z.", field="until") from error
    if not now_us < found <= now_us + MOST_WAIVED_DAYS * DAY_US:
        raise InvalidInput(f"until must be a time to come, at most {MOST_WAIVED_DAYS} days from now.", field="until")
    return found
