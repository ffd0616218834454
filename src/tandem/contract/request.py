"""What requests have in common: their base, the types of their fields, and what a change belongs to.

Unknown fields are refused; so are NUL and lone surrogates.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Annotated, Any, ClassVar, Final, Literal, NamedTuple

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from tandem.contract.caller import Subject
from tandem.core.texts import storable_json, storable_text
from tandem.core.visible import is_blank
from tandem.errors import TandemError

_NAME_LENGTH = 200
_ID_LENGTH = 64
_TOKEN_LENGTH = 512
_PATH_LENGTH = 4096
LARGEST = 2**31 - 1
"""Of the whole numbers that both databases hold in such a column."""


def _has_letters(text: str) -> str:
    if is_blank(text):
        raise ValueError("must not be empty")
    return text


def _reason(text: str | None) -> str | None:
    return None if text is None or is_blank(text) else text


# Long texts have no length here: their limits are settings, answered with TOO_LARGE by the services.
Text = Annotated[str, AfterValidator(storable_text)]
FullText = Annotated[str, AfterValidator(storable_text), AfterValidator(_has_letters)]
Name = Annotated[
    str, Field(min_length=1, max_length=_NAME_LENGTH), AfterValidator(storable_text), AfterValidator(_has_letters)
]
Id = Annotated[str, Field(min_length=1, max_length=_ID_LENGTH), AfterValidator(storable_text)]
Token = Annotated[str, Field(min_length=1, max_length=_TOKEN_LENGTH), AfterValidator(storable_text)]
FilePath = Annotated[str, Field(min_length=1, max_length=_PATH_LENGTH), AfterValidator(storable_text)]
# A text's digest holds its path.
Digest = Annotated[str, Field(min_length=1, max_length=_PATH_LENGTH + _TOKEN_LENGTH), AfterValidator(storable_text)]
Metadata = Annotated[dict[str, Any], AfterValidator(storable_json)]
JsonValue = Annotated[Any, AfterValidator(storable_json)]
Project = Annotated[Name | None, Field(description="Registered project, or a label; default: the endpoint's.")]
IdempotencyKey = Annotated[
    Name | None, Field(description="The same key with the same body has one effect and one answer, for a day.")
]
_PROOF = r"^(person|tok_[0-9a-z]{18})\.[0-9a-f]{64}( tok_[0-9a-z]{18}\.[0-9a-f]{64})?$"
Proof = Annotated[str, Field(pattern=_PROOF, max_length=300)]
"""What `rulings.proof` makes."""
StatusName = Literal["pending", "claimed", "in_review", "changes_requested", "approved", "rejected", "closed"]
ReviewId = Annotated[Id, Field(description="The review.")]
ReviewerName = Annotated[Name, Field(description="As `list_reviewers` shows it, e.g. codex-r1-k3f9q2.")]
Generation = Annotated[
    int,
    # No claim has the number 0: it is answered as the stale claim that it is.
    Field(ge=0, le=LARGEST, description="The claim's number, from `claim_review`.", json_schema_extra={"minimum": 1}),
]
RoundNumber = Annotated[int, Field(ge=1, le=LARGEST, description="The round's number.")]
# One of which nothing can be seen is none, wherever it is required and wherever it may be left out.
Reason = Annotated[Text | None, AfterValidator(_reason)]
OptionalReason = Annotated[Reason, Field(description="Why, in words.")]
UNLISTED: Final[Any] = Field(json_schema_extra={"unlisted": True})
"""Of a field that the tools of agents leave out."""
PageLimit = Annotated[int, Field(ge=1, description="Rows per page, at most 200.")]
PageToken = Annotated[Token | None, Field(description="`next_page` of the previous page.")]
WaitFlag = Annotated[bool, Field(description="Wait until there is something new.")]
WaitSeconds = Annotated[
    float | None,
    # A caller that asks for more waits as long as a call may; the schema does not offer it.
    Field(ge=0, le=86_400, description="Seconds to wait; default: 25.", json_schema_extra={"maximum": 50}),
]
WaitCursor = Annotated[Token | None, Field(description="Cursor of an earlier answer: wait for later changes.")]
StateFilter = Annotated[StatusName | None, Field(description="Only reviews in this state.")]
AttentionFilter = Annotated[bool | None, Field(description="Only those that do, or do not, wait for a person.")]


class Check(NamedTuple):
    """One of an operation's checks, and in words when it refuses."""

    error: type[TandemError]
    when: str


Refusals = tuple[type[TandemError] | Check, ...]


class Request(BaseModel):
    """What every request has in common."""

    # Built at first use: the command line imports every model to call one.
    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    refusals: ClassVar[Refusals]
    """What the operation refuses with, beside what any operation does; checks are made in this order."""

    # For callers with access tokens; a trusted broker looks at none of it.
    actor_field: ClassVar[str | None] = None
    """The field with the caller's own name, which then is the token's, or begins with it and a slash."""

    side_field: ClassVar[str | None] = None
    """The field with the side that the caller speaks for, which must be one of the token's roles."""

    subject_fields: ClassVar[Mapping[str, Subject]] = {"review_id": "review", "parent_id": "review"}
    """Fields with ids: their subjects have to be in the token's project, or are unknown to the caller."""

    project_scoped: ClassVar[bool] = False
    """Whether a request without a project is still for callers of one project, as its answer has nothing else."""

    has_long_list: ClassVar[bool] = False
    """Whether it lists the changes of a whole commit, or as many commits; others are small but for their texts."""


class ProjectRequest(Request):
    """A request that concerns one project."""

    project: Project = None


class WriteRequest(ProjectRequest):
    """A request that changes something."""

    contains_key: ClassVar[bool] = False
    """Whether a key that somebody chose is in it, and so might be guessed."""

    idempotency_key: IdempotencyKey = None


Person = Annotated[Name, Field(description="Who asks, as proposer and reviewer alike.")]


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a change belongs to: declared here once, and taken whole by all that has it.

    The request that proposes a change, its row in the database, searches, exports, pages, the terminal, a reviewer's
    prompt and the options of `tandem submit` have every field that stands here, under its name. Requests and answers
    have the fields themselves: they extend this class.

    It has no slots of its own, as pydantic's models can extend no class that has.
    """

    phase: Annotated[Name | None, Field(description="The project's phase that the change belongs to.")] = None
    plan: Annotated[Name | None, Field(description="The plan that the change belongs to.")] = None
    task: Annotated[Name | None, Field(description="The task of the plan that the change belongs to.")] = None


WORK: Final = tuple(field.name for field in fields(Work))
"""The names of its fields, in their order."""
