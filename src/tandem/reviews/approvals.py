"""The gate's decision: is every change of a commit covered by an approval?"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tandem.git.changes import Change
from tandem.git.raw import ABSENT_MODE


@dataclass(frozen=True, slots=True, eq=False)
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


@dataclass(frozen=True, slots=True)
class Cover:
    """Why a path has the content that it has.

    Attributes:
        approval: What gave it that content.
        chain: All approvals that lead there, oldest first: each is used whole, and begins at each of its paths where
            the one before it ended.
    """

    approval: Approval
    chain: tuple[Approval, ...]


_SEARCH_EFFORT = 1_000_000
_FEWEST_STEPS = 200
"""The search for a composition is bounded by entries times steps; beyond it the gate stays closed rather than slow."""

_Path = tuple[str, str, str]
"""A path with the mode and blob that it has at one point."""


def cover(changes: Sequence[Change], approvals: Sequence[Approval]) -> dict[str, Cover]:
    """What covers each path of a commit; a path that nothing covers is missing.

    Texts cover their path alone. What is left must be what whole approved changes make of it, one after the other:
    on paths of their own, or each on the content that another one left. When it is not, the largest part that is so
    is still told, for the message. What passes could also be committed approval by approval, in their order.
    """
    covered: dict[str, Cover] = {}
    left: dict[str, Change] = {}
    for change in changes:
        text = next((approval for approval in approvals if approval.is_text and _text_covers(approval, change)), None)
        if text is None:
            left[change.path] = change
        else:
            covered[change.path] = Cover(text, (text,))
    chosen = _composed(left, _usable(left, [approval for approval in approvals if not approval.is_text]))
    return covered | {path: found for path, found in _covers(chosen).items() if path in left}


def start_of(change: Change) -> _Path:
    """A path as it is before a change of it."""
    return change.path, change.mode_before, change.blob_before


def end_of(change: Change) -> _Path:
    """A path as it is after a change of it."""
    return change.path, change.mode_after, change.blob_after


def net(chain: Iterable[Approval]) -> list[Change]:
    """What approvals change when they are applied one after the other, in path order."""
    entries: dict[str, Change] = {}
    for approval in chain:
        for change in approval.changes:
            first = entries.get(change.path, change)
            entries[change.path] = Change(*start_of(first), *end_of(change)[1:])
    return sorted(change for change in entries.values() if start_of(change) != end_of(change))


def _text_covers(approval: Approval, change: Change) -> bool:
    """An approved text fixes path and bytes; the mode may not change beside it, nor be a special one."""
    approved = next(iter(approval.changes))
    mode_kept = change.mode_after == change.mode_before
    mode_new = change.mode_before == ABSENT_MODE and change.mode_after == approved.mode_after
    return (change.path, change.blob_after) == (approved.path, approved.blob_after) and (mode_kept or mode_new)


def _usable(wanted: dict[str, Change], approvals: Sequence[Approval]) -> list[Approval]:
    """The approvals whose every entry begins and ends where the commit or another one of them does.

    Those that leave the commit's paths alone come first, then the largest.
    """
    usable = sorted(approvals, key=lambda one: (sum(c.path not in wanted for c in one.changes), -len(one.changes)))
    while True:
        starts = {end_of(change) for one in usable for change in one.changes}
        ends = {start_of(change) for one in usable for change in one.changes}
        starts |= {start_of(change) for change in wanted.values()}
        ends |= {end_of(change) for change in wanted.values()}
        kept = [one for one in usable if all(start_of(c) in starts and end_of(c) in ends for c in one.changes)]
        if len(kept) == len(usable):
            return kept
        usable = kept


def _composed(wanted: dict[str, Change], usable: Sequence[Approval]) -> list[Approval]:
    """Approvals, oldest first, that one after the other make exactly the wanted changes, or the largest part of them.

    Goes backwards: an approval that ends where its paths are is taken off, and they are where it began. A path that
    the commit leaves alone has to come back to where it was.
    """
    ending: dict[_Path, list[Approval]] = {}
    for approval in usable:
        for change in approval.changes:
            ending.setdefault(end_of(change), []).append(approval)
    size = len(wanted) + sum(len(approval.changes) for approval in usable)
    steps = max(_FEWEST_STEPS + len(usable), _SEARCH_EFFORT // max(1, size))
    best: list[Approval] = []
    most = 0
    seen: set[frozenset[Change]] = set()
    stack: list[tuple[dict[str, Change], list[Approval]]] = [(wanted, [])]
    for _ in range(steps):
        if not stack:
            break
        left, taken = stack.pop()
        changed = [change for change in left.values() if start_of(change) != end_of(change)]
        if len(wanted) - len(changed) > most and all(wanted.get(change.path) == change for change in changed):
            best, most = taken, len(wanted) - len(changed)
        if not changed:
            break
        state = frozenset(left.values())
        if state not in seen:
            seen.add(state)
            stack += [(_before(left, one), [one, *taken]) for one in reversed(_last(wanted, left, changed, ending))]
    return best


def _last(
    wanted: dict[str, Change], left: dict[str, Change], changed: list[Change], ending: dict[_Path, list[Approval]]
) -> list[Approval]:
    """The approvals one of which has to be the last that changed a certain path: one with few ways to go wrong."""
    fits: dict[Approval, bool] = {}
    choices: list[tuple[int, bool, int, list[Approval]]] = []
    for change in changed:
        candidates = ending.get(end_of(change), [])
        for one in candidates:
            if one not in fits:
                fits[one] = all(c.path not in left or end_of(left[c.path]) == end_of(c) for c in one.changes)
        fitting = [one for one in candidates if fits[one]]
        is_untouched = wanted.get(change.path) == change
        if not candidates and not is_untouched:
            return []
        if fitting:
            choices.append((len(candidates) - len(fitting), is_untouched, len(fitting), fitting))
    return min(choices, key=lambda choice: choice[:3])[3] if choices else []


def _before(left: dict[str, Change], approval: Approval) -> dict[str, Change]:
    """What is left of some changes before an approved one, which ends where they do.

    A path that is settled stays as a change of nothing, and so does one that the commit leaves alone, from where it
    is: whatever else changes it has to bring it back there.
    """
    before = dict(left)
    for change in approval.changes:
        was = start_of(left[change.path]) if change.path in left else end_of(change)
        before[change.path] = Change(*was, *start_of(change)[1:])
    return before


def _covers(chosen: Sequence[Approval]) -> dict[str, Cover]:
    """What covers each path of approvals that are given oldest first; those that share paths are one chain."""
    chains: dict[str, list[Approval]] = {}
    last: dict[str, Approval] = {}
    for approval in chosen:
        joined = {id(chains[c.path]): chains[c.path] for c in approval.changes if c.path in chains}
        chain = [*(one for part in joined.values() for one in part), approval]
        chains |= {change.path: chain for one in chain for change in one.changes}
        last |= {change.path: approval for change in approval.changes}
    return {path: Cover(approval, tuple(chains[path])) for path, approval in last.items()}


def inverse(changes: Sequence[Change]) -> list[Change]:
    """The changes that take these back."""
    return [
        Change(change.path, change.mode_after, change.blob_after, change.mode_before, change.blob_before)
        for change in changes
    ]
