"""What is said about a review, and whose turn it is to say something."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.errors import TurnViolation
from tandem.reviews.rules import Review, Side, whose_turn


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


@dataclass(frozen=True, slots=True)
class Message:
    """A message, or a verdict's comment on a line. Field order is the column order of its table."""

    id: str
    review_id: str
    seq: int
    position: int
    round: int
    kind: str
    sender_role: str
    sender_id: str
    body: str
    metadata: str = "{}"
    verdict_id: str | None = None
    file: str | None = None
    line: int | None = None
    resolves: str | None = None
    resolved_by: str | None = None
    created_at: int = 0


def check_turn(review: Review, side: Side) -> None:
    """Refuse a second message in a row from one side.

    Raises:
        TurnViolation: The other side has not answered yet.
    """
    if review.speaker != side:
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
    return with_turn(review._replace(speaker=side, speaker_kind=how))


def reset_turn(review: Review) -> Review:
    """The review with nobody having spoken, as at the start of a round or claim."""
    return with_turn(review._replace(speaker=None, speaker_kind=None))


def with_turn(review: Review) -> Review:
    """The review with `turn` as its state implies."""
    return review._replace(turn=whose_turn(review))


def next_round(review: Review, *, digest: str | None, validated: bool, now_us: int) -> Review:
    """The review with a new round of other content: nothing was said, decided or checked about it yet."""
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
            checks=None,
            updated_at=now_us,
        )
    )
