"""`tandem rollback`: taking back what was committed before its review and then decided against.

In order: the lock, the commit, what its plan built upon it, a scratch worktree with the reverts, the counter-patch and
the replayed dependents, the verify command, one fast-forward, and the telling. Until the fast-forward nothing of the
branch, the index and the working tree is touched; after it nothing is left to go wrong but the telling.
"""

from __future__ import annotations

from tandem.workflow.rollback.checkout import Checkout
from tandem.workflow.rollback.report import Report
from tandem.workflow.rollback.rolling import Asked, roll_back

__all__ = ["Asked", "Checkout", "Report", "roll_back"]
