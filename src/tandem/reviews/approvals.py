"""The gate's decision: is every change of a commit covered by an approval?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tandem.git.changes import Change
from tandem.git.raw import ABSENT_MODE


@dataclass(frozen=True, slots=True)
class Approval:
    """What one approved round lets through.

    Attributes:
        review_id: The review.
        round: Its approved round.
        changes: Its raw entries; of a text, the one entry of its path.
        is_text: Whether a text of one path was approved: then only path and blob count.
    """

    review_id: str
    round: int
    changes: frozenset[Change]
    is_text: bool = False


_SEARCH_EFFORT = 3_000_000
_FEWEST_STEPS = 200
"""The search for a union is bounded by paths times steps; beyond it the gate stays closed rather than slow."""


def cover(changes: Sequence[Change], approvals: Sequence[Approval]) -> dict[str, Approval]:
    """Which approval covers each path of a commit; a path that none covers is missing.

    Texts cover their path alone. What is left must be a union of whole approved changes on disjoint
    paths; when it is not, the largest part that is a union is still told, for the message.
    """
    covered: dict[str, Approval] = {}
    left: set[Change] = set()
    for change in changes:
        text = next((approval for approval in approvals if approval.is_text and _text_covers(approval, change)), None)
        if text is None:
            left.add(change)
        else:
            covered[change.path] = text
    whole = [approval for approval in approvals if not approval.is_text and approval.changes <= left]
    for approval in _exact_union(left, whole):
        covered.update(dict.fromkeys((change.path for change in approval.changes), approval))
    return covered


def _text_covers(approval: Approval, change: Change) -> bool:
    """An approved text fixes path and bytes; the mode may not change beside it, nor be a special one."""
    approved = next(iter(approval.changes))
    mode_kept = change.mode_after == change.mode_before
    mode_new = change.mode_before == ABSENT_MODE and change.mode_after == approved.mode_after
    return (change.path, change.blob_after) == (approved.path, approved.blob_after) and (mode_kept or mode_new)


def _exact_union(wanted: set[Change], whole: Sequence[Approval]) -> list[Approval]:
    """Approvals on disjoint paths that together are exactly the wanted changes, or the best try."""
    by_change: dict[Change, list[Approval]] = {}
    for approval in sorted(whole, key=lambda found: -len(found.changes)):
        for change in approval.changes:
            by_change.setdefault(change, []).append(approval)
    best: list[Approval] = []
    best_size = 0
    stack: list[tuple[frozenset[Change], list[Approval]]] = [(frozenset(wanted), [])]
    for _ in range(max(_FEWEST_STEPS, _SEARCH_EFFORT // max(1, len(wanted)))):
        if not stack:
            break
        left, chosen = stack.pop()
        size = len(wanted) - len(left)
        if size > best_size:
            best, best_size = chosen, size
        if not left:
            return chosen
        candidates = [change for change in left if by_change.get(change)]
        if not candidates:
            continue
        # The change that the fewest approvals cover leaves the fewest ways to go wrong.
        pivot = min(candidates, key=lambda change: len(by_change[change]))
        for approval in reversed(by_change[pivot]):
            if approval.changes <= left:
                stack.append((left - approval.changes, [*chosen, approval]))  # noqa: PERF401 popped while it grows
    return best


def inverse(changes: Sequence[Change]) -> list[Change]:
    """The changes that take these back."""
    return [
        Change(change.path, change.mode_after, change.blob_after, change.mode_before, change.blob_before)
        for change in changes
    ]
