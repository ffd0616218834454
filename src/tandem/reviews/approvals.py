"""The gate's decision: is every change of a commit covered by an approval?"""

from __future__ import annotations

from collections import defaultdict
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

    It has to be what whole approved changes make of it, one after the other: on paths of their own, or each on the
    content that another one left. When it is not, the largest part that is so is still told, for the message. What
    passes could also be committed approval by approval, in their order. A text covers its path alone.
    """
    wanted = {change.path: change for change in changes if _is_change(change)}
    chosen = _Composition(wanted, _usable(wanted, [one for one in approvals if not one.is_text])).found()
    made = {change.path for change in net(chosen) if change == wanted.get(change.path)}
    covered = {path: found for path, found in _covers(chosen).items() if path in made}
    texts = [approval for approval in approvals if approval.is_text]
    for change in changes if texts else ():
        text = next((approval for approval in texts if _text_covers(approval, change)), None)
        if text is not None:
            covered.setdefault(change.path, Cover(text, (text,)))
    return covered


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

    Those that change only the commit's paths come first, then the largest.
    """
    # Of several that approve the same, one is enough.
    usable = {one.changes: one for one in reversed(approvals)}.values()
    beginning: dict[_Path, set[Approval]] = defaultdict(set)
    ending: dict[_Path, set[Approval]] = defaultdict(set)
    for one in usable:
        for change in one.changes:
            beginning[start_of(change)].add(one)
            ending[end_of(change)].add(one)
    starts, ends = set(map(start_of, wanted.values())), set(map(end_of, wanted.values()))
    kept = set(usable)
    doubtful = list(usable)
    while doubtful:
        one = doubtful.pop()
        if one not in kept or all(
            (start_of(c) in starts or ending[start_of(c)]) and (end_of(c) in ends or beginning[end_of(c)])
            for c in one.changes
        ):
            continue
        kept.remove(one)
        for change in one.changes:
            beginning[start_of(change)].remove(one)
            ending[end_of(change)].remove(one)
            doubtful += beginning[end_of(change)] | ending[start_of(change)]
    return sorted(
        kept, key=lambda one: (sum(c.path not in wanted for c in one.changes), -len(one.changes), one.review_id)
    )


class _Composition:
    """The search for approvals that one after the other make exactly the wanted changes.

    Goes backwards: an approval that ends where its paths are is taken off, and they are where it began. Where nothing
    else can have been the last there is nothing to choose, which is nearly always so.
    """

    def __init__(self, wanted: dict[str, Change], usable: Sequence[Approval]) -> None:
        self._wanted = wanted
        self._ending: dict[_Path, list[Approval]] = {}
        for approval in usable:
            for change in approval.changes:
                self._ending.setdefault(end_of(change), []).append(approval)
        size = len(wanted) + sum(len(approval.changes) for approval in usable)
        self._steps = max(_FEWEST_STEPS, _SEARCH_EFFORT // max(1, size))
        self._hindered: dict[Approval, Change] = {}

    def found(self) -> list[Approval]:
        """The approvals, oldest first; where the whole cannot be made of them, those of the largest part."""
        best: list[Approval] = []
        most = 0
        seen: set[frozenset[Change]] = set()
        stack: list[tuple[dict[str, Change], list[Approval]]] = [({**self._wanted}, [])]
        for _ in range(self._steps):
            if not stack:
                break
            left, taken = stack.pop()
            self._take_the_only_ones(left, taken)
            changed = [change for change in left.values() if _is_change(change)]
            is_whole = all(self._wanted.get(change.path) == change for change in changed)
            if is_whole and len(self._wanted) - len(changed) > most:
                best, most = taken, len(self._wanted) - len(changed)
            if not changed:
                break
            state = frozenset(left.values())
            if state not in seen:
                seen.add(state)
                for one in reversed(self._choice(left, changed)):
                    before = {**left}
                    _take(before, one)
                    stack.append((before, [*taken, one]))
        return best[::-1]

    def _take_the_only_ones(self, left: dict[str, Change], taken: list[Approval]) -> None:
        """Take off every approval that alone ends where one of its paths is, once: they may lead round in a circle."""
        used: set[Approval] = set()
        waiting = [change.path for change in left.values() if _is_change(change)]
        while waiting:
            change = left[waiting.pop()]
            candidates = self._ending.get(end_of(change), ())
            if not _is_change(change) or len(candidates) != 1 or candidates[0] in used:
                continue
            if self._fits(left, candidates[0]):
                used.add(candidates[0])
                _take(left, candidates[0])
                taken.append(candidates[0])
                waiting += (one.path for one in candidates[0].changes)

    def _choice(self, left: dict[str, Change], changed: list[Change]) -> list[Approval]:
        """The approvals one of which has to be the last that changed a certain path: one with few ways to go wrong."""
        choices: list[tuple[int, bool, int, list[Approval]]] = []
        for change in changed:
            candidates = self._ending.get(end_of(change), ())
            fitting = [one for one in candidates if self._fits(left, one)]
            is_untouched = self._wanted.get(change.path) == change
            if not candidates and not is_untouched:
                return []
            if fitting:
                choices.append((len(candidates) - len(fitting), is_untouched, len(fitting), fitting))
        return min(choices, key=lambda choice: choice[:3])[3] if choices else []

    def _fits(self, left: dict[str, Change], approval: Approval) -> bool:
        """Whether an approval ends where all its paths are; what it failed at before is looked at first."""
        hindrance = self._hindered.get(approval)
        if hindrance is None or _ends_there(left, hindrance):
            hindrance = next((change for change in approval.changes if not _ends_there(left, change)), None)
        if hindrance is not None:
            self._hindered[approval] = hindrance
        return hindrance is None


def _is_change(change: Change) -> bool:
    return start_of(change) != end_of(change)


def _ends_there(left: dict[str, Change], change: Change) -> bool:
    return change.path not in left or end_of(left[change.path]) == end_of(change)


def _take(left: dict[str, Change], approval: Approval) -> None:
    """Go back before an approved change, which ends where the paths are.

    A path that is settled stays as a change of nothing, and so does one that the commit leaves alone, from where it
    is: whatever else changes it has to bring it back there.
    """
    for change in approval.changes:
        start = start_of(left[change.path]) if change.path in left else end_of(change)
        left[change.path] = Change(*start, *start_of(change)[1:])


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
