"""The gate's decision, whether approvals cover every change of a commit, and the records of gates.

Those are switches, overrides, recorded commits, and changes that were rolled back.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import orjson

from tandem.git.changes import Change
from tandem.git.raw import ABSENT_MODE
from tandem.rulings.state import REVIEWED


class Gate(NamedTuple):
    """The switch of one project. Field order is the column order of its table.

    JSON lists: `branches` are the base branches; `accepted` the commits that are taken as they are, with their
    ancestors; `folders` the git folders where it is on; `trusted` the contents of settings that a person trusts, as
    SHA-256 and file; `signers` whose brokers' signatures count, each as `NAME=KEY`. Times are microseconds
    since the epoch, UTC.
    """

    project: str
    enabled: int
    branches: str
    accepted: str
    reason: str | None
    switched_at: int
    switched_by: str
    event_seq: int = 0
    event_hash: str = ""
    folders: str | None = None
    trusted: str | None = None
    signers: str | None = None
    commits: str | None = None
    """How commits on other branches are treated; None is `reviewed`."""
    threshold: str | None = None
    """The severity from which on an open finding keeps an approval back; None is the usual one."""

    @property
    def subject(self) -> str:
        """The subject of its events."""
        return f"gate:{self.project}"


class Override(NamedTuple):
    """One difference that a person let through. Field order is the column order of its table.

    `overridden_at` is when the person did it, `recorded_at` when the broker heard of it.
    """

    project: str
    id: str
    digest: str
    branch: str | None
    reason: str
    overridden_at: int
    overridden_by: str
    recorded_at: int
    event_seq: int = 0
    event_hash: str = ""

    @property
    def subject(self) -> str:
        """The subject of its event."""
        return f"override:{self.project}/{self.id}"


class CommitRow(NamedTuple):
    """One commit that a hook told of. Field order is the column order of its table.

    `review_ids` and `depends_on` are JSON lists; `inverse` is the digest of the change that reverts it, without
    exempt paths, and None if no change does (a merge, a commit that changes nothing).
    """

    project: str
    id: str
    parent: str | None
    branch: str | None
    phase: str | None
    plan: str | None
    task: str | None
    review_ids: str
    unreviewed: int
    depends_on: str
    replaces: str | None
    inverse: str | None
    recorded_at: int
    recorded_by: str
    event_seq: int = 0
    event_hash: str = ""

    @property
    def subject(self) -> str:
        """The subject of its event."""
        return f"commit:{self.project}/{self.id}"


LISTS = ("branches", "accepted", "folders", "trusted", "signers")
"""The JSON lists of a switch."""


def commits_of(gate: Gate | None) -> str:
    """How commits on branches that are no base branch are treated."""
    return (gate and gate.commits) or REVIEWED


def names(listed: str | None) -> list[str]:
    """One of the JSON lists of a row; empty if there is none."""
    return orjson.loads(listed or "[]")


def names_of(gate: Gate | None, which: str) -> list[str]:
    """One of the `LISTS` of a switch; empty where there is none."""
    return names(getattr(gate, which, None))


def as_list(items: Iterable[object]) -> str:
    """A JSON list of a row, each item once."""
    return orjson.dumps(list(dict.fromkeys(items))).decode()


def commit_reviews_of(commit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The rows that follow from a recorded commit: one for each review that it names."""
    shared = {"project": commit["project"], "commit_id": commit["id"], "plan": commit["plan"]}
    return [{**shared, "review_id": review} for review in dict.fromkeys(orjson.loads(commit["review_ids"]))]


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


@dataclass(frozen=True, slots=True, eq=False)
class Cover:
    """Why paths have the content that they have; one for all paths of an approval.

    Attributes:
        approval: What gave them that content.
        chain: All approvals that lead there, oldest first: each is used whole, and begins at each of its paths where
            the one before it ended.
    """

    approval: Approval
    chain: tuple[Approval, ...]


_SEARCH_EFFORT = 5_000_000
"""Entries that the search for a composition looks at; beyond it the gate stays closed rather than slow."""

_Path = tuple[str, str, str]
"""A path with the mode and blob that it has at one point."""


def cover(
    changes: Sequence[Change], approvals: Sequence[Approval], check: Callable[[], object] = lambda: None
) -> dict[str, Cover]:
    """What covers each path of a commit; a path that nothing covers is missing.

    It has to be what whole approved changes make of it, one after the other: on paths of their own, or each on the
    content that another one left. When it is not, the largest part that is so is still told, for the message. What
    passes could also be committed approval by approval, in their order. A text covers its path alone. `check` is called
    now and then; it may raise to end the search.
    """
    wanted = {change.path: change for change in changes if _is_change(change)}
    usable = _usable(wanted, [one for one in approvals if not one.is_text])
    check()
    whole = frozenset(wanted.values())
    alone = next((one for one in usable[:1] if one.changes == whole), None)
    chosen = [alone] if alone is not None else _Composition(wanted, usable).found(check)
    made = {change.path for change in net(chosen) if change == wanted.get(change.path)}
    covered = {path: found for path, found in _covers(chosen).items() if path in made}
    texts: dict[tuple[str, str], list[Approval]] = defaultdict(list)
    for approval in approvals:
        if approval.is_text:
            for change in approval.changes:
                texts[change.path, change.blob_after].append(approval)
    for change in changes if texts else ():
        text = next((one for one in texts.get((change.path, change.blob_after), ()) if _text_covers(one, change)), None)
        if text is not None:
            covered.setdefault(change.path, Cover(text, (text,)))
    return covered


def start_of(change: Change) -> _Path:
    """A path as it is before a change of it."""
    return change[:3]


def end_of(change: Change) -> _Path:
    """A path as it is after a change of it."""
    return change.path, change.mode_after, change.blob_after


def net(chain: Iterable[Approval]) -> list[Change]:
    """What approvals change when they are applied one after the other."""
    entries: dict[str, Change] = {}
    for approval in chain:
        for change in approval.changes:
            first = entries.get(change.path, change)
            entries[change.path] = Change(*start_of(first), *end_of(change)[1:])
    return [change for change in entries.values() if _is_change(change)]


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
    kept = {*{one.changes: one for one in reversed(approvals)}.values()}
    starts, ends = set(map(start_of, wanted.values())), set(map(end_of, wanted.values()))
    # Where the commit neither begins nor ends, others have to.
    beginning: dict[_Path, list[Approval]] = defaultdict(list)
    ending: dict[_Path, list[Approval]] = defaultdict(list)
    for one in kept:
        for change in one.changes:
            if start_of(change) not in starts:
                beginning[start_of(change)].append(one)
            if end_of(change) not in ends:
                ending[end_of(change)].append(one)
    begun = Counter(start for one in kept for start in map(start_of, one.changes) if start in ending)
    ended = Counter(end for one in kept for end in map(end_of, one.changes) if end in beginning)
    doubtful = [one for place, found in ending.items() if place not in begun for one in found]
    doubtful += (one for place, found in beginning.items() if place not in ended for one in found)
    while doubtful:
        one = doubtful.pop()
        if one not in kept:
            continue
        kept.remove(one)
        for change in one.changes:
            for place, left, needed_by in ((start_of(change), begun, ending), (end_of(change), ended, beginning)):
                if place in left:
                    left[place] -= 1
                    # A place loses its last approval once, and with it those that need one there.
                    doubtful += () if left[place] else needed_by[place]
    return sorted(
        kept,
        key=lambda one: (sum(c.path not in wanted for c in one.changes), -len(one.changes), one.review_id),
    )


@dataclass(slots=True)
class _Position:
    """A point of the search.

    Attributes:
        left: By path, the change that no approval explains yet.
        hindered: By approval, how many of its paths are not where it ends.
        taken: The approvals that were taken off, newest first.
    """

    left: dict[str, Change]
    hindered: dict[Approval, int]
    taken: list[Approval]


class _Composition:
    """The search for approvals that one after the other make exactly the wanted changes.

    Goes backwards: an approval that ends where its paths are is taken off, and they are where it began. Where nothing
    else can have been the last there is nothing to choose, which is nearly always so.
    """

    def __init__(self, wanted: dict[str, Change], usable: Sequence[Approval]) -> None:
        self._wanted = wanted
        self._ending: dict[_Path, list[Approval]] = defaultdict(list)
        self._beside: dict[str, list[tuple[_Path, Approval]]] = defaultdict(list)
        hindered = dict.fromkeys(usable, 0)
        for approval in usable:
            for change in approval.changes:
                self._ending[end_of(change)].append(approval)
                if change.path not in wanted:
                    self._beside[change.path].append((end_of(change), approval))
                elif end_of(wanted[change.path]) != end_of(change):
                    hindered[approval] += 1
        self._hindered = hindered
        self._effort = _SEARCH_EFFORT

    def found(self, check: Callable[[], object]) -> list[Approval]:
        """The approvals, oldest first; where the whole cannot be made of them, those of the largest part."""
        best: list[Approval] = []
        most = 0
        seen: set[int] = set()
        ways: list[list[Approval]] = [[]]
        while ways and self._effort > 0:
            check()
            at = self._after(ways.pop())
            changed = [change for change in at.left.values() if _is_change(change)]
            is_whole = all(self._wanted.get(change.path) == change for change in changed)
            if is_whole and len(self._wanted) - len(changed) > most:
                best, most = at.taken, len(self._wanted) - len(changed)
            if not changed:
                break
            # Of two positions with the same hash one would not be searched: then the gate stays closed.
            state = hash(frozenset(at.left.values()))
            if state not in seen:
                seen.add(state)
                ways += ([*at.taken, one] for one in reversed(self._choice(at, changed)))
        return best[::-1]

    def _after(self, taken: list[Approval]) -> _Position:
        """Where some approvals lead that are taken off, and after them every one that is the only choice."""
        at = _Position({**self._wanted}, {**self._hindered}, [])
        self._effort -= len(at.left) + len(at.hindered)
        for one in taken:
            self._take(at, one)
        self._take_the_only_ones(at)
        return at

    def _take_the_only_ones(self, at: _Position) -> None:
        """Take off every approval that alone ends where one of its paths is, once: they may lead round in a circle."""
        used: set[Approval] = set()
        waiting = [change.path for change in at.left.values() if _is_change(change)]
        while waiting:
            change = at.left[waiting.pop()]
            candidates = self._ending.get(end_of(change), ())
            if not _is_change(change) or len(candidates) != 1 or candidates[0] in used:
                continue
            if not at.hindered[candidates[0]]:
                used.add(candidates[0])
                self._take(at, candidates[0])
                waiting += (one.path for one in candidates[0].changes)

    def _choice(self, at: _Position, changed: list[Change]) -> list[Approval]:
        """The approvals one of which has to be the last that changed a certain path: one with few ways to go wrong."""
        choices: list[tuple[int, bool, int, list[Approval]]] = []
        for change in changed:
            candidates = self._ending.get(end_of(change), ())
            self._effort -= len(candidates)
            fitting = [one for one in candidates if not at.hindered[one]]
            is_untouched = self._wanted.get(change.path) == change
            if not candidates and not is_untouched:
                return []
            if fitting:
                choices.append((len(candidates) - len(fitting), is_untouched, len(fitting), fitting))
        return min(choices, key=lambda choice: choice[:3])[3] if choices else []

    def _take(self, at: _Position, approval: Approval) -> None:
        """Go back before an approved change, which ends where the paths are.

        A settled path stays as an empty change. So does a path that the commit leaves alone, from its place: any other
        approval that changes the path has to restore that place.
        """
        at.taken.append(approval)
        for change in approval.changes:
            before, after, left = start_of(change), end_of(change), at.left.get(change.path)
            if left is None:
                hindered = [one for place, one in self._beside[change.path] if place != before]
                freed: Sequence[Approval] = ()
            else:
                hindered, freed = self._ending[after], self._ending.get(before, ())
            for one in hindered:
                at.hindered[one] += 1
            for one in freed:
                at.hindered[one] -= 1
            self._effort -= 1 + len(hindered) + len(freed)
            at.left[change.path] = Change(*(start_of(left) if left else after), *before[1:])


def _is_change(change: Change) -> bool:
    return start_of(change) != end_of(change)


def _covers(chosen: Sequence[Approval]) -> dict[str, Cover]:
    """What covers each path of approvals that are given oldest first; those that share paths are one chain."""
    chain_of = {approval: approval for approval in chosen}

    def first(approval: Approval) -> Approval:
        while chain_of[approval] is not approval:
            chain_of[approval] = chain_of[chain_of[approval]]
            approval = chain_of[approval]
        return approval

    last: dict[str, Approval] = {}
    for approval in chosen:
        for change in approval.changes:
            if change.path in last:
                chain_of[first(last[change.path])] = first(approval)
            last[change.path] = approval
    chains: dict[Approval, list[Approval]] = defaultdict(list)
    for approval in chosen:
        chains[first(approval)].append(approval)
    whole = {one: tuple(chain) for one, chain in chains.items()}
    covers = {approval: Cover(approval, whole[first(approval)]) for approval in chosen}
    return {path: covers[approval] for path, approval in last.items()}


def inverse(changes: Sequence[Change]) -> list[Change]:
    """The changes that take these back."""
    return [Change(*end_of(change), *start_of(change)[1:]) for change in changes]
