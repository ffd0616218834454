"""The operations on gates: requests and answers. Hooks call most of them. Times are ISO 8601 in UTC."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, Field

from tandem.contract import answer
from tandem.contract.answer import NextPage, ProjectName
from tandem.contract.caller import Subject
from tandem.contract.operation import (
    ADMIN,
    ALL,
    OPERATOR,
    PROPOSER,
    READ,
    REPEATABLE_WRITE,
    ForPeople,
    Operation,
    Unlisted,
)
from tandem.contract.request import (
    Digest,
    FilePath,
    FullText,
    Id,
    Name,
    PageLimit,
    PageToken,
    Person,
    ProjectRequest,
    Proof,
    Reason,
    Refusals,
    Request,
    ReviewId,
    Token,
    WriteRequest,
)
from tandem.core.texts import storable_text
from tandem.errors import (
    ConfigInvalid,
    Forbidden,
    InvalidTransition,
    NotFound,
)
from tandem.present.shape import Shown
from tandem.reviews.finding_rules import Severity

_REF_LENGTH = 500

_MOST_REFS = 100

_MOST_NAMED = 500

_MOST_ACCEPTED = 1000

_MOST_COMMITS = 10_000

_MOST_CHANGES = 100_000

_WORD = r"^[A-Za-z0-9][A-Za-z0-9._-]*$"

SIGNER = r"^[A-Za-z0-9][A-Za-z0-9._-]*=[A-Za-z0-9_-]{43}$"

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


@dataclass(frozen=True, slots=True)
class GateChange:
    """One path's change, as `git diff-index --raw` reports it."""

    # No model: a commit can have 100,000 of them, and these take a third of the memory.
    __pydantic_config__: ClassVar = Request.model_config

    path: Annotated[FilePath, Field(description="The file; a name that is not UTF-8 as git quotes it.")]
    mode_before: Annotated[FileMode, Field(description="File mode before; `000000` if there was no file.")] = "000000"
    blob_before: Annotated[BlobId, Field(description="Blob id before; zeros if there was no file.")] = "0" * 40
    mode_after: Annotated[FileMode, Field(description="File mode after; `000000` if there is no file.")] = "000000"
    blob_after: Annotated[BlobId, Field(description="Blob id after; zeros if there is no file.")] = "0" * 40


Trusted = Annotated[
    list[Annotated[FilePath, Field(pattern=r"^[0-9a-f]{64} .+$")]],
    Field(max_length=_MOST_ACCEPTED, description="Contents of its settings that a person trusts: SHA-256 and file."),
]

Signers = Annotated[
    list[Annotated[str, Field(pattern=SIGNER, max_length=100)]],
    Field(max_length=100, description="Whose brokers' signatures count, each as name=key."),
]

_COMMITS = Field(
    description="Whether commits on branches that are no base branch pass (`free`), pass and are submitted"
    " (`followed`), or are refused until approved (`reviewed`); null for as it was."
)
Commits = Annotated[Literal["free", "followed", "reviewed"] | None, _COMMITS]

Threshold = Annotated[
    Severity | None,
    Field(description="The severity from which on an open finding keeps an approval back; null for as it was."),
]

# Stops at the first invalid entry: describing 100,000 of them would stop all other threads.
Changes = Annotated[list[GateChange], Field(min_length=1, max_length=_MOST_CHANGES, fail_fast=True)]


class GateHere(Request):
    """A repository's own statement of its gate, which the broker compares with its record."""

    folder: Annotated[FilePath, Field(description="The git folder that all its working trees share.")]
    branches: Annotated[list[Ref], Field(max_length=_MOST_REFS, description="The base branches.")]
    trusted: Trusted = Field(default_factory=list[str])
    commits: Commits = None


Here = Annotated[
    GateHere | None,
    Field(description="What the repository says of its gate; refused where it differs from the record."),
]


class SetGate(WriteRequest):
    """Switch a project's gate on or off. What lets more through takes the proof that a person decided it."""

    refusals: ClassVar[Refusals] = (Forbidden, NotFound)

    enabled: Annotated[bool, Field(description="Whether commits have to be approved."), Shown(label="gate on")]
    branches: Annotated[
        list[Ref] | None, Field(max_length=_MOST_REFS, description="The base branches; default: unchanged.")
    ] = None
    accepted: Annotated[
        list[CommitId] | None,
        Field(
            max_length=_MOST_ACCEPTED,
            description="Commits that are accepted without review, with their ancestors; default: unchanged.",
        ),
    ] = None
    folder: Annotated[FilePath | None, Field(description="A git folder where the gate is on, too.")] = None
    trusted: Annotated[Trusted | None, Field(description="Contents that a person trusts; default: unchanged.")] = None
    signers: Annotated[Signers | None, Field(description="Whose brokers' signatures count; default: unchanged.")] = None
    commits: Commits = None
    threshold: Threshold = None
    reason: Annotated[Reason, Field(description="The reason, for the log.")] = None
    since: Annotated[Name | None, Field(description="The `switched_at` of the gate that is changed.")] = None
    proof: Annotated[Proof | None, Field(description="What the command sealed that a person has run.")] = None


class GetGate(ProjectRequest):
    """Whether a project's gate is on, and the state of one of its plans."""

    refusals: ClassVar[Refusals] = (ConfigInvalid, NotFound)

    plan: Annotated[
        PlanKey | None, Field(description="A plan's key such as 03-02, or the branch where there is no plan.")
    ] = None
    here: Here = None
    with_key: Annotated[bool, Field(description="Answer with the key that others verify signatures with.")] = False


class OverrideGate(WriteRequest):
    """Override the gate for exactly this difference, with the hook's proof that a person answered; on record."""

    refusals: ClassVar[Refusals] = (Forbidden, NotFound)
    has_long_list: ClassVar[bool] = True

    changes: Annotated[Changes, Field(description="The raw changes: every path once.")]
    reason: Annotated[FullText, Field(description="Why it may pass without an approval.")]
    override_id: Annotated[
        str | None,
        Field(pattern=_WORD, max_length=64, description="Chosen by the caller; the same id records one override."),
    ] = None
    branch: Annotated[Ref | None, Field(description="The branch that it was for.")] = None
    at: Annotated[Name | None, Field(description="When the person did it, ISO time; default: now.")] = None
    proof: Annotated[
        Proof | None,
        Field(description="What the hook sealed when the person answered; without it the override is refused."),
    ] = None


class SeeOverride(WriteRequest):
    """Take an override out of a person's inbox, who has seen it; on record."""

    refusals: ClassVar[Refusals] = (NotFound,)
    actor_field: ClassVar[str | None] = "person"

    override_id: Annotated[str, Field(pattern=_WORD, max_length=64, description="The override.")]
    person: Person


class RecordCommit(WriteRequest):
    """Record a commit, so that it can be found by its plan and review. Idempotent."""

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
    replaces: Annotated[CommitId | None, Field(description="The commit that it replaces (amend, rebase).")] = None
    depends_on: Annotated[list[Token], Field(max_length=_MOST_NAMED, description="As its message says.")] = Field(
        default_factory=list[str]
    )
    changes: Annotated[
        list[GateChange] | None,
        Field(
            max_length=_MOST_CHANGES,
            fail_fast=True,
            description="Its difference to its parent, for its rollback; none of a merge.",
        ),
    ] = None


class ListCommits(ProjectRequest):
    """Recorded commits, oldest first: of a plan, of a review, by their ids, or all of the project."""

    refusals: ClassVar[Refusals] = ()

    # Commits belong to one project, no matter which reviews their messages name.
    subject_fields: ClassVar[Mapping[str, Subject]] = {}

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
    """A commit that was replayed, and the new commit."""

    commit: Annotated[CommitId, Field(description="The commit's id.")]
    becomes: Annotated[CommitId, Field(description="The commit that it became.")]


class RecordRollback(WriteRequest):
    """Record that a review's change was rolled back or is gone; its plan continues in blocking mode. Idempotent."""

    refusals: ClassVar[Refusals] = (Forbidden, InvalidTransition, NotFound)
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
        Field(max_length=_MOST_COMMITS, description="Each commit that was replayed, and the new commit."),
    ] = Field(default_factory=list[CarriedCommit])
    rework: Annotated[list[CommitId], Field(max_length=_MOST_COMMITS, description="Commits that no longer apply.")] = (
        Field(default_factory=list[str])
    )
    how: Annotated[
        Literal["rollback", "observed", "settled"],
        Field(
            description=(
                "`rollback`: as listed. `observed`: the broker looks whether the change is gone or reverted, and "
                "refuses if it stands. `settled`: a person says so, with a proof."
            )
        ),
    ] = "rollback"
    reason: Annotated[Reason, Field(description="Why a person settles it.")] = None
    proof: Annotated[Proof | None, Field(description="What the command sealed when the person answered.")] = None


class GetProjectSettings(Request):
    """The settings that hold for a project and where each comes from, and its gate."""

    refusals: ClassVar[Refusals] = (NotFound, ConfigInvalid)

    project: Annotated[Name, Field(description="The project.")]


class CheckGate(Request):
    """Check whether exactly this content is approved, given as raw changes or a digest."""

    refusals: ClassVar[Refusals] = (ConfigInvalid,)
    has_long_list: ClassVar[bool] = True

    project: Annotated[Name, Field(description="The project.")]
    changes: Annotated[
        list[GateChange] | None,
        Field(max_length=_MOST_CHANGES, fail_fast=True, description="The raw changes of the commit: every path once."),
    ] = None
    digest: Annotated[Digest | None, Field(description="A round's digest instead of changes.")] = None
    head: Annotated[
        CommitId | None, Field(description="What the changes go on top of; without it no rollback passes.")
    ] = None
    base: Annotated[
        CommitId | None, Field(description="Revert only commits not in this; default: not in the base branches.")
    ] = None
    branch: Annotated[
        Ref | None, Field(description="The base branch that is updated: checks have to have run on it.")
    ] = None
    tips: Annotated[
        list[CommitId] | None,
        Field(
            max_length=1000,
            description="With `branch`, its commits before and during the update: with the setting"
            " `checks_on_tip`, checks must have run on one of these, or on its present one.",
        ),
    ] = None
    here: Here = None
    sign: Annotated[bool, Field(description="Sign what passes because it is approved.")] = False
    signed: Annotated[
        list[Annotated[str, Field(max_length=200)]],
        Field(max_length=10, description="The signatures that a commit brings along."),
    ] = Field(default_factory=list[str])


_CommitId = Annotated[str, Field(description="The commit's id.")]


@dataclass(frozen=True, slots=True)
class PlanState:
    """Where a plan of the optimistic mode stands."""

    plan: Annotated[str, Field(description="The plan's key, or a branch.")]
    mode: Annotated[
        str,
        Field(
            description=(
                "`optimistic`, or `blocking` once a change of the plan was decided against or rolled back: "
                "then commits wait for their approval."
            )
        ),
    ]
    against: Annotated[
        tuple[str, ...],
        Field(description="The reviews that were decided against and whose commits stand, oldest first."),
    ]
    rolled_back: Annotated[
        tuple[str, ...], Field(description="The reviews whose change was rolled back, oldest first; the 200 newest.")
    ]


@dataclass(frozen=True, slots=True)
class GateState:
    """Whether a project's gate is on, and for what."""

    project: ProjectName
    enabled: Annotated[bool, Field(description="Whether commits have to be approved."), Shown(label="gate on")]
    branches: Annotated[tuple[str, ...], Field(description="The base branches.")]
    accepted: Annotated[tuple[str, ...], Field(description="Commits that are taken as they are, with their ancestors.")]
    folders: Annotated[tuple[str, ...], Field(description="The git folders where it is on.")]
    trusted: Annotated[tuple[str, ...], Field(description="Contents that a person trusts: SHA-256 and file.")]
    signers: Annotated[tuple[str, ...], Field(description="Whose brokers' signatures count, each as name=key.")]
    reason: Annotated[str | None, Field(description="Why it was switched, if somebody said.")]
    switched_at: Annotated[str | None, Field(description="When it was switched last; null if it never was.")]
    switched_by: Annotated[str | None, Field(description="Who switched it last.")]
    plan: Annotated[PlanState | None, Field(description="The plan that was asked about; null if none was.")] = None
    public_key: Annotated[
        str | None,
        Field(description="What others verify this project's signatures with; null if not asked for."),
        Shown("copied"),
    ] = None
    checks_on_tip: Annotated[
        bool, Field(description="In the answer of `get_gate`, the setting of that name: which runs of checks count.")
    ] = False
    commits: Annotated[str | None, _COMMITS, Shown(label="other branches")] = None
    threshold: Annotated[
        str | None, Field(description="From which severity on an open finding keeps an approval back."), Shown("name")
    ] = None


@dataclass(frozen=True, slots=True)
class GateOverridden:
    """A difference that passes the gate because a person said so."""

    override_id: Annotated[str, Field(description="The override.")]
    project: ProjectName
    digest: Annotated[str, Field(description="SHA-256 over the difference that passes.")]
    overridden_at: Annotated[str, Field(description="When the person did it.")]
    overridden_by: Annotated[str, Field(description="Who did it.")]


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A commit that a hook told of."""

    project: ProjectName
    commit: _CommitId
    parent: Annotated[str | None, Field(description="Its first parent; null for a root commit."), Shown("id")]
    branch: Annotated[str | None, Field(description="The branch that it was made on; null on none.")]
    phase: Annotated[str | None, Field(description="The phase that it belongs to.")]
    plan: Annotated[str | None, Field(description="The plan's key, or the branch where there is no plan.")]
    task: Annotated[str | None, Field(description="The task that it belongs to.")]
    review_ids: Annotated[tuple[str, ...], Field(description="The reviews that its message names.")]
    unreviewed: Annotated[bool, Field(description="Whether it passed unreviewed.")]
    depends_on: Annotated[tuple[str, ...], Field(description="What its message says that it depends on.")]
    replaces: Annotated[str | None, Field(description="The commit that it replaces (amend, rebase).")]
    recorded_at: Annotated[str, Field(description="When the broker heard of it.")]
    recorded_by: Annotated[str, Field(description="Who told of it.")]
    replaced_by: Annotated[
        str | None,
        Field(description="The commit that it became, by an amend, a rebase or a rollback that kept it."),
        Shown("id"),
    ]
    rolled_back_by: Annotated[str | None, Field(description="The commit that reverted it."), Shown("id")]


@dataclass(frozen=True, slots=True)
class CommitPage:
    """A page of recorded commits, in the order in which they were recorded."""

    commits: Annotated[
        tuple[CommitRecord, ...],
        Field(description="The commits, in the order in which they were recorded."),
        Shown(empty="No commits."),
    ]
    next_page: NextPage | None


@dataclass(frozen=True, slots=True)
class Reverted:
    """A commit that was reverted, and the commit that did it."""

    commit: _CommitId
    reverted_by: Annotated[str, Field(description="The commit that reverted it."), Shown("id")]


@dataclass(frozen=True, slots=True)
class Carried:
    """A commit that a rollback replayed, and the new commit."""

    commit: _CommitId
    becomes: Annotated[str, Field(description="The commit that it became."), Shown("id")]


@dataclass(frozen=True, slots=True)
class RollbackRecorded:
    """A change was rolled back; its plan goes on in blocking mode."""

    review_id: answer.ReviewId
    project: ProjectName
    plan: Annotated[str, Field(description="The key of the plan, which continues in blocking mode.")]
    branch: Annotated[str, Field(description="The branch that moved.")]
    head_before: Annotated[str, Field(description="Where the branch was.")]
    head_after: Annotated[str, Field(description="Where the branch is.")]
    reverted: Annotated[
        tuple[Reverted, ...], Field(description="Each commit that was reverted, and the commit that did it.")
    ]
    carried: Annotated[tuple[Carried, ...], Field(description="Each commit that was replayed, and the new commit.")]
    rework: Annotated[tuple[str, ...], Field(description="Commits that no longer apply.")]
    rolled_back_at: Annotated[str, Field(description="When it was recorded.")]
    rolled_back_by: Annotated[str, Field(description="Who recorded it.")]


@dataclass(frozen=True, slots=True)
class SettingView:
    """One setting as it holds for a project."""

    name: Annotated[str, Field(description="The setting; those of a table are named with a dot.")]
    value: Annotated[Any, Field(description="Its value as JSON, without passwords."), Shown(empty="(none)")]
    origin: Annotated[str, Field(description="`default`, a file, a variable or an option of the command line.")]
    description: Annotated[str, Field(description="Its purpose.")]
    ignored: Annotated[str | None, Field(description="The file of the project whose value was not used, and why.")]


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings that hold for a registered project, and its gate."""

    project: ProjectName
    root: Annotated[str, Field(description="The top level of its git repository.")]
    settings: Annotated[tuple[SettingView, ...], Field(description="The settings, by name.")]
    gate: Annotated[GateState | None, Field(description="The project's gate.")]
    confines_checks: Annotated[bool, Field(description="Whether bubblewrap works for the broker that answers.")] = True


@dataclass(frozen=True, slots=True)
class PathDecision:
    """Why one path may pass the gate, or may not."""

    path: Annotated[str, Field(description="The file.")]
    allowed: Annotated[bool, Field(description="Whether it may pass.")]
    review_id: Annotated[
        str | None,
        Field(
            description="The review whose approval covers the path, or that has exactly this content and no verdict "
            "yet. Without a `round`, the review whose approval reverted the one that did, or that approved it "
            "only together with other paths."
        ),
    ]
    round: Annotated[int | None, Field(description="The round of that review.")]
    reason: Annotated[str, Field(description="Which approval covers it, or why none does.")]
    kind: Annotated[
        str | None,
        Field(
            description=(
                "Why it passes: `approved`, `exempt` (by the setting `gate_exempt`), `signed` (approved by the "
                "broker of a signer), `rollback` (exactly reverts a commit of a change that was not "
                "approved) or `overridden`; of what does not, `in_part` where its review approved it together with "
                "other paths, else null."
            )
        ),
    ] = None


@dataclass(frozen=True, slots=True)
class GateDecision:
    """Whether everything that was asked about may pass, to the byte."""

    allowed: Annotated[bool, Field(description="Whether it may pass.")]
    project: ProjectName
    reason: Annotated[str, Field(description="The decision in words.")]
    review_ids: Annotated[tuple[str, ...], Field(description="The reviews whose approvals were used.")]
    paths: Annotated[
        tuple[PathDecision, ...],
        Field(description="The decision for each path; empty when a digest was asked about."),
    ]
    code: Annotated[
        str | None,
        Field(description="If only required checks keep approved content back: `CHECK_FAILED` or `CHECK_PENDING`."),
    ] = None
    signed: Annotated[
        str | None, Field(description="The signature that the commit carries: this broker's, or the one that counted.")
    ] = None
    owed: Annotated[
        tuple[str, ...],
        Field(
            description="Waived requirements of these reviews that are still to be reviewed; an override to be seen."
        ),
    ] = ()
    overdue: Annotated[tuple[str, ...], Field(description="Those of `owed` whose time is over.")] = ()


OPERATIONS = (
    # Hooks ask it: a model that has the tool asks for nothing.
    Unlisted("check_gate", "gate", "check", CheckGate, GateDecision, ALL, READ),
    Operation("set_gate", "gate", "set", SetGate, GateState, ADMIN, REPEATABLE_WRITE),
    Unlisted("get_gate", "gate", "show", GetGate, GateState, ALL, READ),
    Operation("override_gate", "gate", "record-override", OverrideGate, GateOverridden, ADMIN, REPEATABLE_WRITE),
    ForPeople("see_override", "gate", "seen", SeeOverride, GateOverridden, OPERATOR, REPEATABLE_WRITE),
    Unlisted("record_commit", "commits", "record", RecordCommit, CommitRecord, PROPOSER, REPEATABLE_WRITE),
    Unlisted("list_commits", "commits", "list", ListCommits, CommitPage, ALL, READ),
    Unlisted("record_rollback", "commits", "rolled-back", RecordRollback, RollbackRecorded, PROPOSER, REPEATABLE_WRITE),
    ForPeople(
        "get_project_settings", "project", "settings", GetProjectSettings, ProjectSettings, OPERATOR | ADMIN, READ
    ),
)
