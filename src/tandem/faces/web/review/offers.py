"""What a person may do to a review now, by the life-cycle table and their part in it; and why not."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.contract.operation import Role
from tandem.domain.reviews import Action, Side, State
from tandem.faces.web.review.view import ReviewView

_OVER = {
    State.APPROVED: "It is approved. A revision would end the approval.",
    State.REJECTED: "It is rejected. To try again, its proposer creates a new review.",
    State.CLOSED: "It is closed. To continue, its proposer creates a new review.",
}
_NAMELESS = "Say your name first."


@dataclass(frozen=True, slots=True)
class Offer:
    """Whether something may be done now.

    Attributes:
        why_not: What stands against it, in words for the person; empty if it may be done.
    """

    why_not: str = ""

    @property
    def allowed(self) -> bool:
        """Whether it may be done."""
        return not self.why_not


@dataclass(frozen=True, slots=True)
class Offers:
    """Everything that a person might do to a review.

    Attributes:
        release: Renewing, too.
        verdict: Comments on lines and counter-patches, too.
        decide: Accepting or rejecting the pending counter-patch.
        side: The side that the person speaks for in the discussion.
        in_place: Whether they would do the proposer's part in the proposer's place.
    """

    claim: Offer
    release: Offer
    verdict: Offer
    message: Offer
    decide: Offer
    close: Offer
    retry: Offer
    side: Side
    in_place: bool

    @property
    def comment_how(self) -> str:
        """How something said about a line is sent: with the `verdict`, as a `message`, or not at all (`none`)."""
        if self.verdict.allowed or self.claim.allowed:
            return "verdict"
        return "message" if self.message.allowed else "none"

    @property
    def comment_why(self) -> str:
        """Why nothing can be said about a line."""
        return self.claim.why_not if self.comment_how == "none" else ""


def offers(view: ReviewView) -> Offers:
    """What the person who looks at a review may do."""
    allowed = frozenset(view.review.actions)
    side = _side(view)
    return Offers(
        claim=_for(Role.REVIEWER, view, _claim(view, allowed)),
        release=_for(Role.REVIEWER, view, Offer() if view.is_holder else Offer("You do not hold it.")),
        verdict=_for(Role.REVIEWER, view, _verdict(view)),
        message=_for(side, view, _message(view, allowed, side)),
        decide=_for(Role.PROPOSER, view, _decide(view, allowed)),
        close=_for(Role.PROPOSER, view, _close(view, allowed)),
        retry=_for(Role.ADMIN, view, _retry(view)),
        side=side,
        in_place=not view.is_proposer,
    )


def _for(role: str, view: ReviewView, offer: Offer) -> Offer:
    """An offer for those whose token has a role."""
    if offer.allowed and not view.has_role(role):
        return Offer(f"It needs the role {role}, which your access token does not have.")
    return offer


def _side(view: ReviewView) -> Side:
    decided = view.state in (State.CHANGES_REQUESTED, State.APPROVED)
    reviewed = decided and bool(view.person) and view.status.reviewer_id == view.person
    return "reviewer" if view.is_holder or (reviewed and not view.is_proposer) else "proposer"


def _claim(view: ReviewView, allowed: frozenset[str]) -> Offer:
    if view.is_holder:
        return Offer("You hold it already.")
    if view.is_held:
        return Offer(f"{view.holder} holds it. You can take it when it is released, or when the lease has run out.")
    if Action.CLAIM not in allowed:
        return Offer(_OVER.get(State(view.state), "It cannot be claimed now."))
    if not view.person:
        return Offer(_NAMELESS)
    return _claim_here(view)


def _claim_here(view: ReviewView) -> Offer:
    """Whether the person could take what they see."""
    if not view.is_current:
        newest = f"round {view.current_round}"
        return Offer(f"This is round {view.round}. Claim it where the current one is shown, {newest}.")
    return Offer("It is your own: somebody else gives the verdict.") if view.is_author else Offer()


def _verdict(view: ReviewView) -> Offer:
    if not view.is_current:
        return Offer(f"This is round {view.round}. A verdict is given on the current one, round {view.current_round}.")
    if not view.is_holder:
        return Offer("Claim it first: who holds a review gives the verdict.")
    if view.is_author:
        return Offer("This round is your own: release it, and somebody else gives the verdict.")
    return Offer()


def _message(view: ReviewView, allowed: frozenset[str], side: Side) -> Offer:
    if not view.person:
        return Offer(_NAMELESS)
    if (Action.REVIEWER_MESSAGE if side == "reviewer" else Action.PROPOSER_MESSAGE) not in allowed:
        return Offer(_OVER.get(State(view.state), "Nothing is discussed in this state."))
    if view.review.speaker == side:
        other = "proposer" if side == "reviewer" else "reviewer"
        own = "You" if view.is_proposer or side == "reviewer" else "The proposer's side"
        return Offer(f"{own} spoke last. The sides take turns: the {other} comes next.")
    return Offer()


def _decide(view: ReviewView, allowed: frozenset[str]) -> Offer:
    patch = view.counter_patch
    if patch is None or Action.ACCEPT_COUNTER_PATCH not in allowed:
        return Offer("No counter-patch waits for a decision.")
    if not view.person:
        return Offer(_NAMELESS)
    if view.names.include(patch.author):
        return Offer(f"You offered it, so that {view.proposal.proposer_id} decides.")
    return Offer()


def _close(view: ReviewView, allowed: frozenset[str]) -> Offer:
    if State(view.state) is State.CLOSED or Action.CLOSE not in allowed:
        return Offer("It is closed already.")
    return Offer() if view.person else Offer(_NAMELESS)


def _retry(view: ReviewView) -> Offer:
    if view.status.attention is None or State(view.state) is not State.PENDING:
        return Offer("It waits for nobody's attention.")
    return Offer() if view.person else Offer(_NAMELESS)
