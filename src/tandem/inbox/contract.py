"""Operations on the inbox: requests and answers. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field

from tandem.contract.answer import Cursor
from tandem.contract.operation import OPERATOR, READ, Operation
from tandem.contract.request import (
    Person,
    ProjectRequest,
    Refusals,
)
from tandem.pool.contract import PoolView
from tandem.present.shape import Shown
from tandem.reviews.answers import ReviewRow


class GetInbox(ProjectRequest):
    """What waits for a person, what waits for others, and problems; of all projects unless one is named."""

    refusals: ClassVar[Refusals] = ()
    actor_field: ClassVar[str | None] = "person"

    person: Person
    limit: Annotated[int, Field(ge=1, description="Rows of each list, at most 200.")] = 50


@dataclass(frozen=True, slots=True)
class InboxItem:
    """One thing in an inbox."""

    kind: Annotated[
        str,
        Field(
            description=(
                "`review`, `cycle` (the review of a cycle's hand-off), what holds up reviews (`pool` or `reviewer`),"
                " `failure` (reviews at which reviewers failed for one reason), or"
                " `override` (of the last 30 days, that the person has not seen)."
            )
        ),
    ]
    why: Annotated[
        str,
        Field(
            description=(
                "Why it is there. Your turn: `review` (no reviewer takes it), `approve` (the policy asks for a person),"
                " `verdict` (you hold it), "
                "`answer`, `decide` (a counter-patch), `revise`, `apply`, `revert` (it was rejected), `draft` (a "
                "remark that is not sent), `owed` (the review after the fact of a waived requirement). "
                "Waiting: `queued` (for a reviewer), `reviewing`, `proposer`. Problems: `attention` "
                "(a person decides), `escalate` (too many rounds), `revert` (rejected, and its commits stand); of a "
                "pool `paused`, `rate_limited`, `circuit_open`, `lost` (for a day) and `stuck` (it runs and took "
                "nothing for 30 minutes); of a reviewer `stuck` (silent, or its claim ran out and was not released); "
                "of an override `overridden`."
            )
        ),
    ]
    since: Annotated[str, Field(description="Since when it waits.")]
    review: Annotated[ReviewRow | None, Field(description="The review; null for all that is none.")] = None
    pool: Annotated[PoolView | None, Field(description="The pool, or that of the reviewer; else null.")] = None
    who: Annotated[
        str | None,
        Field(description="Whom it waits for, where that is known; of an override project and id: `webshop/ov_4k2m`."),
    ] = None
    detail: Annotated[
        str | None, Field(description="Further facts: a reason, or the roles and the phase of a hand-off.")
    ] = None
    has_draft: Annotated[
        bool, Field(description="Whether the person has written something about it and not sent it."), Shown("hidden")
    ] = False
    cause: Annotated[str | None, Field(description="What happened, in a line; null for a review.")] = None
    holds_up: Annotated[
        tuple[ReviewRow, ...], Field(description="The first reviews that wait because of it; they are in no list.")
    ] = ()
    held_up: Annotated[int, Field(description="How many reviews wait because of it.")] = 0
    files: Annotated[int, Field(description="How many files the round changes.")] = 0
    added: Annotated[int, Field(description="Lines that the round adds.")] = 0
    removed: Annotated[int, Field(description="Lines that the round removes.")] = 0
    open_findings: Annotated[int, Field(description="Findings on the review that are open.")] = 0


@dataclass(frozen=True, slots=True)
class InboxCounts:
    """How many there are of each kind, at most one more than the limit that was asked for."""

    your_turn: Annotated[int, Field(description="Items that wait for the person.")]
    waiting: Annotated[int, Field(description="The other open items.")]
    problems: Annotated[int, Field(description="Problems.")]


@dataclass(frozen=True, slots=True)
class Inbox:
    """Items that wait for a person, the other open ones, and problems.

    In each list the reviews that the person proposed, holds or decided come first; then by priority and age.
    """

    person: Annotated[str, Field(description="Whose it is.")]
    your_turn: Annotated[tuple[InboxItem, ...], Field(description="Items that wait for the person.")]
    waiting: Annotated[tuple[InboxItem, ...], Field(description="The other open items.")]
    problems: Annotated[tuple[InboxItem, ...], Field(description="Problems; they are in neither of the other lists.")]
    counts: Annotated[
        InboxCounts, Field(description="How many there are in each list, at most one more than the limit.")
    ]
    cursor: Cursor


OPERATIONS = (Operation("get_inbox", "inbox", "show", GetInbox, Inbox, OPERATOR, READ, listed=False),)
