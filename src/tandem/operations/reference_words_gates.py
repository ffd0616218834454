"""What the reference pages say of gates beyond what the declarations do."""

from __future__ import annotations

from typing import Final

from tandem.domain.events import Kind

EVENTS: Final[dict[Kind, str]] = {
    Kind.GATE_SWITCHED: "The project's gate was switched on or off, or its branches changed; `reason` may say why.",
    Kind.GATE_OVERRIDDEN: (
        "A person let a difference through that nobody approved: `reason`, `digest`, and the first 100 `paths` of it."
    ),
    Kind.COMMIT_RECORDED: (
        "A hook told of a commit: its branch, plan and reviews. With `unreviewed` it passed before anybody looked."
    ),
    Kind.CHANGE_ROLLED_BACK: (
        "The review's change was taken back on `branch`; the numbers say how many commits were reverted, carried over "
        "and have to be done again. The plan goes on in blocking mode."
    ),
}

CODES: Final[dict[str, tuple[str, ...]]] = {
    "set_gate": ("NOT_FOUND",),
    "get_gate": ("NOT_FOUND",),
    "override_gate": ("NOT_FOUND",),
    "record_commit": ("NOT_FOUND",),
    "list_commits": (),
    "record_rollback": ("NOT_FOUND",),
}

FIELDS: Final[dict[str, str]] = {
    "PathDecision.kind": (
        "Why it passes: `approved`, `exempt` (by the setting `gate_exempt`), `rollback` (exactly takes back a commit "
        "of a change that was not approved) or `overridden`; null if it does not."
    ),
    "GateState.enabled": "Whether commits are judged.",
    "GateState.branches": "The base branches.",
    "GateState.accepted": "Refs whose commits are taken as they are.",
    "GateState.plan": "The plan that was asked about; null if none was.",
    "GateState.reason": "Why it was switched, if somebody said.",
    "switched_at": "When it was switched last; null if it never was.",
    "switched_by": "Who switched it last.",
    "PlanState.plan": "The plan's key, or a branch.",
    "PlanState.mode": (
        "`optimistic`, or `blocking` once a change of the plan was decided against or rolled back: then commits wait "
        "for their approval."
    ),
    "PlanState.against": "The reviews that were decided against and whose commits stand, oldest first.",
    "PlanState.rolled_back": "The reviews whose change was rolled back, oldest first; the 200 newest.",
    "CommitRecord.plan": "The plan's key, or the branch where there is no plan.",
    "CommitRecord.review_ids": "The reviews that its message names.",
    "CommitRecord.unreviewed": "Whether it passed unreviewed.",
    "CommitRecord.depends_on": "What its message says that it depends on.",
    "CommitRecord.replaces": "The commit that an amend or a rebase made it from.",
    "CommitRecord.replaced_by": "The commit that it became, by an amend, a rebase or a rollback that kept it.",
    "CommitRecord.rolled_back_by": "The commit that reverted it.",
    "OverrideGate.changes": "The raw changes: every path once.",
    "override_id": "The override.",
    "GateOverridden.digest": "SHA-256 over the difference that passes.",
    "overridden_at": "When the person did it.",
    "overridden_by": "Who did it.",
    "commit": "The commit's id.",
    "RecordCommit.phase": "The phase that it belongs to.",
    "RecordCommit.task": "The task that it belongs to.",
    "CommitRecord.phase": "The phase that it belongs to.",
    "CommitRecord.task": "The task that it belongs to.",
    "CommitRecord.parent": "Its first parent; null for a root commit.",
    "CommitRecord.branch": "The branch that it was made on; null on none.",
    "recorded_at": "When the broker heard of it.",
    "recorded_by": "Who told of it.",
    "commits": "The commits, in the order in which they were recorded.",
    "RollbackRecorded.plan": "The plan's key, which goes on in blocking mode.",
    "RollbackRecorded.branch": "The branch that moved.",
    "head_before": "Where the branch was.",
    "head_after": "Where the branch is.",
    "reverted": "Each commit that was reverted, and the commit that did it.",
    "reverted_by": "The commit that reverted it.",
    "carried": "Each commit that was made anew, and what it became.",
    "becomes": "The commit that it became.",
    "rework": "Commits whose work has to be done again.",
    "rolled_back_at": "When it was recorded.",
    "rolled_back_by": "Who recorded it.",
}
