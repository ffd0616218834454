"""Is everything in a range of commits approved?

Only content counts. Beginning at commits whose content is known to be good, a commit's content is good when its change
is approved: against its parent, or against any earlier good commit (then the commits between are approved together with
it), or by amends that were approved one after the other; or when all unapproved content is reverted. A merge that git
makes by itself adds nothing to its sides. A commit in between that is not good by itself never becomes a ground to
stand on.
"""

from __future__ import annotations

from tandem.core.stand_ins import Closing, NamedTuple
from tandem.rulings import git
from tandem.rulings.findings import ROLLBACK, SIGNED, UNAPPROVED, UNREVIEWED, CheckCache, CommitFinding

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Sequence

    from tandem.rulings.findings import Check
    from tandem.rulings.git import Change, Commit
    from tandem.rulings.state import HookRepository

    Net = dict[str, Change]
    """By path, its change over several commits."""

    Goods = dict[str, CommitFinding | None]
    """Of the commits that are settled, parents first: the finding that makes the content of one good, or None."""

_TRIES = 300
"""Questions about commits taken together, beside one for each commit; beyond them the range is not approved."""
_GROUNDS = 6
_SIBLINGS = 8
_SHORT = 10
_NAMED = 5
_TWO = 2
"""Parents of a merge; git merges more of them in ways of its own."""
_POLICY = ".tandem/policy.toml"
_RULES = frozenset(
    {_POLICY, ".tandem/checks.toml", "CODEOWNERS", *(f"{at}/CODEOWNERS" for at in (".github", ".gitlab", "docs"))}
)
"""The files that say how changes are judged where there is a policy. Leaving one out changes it."""


def _debt_after(debt: Net, changes: list[Change], finding: CommitFinding) -> Net:
    """The unapproved content at a commit: by path, the change from the last content that was good to the present one.

    A later revert or approval settles it. An approved change on other paths leaves it as it is; one that touches it
    was approved on top of unapproved content, so it becomes a part of it.

    Args:
        debt: That of the commit before.
        changes: The changes of the commit.
        finding: The finding on these by themselves.
    """
    touched = any(change["path"] in debt for change in changes)
    if finding.passes and not touched:
        return debt
    refused = {path for path, _ in finding.paths}
    now = dict(debt)
    for change in changes:
        path = change["path"]
        if path in now:
            now[path] = _joined(now[path], change)
        elif path not in finding.exempt and (touched or not refused or path in refused):
            now[path] = change
    return {path: change for path, change in now.items() if not _is_back(change)}


def _joined(earlier: Change, later: Change) -> Change:
    """A path's change from before one change to after another."""
    return {**later, "mode_before": earlier["mode_before"], "blob_before": earlier["blob_before"]}


def _is_back(change: Change) -> bool:
    """Whether a path has its earlier content again."""
    return (change["mode_before"], change["blob_before"]) == (change["mode_after"], change["blob_after"])


def _as_one(net: Net) -> list[Change]:
    """The changes of all paths, in their order."""
    return [change for _, change in sorted(net.items()) if not _is_back(change)]


_MERGE = CommitFinding("merge", "git makes the same merge of its sides")
_TAKEN_BACK = CommitFinding(ROLLBACK, "reverts unapproved content")


class CommitResult(NamedTuple):
    """The result for one commit.

    Attributes:
        commit: Its id.
        subject: Of its message.
        finding: The finding on its content.
        dropped: Of a merge that passes, the parts of its sides that it leaves out, in words; empty if none.
    """

    commit: str
    subject: str
    finding: CommitFinding
    dropped: str = ""

    @property
    def passes(self) -> bool:
        """Whether everything in it may be as it is."""
        return self.finding.passes


def _stated(commit: Commit, finding: CommitFinding) -> CommitFinding:
    """A finding with what the commit's message says of it, where it does not pass."""
    if finding.passes or finding.code is not None:
        return finding
    is_marked = UNREVIEWED in commit.reviews
    named = tuple(review for review in commit.reviews if review != UNREVIEWED)
    reason = finding.reason
    if named:
        reason = f"it names {', '.join(named)}, where this content is not approved; {reason}"
    elif is_marked:
        reason = f"committed before a review, and not approved since; {reason}"
    return finding._replace(verdict=UNREVIEWED if is_marked else UNAPPROVED, review_ids=named, reason=reason)


class Judgement(NamedTuple):
    """The result for a range.

    Attributes:
        passes: Whether the content at its end is approved.
        commits: Its commits, oldest first. Those of a rewind are the ones that its end is judged by.
    """

    passes: bool
    commits: Sequence[CommitResult] = ()


class RangeChecker(Closing):
    """Judges ranges of one repository; remembers the answers to its questions."""

    def __init__(self, place: HookRepository, check: Check) -> None:
        self._place = place
        self._checks = CheckCache(place, check)
        self._merges = git.Merges(place)
        self._siblings: dict[tuple[str, ...], list[str]] | None = None
        self._sides: dict[tuple[str, str], bool] = {}
        self._by: dict[str, Commit] = {}
        self._tries = _TRIES
        self._old: str | None = None
        self._new = ""

    def close(self) -> None:
        """Tidy up."""
        self._merges.close()

    def forget(self) -> None:
        """Ask the broker again from now on: its questions are about another branch's update."""
        self._checks.forget()
        self._sides.clear()

    def judge(
        self,
        new: str,
        *,
        old: str | None = None,
        without: Iterable[str] = (),
        tips: Collection[str] | None = None,
        earlier: Callable[[], Collection[str]] = tuple,
    ) -> Judgement:
        """Judge the commits that can be reached from `new` and not from `old`.

        Args:
            new: Id of the commit at the end.
            old: Id of the one at the start, whose content is good; None where there is none.
            without: Ids of commits that are taken as they are, with all their ancestors.
            tips: The only other commits that the range may begin at, whose content is good as a whole (that of their
                ancestors need not be); None if it may begin at any commit that `old` and `without` reach.
            earlier: Gives the former commits of the tips, which are good as well; called only when it is needed.

        Raises:
            TandemError: Git does not answer, or a commit is not there.
            Refused: The broker refuses to judge.
            Unreachable: No broker answers.
        """
        inside = self._range(new, old, tuple(without), tips, earlier)
        if not inside:
            return Judgement(passes=True)
        self._old, self._new = old, new
        self._checks.take_signatures(inside)
        whole = self._whole(inside) if tips is not None else None
        if whole is not None:
            return Judgement(passes=True, commits=[CommitResult(one.oid, one.subject, whole) for one in inside])
        self._checks.prepare((commit.first, commit.oid) for commit in inside)
        good = self._settle(inside)
        return self._judgement(inside, good)

    def _range(
        self,
        new: str,
        old: str | None,
        without: tuple[str, ...],
        tips: Collection[str] | None,
        earlier: Callable[[], Collection[str]],
    ) -> Sequence[Commit]:
        """The commits to judge, oldest first; a range that begins at an ancestor of a tip is followed further back."""
        starts = {*(tips or ()), *([] if old is None else [old])}
        found = git.commits(self._place, new, (*starts, *without))
        self._by = {commit.oid: commit for commit in found}
        outside = {parent for commit in found for parent in commit.parents} - self._by.keys()
        if tips is None or (outside or {new}) <= starts:
            return found
        everything = git.commits(self._place, new, without)
        self._by = {commit.oid: commit for commit in everything}
        ends = {*starts, *earlier()} if everything else set[str]()
        kept = self._reach(new, ends)
        return [commit for commit in everything if commit.oid in kept]

    def _whole(self, inside: Sequence[Commit]) -> CommitFinding | None:
        """The range as one change, if it is approved as that; asked first where that is likely."""
        outside = {parent for commit in inside for parent in commit.parents} - {commit.oid for commit in inside}
        if len(inside) == 1 or self._old is None or outside != {self._old}:
            return None
        finding = self._checks.finding(self._old, self._new)
        return finding if finding.passes else None

    def _reach(self, start: str, ends: Collection[str] = ()) -> set[str]:
        """The listed commits that can be reached from one, not going past `ends`."""
        seen: set[str] = set()
        left = [start]
        while left:
            oid = left.pop()
            if oid in self._by and oid not in seen and oid not in ends:
                seen.add(oid)
                left += self._by[oid].parents
        return seen

    def _settle(self, inside: Sequence[Commit]) -> Goods:
        """Which of some commits, parents first, are good if the content of every other commit is."""
        good: Goods = dict.fromkeys(commit.oid for commit in inside)
        debts: dict[str, Net] = {}
        for commit in inside:
            before = debts.get(commit.first or "", {})
            good[commit.oid], debts[commit.oid] = self._step(commit, good, before)
        return good

    def _step(self, commit: Commit, good: Goods, before: Net) -> tuple[CommitFinding | None, Net]:
        """The finding that makes a commit good, or None; and the unapproved content at it."""
        first = commit.first
        finding = self._merge(commit, good) or self._checks.finding(first, commit.oid)
        if finding.taken_back_by and self._was_taken_back_later(commit, good, finding.taken_back_by):
            finding = CommitFinding("approved", "approved when it was made, and reverted since")
        if finding.passes and not before:
            return finding, {}
        debt = _debt_after(before, self._checks.changes(first, commit.oid), finding)
        if not debt:
            return (finding if finding.passes else _TAKEN_BACK), debt
        whole, debt = self._together(commit, good, debt)
        whole = whole or self._by_amends(commit, good)
        return whole, ({} if whole else debt)

    def _was_taken_back_later(self, commit: Commit, good: Goods, reviews: Collection[str]) -> bool:
        """Whether the changes of some reviews were made on top of a commit, whose approval they ended."""
        found: set[str] = set()
        for later in self._by.values():
            if later.oid in good and later.oid != commit.oid:
                by = self._checks.finding(later.first, later.oid)
                if by.passes and {*by.review_ids} & {*reviews} and commit.oid in self._reach(later.oid):
                    found.update(by.review_ids)
        return found >= set(reviews)

    def _merge(self, commit: Commit, good: Goods) -> CommitFinding | None:
        """A merge that adds only good content to its first parent, or that is one of its good sides as it is."""
        if len(commit.parents) != _TWO:
            return None
        if not self._is_clean(commit):
            sides = (side for side in commit.parents if _sound(side, good))
            kept = next((side for side in sides if not self._checks.changes(side, commit.oid)), None)
            return CommitFinding(_MERGE.verdict, f"it is {kept[:_SHORT]} as it is") if kept is not None else None
        ours, theirs = commit.parents
        return _MERGE if _sound(theirs, good) or self._is_good_side(ours, theirs, good) else None

    def _is_clean(self, commit: Commit) -> bool:
        """Whether a merge of two has the tree that git makes of it."""
        return len(commit.parents) == _TWO and self._merges.tree(*commit.parents) == commit.tree

    def _left_out(self, commit: Commit) -> list[tuple[str, list[str]]]:
        """By side, the paths that a merge leaves out of what its sides have changed since they parted."""
        if len(commit.parents) < _TWO or self._is_clean(commit):
            return []
        sides = commit.parents
        if len(sides) > _TWO:
            # A side that another one contains says nothing by itself.
            apart = git.run(self._place, ["merge-base", "--independent", *sides]).text.split()
            sides = tuple(side for side in sides if side in apart)
        # Without a common commit a side's whole content is its own; of several, any one serves.
        base = git.run(self._place, ["merge-base", "--octopus", *commit.parents], accept=(0, 1)).text or None
        differs = {side: {change["path"] for change in self._checks.changes(side, commit.oid)} for side in sides}
        back = {change["path"] for change in self._checks.changes(base, commit.oid)}
        found: list[tuple[str, list[str]]] = []
        for side in sides:
            kept = set[str].intersection(back, *(differs[other] for other in sides if other != side))
            # Content that equals neither a side nor the base was merged by hand.
            own = (change["path"] for change in self._checks.changes(base, side))
            paths = [path for path in own if path in differs[side] and path not in kept]
            found += [(side, paths)] if paths else []
        return found

    def has_policy(self, commit: str) -> bool:
        """Whether a commit has a policy."""
        return bool(git.run(self._place, ["ls-tree", "--name-only", commit, "--", _POLICY]).text)

    def rules_lost(self, old: str, new: str) -> CommitFinding | None:
        """The finding that a branch which goes back loses rules of its own without an approval; else None."""
        base = git.run(self._place, ["merge-base", old, new], accept=(0, 1)).text or None
        if base == old:
            return None
        return self._lost(old, new, {change["path"] for change in self._checks.changes(base, old)})

    def _lost(self, side: str, now: str, paths: Collection[str]) -> CommitFinding | None:
        """The finding that a commit lacks, without an approval, the rules which a side has at some paths; else None."""
        rules = _RULES.intersection(paths)
        if not rules or not self.has_policy(side):
            return None
        lost = [change for change in self._checks.changes(side, now) if change["path"] in rules]
        if not lost or self._checks.asked(lost).passes or self._checks.finding(side, now).passes:
            return None
        reason = (
            f"it leaves out what {side[:_SHORT]} has of it, and says how changes are judged: that needs an approval"
        )
        return CommitFinding(UNAPPROVED, reason, paths=tuple((change["path"], reason) for change in lost))

    def _is_good_side(self, ours: str, theirs: str, good: Goods) -> bool:
        """Whether all that one side of a merge adds to the other side is good."""
        if (ours, theirs) not in self._sides:
            mine = self._reach(ours)
            added = self._reach(theirs) - mine
            side = [commit for commit in self._by.values() if commit.oid in added & good.keys()]
            outside = {parent for commit in side for parent in commit.parents} - added
            # Its own commits must begin at commits of the other side, and at nothing else.
            self._sides[ours, theirs] = outside <= mine and _sound(theirs, self._settle(side))
        return self._sides[ours, theirs]

    def _together(self, commit: Commit, good: Goods, debt: Net) -> tuple[CommitFinding | None, Net]:
        """A commit together with commits before it: all that is not approved, or all since a good one."""
        if not self._may_ask(commit):
            return None, debt
        finding = self._checks.asked(_as_one(debt))
        if finding.passes:
            return _as_a_whole(finding, "all that was not approved before it"), debt
        if finding.paths:
            debt = {path: debt[path] for path, _ in finding.paths if path in debt}
        for since, changes in self._nets(commit, good):
            if not self._may_ask(commit):
                break
            finding = self._checks.asked(changes)
            if finding.passes:
                return _as_a_whole(finding, f"all since {since[:_SHORT]}" if since else "all before it"), debt
        return self._by_other_parents(commit, good), debt

    def _may_ask(self, commit: Commit) -> bool:
        """Whether there is a question left; for the end of the range there always is."""
        self._tries -= 1
        return self._tries >= 0 or commit.oid == self._new

    def _nets(self, commit: Commit, good: Goods) -> Iterator[tuple[str | None, list[Change]]]:
        """The changes since good commits on the line of first parents: the nearest ones, and where it begins."""
        net: Net = {}
        at: Commit | None = commit
        found = 0
        while at is not None:
            parent = at.first
            changes = self._checks.changes(parent, at.oid)
            for change in changes:
                net[change["path"]] = _joined(change, net.get(change["path"], change))
            is_start = parent is None or parent not in good
            if at is not commit and (is_start or (_sound(parent or "", good) and found < _GROUNDS)):
                found += 1
                yield parent, _as_one(net)
            at = None if parent is None or is_start else self._by[parent]

    def _by_other_parents(self, commit: Commit, good: Goods) -> CommitFinding | None:
        """Against a good parent of a merge that is not the first, and against the commit that the range replaces."""
        grounds = [other for other in commit.parents[1:] if _sound(other, good)]
        if commit.oid == self._new and self._old is not None:
            grounds.append(self._old)
        for ground in grounds:
            finding = self._checks.finding(ground, commit.oid)
            if finding.passes:
                return _as_a_whole(finding, f"all since {ground[:_SHORT]}")
        return None

    def _by_amends(self, commit: Commit, good: Goods) -> CommitFinding | None:
        """An amended commit: from its parent to it over the commits that stood in its place before."""
        if len(commit.parents) != 1 or not _sound(commit.parents[0], good) or self._tries <= 0:
            return None
        if self._siblings is None:
            self._siblings = git.amended(self._place)
        earlier = [oid for oid in self._siblings.get(commit.parents, []) if oid != commit.oid and oid not in good]
        reached: dict[str, tuple[str, ...]] = {commit.parents[0]: ()}
        for oid in [*reversed(earlier[:_SIBLINGS]), commit.oid] if earlier else []:
            self._checks.prepare((before, oid) for before in reached)
            for before, reviews in list(reached.items()):
                self._tries -= 1
                finding = self._checks.finding(before, oid)
                if finding.passes:
                    reached[oid] = tuple(dict.fromkeys((*reviews, *finding.review_ids)))
                    break
        if commit.oid not in reached:
            return None
        return CommitFinding("approved", "approved, amend by amend", reached[commit.oid])

    def _judgement(self, inside: Sequence[Commit], good: Goods) -> Judgement:
        covered = self._covered(inside, good)
        rows = [self._result(commit, good[commit.oid], covered.get(commit.oid)) for commit in inside]
        passes = good[self._new] is not None and all(row.passes for row in rows)
        if not passes and all(row.passes for row in rows):
            reason = "it stands on content that is approved only together with later commits"
            last = rows[-1].finding._replace(verdict=UNAPPROVED, reason=reason)
            rows[-1] = rows[-1]._replace(finding=last)
        return Judgement(passes=passes, commits=rows)

    def _result(self, commit: Commit, good: CommitFinding | None, covering: CommitFinding | None) -> CommitResult:
        finding = _stated(commit, good or self._row(commit, covering))
        left = self._left_out(commit) if finding.passes else []
        # Rules that a later commit has again are not lost.
        lost = (self._lost(side, commit.oid, paths) and self._lost(side, self._new, paths) for side, paths in left)
        if (refused := next(filter(None, lost), None)) is not None:
            return CommitResult(commit.oid, commit.subject, refused)
        dropped = "; ".join(_in_words(*one) for one in left)
        if dropped:
            finding = finding._replace(reason=f"{finding.reason}; {dropped}")
        return CommitResult(commit.oid, commit.subject, finding, dropped)

    def _covered(self, inside: Sequence[Commit], good: Goods) -> dict[str, CommitFinding]:
        """The commits that are good only as parts of a later one, with its finding."""
        covered: dict[str, CommitFinding] = {}
        for commit in inside:
            finding = good[commit.oid]
            left = [*commit.parents] if finding is not None else []
            while finding is not None and left:
                oid = left.pop()
                if not _sound(oid, good) and oid not in covered:
                    covered[oid] = _part(commit, finding)
                    left += self._by[oid].parents
        return covered

    def _row(self, commit: Commit, covering: CommitFinding | None) -> CommitFinding:
        """The finding on a commit that is no ground to stand on."""
        if covering is None and self._is_clean(commit):
            return CommitFinding(_MERGE.verdict, f"{_MERGE.reason}; they are judged by themselves")
        finding = self._checks.finding(commit.first, commit.oid)
        if finding.passes or covering is None:
            return finding
        return covering


def _sound(oid: str, good: Goods) -> bool:
    """Whether the content of a commit is good; that of every commit that is not judged is."""
    return oid not in good or good[oid] is not None


def _in_words(side: str, paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _NAMED} more" if len(paths) > _NAMED else ""
    return f"leaves out what {side[:_SHORT]} has in {', '.join(paths[:_NAMED])}{more}"


def _as_a_whole(finding: CommitFinding, since: str) -> CommitFinding:
    if finding.verdict == "empty":
        return CommitFinding(ROLLBACK, f"reverts {since}")
    return finding._replace(reason=f"{finding.reason}, together with {since}")


def _part(whole: Commit, finding: CommitFinding) -> CommitFinding:
    is_left_out = finding.verdict == _MERGE.verdict and finding is not _MERGE
    if is_left_out or finding.verdict == ROLLBACK:
        words = "left out by the merge" if is_left_out else "reverted by"
        return CommitFinding(ROLLBACK, f"{words} {whole.oid[:_SHORT]}")
    words = f"approved as a part of what ends with {whole.oid[:_SHORT]}"
    verdict = SIGNED if finding.verdict == SIGNED else "approved"
    return CommitFinding(verdict, words, finding.review_ids)
