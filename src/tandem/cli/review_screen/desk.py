"""What every part of the screen works with, and what a person may do to a review."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, cast

from tandem.cli.review_screen.drafts import Drafts, Spot
from tandem.cli.review_screen.live import Line
from tandem.cli.review_screen.reading import Reading
from tandem.client import TandemClient
from tandem.errors import NotClaimant, StaleRound
from tandem.operations.requests import LineComment

Verdict = Literal["approved", "changes_requested", "rejected", "comment"]
Side = Literal["proposer", "reviewer"]


@dataclass(slots=True)
class Desk:
    """One person at one broker.

    Attributes:
        line: The connection.
        person: The name under which they decide; empty until it is known.
        project: The project that is shown; null for all of them.
        home: The project that the command was called for, if there is one.
        drafts: What they have typed and not sent.
    """

    line: Line
    person: str
    project: str | None
    home: str | None
    drafts: Drafts = field(default_factory=Drafts)

    @property
    def client(self) -> TandemClient:
        """The broker's client as it is now."""
        return self.line.client

    async def claim(self, reading: Reading) -> None:
        """Claim a review, or renew the person's own claim.

        Raises:
            TandemError: The broker refuses, or none answers; so for everything below.
        """
        await self.client.claim_review(reviewer_id=self.person, review_id=reading.status.review_id)

    async def renew(self, reading: Reading) -> None:
        """Extend the person's lease."""
        status = reading.status
        await self.client.renew_claim(status.review_id, claim_generation=status.claim_generation)

    async def release(self, reading: Reading) -> None:
        """Give the claim back.

        Raises:
            NotClaimant: It is not the person's.
            TandemError: The broker refuses, or none answers.
        """
        status = reading.status
        if not reading.is_held_by(self.person):
            # The broker takes whoever knows the generation for its holder, and the screen knows everybody's.
            holder = f"{status.reviewer_id} holds it" if reading.is_held else "nobody holds it"
            raise NotClaimant(f"There is no claim of yours to release: {holder}.")
        await self.client.release_claim(status.review_id, claim_generation=status.claim_generation)

    async def decide(
        self, reading: Reading, round_number: int, verdict: str, reason: str, remarks: Mapping[Spot, str], key: str
    ) -> None:
        """Give a verdict on a round, on a claim that is made first if the person has none.

        Raises:
            StaleRound: It is no longer the current one.
            TandemError: The broker refuses, or none answers.
        """
        status = reading.status
        generation = status.claim_generation
        if status.round != round_number:
            # Before the claim: one that is made only to be refused would keep others away.
            raise StaleRound(f"Round {status.round} is the current one; the verdict is on round {round_number}.")
        if not reading.is_held_by(self.person):
            claim = await self.client.claim_review(reviewer_id=self.person, review_id=status.review_id)
            generation = claim.claim_generation or 0
        comments = [LineComment(file=spot.path, line=spot.line, body=body) for spot, body in remarks.items()]
        await self.client.submit_verdict(
            status.review_id,
            verdict=cast("Verdict", verdict),
            reason=reason or None,
            comments=comments or None,
            claim_generation=generation,
            reviewer_id=self.person,
            round=round_number,
            idempotency_key=key,
        )
        self.drafts.sent(status.review_id, round_number)

    async def say(self, reading: Reading, side: str, body: str, resolves: str | None, key: str) -> None:
        """Say something for one of the two sides; for the reviewer of what nobody has claimed, on a new claim."""
        status = reading.status
        is_reviewer, generation = side == "reviewer", None
        if is_reviewer and status.status == "pending":
            claim = await self.client.claim_review(reviewer_id=self.person, review_id=status.review_id)
            generation = claim.claim_generation
        elif is_reviewer and reading.is_held_by(self.person):
            generation = status.claim_generation
        await self.client.add_message(
            status.review_id,
            sender_role=cast("Side", side),
            body=body,
            resolves=resolves,
            reviewer_id=self.person if is_reviewer else None,
            claim_generation=generation,
            idempotency_key=key,
        )

    async def answer_counter_patch(self, reading: Reading, answer: str, patch_id: str, reason: str, key: str) -> None:
        """Accept a counter-patch, or decline it, for the proposer."""
        method = self.client.accept_counter_patch if answer == "accept" else self.client.reject_counter_patch
        review_id = reading.status.review_id
        await method(review_id, counter_patch_id=patch_id, reason=reason or None, idempotency_key=key)

    async def close_review(self, reading: Reading, reason: str, key: str) -> None:
        """End a review."""
        await self.client.close_review(reading.status.review_id, reason=reason or None, idempotency_key=key)

    async def retry(self, reading: Reading) -> None:
        """Put a review back into the queue now."""
        await self.client.retry_review(reading.status.review_id)
