"""Requests and answers about requirements of the policy that a person waives, and their reviews after the fact."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tandem.contract.request import FullText, Name, Proof, Reason, Refusals, ReviewId, RoundNumber, WriteRequest
from tandem.errors import (
    Forbidden,
    InvalidTransition,
    NotFound,
    OpenFindings,
    ReasonRequired,
    RequirementMissing,
    SelfApproval,
    StaleRound,
)
from tandem.present.shape import Shown

_NEED = "As the policy has it: `person`, `agent`, `agent:NAME`, `owner`, `review` or `checks`."
_PROOF = Field(description="What a command sealed that a person has run.", json_schema_extra={"unlisted": True})


class WaiveRequirement(WriteRequest):
    """Let a change go without something that the policy asks for: on record, and owed until it is reviewed after all.

    For persons. When nothing else is missing, it approves the review.
    """

    refusals: ClassVar[Refusals] = (NotFound, Forbidden, StaleRound, InvalidTransition, OpenFindings)
    actor_field: ClassVar[str | None] = "waived_by"

    review_id: ReviewId
    need: Annotated[Name, Field(description=_NEED)]
    until: Annotated[Name, Field(description="When the review after the fact is due, ISO time; at most 90 days ahead.")]
    reason: Annotated[FullText, Field(description="Why it cannot wait.")]
    round: Annotated[RoundNumber, Field(description="The round that it is for.")]
    waived_by: Annotated[Name | None, Field(description="Who waives it. Default: the session, else `operator`.")] = None
    proof: Annotated[Proof | None, _PROOF] = None


class SettleWaiver(WriteRequest):
    """Review a waived requirement after the fact: the change is good, and the debt over; or not, and a person looks.

    For those whose approval the policy would have taken.
    """

    refusals: ClassVar[Refusals] = (
        *(NotFound, ReasonRequired, InvalidTransition, SelfApproval),
        *(Forbidden, RequirementMissing),
    )
    actor_field: ClassVar[str | None] = "reviewer_id"

    review_id: ReviewId
    verdict: Annotated[Literal["approved", "objects"], Field(description="Whether the change is good.")]
    need: Annotated[Name | None, Field(description=f"{_NEED} Needed if several are owed.")] = None
    reason: Annotated[Reason, Field(description="Required to object.")] = None
    reviewer_id: Annotated[Name | None, Field(description="Who reviewed it. Default: the session.")] = None
    proof: Annotated[Proof | None, _PROOF] = None


@dataclass(frozen=True, slots=True)
class DebtView:
    """A requirement that a person waived, still to be reviewed after the fact."""

    words: Annotated[str, Field(description="All of it, in a sentence."), Shown(label="owed")]
    need: Annotated[str, Field(description="The policy's word for it."), Shown("hidden")]
    until: Annotated[str, Field(description="When its review after the fact is due."), Shown("hidden")]
    overdue: Annotated[bool, Field(description="Whether that has been."), Shown("hidden")]
    waived_by: Annotated[str, Field(description="Who waived it."), Shown("hidden")]
    reason: Annotated[str, Field(description="Why."), Shown("hidden")]
    waived_at: Annotated[str, Field(description="When."), Shown("hidden")]
    objection: Annotated[str | None, Field(description="Who reviewed it and objects, and why."), Shown("hidden")] = None
