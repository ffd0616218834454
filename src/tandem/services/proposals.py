"""Putting changes up for review: new ones, revisions and resubmissions."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import wraps
from typing import Any, Concatenate, ParamSpec, TypeVar

from tandem.domain.answers import ReviewCreated
from tandem.domain.claims import freed
from tandem.domain.discussion import afresh, next_round
from tandem.domain.events import Kind
from tandem.domain.patches import Round
from tandem.domain.reviews import PRIORITIES, Action, Category, Review, State, check_project, infer_priority, step
from tandem.errors import InvalidInput, InvalidTransition
from tandem.services import attention, contents, counter_patches
from tandem.services.contents import Submitted, Understood
from tandem.services.context import Call, Services, transact
from tandem.services.projects import ProjectMoved
from tandem.store import cycles, ledger, reviews
from tandem.store.base import Unit

T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class NewProposal:
    """A proposal as it was sent, with its identity."""

    intent: str
    agent_type: str
    agent_role: str
    content: Submitted
    phase: str | None = None
    plan: str | None = None
    task: str | None = None
    category: Category | None = None
    metadata: dict[str, Any] = field(default_factory=dict[str, Any])
    proposer_id: str | None = None
    parent_id: str | None = None
    author: str | None = None
    """Who wrote it, where that is not the proposer."""


def _again_where_it_moved(
    use_case: Callable[Concatenate[Services, P], Awaitable[T]],
) -> Callable[Concatenate[Services, P], Awaitable[T]]:
    """Validate once more when the project was registered, moved or removed between validation and transaction."""

    @wraps(use_case)
    async def run(services: Services, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return await use_case(services, *args, **kwargs)
        except ProjectMoved:
            await services.projects.load()
            return await use_case(services, *args, **kwargs)

    return run


@_again_where_it_moved
async def create(services: Services, call: Call, project: str, proposal: NewProposal) -> ReviewCreated:
    """Put up a new review.

    Raises:
        NotFound: The parent does not exist.
        InvalidInput: The parent is another project's.
    """
    contents.check_text(services, "intent", proposal.intent)
    metadata = contents.check_metadata(services, proposal.metadata)
    content = await contents.understand(services, project, proposal.content)
    review_id = services.clock.new_id("rv")

    def work(unit: Unit) -> ReviewCreated:
        if proposal.parent_id is not None:
            _check_parent(unit, proposal.parent_id, project)
        written = open_in(unit, services, call, review_id, project, proposal, content, metadata)
        return _created(services, written, content)

    return await transact(services, call, work)


def open_in(
    unit: Unit,
    services: Services,
    call: Call,
    review_id: str,
    project: str,
    proposal: NewProposal,
    content: Understood,
    metadata: str,
) -> Review:
    """Write a new review within a unit of work."""
    review = _new_review(review_id, project, proposal, content, call, services.clock.now_us())
    author = proposal.author or review.proposer_id
    first = _round(unit, review, proposal, content, metadata, origin="proposal", author=author)
    written = ledger.open_review(
        unit, review, actor=review.proposer_id, kind=Kind.REVIEW_CREATED, data=_facts(review, content), first=first
    )
    _check_registration(unit, services, project, content)
    return written


async def revise(
    services: Services, call: Call, review_id: str, project: str | None, proposal: NewProposal
) -> ReviewCreated:
    """Put up a new round of a review.

    Raises:
        NotFound: There is no such review (in that project).
        InvalidTransition: The review takes no revision any more.
        InvalidInput: The category is another one, or a parent was named.
    """
    if proposal.parent_id is not None:
        raise InvalidInput("A revision keeps its review; send review_id or parent_id, not both.", field="parent_id")
    contents.check_text(services, "intent", proposal.intent)
    metadata = contents.check_metadata(services, proposal.metadata)
    known = await services.store.read(lambda unit: _revisable(unit, review_id))
    check_project(known, project)
    if proposal.category not in (None, known.category):
        raise InvalidInput(f"A review keeps its category: {known.category}.", field="category", expected=known.category)
    step(Action.REVISE, known)
    content = await contents.understand(services, known.project, proposal.content)

    def work(unit: Unit) -> ReviewCreated:
        before = reviews.get(unit, review_id, lock=True)
        written = revise_in(unit, services, call, before, proposal, content, metadata)
        return _created(services, written, content)

    return await transact(services, call, work)


def revise_in(
    unit: Unit,
    services: Services,
    call: Call,
    before: Review,
    proposal: NewProposal,
    content: Understood,
    metadata: str,
) -> Review:
    """Write a new round of a locked review within a unit of work.

    Raises:
        InvalidTransition: The review takes no revision any more.
    """
    now = services.clock.now_us()
    actor = proposal.proposer_id or call.agent or before.proposer_id
    found = step(Action.REVISE, before)
    looked_at = attention.clear_attention(unit, before, actor, now)
    current = counter_patches.supersede(unit, looked_at, actor=actor, now_us=now, reason="revised")
    identified = freed(current, found, now)._replace(
        intent=proposal.intent,
        agent_type=proposal.agent_type,
        agent_role=proposal.agent_role,
        phase=proposal.phase,
        plan=proposal.plan,
        task=proposal.task,
    )
    facts = content.facts
    after = next_round(identified, digest=facts.digest, validated=facts.validated, now_us=now)
    new_round = _round(unit, after, proposal, content, metadata, origin="revision", author=proposal.author or actor)
    written = ledger.change_review(
        unit,
        current,
        after,
        actor=actor,
        kind=Kind.REVIEW_REVISED,
        data=_facts(after, content),
        rows=ledger.Rows(round=new_round),
    )
    _check_registration(unit, services, before.project, content)
    return written


def _check_registration(unit: Unit, services: Services, project: str, content: Understood) -> None:
    """Last, as by then nobody else can register anything before this is committed."""
    if content.registration is not None:
        services.projects.check(unit, project, content.registration)


def _revisable(unit: Unit, review_id: str) -> Review:
    review = reviews.get(unit, review_id)
    handoff = cycles.find_by_review(unit, review_id) if review.category == "handoff" else None
    if handoff is not None:
        raise InvalidTransition(
            f"This review is the hand-off of the cycle {handoff.cycle_id}; {handoff.producer} revises it with"
            " handoff_write.",
            review_id=review_id,
            cycle_id=handoff.cycle_id,
            status=review.state,
        )
    return review


def _check_parent(unit: Unit, parent_id: str, project: str) -> None:
    parent = reviews.get(unit, parent_id)
    if parent.project != project:
        raise InvalidInput(
            "A resubmission belongs to its parent's project.",
            field="parent_id",
            expected=parent.project,
            actual=project,
        )


def _new_review(
    review_id: str, project: str, proposal: NewProposal, content: Understood, call: Call, now: int
) -> Review:
    category = proposal.category or ("plan_review" if content.diff is None else "code_change")
    priority = infer_priority(
        agent_type=proposal.agent_type,
        agent_role=proposal.agent_role,
        category=category,
        phase=proposal.phase,
        task=proposal.task,
    )
    return afresh(
        Review(
            id=review_id,
            project=project,
            category=category,
            priority=PRIORITIES.index(priority),
            proposer_id=proposal.proposer_id or call.agent or proposal.agent_type,
            parent_id=proposal.parent_id,
            created_at=now,
            intent=proposal.intent,
            agent_type=proposal.agent_type,
            agent_role=proposal.agent_role,
            phase=proposal.phase,
            plan=proposal.plan,
            task=proposal.task,
            state=State.PENDING.value,
            outcome=None,
            round=1,
            digest=content.facts.digest,
            validated=int(content.facts.validated),
            claim_generation=0,
            reviewer_id=None,
            claim_round=None,
            claimed_at=None,
            lease_expires_at=None,
            speaker=None,
            speaker_kind=None,
            turn=None,
            attention=None,
            not_before=None,
            verdict=None,
            verdict_reason=None,
            verdict_id=None,
            verdict_by=None,
            approved_round=None,
            counter_patch_id=None,
            counter_patch_status=None,
            updated_at=now,
            first_claimed_at=None,
            decided_at=None,
            closed_at=None,
            event_seq=0,
            event_hash="",
        )
    )


def _round(
    unit: Unit, review: Review, proposal: NewProposal, content: Understood, metadata: str, *, origin: str, author: str
) -> Round:
    return Round(
        review_id=review.id,
        round=review.round,
        origin=origin,
        author=author,
        intent=proposal.intent,
        agent_type=proposal.agent_type,
        agent_role=proposal.agent_role,
        phase=proposal.phase,
        plan=proposal.plan,
        task=proposal.task,
        description_id=ledger.keep_content(unit, content.description),
        diff_id=ledger.keep_content(unit, content.diff),
        base=content.base,
        base_commit=content.facts.base_commit,
        path=content.path,
        metadata=metadata,
        digest=content.facts.digest,
        validated=int(content.facts.validated),
        affected_files=contents.files_json(content.facts),
        changes=contents.changes_json(content.facts),
        created_at=review.updated_at,
    )


def _facts(review: Review, content: Understood) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "round": review.round,
        "intent": review.intent,
        "category": review.category,
        "priority": PRIORITIES[review.priority],
        "digest": review.digest,
        "validated": bool(review.validated),
        "files": len(content.facts.affected_files),
        "claim_generation": review.claim_generation,
    }
    if review.parent_id:
        facts["parent_id"] = review.parent_id
    return facts


def _created(services: Services, review: Review, content: Understood) -> ReviewCreated:
    return ReviewCreated(
        review_id=review.id,
        project=review.project,
        status=review.state,
        round=review.round,
        digest=review.digest,
        validated=bool(review.validated),
        priority=PRIORITIES[review.priority],
        category=review.category,
        affected_files=content.facts.affected_files,
        cursor=services.waits.cursor(review.event_seq),
        parent_id=review.parent_id,
    )
