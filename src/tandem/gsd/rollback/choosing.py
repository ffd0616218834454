"""Chooses the commits to revert: a review's own and those that its plan built upon them, never others'."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from tandem.client import TandemClient
from tandem.errors import InvalidInput, InvalidTransition, NotFound
from tandem.gate.contract import CommitRecord
from tandem.git.raw import encode_path
from tandem.gsd.rollback.repository import (
    SHORT,
    Checkout,
    RawDifference,
    RepositoryCommit,
    Tip,
    differences,
    line_from,
    log,
    reverted_by,
)
from tandem.reviews.answers import FullReview, Proposal
from tandem.reviews.rules import MOST_OBJECTIONS
from tandem.rulings.message import REVIEW, plan_key
from tandem.rulings.trust import PER_PLAN

How = Literal["record", "trailer", "patch_id", "plan"]

_SEARCHED_COMMITS = 2_000
"""How many of the newest commits that touch a review's files are compared with its diff."""
AGAINST = frozenset({"changes_requested", "rejected"})
"""Verdicts, and states, of a change that is not wanted as it is."""
_COUNTER_PATCH = "counter_patch"
_PAGE_ROWS = 200


@dataclass(frozen=True, slots=True)
class RollbackReview:
    """A review with what a rollback has to know of it.

    Attributes:
        full: The review with its newest round.
        first: The content of the round that it began with.
    """

    full: FullReview
    first: Proposal

    @property
    def id(self) -> str:
        """Its id."""
        return self.first.review_id

    @property
    def plan(self) -> str:
        """Its plan's key."""
        stated = self.first.metadata.get("plan_key")
        return stated if isinstance(stated, str) else plan_key(self.first.phase, self.first.plan, self.branch)

    @property
    def branch(self) -> str | None:
        """The branch that it says it was committed on; None if it does not say."""
        branch = self.first.metadata.get("branch")
        return branch if isinstance(branch, str) else None

    @property
    def is_after_commit(self) -> bool:
        """Whether it was proposed for a change that is committed before its approval."""
        return self.first.metadata.get("optimistic") is True

    @property
    def names_plan(self) -> bool:
        """Whether it says itself which plan it belongs to."""
        return self.first.plan is not None or self.branch is not None

    @property
    def is_whole_plan(self) -> bool:
        """Whether it was proposed for a plan as a whole, and not for one of its tasks."""
        stated = self.first.metadata.get("granularity")
        if self.is_after_commit:
            return False
        if isinstance(stated, str):
            return stated == PER_PLAN
        return self.first.task is None and self.first.plan is not None and self.first.category == "code_change"

    @property
    def depends_on(self) -> tuple[str, ...]:
        """What its proposer declared that it depends on."""
        stated = self.first.metadata.get("depends_on")
        return tuple(str(item) for item in stated) if isinstance(stated, list) else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] any JSON value

    @property
    def decisions(self) -> dict[int, str]:
        """The newest deciding verdict of each round that has one."""
        return {one.round: one.decision for one in self.full.rounds if one.decision is not None}

    @property
    def must_escalate(self) -> bool:
        """Whether reviewers objected to so many rounds that a person has to look."""
        return self.full.status.objections >= MOST_OBJECTIONS or self.full.status.attention is not None

    @property
    def counter_patch(self) -> Proposal | None:
        """The round that an accepted counter-patch made, if it is what holds now and was not decided against."""
        newest = self.full.proposal
        if newest.origin != _COUNTER_PATCH or self.full.status.outcome == "withdrawn":
            return None
        return None if self.decisions.get(newest.round) in AGAINST else newest

    def round_of(self, difference: RawDifference) -> int | None:
        """The newest round that has exactly a commit's content; None if none has."""
        digests = {difference.digest, difference.text_digest} - {None}
        return max((one.round for one in self.full.rounds if one.digest in digests), default=None)

    def is_against(self, difference: RawDifference | None) -> bool:
        """Whether a commit's content was decided against.

        Args:
            difference: The commit's; None for the review as a whole. Content of no round counts as the
                content reviewed before a counter-patch was accepted.
        """
        decisions = self.decisions
        number = None if difference is None else self.round_of(difference)
        if number is None:
            own = [one.round for one in self.full.rounds if one.origin != _COUNTER_PATCH and one.round in decisions]
            number = max(own, default=0)
        verdict = decisions.get(number)
        return verdict in AGAINST or (verdict is None and self.full.status.outcome == "withdrawn")


@dataclass(slots=True)
class Reviews:
    """Reads reviews from the broker, each once.

    Attributes:
        client: The broker.
        project: The project.
    """

    client: TandemClient
    project: str
    _known: dict[str, RollbackReview | None] = field(default_factory=dict[str, "RollbackReview | None"])

    async def review(self, review_id: str) -> RollbackReview:
        """A review.

        Raises:
            NotFound: The project has no such review.
        """
        full = await self.client.get_review(review_id, project=self.project)
        first = full.proposal if full.proposal.round == 1 else await self.content(review_id, 1)
        return RollbackReview(full, first)

    async def content(self, review_id: str, number: int) -> Proposal:
        """A round's content."""
        return await self.client.get_proposal(review_id, project=self.project, round=number)

    async def find(self, review_id: str) -> RollbackReview | None:
        """A review; None if the project has none of that name, as anybody can write a trailer."""
        if review_id not in self._known:
            try:
                self._known[review_id] = await self.review(review_id)
            except (NotFound, InvalidInput):
                self._known[review_id] = None
        return self._known[review_id]


async def recorded_commits(
    client: TandemClient, project: str, *, review_id: str | None = None, plan: str | None = None
) -> list[CommitRecord]:
    """The commits that the broker knows of a review or a plan, oldest first."""
    found: list[CommitRecord] = []
    page: str | None = None
    while True:
        answer = await client.list_commits(project=project, review_id=review_id, plan=plan, limit=_PAGE_ROWS, page=page)
        found += answer.commits
        page = answer.next_page
        if page is None:
            return found


@dataclass(frozen=True, slots=True)
class FoundCommit:
    """Where a review's content is in the branch.

    Attributes:
        how: The evidence by which it was found.
        line: The oldest of its commits and all that came since, newest first.
        commits: Its commits that hold, newest first.
        gone: Its commits that a later one reverts, and that one.
    """

    how: How
    line: tuple[RepositoryCommit, ...]
    commits: tuple[RepositoryCommit, ...]
    gone: tuple[tuple[RepositoryCommit, str], ...]


@dataclass(frozen=True, slots=True)
class RevertedBefore:
    """A commit that is reverted.

    Attributes:
        commit: The commit.
        difference: Its changes.
        review_ids: Its reviews.
        because: Why, in words.
        is_dependent: Whether it only goes with another one, so that it may come back.
        against: The review of its own that was decided against; None if none was.
    """

    commit: RepositoryCommit
    difference: RawDifference
    review_ids: tuple[str, ...]
    because: str
    is_dependent: bool = False
    against: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """The commits that a rollback reverts.

    Attributes:
        taken: The commits, newest first.
        squashed: Reviews that were squashed into one of them, and are not the one that is rolled back.
    """

    taken: tuple[RevertedBefore, ...]
    squashed: tuple[str, ...]


async def find(reviews: Reviews, checkout: Checkout, tip: Tip, review: RollbackReview) -> FoundCommit:
    """The commits of a review: recorded and still there, else named by a trailer, else with the same patch id.

    Raises:
        InvalidInput: They are on another branch, or it cannot be told which they are.
        NotFound: There are none.
    """
    records = await recorded_commits(reviews.client, reviews.project, review_id=review.id)
    _ensure_branch(checkout, tip, review, records)
    found = _among(checkout, tip, "record", _present(checkout, tip, records))
    if found is None or not found.commits:
        found = _among(checkout, tip, "trailer", _named(checkout, "HEAD", review.id)) or found
    if found is None:
        found = _among(checkout, tip, "patch_id", await _with_patch_of(reviews, checkout, tip, review))
    if found is None and review.is_whole_plan:
        found = _among(checkout, tip, "plan", await _of_plan(reviews, checkout, tip, review))
    if found is None:
        raise _nowhere(checkout, tip, review.id, records)
    if found.how == "patch_id" and len(found.commits) > 1:
        listed = ", ".join(f"{commit.id[:SHORT]} {commit.subject}" for commit in found.commits)
        raise InvalidInput(
            f"Several commits make exactly the change of {review.id} ({listed}), and none names it; nothing was"
            " changed. Revert the right one yourself: git revert COMMIT",
            field="commit",
            commits=[commit.id for commit in found.commits],
        )
    return found


def _ensure_branch(checkout: Checkout, tip: Tip, review: RollbackReview, records: Iterable[CommitRecord]) -> None:
    """Refuses another branch than that of the commit, as long as that branch is there."""
    branches = [branch for branch in (*(record.branch for record in records), review.branch) if branch]
    if branches and tip.branch not in branches and checkout.resolve(f"refs/heads/{branches[-1]}") is not None:
        raise _other_branch(tip.branch, branches[-1:])


def _other_branch(here: str, branches: Sequence[str]) -> InvalidInput:
    return InvalidInput(
        f"The change was committed on {' and '.join(branches)}, and {here} is checked out; nothing was changed."
        f" Go there first: git switch {branches[0]}",
        field="branch",
        expected=branches[0],
        actual=here,
    )


def _among(checkout: Checkout, tip: Tip, how: How, commits: Sequence[str]) -> FoundCommit | None:
    """What became of some commits of the branch; None if there are none."""
    line = line_from(checkout, commits, tip.head) if commits else []
    chosen = [commit for commit in line if commit.id in commits and not commit.reverts]
    if not chosen:
        return None
    gone = reverted_by(line)
    return FoundCommit(
        how,
        tuple(line),
        tuple(commit for commit in chosen if commit.id not in gone),
        tuple((commit, gone[commit.id]) for commit in chosen if commit.id in gone),
    )


def _present(checkout: Checkout, tip: Tip, records: Iterable[CommitRecord]) -> list[str]:
    """The recorded commits, or their replacements, that are in the branch."""
    replaced = {record.commit: record.replaced_by for record in records}
    found: list[str] = []
    for record in records:
        commit: str | None = record.commit
        while commit is not None and not checkout.is_ancestor(commit, tip.head):
            # Each is followed once, as the records may go round in a circle.
            commit = replaced.pop(commit, None)
        if commit is not None and commit not in found:
            found.append(commit)
    return found


def _named(checkout: Checkout, where: str, review_id: str) -> list[str]:
    """The commits whose message names the review, other than reverts."""
    pattern = rf"^[[:space:]]*{REVIEW}[[:space:]]*:.*{re.escape(review_id)}"
    found = log(checkout, where, "--extended-regexp", "--regexp-ignore-case", f"--grep={pattern}")
    return [commit.id for commit in found if review_id in commit.review_ids and not commit.reverts]


async def _with_patch_of(reviews: Reviews, checkout: Checkout, tip: Tip, review: RollbackReview) -> list[str]:
    """The commits that make one of the review's changes: by their digest, else by git's patch id."""
    rounds = [await reviews.content(review.id, one.round) for one in review.full.rounds]
    paths = {path for one in rounds for file in one.affected_files for path in (file.path, file.old_path) if path}
    if not paths:
        return []
    literal = [f":(top,literal){os.fsdecode(encode_path(path))}" for path in sorted(paths)]
    listed = ["rev-list", f"--max-count={_SEARCHED_COMMITS}", "--no-merges", tip.head, "--", *literal]
    ids = checkout.text(*listed).split()
    if not ids:
        return []
    changed = differences(checkout, log(checkout, "--no-walk", *ids))
    by_digest = [commit for commit, difference in changed.items() if review.round_of(difference) is not None]
    if by_digest:
        return by_digest
    wanted = {patch_id for one in rounds if one.diff for patch_id, _ in _patch_ids(checkout, one.diff.encode())}
    asked = "".join(f"{commit}\n" for commit in ids).encode()
    found: dict[str, None] = {}
    # The diff may have been made in either way.
    for renames in ("--find-renames", "--no-renames"):
        options = ["--root", "-p", "--full-index", "--binary", "--no-ext-diff", "--no-textconv", renames]
        patches = checkout.run(["diff-tree", "--stdin", *options], stdin=asked).stdout
        found.update((commit, None) for patch_id, commit in _patch_ids(checkout, patches) if patch_id in wanted)
    return list(found)


def _patch_ids(checkout: Checkout, patches: bytes) -> list[tuple[str, str]]:
    """Git's id of each patch, and the commit that it is said to be of."""
    lines = checkout.run(["patch-id", "--stable"], stdin=patches).stdout.decode("ascii").splitlines()
    return [(patch_id, commit) for patch_id, commit in (line.split(" ", 1) for line in lines)]


async def _of_plan(reviews: Reviews, checkout: Checkout, tip: Tip, review: RollbackReview) -> list[str]:
    """All commits of the review's plan: those recorded for it, else those since its base that say so."""
    recorded = _present(checkout, tip, await recorded_commits(reviews.client, reviews.project, plan=review.plan))
    base = review.first.base_commit
    if recorded or base is None or not checkout.is_ancestor(base, tip.head):
        return recorded
    return [
        commit.id
        for commit in log(checkout, tip.head, f"^{base}")
        if commit.rollback_of is None and (commit.plan or (tip.branch if commit.is_unreviewed else None)) == review.plan
    ]


def _nowhere(checkout: Checkout, tip: Tip, review_id: str, records: Iterable[CommitRecord]) -> InvalidInput | NotFound:
    """The error for a review without a commit in the branch."""
    for commit in (*_named(checkout, "--branches", review_id), *(record.commit for record in records)):
        listing = ("for-each-ref", "--format=%(refname:short)", f"--contains={commit}", "refs/heads")
        branches = checkout.text(*listing, accept=(0, 1, 128, 129)).split()
        if branches:
            return _other_branch(tip.branch, branches)
    return NotFound(
        f"No commit of {tip.branch} is the change of {review_id}: none was recorded for it, names it"
        f" ({REVIEW}: {review_id}) or has its patch id. Nothing was changed. If it was committed, take it back"
        " yourself: git revert COMMIT",
        review_id=review_id,
        branch=tip.branch,
    )


async def choose(reviews: Reviews, checkout: Checkout, review: RollbackReview, found: FoundCommit) -> Choice | None:
    """The review's commits that were decided against, and those that go with them; None if all are gone already.

    Raises:
        InvalidTransition: They were not decided against.
        InvalidInput: One is a merge, or holds the work of another plan too.
    """
    changed = differences(checkout, found.commits)
    whole = found.how == "plan"
    ours = [one for one in found.commits if review.is_against(None if whole else changed[one.id])]
    if not ours:
        if found.gone:
            return None
        raise _not_against(review)
    records = await recorded_commits(reviews.client, reviews.project, plan=review.plan)
    plan = _Plan(reviews, review, {record.commit: record for record in records})
    squashed = [other.id for commit in ours for other in await plan.others_in(commit)]
    verdict = list(review.decisions.values() or ["withdrawn"])[-1]
    why = f"{review.id}: {verdict.replace('_', ' ')}"
    first = {one.id: RevertedBefore(one, changed[one.id], _ids(await plan.reviews_of(one)), why) for one in ours}
    taken = await _with_dependents(plan, checkout, found, first)
    for one in taken:
        _ensure_no_merge(one.commit)
    return Choice(tuple(taken), tuple(dict.fromkeys(squashed)))


def _not_against(review: RollbackReview) -> InvalidTransition:
    status = review.full.status
    stands = status.status if status.outcome is None else f"{status.status} ({status.outcome})"
    return InvalidTransition(
        f"{review.id} is {stands}, and its commits were not decided against; nothing was changed."
        " Only what a reviewer rejected, or wants changed, is rolled back; to revert something else: git revert"
        " COMMIT",
        review_id=review.id,
        status=status.status,
        expected=["changes_requested", "rejected"],
    )


def _ensure_no_merge(commit: RepositoryCommit) -> None:
    if commit.is_merge:
        raise InvalidInput(
            f"{commit.id[:SHORT]} ({commit.subject}) is a merge: only a person can say which side stays. Nothing"
            f" was changed. Revert it yourself: git revert -m 1 {commit.id[:SHORT]}",
            field="commit",
            commit=commit.id,
        )


async def _with_dependents(
    plan: _Plan, checkout: Checkout, found: FoundCommit, first: Mapping[str, RevertedBefore]
) -> list[RevertedBefore]:
    """The first ones and, transitively, the plan's later commits that build upon them; newest first."""
    gone = reverted_by(found.line)
    standing = [one for one in found.line if one.id not in gone and not one.reverts and one.id not in first]
    changed = differences(checkout, [one for one in standing if await plan.has(one)])
    taken: dict[str, RevertedBefore] = {}
    touched: set[str] = set()
    names: set[str] = set()
    for commit in reversed(found.line):
        reviews = await plan.reviews_of(commit) if commit.id in first or commit.id in changed else []
        one = first.get(commit.id)
        if one is None and taken and commit.id in changed:
            one = plan.as_dependent(commit, changed[commit.id], reviews, touched, names)
        if one is not None:
            taken[commit.id] = one
            touched |= one.difference.paths
            names |= {commit.id, *one.review_ids, *plan.tasks_of(commit, reviews)}
    return [taken[commit.id] for commit in found.line if commit.id in taken]


class _Plan:
    """What belongs to the review's plan, by the broker's records where there are any, else by the messages."""

    def __init__(self, reviews: Reviews, review: RollbackReview, records: Mapping[str, CommitRecord]) -> None:
        self._reviews = reviews
        self._review = review
        self._records = records

    async def reviews_of(self, commit: RepositoryCommit) -> list[RollbackReview]:
        """The reviews of a commit, as recorded and as its message names them."""
        record = self._records.get(commit.id)
        named = dict.fromkeys((*(record.review_ids if record else ()), *commit.review_ids))
        return [review for one in named if (review := await self._reviews.find(one)) is not None]

    async def others_in(self, commit: RepositoryCommit) -> list[RollbackReview]:
        """The other reviews inside a commit that is reverted.

        Raises:
            InvalidInput: One is not of the same plan.
        """
        others = [other for other in await self.reviews_of(commit) if other.id != self._review.id]
        for other in others:
            if not other.names_plan or other.plan != self._review.plan:
                named = f"the plan {other.plan}" if other.names_plan else "no plan that is known"
                raise InvalidInput(
                    f"{commit.id[:SHORT]} ({commit.subject}) also holds {other.id}, which belongs to {named};"
                    " others' work is not reverted, and nothing was changed. Undo this part yourself and propose it:"
                    " tandem submit",
                    field="commit",
                    commit=commit.id,
                    review_id=other.id,
                )
        return others

    async def has(self, commit: RepositoryCommit) -> bool:
        """Whether a commit is of the plan; one that says nothing of a plan is somebody else's."""
        if commit.id in self._records:
            return True
        plans = {review.plan for review in await self.reviews_of(commit) if review.names_plan}
        return plans == {self._review.plan} if plans else commit.plan == self._review.plan

    def as_dependent(
        self,
        commit: RepositoryCommit,
        difference: RawDifference,
        reviews: Sequence[RollbackReview],
        touched: set[str],
        names: set[str],
    ) -> RevertedBefore | None:
        """A later commit of the plan, if it builds upon a reverted commit."""
        record = self._records.get(commit.id)
        stated = (name for review in reviews for name in review.depends_on)
        declared = [*(record.depends_on if record else ()), *commit.depends_on, *stated]
        shared = sorted(difference.paths & touched)
        if shared:
            because = f"changes {shared[0]} too" + (f", and {len(shared) - 1} more" if len(shared) > 1 else "")
        elif on := next((name for name in declared if name in names), None):
            because = f"depends on {on}"
        else:
            return None
        against = next((review.id for review in reviews if review.is_against(difference)), None)
        return RevertedBefore(commit, difference, _ids(reviews), because, is_dependent=True, against=against)

    def tasks_of(self, commit: RepositoryCommit, reviews: Iterable[RollbackReview]) -> set[str]:
        """The names by which a later commit may mean this one's task."""
        record = self._records.get(commit.id)
        found = {commit.task, record.task if record else None, *(review.first.task for review in reviews)} - {None, ""}
        return {name for task in found for name in (str(task), f"{self._review.plan}-{task}")}


def _ids(reviews: Iterable[RollbackReview]) -> tuple[str, ...]:
    return tuple(review.id for review in reviews)
