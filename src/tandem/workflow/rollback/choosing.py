"""Choosing what is taken back with a commit: what its own plan built upon it, and never anybody else's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tandem.errors import InvalidInput, InvalidTransition, NotFound
from tandem.workflow.rollback.checkout import Checkout
from tandem.workflow.rollback.finding import Found
from tandem.workflow.rollback.history import Commit, Difference, differences, reverted_by
from tandem.workflow.rollback.reviewed import Desk, Record, Reviewed

_SHORT = 10


@dataclass(frozen=True, slots=True)
class Taken:
    """A commit that is taken back.

    Attributes:
        commit: The commit.
        difference: What it changed.
        review_ids: Its reviews.
        because: Why, in words.
        is_dependent: Whether it only goes with another one, so that it may come back.
        against: The review of its own that was decided against; null if none was.
    """

    commit: Commit
    difference: Difference
    review_ids: tuple[str, ...]
    because: str
    is_dependent: bool
    against: str | None = None


@dataclass(frozen=True, slots=True)
class Choice:
    """What a rollback takes back.

    Attributes:
        plan: The plan's key.
        taken: The commits, newest first.
        squashed: Reviews that were squashed into one of them, and are not the one that is rolled back.
    """

    plan: str
    taken: tuple[Taken, ...]
    squashed: tuple[str, ...]


async def choose(desk: Desk, checkout: Checkout, review: Reviewed, found: Found) -> Choice | None:
    """The review's commits that were decided against, and what goes with them; null if they are all gone already.

    Raises:
        InvalidTransition: They were not decided against.
        InvalidInput: One is a merge, or holds the work of another plan too.
    """
    changed = differences(checkout, found.commits)
    ours = [commit for commit in found.commits if _is_against(review, found, changed[commit.id])]
    if not ours:
        if found.gone:
            return None
        raise _not_against(review)
    plan = _Plan(desk, review, {record.commit: record for record in await desk.records(plan=review.plan)})
    squashed = await _squashed(plan, ours)
    why = _why(review)
    first = {one.id: Taken(one, changed[one.id], await plan.reviews_of(one), why, is_dependent=False) for one in ours}
    taken = await _with_dependents(plan, checkout, found, first)
    for one in taken:
        _ensure_no_merge(one.commit)
    return Choice(review.plan, tuple(taken), tuple(squashed))


def _why(review: Reviewed) -> str:
    verdicts = review.verdicts
    verdict = verdicts[max(verdicts)] if verdicts else "withdrawn"
    return f"{review.status.review_id}: {verdict.replace('_', ' ')}"


def _is_against(review: Reviewed, found: Found, difference: Difference) -> bool:
    whole = found.how == "plan"
    return review.standing(None if whole else difference) == "against"


def _not_against(review: Reviewed) -> InvalidTransition:
    status = review.status
    stands = status.status if status.outcome is None else f"{status.status} ({status.outcome})"
    return InvalidTransition(
        f"{status.review_id} is {stands}, and what was committed of it was not decided against; nothing was changed."
        " Only what a reviewer rejected, or wants changed, is rolled back; to take back something else: git revert"
        " COMMIT",
        review_id=status.review_id,
        status=status.status,
        expected=["changes_requested", "rejected"],
    )


def _ensure_no_merge(commit: Commit) -> None:
    if commit.is_merge:
        raise InvalidInput(
            f"{commit.id[:_SHORT]} ({commit.subject}) is a merge: which side is to stay, only a person can say. Nothing"
            f" was changed. Take it back yourself: git revert -m 1 {commit.id[:_SHORT]}",
            field="commit",
            commit=commit.id,
        )


async def _squashed(plan: _Plan, commits: Sequence[Commit]) -> list[str]:
    """The other reviews inside the commits; all of them must be of the same plan."""
    found: list[str] = []
    for commit in commits:
        for review_id in await plan.reviews_of(commit):
            if review_id == plan.review.status.review_id or review_id in found:
                continue
            other = await plan.find(review_id)
            if other is None or not other.names_plan or other.plan != plan.review.plan:
                named = f"the plan {other.plan}" if other is not None and other.names_plan else "no plan that is known"
                raise InvalidInput(
                    f"{commit.id[:_SHORT]} ({commit.subject}) also holds {review_id}, which belongs to {named}; nobody"
                    " else's work is taken back, and nothing was changed. Undo this part yourself and put it up:"
                    " tandem submit",
                    field="commit",
                    commit=commit.id,
                    review_id=review_id,
                )
            found.append(review_id)
    return found


async def _with_dependents(plan: _Plan, checkout: Checkout, found: Found, first: Mapping[str, Taken]) -> list[Taken]:
    """The first ones and, transitively, the plan's later commits that build upon them; newest first."""
    gone = reverted_by(found.line)
    standing = [one for one in found.line if one.id not in gone and not one.reverts and one.id not in first]
    candidates = [one for one in standing if await plan.has(one)]
    changed = differences(checkout, candidates)
    taken: dict[str, Taken] = {}
    touched: dict[str, Commit] = {}
    names: set[str] = set()
    for commit in reversed(found.line):
        one = first.get(commit.id)
        if one is None and taken and commit in candidates:
            one = await _as_dependent(plan, commit, changed[commit.id], touched, names)
        if one is None:
            continue
        taken[commit.id] = one
        touched.update(dict.fromkeys(one.difference.paths, commit))
        names |= {commit.id, *one.review_ids, *await plan.tasks_of(commit)}
    return [taken[commit.id] for commit in found.line if commit.id in taken]


async def _as_dependent(
    plan: _Plan, commit: Commit, difference: Difference, touched: Mapping[str, Commit], names: set[str]
) -> Taken | None:
    """A later commit of the plan, if it builds upon what is taken back."""
    shared = sorted(difference.paths & touched.keys())
    declared = [name for name in await plan.depends_on(commit) if name in names]
    if shared:
        because = f"changes {shared[0]} too" + (f", and {len(shared) - 1} more" if len(shared) > 1 else "")
    elif declared:
        because = f"depends on {declared[0]}"
    else:
        return None
    review_ids = await plan.reviews_of(commit)
    against = [found for found in review_ids if await plan.is_against(found, difference)]
    return Taken(commit, difference, review_ids, because, is_dependent=True, against=against[0] if against else None)


class _Plan:
    """What belongs to the review's plan, by the broker's records where there are any, else by the messages."""

    def __init__(self, desk: Desk, review: Reviewed, records: Mapping[str, Record]) -> None:
        self._desk = desk
        self.review = review
        self._records = dict(records)

    async def find(self, review_id: str) -> Reviewed | None:
        """A review; null if the project has none of that name, as anybody can write a trailer."""
        try:
            return await self._desk.review(review_id)
        except (NotFound, InvalidInput):
            return None

    async def reviews_of(self, commit: Commit) -> tuple[str, ...]:
        """The reviews of a commit, as recorded and as its message names them."""
        record = self._records.get(commit.id)
        named = (*(record.review_ids if record else ()), *commit.review_ids)
        return tuple([one for one in dict.fromkeys(named) if await self.find(one) is not None])

    async def has(self, commit: Commit) -> bool:
        """Whether a commit is of the plan; one that says nothing of a plan is somebody else's."""
        if commit.id in self._records:
            return True
        plans = {await self._desk.plan_of(review_id) for review_id in commit.review_ids} - {None}
        return plans == {self.review.plan} if plans else commit.plan == self.review.plan

    async def depends_on(self, commit: Commit) -> tuple[str, ...]:
        """What a commit was declared to depend on."""
        record = self._records.get(commit.id)
        reviews = [await self.find(review_id) for review_id in commit.review_ids]
        stated = [name for one in reviews if one is not None for name in one.depends_on]
        return (*(record.depends_on if record else ()), *commit.depends_on, *stated)

    async def tasks_of(self, commit: Commit) -> set[str]:
        """The names by which a later commit may mean this one's task."""
        record = self._records.get(commit.id)
        reviews = [await self.find(review_id) for review_id in commit.review_ids]
        tasks = {commit.task, record.task if record else None, *(one.first.task for one in reviews if one is not None)}
        found = {task for task in tasks if task}
        return found | {f"{self.review.plan}-{task}" for task in found}

    async def is_against(self, review_id: str, difference: Difference) -> bool:
        """Whether one of a commit's reviews was decided against."""
        found = await self.find(review_id)
        return found is not None and found.standing(difference) == "against"
