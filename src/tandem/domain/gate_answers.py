"""What the operations on gates answer. Times are ISO 8601 in UTC."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class PlanState:
    """Where a plan of the optimistic mode stands.

    Attributes:
        mode: `optimistic`, or `blocking` once a change of the plan was decided against or rolled back.
        against: The reviews that were decided against and whose commits still stand, oldest first.
        rolled_back: The reviews whose change was rolled back, oldest first; the 200 newest.
    """

    plan: str
    mode: str
    against: tuple[str, ...]
    rolled_back: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GateState:
    """Whether a project's gate is on, and for what.

    Attributes:
        enabled: Whether commits are judged.
        branches: The base branches.
        accepted: Refs whose commits are taken as they are.
        reason: Why it was switched, if somebody said.
        switched_at: When it was switched last; null if it never was.
        switched_by: Who did it.
        plan: The plan that was asked about.
    """

    project: str
    enabled: bool
    branches: tuple[str, ...]
    accepted: tuple[str, ...]
    reason: str | None
    switched_at: str | None
    switched_by: str | None
    plan: PlanState | None = None


@dataclass(frozen=True, slots=True)
class GateOverridden:
    """A difference that passes the gate because a person said so."""

    override_id: str
    project: str
    digest: str
    overridden_at: str
    overridden_by: str


@dataclass(frozen=True, slots=True)
class CommitRecord:
    """A commit that a hook told of.

    Attributes:
        commit: Its id.
        plan: The plan's key, such as `03-02`, or the branch where there is no plan.
        review_ids: The reviews that its message names.
        unreviewed: Whether it passed unreviewed, as `per_plan` has it.
        depends_on: What its message says that it depends on.
        replaces: The commit that it was made from, by an amend or a rebase.
        replaced_by: The commit that it became, by an amend, a rebase or a rollback that kept it.
        rolled_back_by: The commit that reverted it.
    """

    project: str
    commit: str
    parent: str | None
    branch: str | None
    phase: str | None
    plan: str | None
    task: str | None
    review_ids: tuple[str, ...]
    unreviewed: bool
    depends_on: tuple[str, ...]
    replaces: str | None
    recorded_at: str
    recorded_by: str
    replaced_by: str | None
    rolled_back_by: str | None


@dataclass(frozen=True, slots=True)
class CommitPage:
    """A page of recorded commits, in the order in which they were recorded."""

    commits: tuple[CommitRecord, ...]
    next_page: str | None


@dataclass(frozen=True, slots=True)
class Reverted:
    """A commit that was reverted, and the commit that did it."""

    commit: str
    reverted_by: str


@dataclass(frozen=True, slots=True)
class Carried:
    """A commit that a rollback made anew, and what it became."""

    commit: str
    becomes: str


@dataclass(frozen=True, slots=True)
class RollbackRecorded:
    """A change was rolled back; its plan goes on in blocking mode."""

    review_id: str
    project: str
    plan: str
    branch: str
    head_before: str
    head_after: str
    reverted: tuple[Reverted, ...]
    carried: tuple[Carried, ...]
    rework: tuple[str, ...]
    rolled_back_at: str
    rolled_back_by: str
