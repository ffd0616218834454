"""Whether the difference between two commits is approved: each is computed and asked about once."""

from __future__ import annotations

from tandem.hooks import history
from tandem.hooks.ask import Refused

TYPE_CHECKING = False  # every commit waits for what is imported here; see `tuples`
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any, NamedTuple

    from tandem.hooks.git import Change
    from tandem.hooks.state import Place

    Check = Callable[[list[Change]], dict[str, Any]]
    """Asks `check_gate` about changes; the data of its answer. Without `head`: what takes a commit back is found here,
    where all commits of a range are known, not by the broker's look at one."""

    Pair = tuple[str | None, str]
    """The commits before and after; null where there was nothing before."""
else:
    from tandem.hooks.tuples import NamedTuple

MOST_PATHS = 100_000
"""More changes than that are no question that a broker takes."""

_UNANSWERABLE = frozenset({"INVALID_INPUT", "TOO_LARGE"})
_SET_ASIDE = "exempt"
_OVERRIDDEN = "overridden"
_ROLLBACK = "rollback"


class Finding(NamedTuple):
    """What is known of one difference.

    Attributes:
        passes: Whether everything in it may be as it is.
        verdict: `approved`, `exempt`, `rollback`, `overridden`, `empty` or `unapproved`.
        review_ids: The reviews that let it through, or a part of it.
        reason: In words.
        paths: Of what does not pass, with the reason for each.
        exempt: The paths that need no review.
    """

    passes: bool
    verdict: str
    review_ids: tuple[str, ...]
    reason: str
    paths: tuple[tuple[str, str], ...] = ()
    exempt: frozenset[str] = frozenset()


_NOTHING = Finding(passes=True, verdict="empty", review_ids=(), reason="it changes nothing")


class Checks:
    """The findings of one repository, remembered."""

    def __init__(self, place: Place, check: Check) -> None:
        self._place = place
        self._check = check
        self._changes: dict[Pair, list[Change] | str] = {}
        self._found: dict[Pair, Finding] = {}
        self._answers: dict[frozenset[tuple[str, ...]], Finding] = {}

    def prepare(self, pairs: Iterable[Pair]) -> None:
        """Have git compute these differences at once, as each call of it costs more than a difference.

        Raises:
            GitTrouble: A commit is not there.
        """
        wanted = [pair for pair in dict.fromkeys(pairs) if pair not in self._changes]
        self._changes.update(zip(wanted, history.differences(self._place, wanted), strict=True))

    def changes(self, before: str | None, after: str) -> list[Change] | str:
        """The difference of two commits, or why it cannot be named.

        Raises:
            GitTrouble: A commit is not there.
        """
        self.prepare([(before, after)])
        return self._changes[before, after]

    def finding(self, before: str | None, after: str) -> Finding:
        """Whether the difference of two commits passes.

        Raises:
            GitTrouble: A commit is not there.
            Refused: The broker refuses the question as such.
            Unreachable: No broker answers.
        """
        pair = (before, after)
        if pair not in self._found:
            self._found[pair] = self.asked(self.changes(before, after))
        return self._found[pair]

    def asked(self, changes: list[Change] | str) -> Finding:
        """Whether some changes pass.

        Raises:
            Refused: The broker refuses the question as such.
            Unreachable: No broker answers.
        """
        if not changes:
            return _NOTHING
        if isinstance(changes, str):
            return _unapproved(changes)
        asked = frozenset(tuple(change.values()) for change in changes)
        if asked not in self._answers:
            self._answers[asked] = self._answered(changes)
        return self._answers[asked]

    def _answered(self, changes: list[Change]) -> Finding:
        if len(changes) > MOST_PATHS:
            return _unapproved(f"it changes {len(changes)} paths, more than can be asked about at once")
        try:
            return found(self._check(changes))
        except Refused as refusal:
            if refusal.code not in _UNANSWERABLE:
                raise
            return _unapproved(str(refusal))


def found(decision: dict[str, Any]) -> Finding:
    """What an answer of `check_gate` says."""
    reviews = tuple(str(review) for review in decision["review_ids"])
    exempt = frozenset(str(one["path"]) for one in decision["paths"] if one["allowed"] and one["kind"] == _SET_ASIDE)
    # That one commit is taken back says nothing of what it comes back to: `debts` looks at both.
    refused = [one for one in decision["paths"] if not one["allowed"] or one["kind"] == _ROLLBACK]
    if decision["allowed"] is not True or refused:
        paths = tuple((str(one["path"]), str(one["reason"])) for one in refused)
        return Finding(False, "unapproved", reviews, decision["reason"], paths, exempt)  # noqa: FBT003 - a fact of a record
    kinds = {one["kind"] for one in decision["paths"]}
    verdict = _OVERRIDDEN if _OVERRIDDEN in kinds else _SET_ASIDE if kinds == {_SET_ASIDE} else "approved"
    return Finding(True, verdict, reviews, decision["reason"], exempt=exempt)  # noqa: FBT003 - a fact of a record


def _unapproved(reason: str) -> Finding:
    return Finding(passes=False, verdict="unapproved", review_ids=(), reason=reason)
