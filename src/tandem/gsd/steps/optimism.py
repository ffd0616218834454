"""The optimistic mode: was an earlier change of the plan decided against, and are all of them decided?"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from tandem.client import TandemClient
from tandem.errors import NotFound
from tandem.gsd.rollback.choosing import recorded_commits
from tandem.gsd.steps.outcomes import StepResult, StepWord, of_review
from tandem.gsd.steps.pointers import Pointers, StepPointer
from tandem.gsd.steps.situation import Deadline, StepRequest
from tandem.gsd.steps.verdicts import AGAINST, word_of
from tandem.reviews.answers import ReviewStatus
from tandem.rulings import next_steps

BLOCKING = "blocking"


@dataclass(frozen=True, slots=True)
class PlanStatus:
    """Where a plan stands.

    Attributes:
        against: The reviews that were decided against after their commit and are not rolled back, oldest first.
        is_blocking: Whether the plan's changes need their approval first by now.
    """

    against: tuple[str, ...]
    is_blocking: bool


@dataclass(frozen=True, slots=True)
class Plans:
    """Asks about plans.

    Attributes:
        client: The broker.
        project: The project.
        pointers: What was put up from here: without a gate, no hook tells the broker of commits.
    """

    client: TandemClient
    project: str
    pointers: Pointers

    async def standing(self, keys: Iterable[str]) -> PlanStatus:
        """Where a plan stands, which commits may name in several ways."""
        against: list[str] = []
        settled: set[str] = set()
        is_blocking = False
        for key in dict.fromkeys(keys):
            plan = (await self.client.get_gate(project=self.project, plan=key)).plan
            if plan is not None:
                against += plan.against
                settled |= set(plan.rolled_back)
                is_blocking = is_blocking or plan.mode == BLOCKING
            against += [status.review_id for status in await self._of_pointers(key) if _is_against(status)]
        standing = tuple(one for one in dict.fromkeys(against) if one not in settled)
        return PlanStatus(standing, is_blocking or bool(standing))

    async def decided(self, order: StepRequest, keys: Iterable[str]) -> StepResult:
        """Wait until every change of a plan is decided, and say what came of it."""
        deadline = Deadline(order.timeout_seconds)
        known = tuple(dict.fromkeys(keys))
        ids = [review_id for key in known for review_id in await self._reviews(key)]
        for review_id in dict.fromkeys(ids):
            status = await self._verdict(review_id, deadline.left)
            if status is not None and word_of(status, 0) is not StepWord.APPROVED:
                outcome = await self._undecided(order, known, status)
                if outcome is not None:
                    return outcome
        if not ids:
            nothing = "No change of this plan was submitted, or all of them were rolled back."
            return StepResult(StepWord.NOTHING, order.step, ("Go on.",), project=self.project, reason=nothing)
        return StepResult(
            StepWord.APPROVED,
            order.step,
            ("Merge the branch as it is; a later change of it needs another review.",),
            review_id=ids[-1],
            review_ids=tuple(dict.fromkeys(ids)),
            project=self.project,
            reason="Every change of the plan is approved.",
        )

    async def _undecided(self, order: StepRequest, keys: tuple[str, ...], status: ReviewStatus) -> StepResult | None:
        """The outcome for a change that is not approved; null if it was taken back, so that it no longer counts."""
        if _is_against(status):
            against = (await self.standing(keys)).against
            return rollback(order, against, self.project) if status.review_id in against else None
        word = word_of(status, 0)
        advice = {
            StepWord.WAITING: (f"There is no verdict yet. Run the same command again: {order.command}",),
            StepWord.CHANGES: (*next_steps.commands(asdict(status)), f"Then run again: {order.command}"),
        }
        wanted = advice.get(word, (f"Stop, and ask the person: tandem review proposal {status.review_id}",))
        if status.next_action == "answer_message":
            wanted = advice[StepWord.CHANGES]
        return StepResult(word, order.step, wanted, **of_review(status))

    async def _verdict(self, review_id: str, left_seconds: float | None) -> ReviewStatus | None:
        try:
            return await self.client.wait_for_turn(review_id, timeout_s=left_seconds)
        except NotFound:
            # A message may name any review; what is not there decides nothing.
            return None

    async def _reviews(self, key: str) -> list[str]:
        """The reviews of the commits of a plan that still stand."""
        commits = await recorded_commits(self.client, self.project, plan=key)
        standing = [one for one in commits if one.replaced_by is None and one.rolled_back_by is None]
        found = [review_id for commit in standing for review_id in commit.review_ids]
        return found + [pointer.review_id for pointer in self._pointed(key)]

    async def _of_pointers(self, key: str) -> list[ReviewStatus]:
        found: list[ReviewStatus] = []
        for pointer in self._pointed(key):
            try:
                found.append(await self.client.get_review_status(pointer.review_id))
            except NotFound:
                continue
        return found

    def _pointed(self, key: str) -> list[StepPointer]:
        return [one for one in self.pointers.all().values() if one.is_optimistic and one.plan_key == key]


def rollback(order: StepRequest, against: tuple[str, ...], project: str) -> StepResult:
    """The outcome that a change has to be taken back first."""
    return StepResult(
        StepWord.ROLLBACK,
        order.step,
        (f"Roll it back: tandem rollback {against[0]}", f"Then run again: {order.command}"),
        review_id=against[0],
        review_ids=against,
        project=project,
        reason="It was decided against after its commit; what builds on it would have to go as well.",
    )


def _is_against(status: ReviewStatus) -> bool:
    return status.status in AGAINST or (status.status == "closed" and status.outcome == "rejected")
