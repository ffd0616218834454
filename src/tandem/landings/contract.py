"""The operations on landings: their requests and answers. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar, Literal

from pydantic import Field

from tandem.contract.answer import Changed, Cursor
from tandem.contract.operation import ALL, PROPOSER, READ, WRITE, Unlisted
from tandem.contract.request import (
    LARGEST,
    Id,
    Name,
    PageLimit,
    ProjectRequest,
    Reason,
    Refusals,
    Token,
    WaitFlag,
    WaitSeconds,
    WriteRequest,
)
from tandem.errors import CursorExpired, InvalidTransition, NotFound, StaleClaim
from tandem.present.shape import Shown

_Commit = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]
_BASE = "The base branch."
_SOURCE = "The branch that lands on it."


class ReportLanding(WriteRequest):
    """Take a branch's place in the line of its base branch, or say how its landing goes on and that it is alive.

    Without a `landing_id` the place is a new one, or the caller's own, taken over from another process. Without a word
    for 20 s a landing has ended, and the next one goes on.
    """

    refusals: ClassVar[Refusals] = (NotFound, StaleClaim, InvalidTransition)

    branch: Annotated[Name, Field(description=_BASE)]
    source: Annotated[Name, Field(description=_SOURCE)]
    head: Annotated[_Commit, Field(description="The commit that lands.")]
    state: Annotated[
        Literal["waiting", "checking", "landing", "landed", "failed"],
        Field(description="Where it is; `checking` and `landing` only once it is first."),
    ]
    landing_id: Annotated[Id | None, Field(description="The landing; null to take a place.")] = None
    generation: Annotated[int, Field(ge=0, le=LARGEST, description="Its number, with a `landing_id`.")] = 0
    tip: Annotated[_Commit | None, Field(description="Where the base branch is.")] = None
    commit: Annotated[_Commit | None, Field(description="Where the base branch goes.")] = None
    review_ids: Annotated[list[Id], Field(max_length=500, description="The reviews that approve it.")] = Field(
        default_factory=list[str]
    )
    reason: Annotated[Reason, Field(description="Why it failed.")] = None


class ListLandings(ProjectRequest):
    """The line of a project's base branches, first the next one; then the ended landings, newest first."""

    refusals: ClassVar[Refusals] = (CursorExpired,)

    branch: Annotated[Name | None, Field(description="Only landings on this base branch.")] = None
    source: Annotated[Name | None, Field(description="Only landings of this branch.")] = None
    limit: PageLimit = 20
    wait: WaitFlag = False
    cursor: Annotated[Token | None, Field(description="Cursor of an earlier answer: wait for later news.")] = None
    timeout_s: WaitSeconds = None


@dataclass(frozen=True, slots=True)
class LandingView:
    """A branch on its way to a base branch."""

    source: Annotated[str, Field(description=_SOURCE), Shown(label="branch")]
    branch: Annotated[str, Field(description=_BASE), Shown(label="on")]
    state: Annotated[str, Field(description="`waiting`, `checking`, `landing`, `landed` or `failed`.")]
    place: Annotated[int | None, Field(description="Its place in the line, 1 for the first; null at its end.")]
    proposer: Annotated[str, Field(description="Who lands it.")]
    changed_at: Annotated[str, Field(description="Since when it is in this state."), Shown(label="since")]
    commit: Annotated[str | None, Field(description="Where the base branch went, or goes.")]
    reason: Annotated[str | None, Field(description="Why it failed.")]
    review_ids: Annotated[tuple[str, ...], Field(description="The reviews that approve it."), Shown("hidden")]
    landing_id: Annotated[str, Field(description="The landing."), Shown("hidden")]
    project: Annotated[str, Field(description="The project."), Shown("hidden")]
    head: Annotated[str, Field(description="The commit that lands."), Shown("hidden")]
    tip: Annotated[str | None, Field(description="Where the base branch was."), Shown("hidden")]
    generation: Annotated[int, Field(description="Rises with each process that takes it over."), Shown("hidden")]


@dataclass(frozen=True, slots=True)
class LandingList:
    """The line, and the ended landings."""

    landings: Annotated[
        tuple[LandingView, ...],
        Field(description="Those in the line, first the next one; then the ended landings, newest first."),
        Shown(empty="No landings."),
    ]
    cursor: Cursor
    changed: Changed


OPERATIONS = (
    Unlisted("list_landings", "landing", "list", ListLandings, LandingList, ALL, READ, blocking=True),
    Unlisted("report_landing", "landing", "report", ReportLanding, LandingView, PROPOSER, WRITE),
)
