"""Proposing changes: new reviews, revisions and resubmissions."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any

import orjson

from tandem.contract.caller import Caller
from tandem.contract.request import WORK
from tandem.errors import InvalidInput, TandemError
from tandem.git.rounds import RoundPatch
from tandem.present.words import PRIORITIES
from tandem.projects.registry import ProjectMoved
from tandem.reviews import again, carried, checks, contents, counter_patches, grounds, seats, verdicts, views, writing
from tandem.reviews import queries as reviews
from tandem.reviews.answers import ReviewCreated
from tandem.reviews.claim_rules import as_objected, check_concerned, end_claim
from tandem.reviews.claims import clear_failures, hear_first
from tandem.reviews.context import Difference, Services
from tandem.reviews.requests import CreateReview
from tandem.reviews.rounds import Round, next_round, reset_turn
from tandem.reviews.rules import ASKED, Action, Category, Priority, Review, State, step
from tandem.rulings.person import family
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind


async def create_review(services: Services, caller: Caller, request: CreateReview) -> ReviewCreated:
    """Write a new review, or a new round of one.

    Raises:
        NotFound: There is no such review (in that project), or no such parent.
        Forbidden: The review is another principal's.
        InvalidTransition: The review takes no revision any more.
        AlreadyLanded: What the review approves is committed already.
        InvalidInput: The fields do not go together, or the parent is another project's.
        InvalidDiff: The diff does not apply, or leaves the repository.
        TooLarge: Something is over a limit.
    """
    contents.check_text(services, "intent", request.intent)
    contents.check_metadata(services, request.metadata)
    request = contents.as_code(request)
    write = partial(_create if request.review_id is None else _revise, services, caller, request)
    try:
        return await again.knowing(services, write)
    except ProjectMoved:
        # Registered, moved or removed between validation and transaction: validate once more.
        await services.projects.load()
        return await again.knowing(services, write)


def _require_content(category: str | None, request: CreateReview) -> None:
    """Refuse a change of code that is only told in words: an approval of it would open no gate.

    Raises:
        InvalidInput: It is.
    """
    if category == "code_change" and request.diff is None and request.path is None:
        raise InvalidInput(
            "A code_change needs its diff: send the output of git diff as diff (tandem submit does), or"
            " category=plan_review for a plan in words.",
            field="diff",
        )


async def _create(services: Services, caller: Caller, request: CreateReview) -> ReviewCreated:
    project = services.projects.require(request.project, caller.project)
    _require_content(request.category, request)
    content = await contents.validate(services, project, request)
    request = contents.as_change(request, content)
    is_text = request.diff is None
    content = await carried.with_places(services, project, request.parent_id, content, is_text=is_text)
    review_id = services.clock.new_id("rv")

    def work(unit: Unit) -> ReviewCreated:
        again.ensure_known(unit, services, project)
        if request.parent_id is not None:
            _check_parent(unit, request.parent_id, project)
        if request.reuse and (known := _find_same(unit, services, caller, project, request, content)) is not None:
            return _created(unit, services, known, content, existed=True)
        written = open_in(unit, services, caller, review_id, project, request, content)
        return _created(unit, services, written, content)

    return await transact(
        services, caller, work, works_on=(review_id,) if content.digest is None else (review_id, content.digest)
    )


async def _revise(services: Services, caller: Caller, request: CreateReview) -> ReviewCreated:
    review_id = request.review_id or ""
    if request.parent_id is not None:
        raise InvalidInput("A revision keeps its review; send review_id or parent_id, not both.", field="parent_id")
    known = await services.store.read(lambda unit: _revisable(unit, services, caller, review_id, request.project))
    if request.category not in (None, known.category):
        raise InvalidInput(f"A review keeps its category: {known.category}.", field="category", expected=known.category)
    step(Action.REVISE, as_objected(known, services.clock.now_us()))
    _require_content(known.category, request)
    await verdicts.refuse_if_landed(services, known)
    content = await contents.validate(services, known.project, request)
    request = contents.as_change(request, content)
    content = await carried.with_returned(services, known, content, is_text=request.diff is None)
    content = await _with_rebase(services, known, content)

    def work(unit: Unit) -> ReviewCreated:
        before = reviews.get(unit, review_id, lock=True)
        check_concerned(before, caller)
        if request.reuse and _is_round(unit, services, before, request, content):
            return _created(unit, services, before, content, existed=True)
        written = revise_in(unit, services, caller, before, request, content)
        return _created(unit, services, written, content)

    return await transact(services, caller, work)


async def _with_rebase(services: Services, review: Review, content: contents.Content) -> contents.Content:
    """The content of a new round, which says so if it is a rebase to which the approvals of the current one carry over.

    What the repository cannot tell is none.
    """
    if content.base_commit is None or content.digest == review.digest or not seats.may_carry(review, content):
        return content
    found = await services.store.read(lambda unit: reviews.get_content(unit, review.id, number=review.round))
    base = found.round.base_commit
    repository = await services.projects.repository(review.project, base, content.base_commit)
    if repository is None or base is None or found.diff is None:
        return content
    new = RoundPatch(content.base_commit, content.content, content.changes)

    def work() -> bool:
        with suppress(TandemError):
            return repository.is_rebase(RoundPatch(base, found.diff, found.round.entries()), new)
        return False

    async with services.validations:
        is_rebase = await asyncio.to_thread(work)
    return replace(content, rebases=review.round if is_rebase else None)


def open_in(
    unit: Unit,
    services: Services,
    caller: Caller,
    review_id: str,
    project: str,
    request: CreateReview,
    content: contents.Content,
    author: str | None = None,
) -> Review:
    """Write a new review within a unit of work; `author` wrote its content, where that is not the proposer."""
    review = _new_review(review_id, project, request, content, caller, services.clock.now_us())
    found = carried.going_on(unit, project, review.parent_id, content)
    first = _round(unit, review, request, content, origin="proposal", author=author or review.proposer_id)
    begun = seats.begun(review, first, content)
    review = carried.waiting(unit, services, begun, found, begun.parent_id)
    written = writing.change_review(
        unit,
        None,
        review,
        actor=review.proposer_id,
        kind=EventKind.REVIEW_CREATED,
        data=_facts(review, content),
        rows=writing.Rows(round=first, findings=carried.copies(services, review, content, found)),
    )
    _check_registration(unit, services, project, content)
    return checks.begin(unit, services, written, content)


def revise_in(
    unit: Unit,
    services: Services,
    caller: Caller,
    before: Review,
    request: CreateReview,
    content: contents.Content,
    author: str | None = None,
) -> Review:
    """Write a new round of a locked review within a unit of work; `author` wrote it, where that is not the proposer.

    Raises:
        InvalidTransition: The review takes no revision any more.
    """
    now = services.clock.now_us()
    actor = request.proposer_id or caller.agent or _reviser(request, before)
    found = step(Action.REVISE, as_objected(before, now))
    looked_at = clear_failures(unit, before, actor, now)
    current = counter_patches.supersede(unit, looked_at, actor=actor, now_us=now, reason="revised")
    identified = end_claim(as_objected(current, now), found, now)._replace(**_stated(request))
    after = next_round(identified, digest=content.digest, validated=content.validated, now_us=now)
    new_round = _round(unit, after, request, content, origin="revision", author=author or actor)
    if before.is_unanswered and after.digest is not None and after.digest == before.digest:
        # The same content again answers nothing.
        after = after._replace(speaker="reviewer", speaker_kind=ASKED)
    after = seats.begun(after, new_round, content, before)
    after, findings = carried.of_round(unit, services, before, after, content)
    is_carried = content.rebases == before.round
    written = writing.change_review(
        unit,
        current,
        after,
        actor=actor,
        kind=EventKind.REVIEW_REVISED,
        data=_facts(after, content) | ({"carried_over": "rebase"} if is_carried and after.seats else {}),
        rows=writing.Rows(round=new_round, findings=findings),
    )
    _check_registration(unit, services, before.project, content)
    written = hear_first(unit, before, written, actor, now)
    return seats.go_on(unit, services, checks.begin(unit, services, written, content), now)


def _check_registration(unit: Unit, services: Services, project: str, content: contents.Content) -> None:
    """Last, as by then no one else can register anything before this is committed."""
    if content.registration is not None:
        services.projects.check(unit, project, content.registration)


def _reviser(request: CreateReview, before: Review) -> str:
    """Who revises and says no name: the proposer, unless the agent is one of another client."""
    client = family(request.agent_type)
    is_other = client not in (None, family(before.agent_type, before.proposer_id))
    return request.agent_type if is_other else before.proposer_id


def _revisable(unit: Unit, services: Services, caller: Caller, review_id: str, project: str | None) -> Review:
    review = reviews.get(unit, review_id, project)
    check_concerned(review, caller)
    for participant in services.participants:
        participant.check_revision(unit, review)
    return review


def _find_same(
    unit: Unit, services: Services, caller: Caller, project: str, request: CreateReview, content: contents.Content
) -> Review | None:
    """The caller's open review of this content, unless its approval no longer counts; None if it was not validated."""
    if content.digest is None or request.parent_id is not None:
        return None
    # Else two that come at once would both find none.
    unit.lock(f"review {project} {content.digest}")
    found = reviews.find_same(unit, _new_review("", project, request, content, caller, services.clock.now_us()))
    return found if found is not None and _counts(unit, services, found, content) else None


def _counts(unit: Unit, services: Services, review: Review, content: contents.Content) -> bool:
    """Whether a review of this content is undecided, or its verdict holds: reverted content needs another."""
    if review.state != State.APPROVED or content.digest is None:
        return True
    what = Difference(content.digest, content.changes, ())
    return any(one.approves(unit, services, review.project, what) for one in services.participants)


def _is_round(unit: Unit, services: Services, review: Review, request: CreateReview, content: contents.Content) -> bool:
    """Whether a revision says nothing but what the current round says, on the same base."""
    current = reviews.get_round(unit, review.id, review.round)
    said = {**_stated(request), "digest": content.digest, "base_commit": content.base_commit, "path": request.path}
    is_same = all(getattr(current, name) == value for name, value in said.items())
    is_same = is_same and reviews.find_content(unit, current.description_id) == request.description
    return is_same and content.validated and review.attention is None and _counts(unit, services, review, content)


def _check_parent(unit: Unit, parent_id: str, project: str) -> None:
    parent = reviews.get(unit, parent_id)
    if parent.project != project:
        raise InvalidInput(
            "A resubmission belongs to its parent's project.",
            field="parent_id",
            expected=parent.project,
            actual=project,
        )


def _stated(request: CreateReview) -> dict[str, Any]:
    """What a proposal says of itself, which review and round keep under the same names."""
    return {name: getattr(request, name) for name in ("intent", "agent_type", "agent_role", *WORK)}


def _priority(request: CreateReview, category: Category) -> Priority:
    """How urgent a review is, from who proposes it and for what: planners first, verification last."""
    if "planner" in f"{request.agent_type}\n{request.agent_role}".lower():
        return "critical"
    return "low" if "verif" in f"{category}\n{request.phase}\n{request.task}".lower() else "normal"


def _new_review(
    review_id: str, project: str, request: CreateReview, content: contents.Content, caller: Caller, now: int
) -> Review:
    category = request.category or ("plan_review" if request.diff is None else "code_change")
    return reset_turn(
        Review(
            id=review_id,
            project=project,
            category=category,
            priority=PRIORITIES.index(_priority(request, category)),
            proposer_id=request.proposer_id or caller.agent or request.agent_type,
            parent_id=request.parent_id,
            created_at=now,
            **_stated(request),
            digest=content.digest,
            validated=int(content.validated),
            updated_at=now,
        )
    )


def _round(
    unit: Unit, review: Review, request: CreateReview, content: contents.Content, *, origin: str, author: str
) -> Round:
    return Round(
        review_id=review.id,
        round=review.round,
        origin=origin,
        author=author,
        **_stated(request),
        description_id=ledger.keep_content(unit, request.description),
        diff_id=None if request.diff is None else ledger.keep_content(unit, content.content),
        base=None if request.diff is None else request.base or grounds.HEAD,
        path=request.path,
        metadata=orjson.dumps(request.metadata or {}).decode(),
        created_at=review.updated_at,
        base_files_id=ledger.keep_content(unit, content.base_files),
        **contents.columns(content),
    )


def _facts(review: Review, content: contents.Content) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "round": review.round,
        "intent": review.intent,
        "category": review.category,
        "priority": PRIORITIES[review.priority],
        "digest": review.digest,
        "validated": bool(review.validated),
        "files": len(content.affected_files),
        "claim_generation": review.claim_generation,
    }
    stated = {name: getattr(review, name) for name in (*WORK, "parent_id")}
    return facts | {name: value for name, value in stated.items() if value}


def _created(
    unit: Unit, services: Services, review: Review, content: contents.Content, *, existed: bool = False
) -> ReviewCreated:
    return views.answer(
        ReviewCreated,
        services.waits,
        unit,
        review,
        validated=bool(review.validated),
        priority=PRIORITIES[review.priority],
        affected_files=content.affected_files,
        notes=content.notes or (),
        existed=existed,
        **views.onward(unit, services, review, "missing", "path", "revision", "followed"),
    )
