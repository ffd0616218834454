"""What an unapproved commit gets: `strict` refuses it; `per_plan` and `optimistic` let it through before its review.

Only the project's trusted settings loosen, and never on a base branch.
"""

from __future__ import annotations

import os

from tandem.rulings import planning, trust
from tandem.rulings.trust import OPTIMISTIC, PER_PLAN

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from tandem.rulings.planning import PlanningFile
    from tandem.rulings.state import GateFile

STRICT = "strict"

RECORDING = "recording"
"""A file in Tandem's folder of the git folder: commits are to be recorded. Without it `post-commit` starts nothing."""

OVERRIDE_VARIABLE = "TANDEM_OVERRIDE"
"""Holds the reason of a person who overrides the gate."""

ROLLBACK_NOTE = "rollback.json"
"""In Tandem's folder of the working tree's git folder: a rollback that has not come to its end."""


def effective(gate: GateFile) -> PlanningFile | None:
    """What holds in the project, after trust; None where it has no planning settings, and so the strict ones."""
    root = gate.place.settings_root
    if not os.path.isdir(os.path.join(root, ".planning")):
        return None
    found = planning.read(root)
    return planning.effective(found, trusted=trust.trusts(gate.config_dir, gate.root, found.sources))


def reviews_each_task(gate: GateFile) -> bool:
    """Whether every task's change is reviewed before its commit."""
    holds = effective(gate)
    return holds is None or holds.is_strict


def base_branch(gate: GateFile, branch: str | None) -> str | None:
    """The base branch that a branch is, by the gate's own name for it; None if it is none."""
    # Whether two names are one is not left to the file system's case.
    return next((one for one in gate.branches if branch is not None and one.casefold() == branch.casefold()), None)


def enforcement(gate: GateFile, branch: str | None) -> str:
    """What an unapproved commit on a branch gets.

    Args:
        gate: The switch.
        branch: The branch that is checked out; None if HEAD is detached, which is no base branch.
    """
    holds = None if branch in gate.branches else effective(gate)
    if holds is None or holds.is_strict:
        return STRICT
    # Both at once: every change is submitted as soon as it is committed, which says more than the mark.
    return OPTIMISTIC if holds.mode == OPTIMISTIC else PER_PLAN
