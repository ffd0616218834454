"""The typed requests on gates: their switches, overrides, and the commits that hooks tell of."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, ClassVar

from pydantic import AfterValidator, Field

from tandem.contract.request import (
    Digest,
    FilePath,
    FullText,
    Id,
    Name,
    PageLimit,
    PageToken,
    ProjectRequest,
    Refusals,
    Request,
    ReviewId,
    Text,
    Token,
    WriteRequest,
)
from tandem.domain.access import Subject
from tandem.domain.texts import storable_text
from tandem.errors import (
    ConfigInvalid,
    NotFound,
)

_REF_LENGTH = 500
_MOST_REFS = 100
_MOST_NAMED = 100
_MOST_COMMITS = 10_000
_MOST_CHANGES = 100_000
_WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"
_NO_REF = set(" ~^:?*[\\")


def _ref(text: str) -> str:
    """A name that git could give to a branch; whether there is one, only the repository knows."""
    control = any(ord(letter) < ord(" ") or letter == "\x7f" for letter in text)
    if control or _NO_REF & set(text) or ".." in text or text[0] in "-/." or text[-1] in "/.":
        raise ValueError("must be the name of a branch or ref")
    return text


Ref = Annotated[str, Field(min_length=1, max_length=_REF_LENGTH), AfterValidator(storable_text), AfterValidator(_ref)]
PlanKey = Annotated[str, Field(min_length=1, max_length=_REF_LENGTH), AfterValidator(storable_text)]
CommitId = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$", max_length=64)]
FileMode = Annotated[str, Field(pattern=r"^[0-7]{6}$")]
BlobId = Annotated[str, Field(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?$")]


class GateChange(Request):
    """One path's change, as `git diff-index --raw` reports it."""

    path: Annotated[FilePath, Field(description="The file.")]
    mode_before: Annotated[FileMode, Field(description="File mode before; `000000` if there was no file.")] = "000000"
    blob_before: Annotated[BlobId, Field(description="Blob id before; zeros if there was no file.")] = "0" * 40
    mode_after: Annotated[FileMode, Field(description="File mode after; `000000` if there is no file.")] = "000000"
    blob_after: Annotated[BlobId, Field(description="Blob id after; zeros if there is no file.")] = "0" * 40


Changes = Annotated[list[GateChange], Field(min_length=1, max_length=_MOST_CHANGES)]


class SetGate(WriteRequest):
    """Switch a project's gate on or off: whether its commits have to be approved."""

    refusals: ClassVar[Refusals] = (NotFound,)

    enabled: Annotated[bool, Field(description="Whether commits are judged.")]
    branches: Annotated[
        list[Ref] | None, Field(max_length=_MOST_REFS, description="The base branches; default: as before.")
    ] = None
    accepted: Annotated[
        list[Ref] | None,
        Field(max_length=_MOST_REFS, description="Refs whose commits are taken as they are; default: as before."),
    ] = None
    reason: Annotated[Text | None, Field(description="Why, for whoever reads the log.")] = None


class GetGate(ProjectRequest):
    """Whether a project's gate is on, and where one of its plans stands."""

    refusals: ClassVar[Refusals] = (NotFound,)

    plan: Annotated[
        PlanKey | None, Field(description="A plan's key such as 03-02, or the branch where there is no plan.")
    ] = None


class OverrideGate(WriteRequest):
    """Let exactly this difference pass, because a person says so; it is recorded with who and why."""

    refusals: ClassVar[Refusals] = (NotFound,)
    has_long_list: ClassVar[bool] = True

    changes: Annotated[Changes, Field(description="The raw changes: every path once.")]
    reason: Annotated[FullText, Field(description="Why it may pass without an approval.")]
    override_id: Annotated[
        str | None,
        Field(pattern=_WORD, max_length=64, description="Chosen by you: told twice, it is one override."),
    ] = None
    branch: Annotated[Ref | None, Field(description="The branch that it was for.")] = None
    at: Annotated[Name | None, Field(description="When the person did it, ISO time; default: now.")] = None


class RecordCommit(WriteRequest):
    """Tell of a commit that was made, so that it can be found by its plan and review; told twice, it is one."""

    refusals: ClassVar[Refusals] = (NotFound,)
    has_long_list: ClassVar[bool] = True

    commit: Annotated[CommitId, Field(description="The commit's id.")]
    parent: Annotated[CommitId | None, Field(description="Its first parent; null for a root commit.")] = None
    branch: Annotated[Ref | None, Field(description="The branch that it was made on.")] = None
    phase: Annotated[Name | None, Field(description="The phase that it belongs to.")] = None
    plan: Annotated[PlanKey | None, Field(description="The plan's key such as 03-02; default: the branch.")] = None
    task: Annotated[Name | None, Field(description="The task that it belongs to.")] = None
    review_ids: Annotated[list[Id], Field(max_length=_MOST_NAMED, description="As its message names them.")] = Field(
        default_factory=list[str]
    )
    unreviewed: Annotated[bool, Field(description="It passed unreviewed, as its message says.")] = False
    replaces: Annotated[CommitId | None, Field(description="The commit that an amend or a rebase made it from.")] = None
    depends_on: Annotated[list[Token], Field(max_length=_MOST_NAMED, description="As its message says.")] = Field(
        default_factory=list[str]
    )
    changes: Annotated[
        list[GateChange] | None,
        Field(max_length=_MOST_CHANGES, description="Its difference to its parent, for its rollback; none of a merge."),
    ] = None


class ListCommits(ProjectRequest):
    """Recorded commits, oldest first: of a plan, of a review, by their ids, or all of the project."""

    refusals: ClassVar[Refusals] = ()

    # Commits are of one project, whatever reviews their messages name.
    is_about: ClassVar[Mapping[str, Subject]] = {}

    plan: Annotated[PlanKey | None, Field(description="Only those of this plan.")] = None
    review_id: Annotated[Id | None, Field(description="Only those that name this review.")] = None
    commits: Annotated[
        list[CommitId] | None, Field(max_length=_MOST_COMMITS, description="Only these, at most 200.")
    ] = None
    limit: PageLimit = 50
    page: PageToken = None


class RevertedCommit(Request):
    """A commit that was reverted, and the commit that did it."""

    commit: Annotated[CommitId, Field(description="The commit's id.")]
    reverted_by: Annotated[CommitId, Field(description="The commit that reverted it.")]


class CarriedCommit(Request):
    """A commit that was made anew, and what it became."""

    commit: Annotated[CommitId, Field(description="The commit's id.")]
    becomes: Annotated[CommitId, Field(description="The commit that it became.")]


class RecordRollback(WriteRequest):
    """Tell that a review's change was rolled back; its plan goes on in blocking mode. Told twice, it is one."""

    refusals: ClassVar[Refusals] = (NotFound,)
    has_long_list: ClassVar[bool] = True

    review_id: ReviewId
    branch: Annotated[Ref, Field(description="The branch that moved.")]
    head_before: Annotated[CommitId, Field(description="Where the branch was.")]
    head_after: Annotated[CommitId, Field(description="Where the branch is.")]
    reverted: Annotated[
        list[RevertedCommit],
        Field(max_length=_MOST_COMMITS, description="Each commit that was reverted, and the commit that did it."),
    ] = Field(default_factory=list[RevertedCommit])
    carried: Annotated[
        list[CarriedCommit],
        Field(max_length=_MOST_COMMITS, description="Each commit that was made anew, and what it became."),
    ] = Field(default_factory=list[CarriedCommit])
    rework: Annotated[
        list[CommitId], Field(max_length=_MOST_COMMITS, description="Commits whose work has to be done again.")
    ] = Field(default_factory=list[str])


class GetProjectSettings(Request):
    """The settings that hold for a project and where each comes from, and its gate."""

    refusals: ClassVar[Refusals] = (NotFound, ConfigInvalid)

    project: Annotated[Name, Field(description="The project.")]


class CheckGate(Request):
    """Is exactly this content approved? Give the raw changes or a digest."""

    refusals: ClassVar[Refusals] = ()
    has_long_list: ClassVar[bool] = True

    project: Annotated[Name, Field(description="The project.")]
    changes: Annotated[
        list[GateChange] | None,
        Field(max_length=100_000, description="The raw changes of the commit: every path once."),
    ] = None
    digest: Annotated[Digest | None, Field(description="A round's digest instead of changes.")] = None
    head: Annotated[
        CommitId | None, Field(description="What the changes go on top of; without it no rollback passes.")
    ] = None
    base: Annotated[
        CommitId | None, Field(description="Take back only what this lacks; default: what the base branches lack.")
    ] = None
