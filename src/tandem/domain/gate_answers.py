"""What the operations on gates answer. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import Field

from tandem.domain.fields import (
    NextPage,
    ProjectName,
    ReviewId,
)

CommitId = Annotated[str, Field(description="The commit's id.")]


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
    enabled: Annotated[bool, Field(description="Whether commits are judged.")]
    branches: Annotated[tuple[str, ...], Field(description="The base branches.")]
    accepted: Annotated[tuple[str, ...], Field(description="Refs whose commits are taken as they are.")]
    reason: Annotated[str | None, Field(description="Why it was switched, if somebody said.")]
    switched_at: Annotated[str | None, Field(description="When it was switched last; null if it never was.")]
    switched_by: Annotated[str | None, Field(description="Who switched it last.")]
    plan: Annotated[PlanState | None, Field(description="The plan that was asked about; null if none was.")] = None


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
    commit: CommitId
    parent: Annotated[str | None, Field(description="Its first parent; null for a root commit.")]
    branch: Annotated[str | None, Field(description="The branch that it was made on; null on none.")]
    phase: Annotated[str | None, Field(description="The phase that it belongs to.")]
    plan: Annotated[str | None, Field(description="The plan's key, or the branch where there is no plan.")]
    task: Annotated[str | None, Field(description="The task that it belongs to.")]
    review_ids: Annotated[tuple[str, ...], Field(description="The reviews that its message names.")]
    unreviewed: Annotated[bool, Field(description="Whether it passed unreviewed.")]
    depends_on: Annotated[tuple[str, ...], Field(description="What its message says that it depends on.")]
    replaces: Annotated[str | None, Field(description="The commit that an amend or a rebase made it from.")]
    recorded_at: Annotated[str, Field(description="When the broker heard of it.")]
    recorded_by: Annotated[str, Field(description="Who told of it.")]
    replaced_by: Annotated[
        str | None, Field(description="The commit that it became, by an amend, a rebase or a rollback that kept it.")
    ]
    rolled_back_by: Annotated[str | None, Field(description="The commit that reverted it.")]


@dataclass(frozen=True, slots=True)
class CommitPage:
    """A page of recorded commits, in the order in which they were recorded."""

    commits: Annotated[
        tuple[CommitRecord, ...], Field(description="The commits, in the order in which they were recorded.")
    ]
    next_page: NextPage | None


@dataclass(frozen=True, slots=True)
class Reverted:
    """A commit that was reverted, and the commit that did it."""

    commit: CommitId
    reverted_by: Annotated[str, Field(description="The commit that reverted it.")]


@dataclass(frozen=True, slots=True)
class Carried:
    """A commit that a rollback made anew, and what it became."""

    commit: CommitId
    becomes: Annotated[str, Field(description="The commit that it became.")]


@dataclass(frozen=True, slots=True)
class RollbackRecorded:
    """A change was rolled back; its plan goes on in blocking mode."""

    review_id: ReviewId
    project: ProjectName
    plan: Annotated[str, Field(description="The plan's key, which goes on in blocking mode.")]
    branch: Annotated[str, Field(description="The branch that moved.")]
    head_before: Annotated[str, Field(description="Where the branch was.")]
    head_after: Annotated[str, Field(description="Where the branch is.")]
    reverted: Annotated[
        tuple[Reverted, ...], Field(description="Each commit that was reverted, and the commit that did it.")
    ]
    carried: Annotated[tuple[Carried, ...], Field(description="Each commit that was made anew, and what it became.")]
    rework: Annotated[tuple[str, ...], Field(description="Commits whose work has to be done again.")]
    rolled_back_at: Annotated[str, Field(description="When it was recorded.")]
    rolled_back_by: Annotated[str, Field(description="Who recorded it.")]


@dataclass(frozen=True, slots=True)
class SettingView:
    """One setting as it holds for a project."""

    name: Annotated[str, Field(description="The setting; those of a table are named with a dot.")]
    value: Annotated[Any, Field(description="Its value as JSON, without passwords.")]
    origin: Annotated[str, Field(description="`default`, a file, a variable or an option of the command line.")]
    description: Annotated[str, Field(description="What it is for.")]
    ignored: Annotated[str | None, Field(description="What was found in a file of the project and not used, and why.")]


@dataclass(frozen=True, slots=True)
class ProjectSettings:
    """The settings that hold for a registered project, and its gate."""

    project: ProjectName
    root: Annotated[str, Field(description="The top level of its git repository.")]
    settings: Annotated[tuple[SettingView, ...], Field(description="The settings, by name.")]
    gate: Annotated[GateState | None, Field(description="The project's gate.")]


@dataclass(frozen=True, slots=True)
class PathDecision:
    """Why one path may pass the gate, or may not."""

    path: Annotated[str, Field(description="The file.")]
    allowed: Annotated[bool, Field(description="Whether it may pass.")]
    review_id: Annotated[str | None, Field(description="The review whose approval covers the path.")]
    round: Annotated[int | None, Field(description="The approved round.")]
    reason: Annotated[str, Field(description="Which approval covers it, or why none does.")]
    kind: Annotated[
        str | None,
        Field(
            description=(
                "Why it passes: `approved`, `exempt` (by the setting `gate_exempt`), `rollback` (exactly "
                "takes back a commit of a change that was not approved) or `overridden`; null if it does "
                "not."
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
