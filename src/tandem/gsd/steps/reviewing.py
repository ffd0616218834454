"""Proposes a content, waits for its verdict, and tells the outcome."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tandem.client import TandemClient
from tandem.errors import AlreadyLanded, InvalidInput, NoCounterPatch, NotFound
from tandem.gate.contract import GateDecision
from tandem.git.repository import Repository
from tandem.gsd.rollback.repository import Checkout
from tandem.gsd.steps.outcomes import (
    NextMove,
    Patch,
    StepRemark,
    StepResult,
    StepWord,
    advice,
    approved,
    awaits_checks,
    decide,
    ended,
    is_same,
    is_superseded,
    of_review,
    word_of,
)
from tandem.gsd.steps.situation import Pointers, StepPointer, seconds_until
from tandem.gsd.steps.subjects import Subject
from tandem.gsd.steps.waves import is_committed
from tandem.present.findings import come_from
from tandem.reviews.answers import CounterPatchView, DiscussionEntry, Proposal, ReviewStatus
from tandem.rulings import person

_LONGEST_PATCH_CHARACTERS = 20_000
"""Of a counter-patch that is printed; a longer one is read by its own command."""
_MOST_REMARKS = 200
_ASKS = frozenset({"message", "question"})
_MOST_SWEPT = 20
"""Approved reviews that one step looks at to close them."""
EXEMPT = "exempt"


@dataclass(frozen=True, slots=True)
class ReviewSubmitter:
    """Proposes contents for review, and follows their reviews.

    Attributes:
        client: The broker.
        project: The registered project.
        repository: This working tree.
        checkout: The same, for git.
        pointers: The earlier proposals.
        agent_type: Who does the step.
        say: Tells a person what happens meanwhile.
    """

    client: TandemClient
    project: str
    repository: Repository
    checkout: Checkout
    pointers: Pointers
    agent_type: str
    say: Callable[[str], None]

    async def submit(self, subject: Subject) -> StepResult | tuple[Subject, StepPointer]:
        """Propose a content unless it is proposed or approved already; the outcome where that is known at once.

        Raises:
            TandemError: The broker refuses, or cannot be reached.
        """
        known, subject = await self._passed(subject)
        if isinstance(known, StepResult):
            return known
        return subject, known or await self._put_up(subject)

    async def _passed(self, subject: Subject) -> tuple[StepResult | StepPointer | None, Subject]:
        """The outcome if nothing is left to review; and the content without the part that needs no review of its own.

        In place of an outcome there may be the review whose checks have not passed yet.
        """
        pointer = self.pointers.find(subject.key)
        own = None if pointer is None else pointer.review_id
        decision = await self._check(subject)
        is_approved = decision.allowed or decision.code is not None
        if is_approved and await self._claims_alike(subject, decision):
            if decision.allowed:
                return await self._approved(subject, decision), subject
            return _held(subject, decision), subject
        if subject.path is None:
            # Those of this review's own earlier round would be ended by a revision without them.
            spare = {
                path.path
                for path in decision.paths
                if path.allowed and (path.kind == EXEMPT or path.review_id not in {None, own})
            }
            subject = subject.without(self.repository, spare)
        return None, subject

    async def _put_up(self, subject: Subject) -> StepPointer:
        """The pointer to the review of this content: a new one, a new round, or the one that is there."""
        pointer = self.pointers.find(subject.key)
        status = await self._status(pointer)
        was_committed = pointer is not None and is_committed(self.repository, self.checkout, pointer)
        move = decide(subject, pointer, status, was_committed=was_committed)
        if pointer is not None and move is NextMove.KEEP:
            return pointer
        stated = {"agent_type": self.agent_type, "agent_role": "proposer"}
        request = person.marked(stated | subject.content(), str(self.repository.root))
        if pointer is None or status is None or move is NextMove.NEW:
            request["project"] = self.project
        elif move is NextMove.REVISE:
            request["review_id"] = pointer.review_id
        else:
            request |= {"project": self.project, "parent_id": pointer.review_id}
        request["idempotency_key"] = _key(request, pointer, status)
        try:
            created = await self.client.create_review(**request)
        except AlreadyLanded:
            # Committed out of this working tree's sight: the next change is a review of its own.
            del request["review_id"]
            request |= {"project": self.project, "idempotency_key": _key(request, pointer, status)}
            created = await self.client.create_review(**request)
        made = replace(
            _pointer(subject, created.review_id, created.round),
            digest=created.digest or subject.digest,
            is_optimistic=subject.is_optimistic,
        )
        self.pointers.put(subject.key, made)
        self.say(f"{created.review_id} is up, round {created.round}")
        if pointer is not None and move is NextMove.RESUBMIT:
            # It is over: this one goes on instead.
            await self.client.close_review(pointer.review_id, reason=f"followed by {created.review_id}")
        return made

    async def follow(self, subject: Subject, pointer: StepPointer, deadline: float) -> StepResult:
        """Wait until there is something to do about a review, and say what."""
        status = await self.client.wait_for_turn(pointer.review_id, timeout_s=seconds_until(deadline))
        while awaits_checks(status) and (left := seconds_until(deadline)) and await self._has_unfinished(status):
            status = await self.client.wait_for_turn(pointer.review_id, status.cursor, left)
        return await self._told(subject, pointer, status)

    async def _has_unfinished(self, status: ReviewStatus) -> bool:
        """Whether a check is still to end; of one that passed on what does not count, nothing comes by waiting."""
        return (await self.client.list_checks(review_id=status.review_id)).outcome == "pending"

    async def _status(self, pointer: StepPointer | None) -> ReviewStatus | None:
        """How the review of a pointer stands; None if there is none, or it is another project's."""
        if pointer is None:
            return None
        try:
            status = await self.client.get_review_status(pointer.review_id)
        except NotFound:
            return None
        return status if status.project == self.project else None

    async def _told(self, subject: Subject, pointer: StepPointer, status: ReviewStatus) -> StepResult:
        """The outcome that a review's status is for this content."""
        word = word_of(status)
        superseded = is_superseded(subject, pointer, status)
        patch = await self._patch(status)
        if word is StepWord.APPROVED:
            await self._note_approval(subject, status)
        is_asked = status.next_action == "answer_message"
        has_remarks = word in {StepWord.CHANGES, StepWord.REJECTED, StepWord.ESCALATE}
        said = await self._said(status) if is_asked or has_remarks else ()
        asked = [entry.body for entry in said if entry.kind in _ASKS and entry.sender_role == "reviewer"]
        found = ((one, f"({come_from(one)}) " if one.found_in else "") for one in said if one.kind == "finding")
        remarks = (StepRemark(one.file, one.line, f"{where}{one.body or ''}") for one, where in found)
        return ended(
            subject,
            word,
            **of_review(status),
            question=asked[-1] if is_asked and asked else None,
            remarks=tuple(remarks) if has_remarks else (),
            counter_patch=patch,
            next=advice(word, subject, status, patch, is_superseded=superseded),
        )

    async def accept(self, subject: Subject) -> StepPointer:
        """Accept the pending counter-patch, and bring the files to it unless they are still to be written.

        Returns:
            The pointer to the round that it became.

        Raises:
            NoCounterPatch: There is none.
            InvalidInput: The content here is not the one that the counter-patch is for.
        """
        pointer = self.pointers.find(subject.key)
        status = await self._status(pointer)
        if pointer is None or status is None:
            raise NoCounterPatch("Nothing was submitted for this; run the command without --accept.")
        proposal = await self.client.get_proposal(status.review_id)
        patch = _pending(proposal)
        if not is_same(subject, pointer, status):
            raise InvalidInput(
                "The content has changed since it was proposed, so that the counter-patch does not fit; nothing was"
                f" done. Undo that change, or propose it: {subject.command}",
                field="worktree",
            )
        decided = await self.client.accept_counter_patch(status.review_id, counter_patch_id=patch.id)
        self.say(f"{patch.id} is accepted: it is round {decided.round} of {status.review_id}")
        if subject.is_draft:
            return pointer
        try:
            written = _bring(self.repository, proposal, patch)
        except InvalidInput as refusal:
            raise InvalidInput(
                f"The counter-patch was accepted, and the working tree could not be brought to it. {refusal.message} "
                f"Or, once it is approved: tandem apply {status.review_id}",
                **refusal.details,
            ) from refusal
        for path in written:
            self.say(f"changed {path}")
        made = replace(pointer, round=decided.round, digest=decided.digest or pointer.digest, approved=None)
        if not subject.is_committed or subject.path is not None:
            self.pointers.put(subject.key, made)
            return made
        # The commits are as before: the agreed content is in the working tree only.
        return pointer

    async def sweep(self) -> None:
        """Close the reviews that were approved and whose content is committed by now."""
        for key, pointer in list(self.pointers.all().items())[-_MOST_SWEPT:]:
            if pointer.approved and is_committed(self.repository, self.checkout, pointer):
                status = await self._status(pointer)
                # A person may have closed it, made a new round of it or withdrawn the approval; then it is theirs.
                if status is not None and status.status == "approved":
                    await self.client.close_review(pointer.review_id, reason="approved and committed")
                self.pointers.forget(key, pointer.review_id)

    async def _check(self, subject: Subject) -> GateDecision:
        changes: Any = [change._asdict() for change in subject.changes]
        # Only on top of a commit may one be reverted without a review.
        head = subject.base if subject.step == "task" else None
        return await self.client.check_gate(project=self.project, changes=changes, head=head)

    async def _claims_alike(self, subject: Subject, decision: GateDecision) -> bool:
        """Whether the approved content had the same claim, so that a `passed` does not stand for a `failed`."""
        if subject.claim is None or not decision.review_ids:
            return True
        found = await self.client.get_proposal(decision.review_ids[0])
        return found.metadata.get("result") in {None, subject.claim}

    async def _approved(self, subject: Subject, decision: GateDecision) -> StepResult:
        ids = decision.review_ids
        if not ids:
            is_exempt = all(path.kind == EXEMPT for path in decision.paths)
            word = StepWord.NOTHING if is_exempt else StepWord.GO
            return ended(subject, word, project=self.project, reason=decision.reason, next=("Go on.",))
        status = await self.client.get_review_status(ids[0])
        await self._note_approval(subject, status)
        return ended(
            subject,
            StepWord.APPROVED,
            **(of_review(status) | {"review_ids": ids, "reason": decision.reason}),
            next=approved(subject, None if status.status == "closed" else ids[0], is_superseded=False),
        )

    async def _note_approval(self, subject: Subject, status: ReviewStatus) -> None:
        """Close an approved and committed review; remember an approved one, to close it once it is committed."""
        pointer = self.pointers.find(subject.key)
        if pointer is not None and pointer.review_id != status.review_id:
            # The earlier proposal is settled by another review; the next one starts from the beginning.
            self.pointers.forget(subject.key, pointer.review_id)
        if subject.is_committed and not (pointer and is_superseded(subject, pointer, status)):
            if status.status != "closed":
                await self.client.close_review(status.review_id, reason="approved and committed")
            self.pointers.forget(subject.key, status.review_id)
        else:
            self.pointers.mark_approved(subject.key, status.review_id, status.digest)

    async def _patch(self, status: ReviewStatus) -> Patch | None:
        if status.counter_patch_status != "pending" or status.status in {"approved", "rejected", "closed"}:
            return None
        found = (await self.client.get_proposal(status.review_id)).counter_patch
        if found is None:
            return None
        content = found.diff if found.diff is not None else found.description
        is_short = content is not None and len(content) <= _LONGEST_PATCH_CHARACTERS
        files = tuple(file.path for file in found.affected_files)
        return Patch(found.id, found.author, files, content if is_short else None)

    async def _said(self, status: ReviewStatus) -> tuple[DiscussionEntry, ...]:
        """The discussion of the newest round."""
        found = await self.client.get_discussion(status.review_id, round=status.round, limit=_MOST_REMARKS)
        return found.entries


def _held(subject: Subject, decision: GateDecision) -> StepPointer | None:
    """The review that has approved a content whose checks are still to pass."""
    for path in decision.paths:
        if not path.allowed and path.review_id is not None and path.round is not None:
            return _pointer(subject, path.review_id, path.round)
    return None


def _pointer(subject: Subject, review_id: str, number: int) -> StepPointer:
    """The pointer to a round that is of a content."""
    return StepPointer(review_id, number, subject.digest, subject.base, subject.claim, subject.plan_key)


def _key(request: dict[str, Any], pointer: StepPointer | None, status: ReviewStatus | None) -> str:
    """The same for two runs that put the same content up after the same review, so that they make one."""
    before = (pointer.review_id, pointer.round) if pointer else None
    stood = (status.status, status.round) if status else None
    return hashlib.sha256(json.dumps([request, before, stood], sort_keys=True).encode()).hexdigest()


def _pending(proposal: Proposal) -> CounterPatchView:
    """The counter-patch that can be accepted.

    Raises:
        NoCounterPatch: None waits for a decision.
    """
    found = proposal.counter_patch
    if found is None or found.status != "pending":
        raise NoCounterPatch(
            f"{proposal.review_id} has no counter-patch to accept; run the command again without --accept.",
            review_id=proposal.review_id,
        )
    return found


def _bring(repository: Repository, proposal: Proposal, patch: CounterPatchView) -> tuple[str, ...]:
    """Bring the files that a round touches from its content to the counter-patch's, or change nothing.

    Returns:
        The files that were written or deleted.

    Raises:
        InvalidInput: A file is neither as the round has it nor as the counter-patch does.
    """
    if proposal.path is not None:
        before, after = proposal.description, patch.description
        update = repository.text_to_worktree(proposal.path, after or "", before=before)
    else:
        base = proposal.base_commit or proposal.base
        update = repository.apply_to_worktree(patch.diff or "", base, before=proposal.diff)
    return (*update.written, *update.deleted)
