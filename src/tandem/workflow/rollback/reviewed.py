"""What the broker knows of reviews and of the commits that were recorded for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from tandem.client import TandemClient
from tandem.domain.answers import Proposal, ReviewStatus
from tandem.domain.gate_answers import CommitRecord
from tandem.domain.reviews import ESCALATION_ROUND
from tandem.errors import InvalidInput, NotFound
from tandem.hooks.message import plan_key
from tandem.workflow.rollback.history import Difference

Standing = Literal["against", "approved", "open"]
"""Of a commit's content: decided against, approved, or not decided."""

_AGAINST = frozenset({"changes_requested", "rejected"})
_COUNTER_PATCH = "counter_patch"
_PER_PLAN = "per_plan"
_PAGE_ROWS = 200


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A review with all its rounds.

    Attributes:
        status: Where it stands.
        rounds: Every round's content, by its number.
        verdicts: The newest decisive verdict of each round that has one.
    """

    status: ReviewStatus
    rounds: Mapping[int, Proposal]
    verdicts: Mapping[int, str]

    @property
    def current(self) -> Proposal:
        """The newest round."""
        return self.rounds[self.status.round]

    @property
    def first(self) -> Proposal:
        """The round that it began with."""
        return self.rounds[min(self.rounds)]

    @property
    def plan(self) -> str:
        """Its plan's key."""
        return _plan_of(self.first)

    @property
    def branch(self) -> str | None:
        """The branch that it says it was committed on; null if it does not say."""
        return _branch_of(self.first)

    @property
    def names_plan(self) -> bool:
        """Whether it says itself which plan it belongs to."""
        return self.first.plan is not None or self.branch is not None

    @property
    def is_whole_plan(self) -> bool:
        """Whether it was put up for a plan as a whole, and not for one of its tasks."""
        stated = self.first.metadata.get("granularity")
        if self.first.metadata.get("optimistic") is True:
            return False
        if isinstance(stated, str):
            return stated == _PER_PLAN
        return self.first.task is None and self.first.plan is not None and self.first.category == "code_change"

    @property
    def depends_on(self) -> tuple[str, ...]:
        """What its proposer declared that it depends on."""
        stated = self.first.metadata.get("depends_on")
        return tuple(str(item) for item in stated) if isinstance(stated, list) else ()  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] any JSON value

    @property
    def is_withdrawn(self) -> bool:
        """Whether its proposer took it back without a verdict."""
        return self.status.outcome == "withdrawn"

    @property
    def must_escalate(self) -> bool:
        """Whether so many rounds were decided against that a person has to look."""
        decided = [number for number, verdict in self.verdicts.items() if verdict in _AGAINST]
        return max(decided, default=0) >= ESCALATION_ROUND or self.status.attention is not None

    @property
    def counter_patch(self) -> Proposal | None:
        """The round that an accepted counter-patch made, if it is what holds now and was not decided against."""
        accepted = [one for one in self.rounds.values() if one.origin == _COUNTER_PATCH]
        newest = max(accepted, key=lambda one: one.round, default=None)
        if newest is None or newest.round != self.status.round or self.is_withdrawn:
            return None
        return None if self.verdicts.get(newest.round) in _AGAINST else newest

    def round_of(self, difference: Difference) -> int | None:
        """The newest round that has exactly a commit's content; null if none has."""
        digests = {difference.digest, difference.text_digest}
        found = [one.round for one in self.rounds.values() if one.digest is not None and one.digest in digests]
        return max(found, default=None)

    def standing(self, difference: Difference | None) -> Standing:
        """What was decided of a commit's content.

        Args:
            difference: The commit's; null for the review as a whole. Content of no round counts as what was
                reviewed before a counter-patch was accepted.
        """
        number = None if difference is None else self.round_of(difference)
        if number is not None:
            verdict = self.verdicts.get(number)
        else:
            own = [n for n, one in self.rounds.items() if one.origin != _COUNTER_PATCH and n in self.verdicts]
            verdict = self.verdicts[max(own)] if own else None
        if verdict in _AGAINST or (verdict is None and self.is_withdrawn):
            return "against"
        return "approved" if verdict == "approved" else "open"


@dataclass(frozen=True, slots=True)
class Record:
    """A commit as the broker recorded it.

    Attributes:
        commit: Its id.
        branch: Where it was made; null if nobody said.
        plan: Its plan's key.
        task: Its task; null if it has none.
        review_ids: Its reviews.
        depends_on: What it was declared to depend on.
        replaced_by: The commit that an amend, a rebase or a rollback made of it; null if none.
    """

    commit: str
    branch: str | None
    plan: str
    task: str | None
    review_ids: tuple[str, ...]
    depends_on: tuple[str, ...]
    replaced_by: str | None


@dataclass(slots=True)
class Desk:
    """Reads reviews and records from the broker, each review once.

    Attributes:
        client: The broker.
        project: The project.
    """

    client: TandemClient
    project: str
    _known: dict[str, Reviewed] = field(default_factory=dict[str, Reviewed])
    _plans: dict[str, str | None] = field(default_factory=dict[str, str | None])

    async def review(self, review_id: str) -> Reviewed:
        """A review with its rounds and verdicts.

        Raises:
            NotFound: The project has no such review.
        """
        if review_id not in self._known:
            status = await self.client.get_review_status(review_id, project=self.project)
            rounds = {
                number: await self.client.get_proposal(review_id, project=self.project, round=number)
                for number in range(1, status.round + 1)
            }
            self._known[review_id] = Reviewed(status, rounds, await self._verdicts(review_id))
        return self._known[review_id]

    async def plan_of(self, review_id: str) -> str | None:
        """The plan of a review; null if it names none, or the project has no such review."""
        if review_id not in self._plans:
            try:
                found = await self.client.get_proposal(review_id, project=self.project, round=1)
            except (NotFound, InvalidInput):
                # Anybody can write a trailer.
                self._plans[review_id] = None
            else:
                named = found.plan is not None or _branch_of(found) is not None
                self._plans[review_id] = _plan_of(found) if named else None
        return self._plans[review_id]

    async def _verdicts(self, review_id: str) -> dict[int, str]:
        verdicts: dict[int, str] = {}
        page: str | None = None
        while True:
            found = await self.client.get_discussion(review_id, project=self.project, page=page)
            for entry in found.entries:
                if entry.kind == "verdict" and entry.verdict not in (None, "comment"):
                    verdicts[entry.round] = entry.verdict
            page = found.next_page
            if page is None:
                return verdicts

    async def records(self, *, review_id: str | None = None, plan: str | None = None) -> list[Record]:
        """The commits that were recorded for a review or a plan, oldest first."""
        found: list[Record] = []
        page: str | None = None
        while True:
            answer = await self.client.list_commits(
                project=self.project, review_id=review_id, plan=plan, limit=_PAGE_ROWS, page=page
            )
            found += [_record(one) for one in answer.commits]
            page = answer.next_page
            if page is None:
                return found


def _branch_of(proposal: Proposal) -> str | None:
    branch = proposal.metadata.get("branch")
    return branch if isinstance(branch, str) else None


def _plan_of(proposal: Proposal) -> str:
    stated = proposal.metadata.get("plan_key")
    return stated if isinstance(stated, str) else plan_key(proposal.phase, proposal.plan, _branch_of(proposal))


def _record(told: CommitRecord) -> Record:
    return Record(
        commit=told.commit,
        branch=told.branch,
        plan=plan_key(told.phase, told.plan, told.branch),
        task=told.task,
        review_ids=told.review_ids,
        depends_on=told.depends_on,
        replaced_by=told.replaced_by,
    )
