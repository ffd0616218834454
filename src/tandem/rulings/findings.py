"""The finding on one difference; asks the broker once."""

from __future__ import annotations

from tandem.core.stand_ins import NamedTuple
from tandem.rulings import git
from tandem.rulings.broker_errors import Refused

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from tandem.rulings.git import Change, Commit
    from tandem.rulings.state import HookRepository

    Check = Callable[[list[Change], Sequence[str]], dict[str, Any]]
    """Asks `check_gate` about changes and the signatures for them; the data of its answer. Sends no `head`: `ranges`
    finds reverts itself, as it knows all commits of a range, and the broker only one."""

    Pair = tuple[str | None, str]
    """The commits before and after; None where there was nothing before."""

UNREVIEWED = "unreviewed"
UNAPPROVED = "unapproved"
ROLLBACK = "rollback"
SIGNED = "signed"
_EXEMPT = "exempt"
_IN_PART = "in_part"
_OVERRIDDEN = "overridden"
_UNANSWERABLE = frozenset({"INVALID_INPUT", "TOO_LARGE"})


class CommitFinding(NamedTuple):
    """Whether one difference passes, and why.

    Attributes:
        verdict: `approved`, `signed` (by the broker of somebody else), `exempt`, `merge`, `rollback`, `overridden`,
            `empty`; or `unapproved`, or, of a commit that was marked so when it was made, `unreviewed`, which do not
            pass.
        reason: In words.
        review_ids: The reviews that let it through, or a part of it, or that it names.
        paths: Those that do not pass, with the reason for each.
        exempt: The paths that need no review.
        code: The broker's code, if everything is approved and only a check keeps it back; else None.
        owed: The waived requirements of the reviews that are still to be reviewed, in words.
        overdue: Those whose time is over.
        taken_back_by: If everything was approved, and only later approvals reverted that: their reviews.
    """

    verdict: str
    reason: str
    review_ids: tuple[str, ...] = ()
    paths: tuple[tuple[str, str], ...] = ()
    exempt: frozenset[str] = frozenset()
    code: str | None = None
    taken_back_by: frozenset[str] = frozenset()
    owed: tuple[str, ...] = ()
    overdue: tuple[str, ...] = ()

    @property
    def passes(self) -> bool:
        """Whether everything in it may be as it is."""
        return self.verdict not in {UNREVIEWED, UNAPPROVED}


_NOTHING = CommitFinding("empty", "it changes nothing")


class CheckCache:
    """The findings of one repository, remembered."""

    def __init__(self, place: HookRepository, check: Check) -> None:
        self._place = place
        self._check = check
        self._changes: dict[Pair, list[Change]] = {}
        self._found: dict[Pair, CommitFinding] = {}
        self._answers: dict[tuple[frozenset[tuple[str, ...]], tuple[str, ...]], CommitFinding] = {}
        self._signed: dict[Pair, tuple[str, ...]] = {}

    def forget(self) -> None:
        """Ask the broker again from now on: its questions are about another branch's update."""
        self._found.clear()
        self._answers.clear()

    def take_signatures(self, commits: Iterable[Commit]) -> None:
        """Have the signatures of commits count for what each changes against its first parent."""
        self._signed.update({(commit.first, commit.oid): commit.signed for commit in commits if commit.signed})

    def prepare(self, pairs: Iterable[Pair]) -> None:
        """Have git compute these differences at once, as each call of it costs more than a difference.

        Raises:
            TandemError: A commit is not there.
        """
        wanted = [pair for pair in dict.fromkeys(pairs) if pair not in self._changes]
        self._changes.update(zip(wanted, git.differences(self._place, wanted), strict=True))

    def changes(self, before: str | None, after: str) -> list[Change]:
        """The difference of two commits.

        Raises:
            TandemError: A commit is not there.
        """
        self.prepare([(before, after)])
        return self._changes[before, after]

    def finding(self, before: str | None, after: str) -> CommitFinding:
        """Whether the difference of two commits passes.

        Raises:
            TandemError: A commit is not there.
            Refused: The broker refuses the question as such.
            Unreachable: No broker answers.
        """
        pair = (before, after)
        if pair not in self._found:
            self._found[pair] = self.asked(self.changes(before, after), self._signed.get(pair, ()))
        return self._found[pair]

    def asked(self, changes: list[Change], signed: tuple[str, ...] = ()) -> CommitFinding:
        """Whether some changes pass.

        Args:
            changes: The changes.
            signed: Signatures for exactly these.

        Raises:
            Refused: The broker refuses the question as such.
            Unreachable: No broker answers.
        """
        if not changes:
            return _NOTHING
        asked = frozenset(tuple(change.values()) for change in changes), signed
        if asked not in self._answers:
            try:
                self._answers[asked] = _found(self._check(changes, signed))
            except Refused as refusal:
                if refusal.code not in _UNANSWERABLE:
                    raise
                self._answers[asked] = CommitFinding(UNAPPROVED, str(refusal))
        return self._answers[asked]


def _found(decision: dict[str, Any]) -> CommitFinding:
    """The finding in an answer of `check_gate`."""
    reviews = tuple(decision["review_ids"])
    exempt = frozenset(one["path"] for one in decision["paths"] if one["allowed"] and one["kind"] == _EXEMPT)
    # A reverted commit says nothing of the content that comes back: `ranges` looks at both.
    refused = [one for one in decision["paths"] if not one["allowed"] or one["kind"] == ROLLBACK]
    if decision["allowed"] is not True or refused:
        paths = tuple((one["path"], one["reason"]) for one in refused)
        by = [one["review_id"] for one in refused if one["round"] is None and one["kind"] != _IN_PART]
        taken_back_by = frozenset[str](by if len(by) == len(refused) and None not in by else ())
        return CommitFinding(
            UNAPPROVED, decision["reason"], reviews, paths, exempt, decision.get("code"), taken_back_by
        )
    kinds = {one["kind"] for one in decision["paths"]}
    as_a_whole = next((kind for kind in (_OVERRIDDEN, SIGNED) if kind in kinds), None)
    verdict = as_a_whole or (_EXEMPT if kinds == {_EXEMPT} else "approved")
    owed, overdue = tuple(decision["owed"]), tuple(decision["overdue"])
    return CommitFinding(verdict, decision["reason"], reviews, exempt=exempt, owed=owed, overdue=overdue)
