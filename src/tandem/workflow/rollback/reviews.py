"""What the broker knows of reviews and of the commits that were recorded for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tandem.client import TandemClient
from tandem.domain.answers import Proposal, ReviewStatus
from tandem.domain.reviews import ESCALATION_ROUND
from tandem.errors import InvalidInput, NotFound
from tandem.hooks.message import plan_key
from tandem.operations.gate_contract import CommitRecord
from tandem.workflow.rollback.repository import Difference

_AGAINST = frozenset({"changes_requested", "rejected"})
_COUNTER_PATCH = "counter_patch"
_PER_PLAN = "per_plan"
_PAGE_ROWS = 200


@dataclass(frozen=True, slots=True)
class Review:
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
    def id(self) -> str:
        """Its id."""
        return self.status.review_id

    @property
    def first(self) -> Proposal:
        """The round that it began with."""
        return self.rounds[min(self.rounds)]

    @property
    def plan(self) -> str:
        """Its plan's key."""
        stated = self.first.metadata.get("plan_key")
        return stated if isinstance(stated, str) else plan_key(self.first.phase, self.first.plan, self.branch)

    @property
    def branch(self) -> str | None:
        """The branch that it says it was committed on; null if it does not say."""
        branch = self.first.metadata.get("branch")
        return branch if isinstance(branch, str) else None

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

    def is_against(self, difference: Difference | None) -> bool:
        """Whether a commit's content was decided against.

        Args:
            difference: The commit's; null for the review as a whole. Content of no round counts as what was
                reviewed before a counter-patch was accepted.
        """
        number = None if difference is None else self.round_of(difference)
        if number is None:
            own = [n for n, one in self.rounds.items() if one.origin != _COUNTER_PATCH and n in self.verdicts]
            number = max(own, default=None)
        verdict = None if number is None else self.verdicts.get(number)
        return verdict in _AGAINST or (verdict is None and self.is_withdrawn)


@dataclass(slots=True)
class Reviews:
    """Reads reviews and recorded commits from the broker, each review once.

    Attributes:
        client: The broker.
        project: The project.
    """

    client: TandemClient
    project: str
    _known: dict[str, Review | None] = field(default_factory=dict[str, "Review | None"])

    async def review(self, review_id: str) -> Review:
        """A review with its rounds and verdicts.

        Raises:
            NotFound: The project has no such review.
        """
        found = self._known.get(review_id)
        if found is None:
            status = await self.client.get_review_status(review_id, project=self.project)
            rounds = {
                number: await self.client.get_proposal(review_id, project=self.project, round=number)
                for number in range(1, status.round + 1)
            }
            found = self._known[review_id] = Review(status, rounds, await self._verdicts(review_id))
        return found

    async def find(self, review_id: str) -> Review | None:
        """A review; null if the project has none of that name, as anybody can write a trailer."""
        if review_id not in self._known:
            try:
                return await self.review(review_id)
            except (NotFound, InvalidInput):
                self._known[review_id] = None
        return self._known[review_id]

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

    async def records(self, *, review_id: str | None = None, plan: str | None = None) -> list[CommitRecord]:
        """The commits that were recorded for a review or a plan, oldest first."""
        found: list[CommitRecord] = []
        page: str | None = None
        while True:
            answer = await self.client.list_commits(
                project=self.project, review_id=review_id, plan=plan, limit=_PAGE_ROWS, page=page
            )
            found += answer.commits
            page = answer.next_page
            if page is None:
                return found
