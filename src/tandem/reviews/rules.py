"""The review: its record, its states, and the table of everything that may happen to it.

Nothing bypasses `TABLE`: every operation asks `step()` for its effect in the current state, and
every pair that is not in the table is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import orjson

from tandem.errors import InvalidTransition
from tandem.rulings.policy import Requirements

Side = Literal["proposer", "reviewer"]
Category = Literal["plan_review", "code_change", "verification", "handoff"]
Priority = Literal["critical", "normal", "low"]
Outcome = Literal["approved", "rejected", "withdrawn"]
NextAction = Literal[
    "wait", "answer_message", "decide_counter_patch", "revise", "apply_and_close", "revert", "escalate", "none"
]

INIT = "tandem init"
"""The proposer of what `tandem init` wrote, which it has approved itself."""
NO_VERDICT = " reviewers gave no verdict; the last: "
"""Where programs failed, `attention` has it between how many did and how the last one did."""

MOST_OBJECTIONS = 3
"""After this many rounds that a reviewer objected to, agents stop and ask a person; and so they do after this many
reviews in a row, each the parent of the next, that ended without approval."""


class State(StrEnum):
    """Where a review is in its life."""

    PENDING = "pending"
    """In the queue: no one holds a claim on it."""
    CLAIMED = "claimed"
    """A reviewer holds the claim; nothing has been said yet."""
    IN_REVIEW = "in_review"
    """A reviewer holds the claim and the discussion has begun."""
    CHANGES_REQUESTED = "changes_requested"
    """The proposer is asked to revise; no one holds a claim."""
    APPROVED = "approved"
    """The current round's content may pass the gate."""
    REJECTED = "rejected"
    """The change is not wanted; it goes on only as a new review."""
    CLOSED = "closed"
    """The end: outcome approved, rejected or withdrawn."""


class Action(StrEnum):
    """The acts on a review; the rows of the table."""

    REVISE = "revise"
    """proposer: `create_review` with `review_id`"""
    CLAIM = "claim"
    """reviewer: `claim_review` with `review_id`"""
    CLAIM_NEXT = "claim_next"
    """reviewer: `claim_review` without `review_id`"""
    CLAIM_BESIDE = "claim_beside"
    """reviewer: `claim_review`, where more approvals are needed than those at work can give"""
    HAND_ON = "hand_on"
    """broker: the claim ended, and the oldest one beside it that votes goes on in its place"""
    RENEW = "renew"
    """reviewer: `renew_claim`"""
    RELEASE = "release"
    """reviewer: `release_claim`"""
    EXPIRE = "expire"
    """broker: the lease ran out, or a pool's reviewer gave no verdict"""
    PROPOSER_MESSAGE = "proposer_message"
    """proposer: `add_message`"""
    REVIEWER_MESSAGE = "reviewer_message"
    """reviewer: `add_message`"""
    ASK = "ask"
    """person without the claim: `add_message` as reviewer; proposer: the answer to that"""
    COMMENT = "comment"
    """reviewer: `submit_verdict` with `comment`"""
    APPROVE = "approve"
    """reviewer: `submit_verdict` with `approved`"""
    TAKE_SEAT = "take_seat"
    """reviewer: `submit_verdict` with `approved`, where the policy needs somebody else's approval, too"""
    APPROVE_BY_RULE = "approve_by_rule"
    """broker: the checks passed, and the policy needs nothing else"""
    KEEP_BACK = "keep_back"
    """broker: nothing else is missing, and open findings were left"""
    WAIVE = "waive"
    """person: `waive_requirement`, where others are still missing, or it is approved already"""
    APPROVE_BY_WAIVER = "approve_by_waiver"
    """person: `waive_requirement` of the last one that is missing"""
    REQUEST_CHANGES = "request_changes"
    """reviewer: `submit_verdict` with `changes_requested`"""
    REJECT = "reject"
    """reviewer: `submit_verdict` with `rejected`"""
    ACCEPT_COUNTER_PATCH = "accept_counter_patch"
    """proposer: `accept_counter_patch`"""
    REJECT_COUNTER_PATCH = "reject_counter_patch"
    """proposer: `reject_counter_patch`"""
    WITHDRAW_APPROVAL = "withdraw_approval"
    """who approved, or an operator: `withdraw_approval`"""
    WITHDRAW_SEAT = "withdraw_seat"
    """who approved, while others still have to: `withdraw_approval`"""
    CONTEST = "contest"
    """proposer: `answer_finding`, once all findings are refuted or deferred"""
    CLOSE = "close"
    """proposer: `close_review`"""


class Guard(StrEnum):
    """Who may take a step, beyond the operation's role."""

    ANYONE = "anyone"
    HOLDER = "holder"
    """Only the reviewer whose claim generation is the current one."""
    LAST_REVIEWER = "last_reviewer"
    """Only the reviewer who gave the latest verdict."""


@dataclass(frozen=True, slots=True)
class Step:
    """One cell of the table: where an action leads from a state.

    Attributes:
        to: The next state; None when it stays.
        new_generation: Whether the claim generation rises.
        new_round: Whether a new round begins.
        guard: Who may take the step.
        outcome: The outcome that a close records.
    """

    to: State | None = None
    new_generation: bool = False
    new_round: bool = False
    guard: Guard = Guard.ANYONE
    outcome: Outcome | None = None


ASKED = "asked"
"""How a reviewer spoke whose claim has ended since: others may go on without the answer."""
_ASKS = ("message", "comment", "question", ASKED)
_S = State
_HELD = (_S.CLAIMED, _S.IN_REVIEW)


def _held(step: Step) -> dict[State, Step]:
    return dict.fromkeys(_HELD, step)


_REVISED = Step(_S.PENDING, new_round=True)
_REVISED_FROM_HOLDER = Step(_S.PENDING, new_round=True, new_generation=True)
_CLAIMED = Step(_S.CLAIMED, new_generation=True)
_FREED = Step(_S.PENDING, new_generation=True)
_WITHDRAWN = Step(_S.CLOSED, outcome="withdrawn")
_STAYS = Step()

TABLE: dict[Action, dict[State, Step]] = {
    Action.REVISE: {
        _S.PENDING: _REVISED,
        **_held(_REVISED_FROM_HOLDER),
        _S.CHANGES_REQUESTED: _REVISED,
        _S.APPROVED: _REVISED,
    },
    # In a held state the holder gets its own claim again; others are refused by `claims`.
    Action.CLAIM: {
        _S.PENDING: _CLAIMED,
        **_held(Step(guard=Guard.HOLDER)),
        _S.CHANGES_REQUESTED: _CLAIMED,
    },
    Action.CLAIM_NEXT: {_S.PENDING: _CLAIMED},
    Action.CLAIM_BESIDE: _held(_STAYS),
    Action.HAND_ON: _held(Step(_S.CLAIMED)),
    Action.RENEW: _held(Step(guard=Guard.HOLDER)),
    Action.RELEASE: _held(Step(_S.PENDING, new_generation=True, guard=Guard.HOLDER)),
    Action.EXPIRE: _held(_FREED),
    Action.PROPOSER_MESSAGE: {
        _S.PENDING: _STAYS,
        **_held(Step(_S.IN_REVIEW)),
        _S.CHANGES_REQUESTED: _STAYS,
        _S.APPROVED: _STAYS,
    },
    Action.REVIEWER_MESSAGE: {
        **_held(Step(_S.IN_REVIEW, guard=Guard.HOLDER)),
        _S.CHANGES_REQUESTED: Step(guard=Guard.LAST_REVIEWER),
        _S.APPROVED: Step(guard=Guard.LAST_REVIEWER),
    },
    # A question from the side takes no turn, and begins no discussion with the reviewer.
    Action.ASK: dict.fromkeys((_S.PENDING, *_HELD, _S.CHANGES_REQUESTED, _S.APPROVED), _STAYS),
    Action.COMMENT: _held(Step(_S.IN_REVIEW, guard=Guard.HOLDER)),
    Action.APPROVE: _held(Step(_S.APPROVED, guard=Guard.HOLDER)),
    Action.TAKE_SEAT: _held(Step(_S.PENDING, new_generation=True, guard=Guard.HOLDER)),
    Action.APPROVE_BY_RULE: {_S.PENDING: Step(_S.APPROVED)},
    Action.KEEP_BACK: {_S.PENDING: Step(_S.CHANGES_REQUESTED)},
    Action.WAIVE: dict.fromkeys((_S.PENDING, *_HELD, _S.APPROVED), _STAYS),
    Action.APPROVE_BY_WAIVER: {_S.PENDING: Step(_S.APPROVED), **_held(Step(_S.APPROVED, new_generation=True))},
    Action.REQUEST_CHANGES: _held(Step(_S.CHANGES_REQUESTED, guard=Guard.HOLDER)),
    Action.REJECT: _held(Step(_S.REJECTED, guard=Guard.HOLDER)),
    Action.ACCEPT_COUNTER_PATCH: {
        _S.PENDING: _REVISED,
        **_held(Step(new_round=True)),
        _S.CHANGES_REQUESTED: _REVISED,
    },
    Action.REJECT_COUNTER_PATCH: {_S.PENDING: _STAYS, **_held(_STAYS), _S.CHANGES_REQUESTED: _STAYS},
    Action.WITHDRAW_APPROVAL: {
        _S.APPROVED: Step(_S.CHANGES_REQUESTED),
        # Only one that ended approved; it then ends withdrawn.
        _S.CLOSED: Step(outcome="withdrawn"),
    },
    Action.WITHDRAW_SEAT: {_S.PENDING: _STAYS, _S.CHANGES_REQUESTED: _STAYS, **_held(_STAYS)},
    Action.CONTEST: {_S.CHANGES_REQUESTED: Step(_S.PENDING)},
    Action.CLOSE: {
        _S.PENDING: _WITHDRAWN,
        **_held(Step(_S.CLOSED, new_generation=True, outcome="withdrawn")),
        _S.CHANGES_REQUESTED: _WITHDRAWN,
        _S.APPROVED: Step(_S.CLOSED, outcome="approved"),
        _S.REJECTED: Step(_S.CLOSED, outcome="rejected"),
        # Closing twice gives the same answer and leaves no second event.
        _S.CLOSED: _STAYS,
    },
}


_OF_POLICY = frozenset(
    {
        Action.CLAIM_BESIDE,
        Action.HAND_ON,
        Action.APPROVE_BY_RULE,
        Action.KEEP_BACK,
        Action.WAIVE,
        Action.APPROVE_BY_WAIVER,
        Action.WITHDRAW_SEAT,
    }
)
"""These happen only where several have to do with a review: no refusal offers them."""


class Review(NamedTuple):
    """One review as it stands. Field order is the column order of its table.

    A tuple rather than a dataclass: it has many fields, and every step makes a new one.

    Times are microseconds since the epoch, UTC.
    """

    id: str
    """`rv_…`, which begins with the time at which it was made."""
    project: str
    """The project or label that it belongs to; it never changes."""
    category: str
    """A `Category`; it never changes."""
    priority: int
    """Index into `PRIORITIES`, inferred once."""
    proposer_id: str
    """Who proposed it."""
    parent_id: str | None
    """The rejected review that it follows."""
    created_at: int
    """When it was proposed."""
    intent: str
    """What the change is for, in a sentence, as the current round says it."""
    agent_type: str
    """The proposing agent, such as `claude-code`."""
    agent_role: str
    """What the agent was doing, such as `executor`."""
    phase: str | None
    """With the next ones, the work that the change belongs to; see `Work`."""
    plan: str | None
    """The plan that the change belongs to."""
    task: str | None
    """The task of the plan."""
    state: str = State.PENDING.value
    """A `State`."""
    outcome: str | None = None
    """An `Outcome` once it is closed."""
    round: int = 1
    """The number of the current round, from 1."""
    digest: str | None = None
    """What an approval of the current round binds to; None if nothing was validated."""
    validated: int = 0
    """1 if the broker computed the digest from a repository."""
    claim_generation: int = 0
    """The number of the latest claim; writes that name an older one are refused."""
    reviewer_id: str | None = None
    """Who holds the claim."""
    claim_round: int | None = None
    """The round that was current when the claim was given."""
    claimed_at: int | None = None
    """When the claim was given."""
    lease_expires_at: int | None = None
    """When the claim ends unless it is renewed; no event restores it."""
    speaker: str | None = None
    """The side that spoke last in this round and claim."""
    speaker_kind: str | None = None
    """How it spoke: `message`, `comment`, `verdict` or `decision`; `question` of a person with the claim, and its
    `answer`; `asked` by a reviewer whose claim has ended."""
    turn: str | None = None
    """The `Side` that has something to do; None when the review is over."""
    attention: str | None = None
    """Why a person has to look; None if no one has to."""
    not_before: int | None = None
    """No reviewer is given it before this time."""
    verdict: str | None = None
    """The latest verdict on the current round."""
    verdict_reason: str | None = None
    """The reason that came with it."""
    verdict_id: str | None = None
    """Its id."""
    verdict_by: str | None = None
    """Who gave it; they may go on speaking after their claim has ended."""
    approved_round: int | None = None
    """The round whose approval opens the gate now."""
    counter_patch_id: str | None = None
    """The latest counter-patch."""
    counter_patch_status: str | None = None
    """`pending`, `accepted`, `rejected` or `superseded`."""
    updated_at: int = 0
    """When it last changed, but for renewals of the lease."""
    first_claimed_at: int | None = None
    """When it was first claimed, for statistics."""
    decided_at: int | None = None
    """When the latest deciding verdict was given, for statistics."""
    closed_at: int | None = None
    """When it was closed."""
    event_seq: int = 0
    """The number of its newest event, so that a truncated log is noticed."""
    event_hash: str = ""
    """The hash of its newest event."""
    attempts: int = 0
    """Runs of pool reviewers in a row that ended without a verdict, in this round."""
    checks: str | None = None
    """What the checks of this round come to: pending, doubtful, failed or passed; None without any."""
    removed_at: int | None = None
    """When its contents were removed."""
    removed_seq: int | None = None
    """The newest event whose contents were removed with them."""
    question_id: str | None = None
    """The newest question from the side that its proposer has not answered."""
    objections: int = 0
    """Rounds to which a reviewer objected, since a person last decided how it goes on."""
    objected_round: int = 0
    """The newest round to which a reviewer objected."""
    needs: str | None = None
    """What the project's policy needs of this round, as JSON; None without a policy."""
    seats: str | None = None
    """Who approved this content already while others still have to, as JSON; None while it is no one."""
    by_checks: int = 0
    """1 while the policy needs nothing but passed checks: no reviewer is wanted."""
    waived: str | None = None
    """The requirements that were waived for this content, as JSON; None while there are none."""
    owed_until: int | None = None
    """When the first of them is due that is not reviewed after the fact; None if there is none."""
    looked: str | None = None
    """The pool's profiles that had their turn at this round, and take it no more, as JSON; None while it is none."""
    at_work: str | None = None
    """Where several may be held, all claims that are, oldest first, as JSON; `reviewer_id` has the first that votes."""
    leases: str | None = None
    """When those beside the first one end unless they are renewed, by their numbers, as JSON; no event restores it."""
    generations: int = 0
    """The highest number of a claim that was given beside another."""
    seats_free: int = 0
    """How many approvals agents may claim although it is held."""
    ends_as: str | None = None
    """The state that an objection gives it once the last claim has ended; None without one."""

    @property
    def subject(self) -> str:
        """What its events are about."""
        return self.id

    @property
    def requirements(self) -> Requirements | None:
        """What the project's policy needs of the round; None without a policy."""
        return None if self.needs is None else _requirements(self.needs)

    @property
    def had_turn(self) -> frozenset[str]:
        """The pool's profiles that had their turn at this round."""
        return frozenset(orjson.loads(self.looked)) if self.looked else frozenset()

    def after_turn(self, profile: str) -> Review:
        """The review after a profile had its turn at this round."""
        return self._replace(looked=orjson.dumps(sorted({*self.had_turn, profile})).decode())

    @property
    def most_objections(self) -> int:
        """After so many rounds that a reviewer objected to, a person decides."""
        known = self.requirements
        return (known and known.rounds) or MOST_OBJECTIONS

    @property
    def is_disputed(self) -> bool:
        """Whether it waits for a person because agents do not agree, and not because their programs failed."""
        return self.attention is not None and not self.attempts

    @property
    def is_stopped(self) -> bool:
        """Whether only a person has it go on: it is disputed, or too many rounds ended with requests for changes."""
        is_ended = self.state == State.CHANGES_REQUESTED or self.objected_round < self.round
        return self.is_disputed or (self.objections >= self.most_objections and is_ended)

    @property
    def awaits_person(self) -> str | None:
        """Why it waits for a person; None where it does not, or one has it."""
        return None if self.held else self.attention

    @property
    def is_unanswered(self) -> bool:
        """Whether a reviewer said something that the proposer has not answered; a counter-patch is decided instead."""
        return self.speaker == "reviewer" and self.speaker_kind in _ASKS

    @property
    def is_asked(self) -> bool:
        """Whether it is unanswered, and whose claim it was has ended."""
        return self.state == State.PENDING and self.is_unanswered

    @property
    def is_undecided(self) -> bool:
        """Whether a counter-patch waits for the proposer; none is taken once somebody rejected the change."""
        return self.counter_patch_status == "pending" and self.ends_as != State.REJECTED

    @property
    def held(self) -> bool:
        """Whether somebody holds a claim."""
        return self.state in _HELD

    @property
    def ended_unapproved(self) -> bool:
        """Whether it was rejected, or closed without approval."""
        return self.state == State.REJECTED or self.outcome in ("rejected", "withdrawn")


@lru_cache(maxsize=1_000)
def _requirements(stored: str) -> Requirements:
    return Requirements.from_json(stored)


def step(action: Action, review: Review) -> Step:
    """The table's cell for an action in the review's current state.

    Raises:
        InvalidTransition: There is no such step; `details.allowed` lists the states that can follow.
    """
    found = TABLE[action].get(State(review.state))
    if found is not None:
        return found
    allowed = allowed_targets(State(review.state))
    following = ", ".join(allowed) or "nothing: it is over"
    raise InvalidTransition(
        f"'{action}' is not possible: the review is {review.state}. From here it can become: {following}."
        f"{_hint(review)}",
        review_id=review.id,
        action=str(action),
        status=review.state,
        allowed=allowed,
        allowed_actions=allowed_actions(State(review.state)),
    )


def allowed_targets(state: State) -> list[str]:
    """The states that can directly follow a state, in table order."""
    targets: list[str] = []
    for action in allowed_actions(state):
        found = TABLE[Action(action)].get(state)
        if found and found.to and found.to is not state and found.to not in targets:
            targets.append(found.to)
    return targets


def allowed_actions(state: State) -> list[str]:
    """The actions that somebody may take in a state, in table order."""
    return [action for action, row in TABLE.items() if state in row and action not in _OF_POLICY]


def _hint(review: Review) -> str:
    settle = f" A review is owed: settle_waiver ('tandem review settle {review.id} approved') takes yours."
    owed = settle if review.owed_until is not None and review.approved_round is not None else ""
    match review.state:
        case State.PENDING:
            return f" Claim it first with claim_review (review_id={review.id})."
        case State.APPROVED:
            return f"{owed} To end the approval: withdraw_approval (review_id={review.id}, with a reason)."
        case State.REJECTED | State.CLOSED:
            return owed or f" To go on, create a new review with parent_id={review.id}."
        case _:
            return ""


def whose_turn(review: Review) -> Side | None:
    """The side that has something to do now; None when the review is over."""
    answer_due = review.speaker == "proposer" and review.speaker_kind == "message"
    match review.state:
        case State.CLOSED:
            return None
        case State.PENDING:
            # Who waits for a verdict hears that there will be none before a person has looked.
            waits = review.is_undecided or review.is_asked or review.attention is not None
            return "proposer" if waits else "reviewer"
        case State.CLAIMED | State.IN_REVIEW:
            waits = review.speaker == "reviewer" or (review.is_undecided and not answer_due)
            return "proposer" if waits else "reviewer"
        case State.CHANGES_REQUESTED | State.APPROVED:
            return "reviewer" if answer_due else "proposer"
        case _:
            return "proposer"


_CHECKED: dict[str | None, NextAction] = {"pending": "wait", "doubtful": "wait", "failed": "revise"}
"""What an approval waits for where a required check has not passed."""


def next_action(review: Review) -> NextAction:
    """What the proposer should do now."""
    found = _next_action(review)
    return "answer_message" if found == "wait" and review.question_id is not None else found


def _next_action(review: Review) -> NextAction:  # noqa: PLR0911 one line a state reads best
    match review.state:
        case State.CLOSED:
            return "none"
        case State.APPROVED:
            return "escalate" if review.attention else _CHECKED.get(review.checks, "apply_and_close")
        case State.REJECTED:
            return "revert"
        case _ if review.is_undecided:
            return "decide_counter_patch"
        case State.PENDING:
            if review.by_checks and review.checks == "failed":
                return "revise"
            return "answer_message" if review.is_asked else "escalate" if review.attention else "wait"
        case _ if review.turn != "proposer":
            return "wait"
        case State.CHANGES_REQUESTED:
            return "escalate" if review.attention or review.is_stopped else "revise"
        case _:
            return "answer_message"


VOLATILE = frozenset({"lease_expires_at", "leases"})
"""Columns of a review that no event restores: renewals of a lease are not events."""


def taken_back_by(rollback: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows that follow from a rollback: one for each commit that it reverted or made again."""
    found: dict[str, dict[str, Any]] = {}
    for column, part in (("reverted_by", "reverted"), ("becomes", "carried")):
        for commit, other in orjson.loads(rollback[part]):
            row = found.setdefault(commit, {"commit_id": commit, "reverted_by": None, "becomes": None})
            row[column] = other
    shared = {name: rollback[name] for name in ("project", "review_id", "head_after")}
    return [{**row, **shared} for row in found.values()]


class Rollback(NamedTuple):
    """One change that was rolled back. Field order is the column order of its table.

    `reverted`, `carried` and `rework` are JSON: pairs of a commit and the one that reverted it, pairs of a commit and
    the one that it became, and commits that have to be done again.
    """

    review_id: str
    head_after: str
    project: str
    plan: str
    branch: str
    head_before: str
    reverted: str
    carried: str
    rework: str
    rolled_back_at: int
    rolled_back_by: str
