"""What may be committed before it is reviewed: nothing, unless the trusted settings of the project say so."""

from __future__ import annotations

import os

TYPE_CHECKING = False  # as in `jsontext`
if TYPE_CHECKING:
    from tandem.hooks.planning import Effective
    from tandem.hooks.state import GateFile

STRICT = "strict"
PER_PLAN = "per_plan"
OPTIMISTIC = "optimistic"


def effective(gate: GateFile) -> Effective | None:
    """What holds in the project, after trust; null where it has no planning settings, and so the strict ones."""
    if not os.path.isdir(os.path.join(gate.root, ".planning")):
        return None
    # Most projects have none, and each commit would pay for these.
    from tandem.hooks import planning, trust

    found = planning.read(gate.root)
    return planning.effective(found, trusted=trust.trusts(gate.config_dir, found))


def leniency(gate: GateFile, branch: str | None) -> str:
    """What an unapproved commit on a branch gets: `strict` refuses it, `per_plan` and `optimistic` let it through.

    Args:
        gate: The switch.
        branch: The branch that is checked out; null if HEAD is detached, which is no base branch.
    """
    if branch in gate.branches:
        return STRICT
    holds = effective(gate)
    if holds is None or holds.is_strict:
        return STRICT
    # Both at once: every change is put up as soon as it is committed, which says more than the mark.
    return OPTIMISTIC if holds.mode == OPTIMISTIC else PER_PLAN
