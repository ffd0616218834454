"""What the subjects above reviews do when something happens to one. The composition root names them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tandem.git.changes import Change
from tandem.reviews.answers import NoReviewer
from tandem.reviews.rounds import Round
from tandem.reviews.rules import Review
from tandem.store.base import Unit
from tandem.store.context import Services


class Difference(NamedTuple):
    """The raw difference of two commits.

    Attributes:
        digest: Over it.
        changes: Its entries; None where there are too many.
        signed: The signatures that come with it.
    """

    digest: str
    changes: Sequence[Change] | None
    signed: Sequence[str]


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict that decided.

    Attributes:
        review: The review as it was held.
        current: The round that it is about.
        verdict: `approved`, `changes_requested` or `rejected`.
        reviewer: Who gave it.
        at_us: When, in microseconds since the epoch.
    """

    review: Review
    current: Round
    verdict: str
    reviewer: str
    at_us: int


def why_none(unit: Unit, services: Services, review: Review) -> NoReviewer | None:
    """Why a review that waits for a reviewer gets none now; null if one may come any moment, or somebody has it."""
    found = (one.why_none(unit, services, review) for one in services.participants)
    return next((why for why in found if why is not None), None)


class Participant:
    """A subject with a stake in reviews. Each method runs within the unit of work, and does nothing of itself."""

    def lock(self, unit: Unit, review_id: str) -> None:
        """Lock what a verdict may change beside the review, before the review is locked."""

    def check_revision(self, unit: Unit, review: Review) -> None:
        """Refuse a revision by `create_review`.

        Raises:
            InvalidTransition: It is revised in another way.
        """

    def check_counter_patch(self, unit: Unit, review: Review, body: str) -> None:
        """Refuse a counter-patch that could never be approved.

        Raises:
            SchemaInvalid: It is no payload for the hand-off that the review is about.
        """

    def protected_branches(self, unit: Unit, project: str) -> tuple[str, ...]:  # noqa: ARG002 - for who overrides it
        """The branches of a project that nothing gets into unless it was approved."""
        return ()

    def accepted_commits(self, unit: Unit, project: str) -> tuple[str, ...]:  # noqa: ARG002 - as above
        """The commits of a project that count as approved, with their ancestors, because a person accepted them."""
        return ()

    def approves(self, unit: Unit, services: Services, project: str, what: Difference) -> bool:  # noqa: ARG002 - as above
        """Whether approvals cover a difference as it is, to the byte, or a signature of a signer is over it."""
        return False

    def commits_of(self, unit: Unit, services: Services, review: Review, current: Round) -> tuple[str, ...]:  # noqa: ARG002 - as above
        """The commits that are known to hold an approved round's content and still stand."""
        return ()

    def why_none(self, unit: Unit, services: Services, review: Review) -> NoReviewer | None:  # noqa: ARG002 - as above
        """Why a review that waits for a reviewer gets none now; null if one may come any moment."""
        return None

    def check_withdrawal(self, unit: Unit, review: Review) -> None:
        """Refuse that an approval is withdrawn.

        Raises:
            InvalidTransition: What was approved has happened.
        """

    def decided(self, unit: Unit, services: Services, decision: Decision) -> None:
        """Take in a verdict, whose event has been appended.

        Raises:
            InvalidPhase: It would approve what has been overtaken.
            SchemaInvalid: What was approved cannot be used.
        """
