"""What a rollback did, or would do."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any, Literal

Approval = Literal["carried", "re_review", "none"]
"""Of a commit that was replayed: its review still holds for it, has to be done again, or there is none."""


Settled = Literal["observed", "settled"]
"""A rejection that nobody rolled back: the broker saw that the change is gone, or a person said so."""


@dataclass(frozen=True, slots=True)
class Reverted:
    """A commit that was taken back.

    Attributes:
        commit: Its id.
        subject: Its message's first line.
        review_ids: Its reviews.
        because: Why it was taken back.
        reverted_by: The commit that reverts it; null if nothing of it was left.
    """

    commit: str
    subject: str
    review_ids: tuple[str, ...]
    because: str
    reverted_by: str | None


@dataclass(frozen=True, slots=True)
class Carried:
    """A dependent that was replayed.

    Attributes:
        commit: What it was.
        becomes: What it is now.
        subject: Its message's first line.
        review_ids: Its reviews.
        approval: What became of their approval.
    """

    commit: str
    becomes: str
    subject: str
    review_ids: tuple[str, ...]
    approval: Approval


@dataclass(frozen=True, slots=True)
class Rework:
    """What has to be made again.

    Attributes:
        commit: The commit that is gone; null if it was no commit of its own.
        subject: Its message's first line.
        review_ids: Its reviews.
        reason: Why it could not be kept.
    """

    commit: str | None
    subject: str
    review_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True)
class ConflictPatch:
    """The accepted counter-patch.

    Attributes:
        round: The round that it made.
        commit: The commit that has it.
        exact: Whether the commit is to the byte what was accepted.
    """

    round: int
    commit: str
    exact: bool


@dataclass(frozen=True, slots=True)
class ReReview:
    """A review that was put up again because its content changed.

    Attributes:
        commit: The commit that it is about.
        review_id: The review; a new one where the old one takes no more rounds.
        round: Its round.
        replaces: The review that the commit had.
    """

    commit: str
    review_id: str
    round: int
    replaces: str


@dataclass(frozen=True, slots=True)
class RollbackReport:
    """What a rollback did, or with `dry_run` would do.

    Attributes:
        review_id: What was rolled back.
        project: Its project.
        plan: Its plan's key; from now on that plan's commits are refused until they are approved.
        branch: The branch.
        worktree: The working tree.
        how: By what the commit was found: `record`, `trailer`, `patch_id` or `plan`.
        head_before: Where the branch was.
        head_after: Where it is; the same if there was nothing to do.
        reverted: What was taken back, newest first.
        counter_patch: The accepted counter-patch, if there was one.
        carried: The dependents that stay.
        rework: What has to be made again.
        files: The files that changed.
        verify: The verify command that passed, or will be run; null if none is configured.
        already: The commits that had taken it back before; then nothing was done.
        settled: How a rejection ended whose content was gone before: `observed` by the broker or `settled` by a person;
            else null.
        waiting_round: The round of an accepted counter-patch that is in no commit; null if there is none.
        escalate: Whether a person has to look before anybody goes on.
        re_reviews: What was put up again.
        summary: The SUMMARY.md that got a section on it.
        unsaid: What could not be told to the broker; running the command again tells it.
        finished: Whether an earlier, interrupted run had done it and this one only told of it.
        dry_run: Whether nothing was done.
    """

    review_id: str
    project: str
    plan: str
    branch: str
    worktree: str
    how: str
    head_before: str
    head_after: str
    reverted: tuple[Reverted, ...] = ()
    counter_patch: ConflictPatch | None = None
    carried: tuple[Carried, ...] = ()
    rework: tuple[Rework, ...] = ()
    files: tuple[str, ...] = ()
    verify: tuple[str, ...] | None = None
    already: tuple[str, ...] = ()
    settled: Settled | None = None
    waiting_round: int | None = None
    escalate: bool = False
    re_reviews: tuple[ReReview, ...] = ()
    summary: str | None = None
    unsaid: str | None = None
    finished: bool = False
    dry_run: bool = False

    @property
    def changed(self) -> bool:
        """Whether the branch moved, or would."""
        return self.head_after != self.head_before

    def facts(self) -> dict[str, Any]:
        """As JSON values; a name that is not Unicode is shown as well as it can be."""
        readable = json.dumps(asdict(self), ensure_ascii=False).encode("utf-8", "replace")
        return {**json.loads(readable), "changed": self.changed}
