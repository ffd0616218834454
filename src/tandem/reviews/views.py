"""From records to the answers that show them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict
from typing import Any, Final, TypeVar

import orjson

from tandem.contract.answer import shown
from tandem.core.clock import isoformat
from tandem.git.changes import AffectedFile
from tandem.present.words import PRIORITIES
from tandem.reviews import checks, finding_queries, grounds, rounds, seats
from tandem.reviews import queries as reviews
from tandem.reviews import report_queries as reports
from tandem.reviews.answers import CounterPatchView, DebtView, EventView, Proposal, ReviewRow, ReviewStatus
from tandem.reviews.check_rules import DOUBTFUL, FAILED, PASSED, PENDING
from tandem.reviews.claim_rules import beside
from tandem.reviews.context import Services, threshold_of, why_none
from tandem.reviews.finding_contract import FindingCounts, counted
from tandem.reviews.queries import RoundContent
from tandem.reviews.reviewer_contract import NoReviewer
from tandem.reviews.rounds import CounterPatch
from tandem.reviews.rules import MOST_OBJECTIONS, Review, State, next_action
from tandem.rulings import next_steps, policy
from tandem.rulings.state import FOLLOWED
from tandem.store.base import Unit
from tandem.store.event import Event
from tandem.store.waits import WaitHub

T = TypeVar("T")
Row = TypeVar("Row", bound=ReviewRow)
Listed = TypeVar("Listed")


MOST_LETTERS: Final = 2_000_000
"""Of the texts of a page's rows; one that has more ends there, and the next page goes on."""


def fitting(rows: Iterable[Listed], letters: Callable[[Listed], int]) -> list[Listed]:
    """As many rows as there is room for in one answer, at least one; none after that is read."""
    found: list[Listed] = []
    left = MOST_LETTERS
    for one in rows:
        left -= letters(one)
        if found and left < 0:
            break
        found.append(one)
    return found


def files_from(text: str) -> tuple[AffectedFile, ...]:
    """Affected files from their stored form."""
    return tuple(AffectedFile(**item) for item in orjson.loads(text))


def onward(unit: Unit, services: Services, review: Review, *of_round: str) -> dict[str, Any]:
    """What the proposer does next, as fields of an answer: the same of the same state in each."""
    asked = _counts(unit, services, review) if review.state in _ASKED else None
    found = _next(unit, services, *_with_facts(unit, services, review), asked)
    return {name: found.get(name) for name in ("next_action", "no_reviewer", "message", *of_round)}


def _next(
    unit: Unit, services: Services, review: Review, about: dict[str, Any], findings: FindingCounts | None
) -> dict[str, Any]:
    none = _asks_person(review) or why_none(unit, services, review)
    is_for_person = (none and none.needs_person) or _has_failed_often(unit, review)
    is_told = review.is_asked or review.is_undecided
    action = "escalate" if is_for_person and not is_told else next_action(review)
    facts = {
        **review._asdict(),
        **about,
        "findings": findings and asdict(findings),
        "review_id": review.id,
        "status": review.state,
        "next_action": action,
    }
    why = none and {"reason": none.reason, "message": none.message}
    message = next_steps.operations({**facts, "no_reviewer": why})
    missing = () if review.state == State.CLOSED else seats.lacking(unit, services, review)
    return {**about, "next_action": action, "no_reviewer": none, "message": message, "missing": missing}


def _asks_person(review: Review) -> NoReviewer | None:
    """That no reviewer comes, as the policy asks for a person."""
    why = seats.waits(review)
    if review.state != State.PENDING or why is None or why != review.attention:
        return None
    helps = f"review it (tandem open {review.id}, or tandem review approve {review.id})"
    if any(one.word == policy.UNREADABLE for one in seats.missing(review)):
        alone = f"correct {policy.FILE} of the base branch in a change of its own"
        helps = f"{alone}, then: tandem submit --revise {review.id}"
    remedy = f"Tell your person: {helps}"
    return NoReviewer("person", needs_person=True, message=why, remedy=remedy)


def _has_failed_often(unit: Unit, review: Review) -> bool:
    """Whether it ended without approval, and so did its parent, and that one's: then a person decides."""
    for _ in range(MOST_OBJECTIONS - 1):
        if not review.ended_unapproved or review.parent_id is None:
            return False
        review = reviews.get(unit, review.parent_id)
    return review.ended_unapproved


_ASKED = frozenset({State.PENDING, State.IN_REVIEW, State.CHANGES_REQUESTED})
"""States in which the proposer is asked about findings."""
_DECIDED = frozenset({State.APPROVED, State.CHANGES_REQUESTED, State.REJECTED})
_REVISION = re.compile(r"[\w./@^~-]+")
"""Text that is safe as a revision in a command."""


def _with_facts(unit: Unit, services: Services, review: Review) -> tuple[Review, dict[str, Any]]:
    """The review, and what else the next step depends on.

    Its checks are doubtful where the ground of a passed one keeps the gate closed.
    """
    about: dict[str, Any] = {"followed": False}
    review = reports.with_objections(unit, review)
    if review.state in _DECIDED:
        current = reviews.get_round(unit, review.id, review.round)
        metadata = orjson.loads(current.metadata)
        revision = str(metadata.get(next_steps.REVISION) or "")
        about = {
            "path": current.path,
            "revision": revision if _REVISION.fullmatch(revision) else None,
            "followed": metadata.get(FOLLOWED) is True,
        }
    about["closed_reason"] = reports.find_close_reason(unit, review.id) if review.state == State.CLOSED else None
    if review.checks == FAILED:
        about["conflict_with"] = checks.conflict(unit, review)
    stuck = _stuck(unit, services, review) if review.state == State.APPROVED else None
    review = review._replace(attention=stuck or review.awaits_person)
    if review.checks != PASSED:
        return review, about
    held = checks.held(unit, grounds.Doubts(unit, services, review.project), review.id, review.round)
    about["unapproved_range"] = next((one.ground.between for one in held if one.ground), None)
    return (review._replace(checks=DOUBTFUL) if held else review), about


def _stuck(unit: Unit, services: Services, review: Review) -> str | None:
    """Why an approved review waits for a person: only a person can have one of its checks pass, or run; else None."""
    # With access tokens others may run them, on PostgreSQL another broker.
    is_alone = unit.dialect == "sqlite" and not services.authenticator.required
    if review.checks == PENDING and is_alone and not services.policy.checks_at_once:
        return "Nothing runs its checks: the broker's setting checks_at_once is 0."
    if review.checks != FAILED:
        return None
    runs = reviews.list_checks(unit, review.id, review.round)
    why = next((f"'{one.name}' keeps the gate closed. {one.reason}" for one in runs if one.needs_person), None)
    return why and f"{why} Then: 'tandem checks run {review.id}'."


def answer(kind: type[T], hub: WaitHub, unit: Unit, review: Review, /, **stated: Any) -> T:
    """An answer about a review as a write left it, with the cursor for later events."""
    cursor = hub.cursor(review.event_seq, unit)
    return shown(kind, review, review_id=review.id, status=review.state, cursor=cursor, **stated)


def replacement(unit: Unit, record: CounterPatch) -> dict[str, str | None]:
    """The content of a counter-patch, under the name of the field that it replaces."""
    return {"description" if record.is_text else "diff": reviews.find_content(unit, record.content_id)}


def status(unit: Unit, services: Services, review: Review, cursor: str, *, changed: bool) -> ReviewStatus:
    """Where a review stands, and why no one takes it."""
    review, about = _with_facts(unit, services, review)
    findings = _counts(unit, services, review)
    return shown(
        ReviewStatus,
        review,
        review_id=review.id,
        status=review.state,
        reviewer_id=review.reviewer_id or review.verdict_by,
        changed=changed,
        cursor=cursor,
        findings=findings,
        owed=_owed(review, services.clock.now_us()),
        waived_by=_waived_by(review),
        beside=tuple(one.holder for one in beside(review)),
        **_next(unit, services, review, about, findings if review.state in _ASKED else None),
    )


def _waived_by(review: Review) -> str | None:
    found = rounds.approving(review)
    return found and found.by


def _owed(review: Review, now_us: int) -> tuple[DebtView, ...]:
    return tuple(
        shown(
            DebtView,
            one,
            words=one.words(now_us),
            until=isoformat(one.until),
            overdue=one.until < now_us,
            waived_by=one.by,
        )
        for one in rounds.owed(review)
    )


def _counts(unit: Unit, services: Services, review: Review) -> FindingCounts | None:
    known = finding_queries.list_of_review(unit, review.id)
    if not known:
        return None
    return counted(known, threshold_of(unit, services, review.project, review))


def row(review: Review) -> ReviewRow:
    """One line of a list."""
    return row_as(ReviewRow, review)


def row_as(kind: type[Row], review: Review, **more: Any) -> Row:
    """One line of a list that says more of each review."""
    return shown(
        kind,
        review,
        review_id=review.id,
        status=review.state,
        priority=PRIORITIES[review.priority],
        reviewer_id=review.reviewer_id or review.verdict_by,
        waived_by=_waived_by(review),
        owed="; ".join(one.words(0) for one in rounds.owed(review)) or None,
        **more,
    )


def event(record: Event, hub: WaitHub) -> EventView:
    """One event of the log, without the rows that only a replay reads."""
    number, data = hub.number(record.seq), orjson.loads(record.data)
    return shown(EventView, record, seq=number, at=isoformat(record.at), data=data)


def counter_patch(unit: Unit, record: CounterPatch) -> CounterPatchView:
    """A counter-patch with its content."""
    content = {"diff": None, "description": None} | replacement(unit, record)
    return shown(CounterPatchView, record, affected_files=files_from(record.affected_files), **content)


def proposal(unit: Unit, services: Services, content: RoundContent) -> Proposal:
    """A round's whole content, with the rest read in the unit."""
    review, found = content.review, content.round
    pending = None
    if review.counter_patch_status == "pending" and review.counter_patch_id:
        pending = reviews.find_counter_patch(unit, review.id, review.counter_patch_id)
    return shown(
        Proposal,
        found,
        project=review.project,
        status=review.state,
        current_round=review.round,
        category=review.category,
        priority=PRIORITIES[review.priority],
        proposer_id=review.proposer_id,
        description=content.text,
        diff=content.diff,
        metadata=orjson.loads(found.metadata),
        validated=bool(found.validated),
        drawn=found.notes is not None or content.diff is None,
        notes=tuple(orjson.loads(found.notes or "[]")),
        affected_files=files_from(found.affected_files),
        parent_id=review.parent_id,
        child_ids=content.child_ids,
        counter_patch=counter_patch(unit, pending) if pending else None,
        submitter=reviews.submitter(unit, found),
        ground=grounds.view(unit, services, review.project, found.ground),
    )
