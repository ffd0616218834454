"""Loads the approvals that a difference is compared with, and computes the paths that they cover."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress

from tandem.gate import queries
from tandem.gate.rules import Approval, Cover, cover, end_of, inverse, net, start_of
from tandem.git.changes import Change
from tandem.reviews import queries as review_queries
from tandem.settings.policy import is_exempt
from tandem.store.base import Unit

CANDIDATES = 500
"""Approvals of the same content that are looked at; more would be abuse."""
_MOST_TURNS = 20
"""Attempts to replace reverted approvals by others."""
_CHAINED = 500
_CHAINED_PATHS = 20_000
"""Approvals, and paths of them, that a commit is traced back through: a squash of more is submitted as one change."""


class TooMuch(Exception):
    """The approvals have more paths than may be looked at here."""


class Approvals:
    """The approvals of a project, loaded as a question needs them, without exempt paths."""

    def __init__(
        self, unit: Unit, project: str, check: Callable[[], None], most: int, patterns: tuple[str, ...] = ()
    ) -> None:
        self.check = check
        self.ending: dict[tuple[str, str], list[tuple[str, int, str]]] = {}
        self.read: dict[tuple[str, int], Approval] = {}
        self._unit = unit
        self._project = project
        self._left = most
        self._patterns = patterns
        self._changes: dict[Change, Change] = {}
        self._approved_at: dict[str, int] = {}

    def ending_at(self, ends: Iterable[tuple[str, str, str]]) -> list[Approval]:
        """All approvals that end with one of these blobs at its path, with all their paths; `ending` has them by both.

        Raises:
            TooMuch: They have too many paths.
        """
        wanted = dict.fromkeys((path, blob) for path, _, blob in ends)
        new = [one for one in wanted if one not in self.ending]
        self.ending.update((one, []) for one in new)
        kinds: dict[tuple[str, int], str] = {}
        known: dict[tuple[str, int, str], tuple[str, int, str]] = {}
        left = self._left
        for rows in queries.list_approving(self._unit, self._project, new, left + 1):
            self.check()
            left -= len(rows)
            if left < 0:
                raise TooMuch
            for path, blob, review_id, number, kind, mode in rows:
                kinds[review_id, number] = kind
                one = (review_id, number, mode)
                self.ending[path, blob].append(known.setdefault(one, one))
        self._load(kinds)
        return [self.read[key] for key in dict.fromkeys(one[:2] for end in wanted for one in self.ending[end])]

    def whole(self, review_id: str, number: int) -> Approval:
        """An approval with all its paths.

        Raises:
            TooMuch: It has too many.
        """
        self._load({(review_id, number): "change"})
        return self.read[review_id, number]

    def _load(self, kinds: Mapping[tuple[str, int], str]) -> None:
        entries: dict[tuple[str, int], list[Change]] = {key: [] for key in kinds if key not in self.read}
        for rows in queries.list_approved_paths(self._unit, list(entries), self._left + 1):
            self.check()
            self._left -= len(rows)
            if self._left < 0:
                raise TooMuch
            for review_id, number, *facts in rows:
                change = Change(*facts)
                if not is_exempt(change, self._patterns):
                    # Approvals may have many of them in common.
                    entries[review_id, number].append(self._changes.setdefault(change, change))
        for key, changes in entries.items():
            self.read[key] = Approval(*key, frozenset(changes), is_text=kinds[key] == "text")

    def forget(self) -> None:
        """Free the loaded rows piece by piece: all at once would stop other threads for longer than a call takes."""
        self.read.clear()
        for known in (self.ending, self._changes):
            while known:
                known.popitem()

    def approved_at(self, approvals: Iterable[Approval]) -> Mapping[str, int]:
        """By review, the log position of its approval; has at least these reviews."""
        new = {one.review_id for one in approvals} - self._approved_at.keys()
        self._approved_at |= dict.fromkeys(new, 0) | queries.list_approved_at(self._unit, sorted(new))
        return self._approved_at

    def behind(self, approvals: Sequence[Approval], changes: Sequence[Change]) -> list[Approval]:
        """These approvals and those that they build on, back to where the changes begin."""
        found, newest = dict.fromkeys(approvals), list(approvals)
        reached = {*map(start_of, changes), *map(end_of, changes)}
        paths = sum(len(one.changes) for one in found)
        while newest and len(found) < _CHAINED and paths < _CHAINED_PATHS:
            starts = {start_of(entry) for one in newest if not one.is_text for entry in one.changes} - reached
            reached |= starts
            newest = [one for one in self.ending_at(sorted(starts)) if one not in found]
            found |= dict.fromkeys(newest)
            paths += sum(len(one.changes) for one in newest)
        return list(found)


def standing(
    known: Approvals, judged: list[Change], approvals: list[Approval]
) -> tuple[dict[str, Cover], dict[str, str]]:
    """By path, the cover by approvals that no later one reverts; by reverted review, the review that reverts it."""
    ended: dict[str, str] = {}
    looked_at: set[tuple[Approval, ...]] = set()
    for _ in range(_MOST_TURNS):
        covered = cover(judged, [one for one in approvals if one.review_id not in ended], known.check)
        chains = {made.chain for made in {*covered.values()}}
        used = {*chains, *((one,) for chain in chains for one in chain)} - looked_at
        now = ended_by(known, used)
        if not now:
            return covered, ended
        # Where one is reverted others often are: each by itself would take a turn of its own.
        others = {(one,) for one in approvals} - looked_at - used
        ended |= {chain[-1].review_id: by for chain, by in (now | ended_by(known, others)).items()}
        looked_at |= used | others
    return {}, ended


def ended_by(known: Approvals, chains: Iterable[tuple[Approval, ...]]) -> dict[tuple[Approval, ...], str]:
    """By chain, the newest later approval that reverts its whole net change: the newer decision counts."""
    found: dict[tuple[Approval, ...], str] = {}
    starts = {chain: start_of(min(changes)) for chain in chains if (changes := net(chain))}
    known.ending_at(starts.values())
    others = {
        chain: [known.read[one[:2]] for one in known.ending[path, blob]] for chain, (path, _, blob) in starts.items()
    }
    at = known.approved_at(one for chain, ending in others.items() if ending for one in (*chain, *ending))
    for chain, ending in others.items():
        known.check()
        since = max((at[one.review_id] for one in chain if ending), default=0)
        later = [one for one in ending if at[one.review_id] > since]
        back = frozenset(inverse(net(chain))) if later else frozenset[Change]()
        takers = [one.review_id for one in later if back <= one.changes]
        if takers:
            found[chain] = max(takers, key=lambda review_id: at[review_id])
    return found


def is_approved(
    unit: Unit, project: str, digest: str, changes: Sequence[Change] | None, patterns: tuple[str, ...]
) -> bool:
    """Whether a difference is approved: as a whole, by its digest, or in every path that is not exempt.

    Counts as not approved if its approvals have too many paths.
    """
    known = Approvals(unit, project, lambda: None, _CHAINED_PATHS)
    with suppress(TooMuch):
        for one in review_queries.list_approvals(unit, project, digest, CANDIDATES):
            if not ended_by(known, [(known.whole(*one),)]):
                return True
        judged = [change for change in changes or () if not is_exempt(change, patterns)]
        known = Approvals(unit, project, lambda: None, _CHAINED_PATHS, patterns)
        return changes is not None and len(approved(known, judged)[1]) == len(judged)
    return False


def approved(known: Approvals, judged: list[Change]) -> tuple[list[Approval], dict[str, Cover], dict[str, str]]:
    """The approvals of some changes, the cover of each path, and the reviews that a later approval reverts."""
    approvals = known.ending_at(map(end_of, judged))
    covered, ended = standing(known, judged, approvals)
    if len(covered) != len(judged) and len(approvals) != len(before := known.behind(approvals, judged)):
        approvals = before
        covered, ended = standing(known, judged, approvals)
    return approvals, covered, ended
