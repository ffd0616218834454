"""What every service is given, and what the subjects above reviews do when something happens to one.

The composition root fills it in.
"""

from __future__ import annotations

import asyncio
import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tandem.access.tokens import AccessContext
from tandem.contract.caller import Caller
from tandem.core.secret_key import Tokens
from tandem.git.changes import Change
from tandem.projects.registry import ProjectContext
from tandem.reviews.claim_rules import decides_for_all
from tandem.reviews.finding_rules import SEVERITIES, THRESHOLD
from tandem.reviews.reviewer_contract import Holder, NoReviewer
from tandem.reviews.rounds import Round
from tandem.reviews.rules import Review
from tandem.rulings import person, proof
from tandem.settings.workflows import Workflow
from tandem.store.base import Unit


class Difference(NamedTuple):
    """The raw difference of two commits.

    Attributes:
        digest: Over it.
        changes: Its entries; None where there are too many.
        signed: The signatures that come with it.
    """

    digest: str
    changes: Sequence[Change] | None
    signed: Sequence[str]


@dataclass(frozen=True, slots=True)
class Decision:
    """A verdict that decided.

    Attributes:
        review: The review as it was held.
        current: The round that it is about.
        verdict: `approved`, `changes_requested` or `rejected`.
        reviewer: Who gave it.
        stands: Whether it decides the review: an approval beside which others are missing does not.
        at_us: When, in microseconds since the epoch.
    """

    review: Review
    current: Round
    verdict: str
    reviewer: str
    at_us: int
    stands: bool = True


def why_none(unit: Unit, services: Services, review: Review) -> NoReviewer | None:
    """Why a review that waits for a reviewer gets none now; None if one may come any moment, or somebody has it."""
    found = (one.why_none(unit, services, review) for one in services.participants if not review.by_checks)
    return next((why for why in found if why is not None), None)


def tell(unit: Unit, services: Services, decision: Decision) -> None:
    """Have all who have a stake in the review take in a verdict, whose event has been appended."""
    for participant in services.participants:
        participant.decided(unit, services, decision)


def is_by_person(unit: Unit, services: Services, caller: Caller, who: str) -> bool:
    """Whether it is a person's word; on a trusted broker only the name of a known client says that it is none."""
    names = (caller.agent or "", who) if caller.access is None else ()
    is_agent = person.family(*names) is not None
    return decides_for_all(caller) and not is_agent and services.pool.project_of(unit, who) is None


async def key_of(services: Services, stated: str | None, facts: Sequence[object]) -> str | None:
    """The key that seals these facts: `person`, or an access token's id; None if none does."""
    for one in (stated or "").split():
        name, _, sealed = one.partition(".")
        key = services.tokens.person_key() if name == proof.PERSON else await services.authenticator.key_of(name)
        if key is not None and hmac.compare_digest(sealed, proof.seal(key, facts)):
            return name
    return None


async def is_proved(services: Services, caller: Caller, stated: str | None, facts: Sequence[object]) -> bool:
    """Whether a person decides: on a page, or with the proof that a command seals.

    A token alone proves it not: agents find that of the broker's owner where their commands do.
    """
    return caller.is_page or await key_of(services, stated, facts) is not None


def threshold_of(unit: Unit, services: Services, project: str, review: Review | None = None) -> str:
    """From which severity on an open finding keeps an approval back; of a review by its policy, where that is lower."""
    found = (one.threshold(unit, project) for one in services.participants)
    usual = next((one for one in found if one is not None), THRESHOLD)
    known = review.requirements if review is not None else None
    return max(usual, (known and known.threshold) or usual, key=SEVERITIES.index)


class Participant:
    """A subject with a stake in reviews. Each method runs within the unit of work, and does nothing of itself."""

    def lock(self, unit: Unit, review_id: str) -> None:
        """Lock what a verdict may change beside the review, before the review is locked."""

    def check_revision(self, unit: Unit, review: Review) -> None:
        """Refuse a revision by `create_review`.

        Raises:
            InvalidTransition: It is revised in another way.
        """

    def check_counter_patch(self, unit: Unit, review: Review, body: str) -> None:
        """Refuse a counter-patch that could never be approved.

        Raises:
            SchemaInvalid: It is no payload for the hand-off that the review is about.
        """

    def threshold(self, unit: Unit, project: str) -> str | None:  # noqa: ARG002 - for who overrides it
        """The severity from which on an open finding keeps an approval back; None for the usual one."""
        return None

    def protected_branches(self, unit: Unit, project: str) -> tuple[str, ...]:  # noqa: ARG002 - as above
        """The branches of a project that nothing gets into unless it was approved."""
        return ()

    def accepted_commits(self, unit: Unit, project: str) -> tuple[str, ...]:  # noqa: ARG002 - as above
        """The commits of a project that count as approved, with their ancestors, because a person accepted them."""
        return ()

    def approves(self, unit: Unit, services: Services, project: str, what: Difference) -> bool:  # noqa: ARG002 - as above
        """Whether approvals cover a difference as it is, to the byte, or a signature of a signer is over it."""
        return False

    def commits_of(self, unit: Unit, services: Services, review: Review, current: Round) -> tuple[str, ...]:  # noqa: ARG002 - as above
        """The commits that are known to hold an approved round's content and still stand."""
        return ()

    def why_none(self, unit: Unit, services: Services, review: Review) -> NoReviewer | None:  # noqa: ARG002 - as above
        """Why a review that waits for a reviewer gets none now; None if one may come any moment."""
        return None

    def check_withdrawal(self, unit: Unit, review: Review) -> None:
        """Refuse that an approval is withdrawn.

        Raises:
            InvalidTransition: The approval has taken effect.
        """

    def decided(self, unit: Unit, services: Services, decision: Decision) -> None:
        """Take in a verdict, whose event has been appended.

        Raises:
            InvalidPhase: It would approve content that has been overtaken.
            SchemaInvalid: The approved content cannot be used.
        """


class PoolReviewers(Protocol):
    """What reviews ask about the reviewers of pools, in their own unit of work; everybody else is in no pool."""

    def project_of(self, unit: Unit, reviewer_id: str) -> str | None:
        """The project of one that has not ended."""
        ...

    def provider_of(self, unit: Unit, reviewer_id: str) -> str | None:
        """The client that runs one, ended or not."""
        ...

    def has_form(self, unit: Unit, reviewer_id: str) -> bool:
        """Whether its worker asks it about the earlier findings that there is room for, and takes no answer without."""
        ...

    def called(self, unit: Unit, who: str, client: str | None) -> tuple[str, ...]:
        """The names by which a policy's `agent:NAME` means a reviewer, of a pool or not, who uses that client."""
        ...

    def advises(self, unit: Unit, who: str) -> str | None:
        """The profile of one that has no vote."""
        ...

    def takes(self, unit: Unit, review: Review, who: str, now_us: int) -> bool:
        """Whether one takes a review from the queue, by its profile; everybody else takes any."""
        ...

    def is_draining(self, unit: Unit, reviewer_id: str) -> bool:
        """Whether it must take nothing new."""
        ...

    def expire(self, unit: Unit, review_id: str, generation: int, now_us: int) -> None:
        """End a claim whose lease has run out, with any holder; a reviewer of a pool is ended."""
        ...

    def take_over(self, unit: Unit, before: Review, by: str, now_us: int) -> None:
        """Take a locked review from those of them that hold it, which are ended at once; others keep it."""
        ...

    def holder(self, unit: Unit, review: Review) -> Holder | None:
        """Who holds a review, and its activity if it is one of them."""
        ...

    def list_models(self, unit: Unit, *, project: str | None, since_day: str | None) -> dict[str, str]:
        """The model of each that counted for something, over all time or since a day; else its program's name."""
        ...


@dataclass(frozen=True)
class Services(AccessContext, ProjectContext):
    """What the services stand on, wired once by the composition root.

    Attributes:
        validations: Bounds how many git runs are under way at once.
        workflows: What hand-off cycles can be started with, by name.
        tokens: Derives the tokens of sessions and locks.
        archives: The folder that archived cycles are written to.
        pool: Answers for the reviewers of pools.
        reviewer_logs: The folder of the logs of this machine's reviewers.
        participants: The subjects with a stake in reviews.
        options: The settings that the command line can name, as the broker was started with them.
        archiving: Held while one is written.
        checks_wanted: Set once a project has checks to run.
        webhooks_wanted: Set while there are webhooks, or may be.
        has_pools: Set once a supervisor of reviewers has registered.
        has_findings: Set once a project was seen to have findings.
    """

    participants: tuple[Participant, ...]
    validations: asyncio.Semaphore
    workflows: Mapping[str, Workflow]
    tokens: Tokens
    archives: Path
    pool: PoolReviewers
    reviewer_logs: Path
    options: Mapping[str, Any]
    archiving: asyncio.Lock = field(default_factory=asyncio.Lock)
    checks_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    webhooks_wanted: asyncio.Event = field(default_factory=asyncio.Event)
    has_pools: asyncio.Event = field(default_factory=asyncio.Event)
    has_findings: asyncio.Event = field(default_factory=asyncio.Event)
