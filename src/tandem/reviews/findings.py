"""Findings: what a verdict makes of them, and it of the verdict; answered, settled and listed.

Those that were false alarms are lessons, which reviewers are told until a person ends them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from functools import partial
from typing import NamedTuple

from tandem.contract.caller import Caller, Names
from tandem.contract.operation import ALL, Role
from tandem.errors import Forbidden, InvalidInput, InvalidTransition, OpenFindings, SelfApproval
from tandem.reviews import carried, files, finding_queries, finding_rules, seats, views, writing
from tandem.reviews import claim_rules as claims
from tandem.reviews import queries as reviews
from tandem.reviews.context import Services, is_by_person, threshold_of
from tandem.reviews.finding_contract import (
    AnswerFinding,
    FindingAnswered,
    FindingPage,
    FindingView,
    GivenFinding,
    GivenSettling,
    LessonPage,
    LessonRemoved,
    ListFindings,
    ListLessons,
    PlaceView,
    RemoveLesson,
    counted,
    lesson_view,
    new_finding,
    view,
)
from tandem.reviews.finding_rules import ADVICE, ANSWERS, APPROVES, CONTESTED, Finding, answers_due, blocks, may_settle
from tandem.reviews.given import Given, Prepared, check_reason
from tandem.reviews.requests import SubmitVerdict
from tandem.reviews.rounds import Round, Verdict, disagreement, objected, record_speaker
from tandem.reviews.rules import Action, Review, State, step
from tandem.reviews.writing import Rows
from tandem.store import pages
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

_IN_OTHER_WORDS = "repeats a lesson in other words"
_ASKED = "(Asked for changes; counts as an approval, as each finding is small, was there before, or repeats a lesson.)"
"""Begins the reason of such a verdict, which every interface shows."""


class Ruling(NamedTuple):
    """What a verdict comes to with all findings.

    Attributes:
        verdict: The verdict that is stored.
        findings: The findings that are new or changed.
        attention: Why a person decides next; None if none has to.
        notes: What became of the verdict, in words, where it is not the one that was given.
        how: How it speaks, as in `record_speaker`.
        goes_on: Whether a person decided, after which the count of rounds begins again.
        reason: The reason as it is stored, if the broker says something before it.
        looked: The profile without a vote that has had its turn by this; None of all other reviewers.
    """

    verdict: str
    findings: tuple[Finding, ...]
    attention: str | None = None
    notes: tuple[str, ...] = ()
    how: str = "verdict"
    goes_on: bool = False
    reason: str | None = None
    looked: str | None = None


def ruled(
    unit: Unit, services: Services, caller: Caller, subject: tuple[Review, Round], request: SubmitVerdict,
    given: Verdict, prepared: Prepared, *, others_round: int = 0,
) -> Ruling:  # fmt: skip
    """What a verdict that may be given comes to, and the findings after it, without others' of `others_round`.

    Raises:
        OpenFindings: It approves over findings that its reviewer could settle.
        Forbidden: It settles a person's finding without being one.
        NotFound: It settles a finding that the review does not have.
        InvalidTransition: A finding does not take that answer in its state.
    """
    review, current = subject
    is_person = is_by_person(unit, services, caller, given.reviewer_id)
    threshold = threshold_of(unit, services, review.project, review)
    known = {one.id: one for one in finding_queries.list_of_review(unit, review.id)}
    by = reviews.authors(unit, review, current)
    new = [
        _made(unit, review, given, one, at, is_person=is_person, written_by=by) for at, one in enumerate(prepared.found)
    ]
    if (profile := services.pool.advises(unit, given.reviewer_id)) is not None:
        return _advised(known, review, current, caller, request, given, new, profile)
    changed = _answered(known, review, current, caller, request, given, is_person=is_person)
    asks = given.verdict == "changes_requested"
    refuses = is_person and given.verdict in ("changes_requested", "rejected")
    if refuses and not any(blocks(one, threshold) for one in (*changed.values(), *new)):
        new.append(requested(unit, services, review, given, by, prepared.telling, len(new)))
    rows = (*changed.values(), *new)
    here = tuple((known | {one.id: one for one in rows}).values())
    elsewhere = partial(carried.elsewhere, unit, current, review, here, threshold, prepared.again, is_person=is_person)
    blocking = [one for one in here if blocks(one, threshold)]
    is_free = not is_person and not services.pool.has_form(unit, given.reviewer_id)
    unsaid = _unsaid(known.values(), changed, current, caller.names(given.reviewer_id)) if is_free else []
    if given.verdict == "approved":
        names = caller.names(given.reviewer_id)
        blocking, unsaid = (finding_rules.left_to(names, some, others_round, changed) for some in (blocking, unsaid))
        kept = blocking or elsewhere()
        return _approving(unit, review, rows, kept, unsaid, {one.id for one in new}, is_person=is_person)
    notes = carried.approved_elsewhere(unit, review) if blocking else ()
    if is_person or given.verdict == "rejected":
        # A person's comment in words alone asks something; findings speak for themselves.
        how = "question" if given.verdict == "comment" and not prepared.found else "verdict"
        # Without tokens agents may pass for persons: their requests count, as those of agents do.
        goes_on = refuses and (review.is_stopped or caller.access is not None)
        return Ruling(given.verdict, rows, notes=notes, how=how, goes_on=goes_on)
    late = [
        one for one in new if finding_rules.is_grave(one.severity, threshold) and finding_queries.is_doubtful(unit, one)
    ]
    is_small = request.findings and request.read_all and not any((request.counter_patch, blocking, late, unsaid))
    if asks and is_small and not elsewhere() and not carried.stopped_on(unit, review)["attention"]:
        note = "Stored as approved with notes: all that you found is small, was there before, or repeats a lesson."
        return Ruling("approved", rows, notes=(note,), reason=f"{_ASKED} {given.reason}")
    # A comment over blocking findings goes on as a request for changes would.
    attention = _disagreement(review, blocking, late, changed) if asks or blocking else None
    return Ruling(given.verdict, rows, attention, notes)


def _advised(
    known: dict[str, Finding], review: Review, current: Round, caller: Caller, request: SubmitVerdict, given: Verdict,
    new: list[Finding], profile: str,
) -> Ruling:  # fmt: skip
    """What the verdict of a reviewer without a vote comes to: its findings, and answers to those of its like."""
    if request.counter_patch is not None:
        raise InvalidInput("A reviewer without a vote offers no counter-patch.", field="counter_patch")
    known = {name: one for name, one in known.items() if one.source == ADVICE}
    answers = [one for one in request.answers or () if one.finding_id in known]
    said = request.model_copy(update={"answers": answers})
    changed = _answered(known, review, current, caller, said, given, is_person=False)
    rows = (*changed.values(), *(one._replace(source=ADVICE) for one in new))
    note = f"The profile '{profile}' has no vote: its findings are added, and keep nothing back."
    return Ruling("comment", rows, notes=(note,), looked=profile)


def _answered(
    known: dict[str, Finding],
    review: Review,
    current: Round,
    caller: Caller,
    request: SubmitVerdict,
    given: Verdict,
    *,
    is_person: bool,
) -> dict[str, Finding]:
    """The findings that a verdict settles or reopens."""
    changed: dict[str, Finding] = {}
    names = caller.names(given.reviewer_id)
    for said in request.answers or ():
        if said.finding_id not in known:
            raise finding_queries.unknown(said.finding_id, review.id)
        before = known[said.finding_id]
        changed[before.id] = _settled(before, current, said, names, given.reviewer_id, is_person=is_person)
    if given.verdict == "approved" and is_person:
        for one in known.values():
            # A person who approves a later round says that the request is met.
            is_earlier = one.round < review.round or one.verdict_id is None
            if one.is_request and one.is_open and (is_earlier or one.author == given.reviewer_id):
                met = finding_rules.after(one, "verified", given.reviewer_id, given.reason, review.round)
                changed.setdefault(one.id, met)
    return changed


def _unsaid(known: Iterable[Finding], said: Collection[str], current: Round, names: Names) -> list[Finding]:
    """The open findings of agents that a reviewer could settle, and says nothing of: none is passed over in silence."""
    found = (one for one in known if one.is_open and one.source == "agent" and one.id not in said)
    theirs = (one for one in found if not (_wrote(one, current, names) or names.include(one.answered_by)))
    return [one for one in theirs if not one.pre_existing]


def _wrote(one: Finding, current: Round, names: Names) -> bool:
    """Whether a finding of somebody else is about content that a reviewer wrote."""
    patched = [current.author] if current.origin == claims.COUNTER_PATCH else []
    return any(map(names.include, (*one.authors, *patched))) and not names.include(one.author)


def _approving(
    unit: Unit,
    review: Review,
    rows: tuple[Finding, ...],
    blocking: list[Finding],
    unsaid: list[Finding],
    new: Collection[str],
    *,
    is_person: bool,
) -> Ruling:
    """An approval: refused over what its reviewer can settle, kept for a person where only persons can."""
    if own := [one for one in blocking if one.id in new]:
        raise OpenFindings(
            f"This verdict approves, and finds what keeps the approval back ({own[0].severity}, {own[0].where})."
            " Ask for changes, or leave it out.",
            review_id=review.id,
            findings=[],
            count=len(own),
        )
    here = [one for one in blocking if one.review_id == review.id]
    to_settle = [one for one in here if may_settle(one, is_person=is_person)]
    if to_settle or unsaid:
        raise finding_rules.keeping_back(review.id, [*to_settle, *(one for one in unsaid if one not in to_settle)])
    if is_person and blocking:
        raise finding_rules.keeping_back(review.id, blocking)
    if not blocking:
        waits = None if is_person else carried.stopped_on(unit, review)["attention"]
        return Ruling("comment", rows, waits, (waits,)) if waits else Ruling("approved", rows, goes_on=is_person)
    whose = ", ".join(sorted({one.author for one in blocking}))
    elsewhere = sorted({one.review_id for one in blocking} - {review.id})
    where = f" on the same content, in {', '.join(elsewhere)}," if elsewhere else ""
    who = "a person decides" if elsewhere else "only a person settles those"
    why = f"{APPROVES}, and findings of {whose}{where} are open: {who}."
    return Ruling("comment", rows, why, (why,))


def _disagreement(review: Review, blocking: list[Finding], late: list[Finding], said: Collection[str]) -> str | None:
    """Why agents alone do not go on; None if they may. After a person's word each count begins again."""
    if why := disagreement(objected(review)):
        return why
    if late and not blocking:
        how = "found it late, on lines that did not change" if late[0].state == "late" else _IN_OTHER_WORDS
        return f"{late[0].author} {how} ({late[0].where}): a person decides."
    reopened = (one for one in blocking if one.id in said and one.reopenings)
    often = next((one for one in reopened if one.reopenings % finding_rules.MOST_ANSWERS == 0), None)
    return often and f"{often.where} was answered {often.reopenings} times, and reopened: a person decides."


def _settled(
    before: Finding, current: Round, said: GivenSettling | AnswerFinding, names: Names, who: str, *, is_person: bool
) -> Finding:
    if _wrote(before, current, names):
        raise SelfApproval(
            f"You wrote content that {before.id} is about: somebody else settles it.", finding_id=before.id
        )
    if names.include(before.answered_by):
        why = f"You answered {before.id} for the proposer: somebody else says whether that is right."
        raise SelfApproval(why, finding_id=before.id, answered_by=before.answered_by)
    if not may_settle(before, is_person=is_person):
        raise Forbidden(
            f"{before.id} is a finding of {before.author}, a person: only a person settles it.",
            finding_id=before.id,
            needed="person",
        )
    return finding_rules.after(before, said.answer, who, said.reason, current.round)


def _made(
    unit: Unit, review: Review, given: Verdict, found: Given, position: int, *, is_person: bool, written_by: str
) -> Finding:
    """A finding of a verdict, in the state in which it begins."""
    asked, seen = found.asked, found.seen
    severity = finding_rules.severity_of(asked.severity) or asked.severity
    print_ = (
        None
        if asked.file is None or seen.around is None
        else finding_rules.fingerprint(asked.category, asked.file, seen.around, asked.claim)
    )
    lesson = None if is_person else finding_queries.find_lesson(unit, review.project, print_, severity)
    is_late = review.round > 1 and found.is_unchanged and severity != "blocker" and not is_person
    return new_finding(
        asked,
        review,
        id=found.id,
        position=position,
        verdict_id=given.id,
        source="person" if is_person else "agent",
        author=given.reviewer_id,
        lines=seen.lines,
        telling=found.telling,
        fingerprint=print_,
        state="suppressed" if lesson else "late" if is_late else "open",
        created_at=given.created_at,
        suppressed_by=lesson,
        blob=found.blob,
        written_by=written_by,
    )


def requested(
    unit: Unit, services: Services, review: Review, given: Verdict, by: str, telling: str | None, position: int = 0
) -> Finding:
    """A finding for what a person decided against a change, where none of theirs would keep the approval back."""
    asked = GivenFinding(severity=finding_rules.THRESHOLD, claim=given.reason or "Changes are requested.")
    found = Given(services.clock.new_id("fn"), asked, telling=telling)
    return _made(unit, review, given, found, position, is_person=True, written_by=by)._replace(is_request=1)


async def answer_finding(services: Services, caller: Caller, request: AnswerFinding) -> FindingAnswered:
    """Answer a finding, as the proposer; or settle or reopen it, as a reviewer. Contested ones go back to a reviewer.

    Raises:
        NotFound: There is no such finding in that review.
        Forbidden: It is not the caller's to say.
        ReasonRequired: The answer needs a reason.
        InvalidTransition: The finding, or its review, does not take that.
    """
    check_reason(services, request.answer, request.reason)
    is_answer = request.answer in ANSWERS

    def work(unit: Unit) -> FindingAnswered:
        before = reviews.get(unit, request.review_id, request.project, lock=True)
        known = {one.id: one for one in finding_queries.list_of_review(unit, before.id)}
        if request.finding_id not in known:
            raise finding_queries.unknown(request.finding_id, before.id)
        finding, now = known[request.finding_id], services.clock.now_us()
        threshold = threshold_of(unit, services, before.project, before)
        if is_answer:
            who = _answerer(unit, services, before, caller, finding)
            found = finding_rules.after(finding, request.answer, who, request.reason)
        else:
            who, current = _settler(unit, services, before, caller, request)
            names, is_person = caller.names(who), is_by_person(unit, services, caller, who)
            found = _settled(finding, current, request, names, who, is_person=is_person)
            _check_standing(before, found, threshold)
        known[found.id] = found
        after = before._replace(updated_at=now)
        if is_answer:
            after = _after_answer(after, list(known.values()), threshold)
        written = writing.change_review(
            unit,
            before,
            after,
            actor=who,
            kind=EventKind.FINDING_ANSWERED if is_answer else EventKind.FINDING_SETTLED,
            data={"finding_id": found.id, "answer": request.answer, "reason": request.reason, "round": before.round},
            rows=Rows(findings=(found,)),
        )
        written = written if is_answer else seats.go_on(unit, services, written, now)
        counts = counted(known.values(), threshold)
        return views.answer(
            FindingAnswered, services.waits, unit, written, finding_id=found.id, state=found.state, counts=counts
        )

    return await transact(services, caller, work, works_on=(request.review_id,))


def _answerer(unit: Unit, services: Services, review: Review, caller: Caller, finding: Finding) -> str:
    """Who answers for the proposer: no agent that found it, unless it proposed the review."""
    step(Action.PROPOSER_MESSAGE, review)
    who, names = caller.agent or review.proposer_id, caller.names()
    is_finders = names.include(finding.author) and not names.include(review.proposer_id)
    if is_finders and not is_by_person(unit, services, caller, who):
        why = f"You found {finding.id}: the review's proposer answers it, and a reviewer settles it."
        raise Forbidden(why, needed="proposer")
    _check_role(caller, Role.PROPOSER)
    claims.check_concerned(review, caller)
    return who


def _settler(
    unit: Unit, services: Services, review: Review, caller: Caller, request: AnswerFinding
) -> tuple[str, Round]:
    """Who settles, and on which round: a person, or the agent that holds it or gave the verdict; never of their own."""
    _check_role(caller, Role.REVIEWER)
    named, generation = request.reviewer_id, request.claim_generation
    is_unnamed = caller.access is None and named is None and caller.agent is None
    if is_unnamed and generation is None:
        raise Forbidden("Say who settles it: send reviewer_id; at a terminal, tandem me NAME says it once.")
    who = named or caller.operator
    if is_unnamed or not is_by_person(unit, services, caller, who):
        own = claims.seen_by(review, generation, who)
        speaks = partial(claims.reviewer_step, Action.REVIEWER_MESSAGE, own, access=caller.access)
        try:
            _, who = speaks(generation=generation, reviewer_id=named)
        except InvalidTransition as error:
            first = f"claim it first (claim_review, review_id={review.id}), or " if own.state == State.PENDING else ""
            why = f"No reviewer has this review, which is {own.state}: {first}have a person settle the finding."
            raise InvalidTransition(why, **error.details) from error
    if services.pool.advises(unit, who) is not None:
        raise Forbidden("A reviewer without a vote settles no finding.", reviewer_id=who)
    return who, seats.others_round(unit, review, caller.names(who))


def _check_role(caller: Caller, role: Role) -> None:
    if caller.access is not None and role not in caller.access.roles and not claims.decides_for_all(caller):
        raise Forbidden(f"This takes a token with the role {role}.", actual=sorted(caller.access.roles))
    if caller.role in ("proposer", "reviewer") and caller.role != role:
        raise Forbidden("The proposer answers fixed, refuted or deferred; a reviewer settles findings.", needed=role)


def _check_standing(review: Review, found: Finding, threshold: str) -> None:
    """Refuse to reopen what would keep back an approval that was given."""
    if review.approved_round is not None and blocks(found, threshold):
        raise InvalidTransition(
            f"{review.id} is approved: withdraw that (withdraw_approval), a finding alone does not close the gate.",
            review_id=review.id,
            finding_id=found.id,
            status=review.state,
        )


def _after_answer(review: Review, known: list[Finding], threshold: str) -> Review:
    """The review after its proposer answered a finding: once that is all, somebody judges the answers."""
    said = answers_due(known, threshold)
    is_asked = review.speaker == "reviewer" if review.held else review.is_asked
    if is_asked and said <= ANSWERS:
        return record_speaker(review, "proposer", "answer" if review.speaker_kind == "question" else "message")
    # Nothing is left to correct: all was refuted or deferred.
    is_contested = review.state == State.CHANGES_REQUESTED and said <= CONTESTED
    return claims.contested(review) if is_contested and review.counter_patch_status != "pending" else review


async def list_findings(services: Services, caller: Caller, request: ListFindings) -> FindingPage:
    """A page of findings; of a review with their places in a round.

    Raises:
        NotFound: There is no such review.
        Forbidden: A token for hand-offs alone asks for more than those of a hand-off's review.
        InvalidInput: Neither review nor project is known, there is no such commit, or the page token is none of ours.
    """
    pages.check_limit(services, request.limit)
    place = pages.decode(services, request.page, int, int) if request.page else finding_queries.BEFORE_ALL
    if request.at is not None and (request.review_id is None or request.round is not None):
        raise InvalidInput("at takes the findings of one review: name review_id, and no round.", field="at")

    for_handoffs = caller.access is not None and not caller.access.roles & ALL

    def work(unit: Unit) -> Known:
        review = None if request.review_id is None else reviews.get(unit, request.review_id, request.project)
        if for_handoffs and (review is None or review.category != "handoff"):
            raise Forbidden("This token is for hand-offs: name the review of one (cycle_status has its id).")
        if review is None:
            of = services.projects.require(request.project, caller.project)
            is_open, limit = request.status != "all", request.limit + 1
            found = finding_queries.list_of_project(unit, of, is_open=is_open, after=place, limit=limit)
            return Known(None, found, threshold_of(unit, services, of))
        reviews.get_round(unit, review.id, request.round or review.round)
        return of_review(unit, services, review)

    known, counts = await services.store.read(work), None
    found = known.findings
    if known.review is not None:
        counts = counted(found, known.threshold)
        found = [one for one in found if (one.seq, one.position) > place and (request.status == "all" or one.is_open)]
    listed, following = pages.cut(services, found, request.limit, lambda one: (one.seq, one.position))
    if request.status == "blocking":
        listed = [one for one in listed if blocks(one, known.threshold)]
    return FindingPage(
        await shown(services, known._replace(findings=listed), request.round, request.at), counts, following
    )


class Known(NamedTuple):
    """Findings as they are stored.

    Attributes:
        review: The review that all are of; None for those of a project.
        findings: The findings, oldest first.
        threshold: From which severity on they block.
    """

    review: Review | None
    findings: list[Finding]
    threshold: str


def of_review(unit: Unit, services: Services, review: Review) -> Known:
    """All findings of a review."""
    known = finding_queries.list_of_review(unit, review.id)
    return Known(review, known, threshold_of(unit, services, review.project, review))


async def shown(services: Services, known: Known, number: int | None, at: str | None = None) -> tuple[FindingView, ...]:
    """Findings as they are answered, those of a review with their places at a commit or in a round."""
    where: dict[str, PlaceView] = {}
    if known.review is not None:
        spots = map(files.spot_of, known.findings)
        found = await files.places(services, known.review.id, spots, number or known.review.round, at)
        # Of one that came from another review with other lines its place here tells nothing of those.
        changed = {one.id for one in known.findings if one.changed}
        where = {name: PlaceView(*place[:3], changed=name in changed or place.changed) for name, place in found.items()}
    return tuple(view(one, known.threshold, where.get(one.id)) for one in known.findings)


async def list_lessons(services: Services, caller: Caller, request: ListLessons) -> LessonPage:
    """A page of the lessons of a project.

    Raises:
        InvalidInput: The page token is none of ours.
    """
    pages.check_limit(services, request.limit)
    place = pages.decode(services, request.page, int, int) if request.page else finding_queries.BEFORE_ALL
    project = services.projects.require(request.project, caller.project)
    found = await services.store.read(
        lambda unit: finding_queries.list_lessons(unit, project, after=place, limit=request.limit + 1)
    )
    listed, following = pages.cut(services, found, request.limit, lambda one: (one.seq, one.position))
    wanted = None if request.files is None else frozenset(request.files)
    shown_ = (one for one in listed if wanted is None or one.file in wanted)
    return LessonPage(tuple(map(lesson_view, shown_)), following)


async def remove_lesson(services: Services, caller: Caller, request: RemoveLesson) -> LessonRemoved:
    """End a lesson; one that is none stays as it is.

    Raises:
        NotFound: There is no such finding.
    """

    def work(unit: Unit) -> LessonRemoved:
        finding = finding_queries.get(unit, request.finding_id)
        if request.project not in (None, finding.project):
            raise finding_queries.unknown(finding.id)
        before = reviews.get(unit, finding.review_id, lock=True)
        finding = finding_queries.get(unit, request.finding_id)
        if finding.lesson:
            writing.change_review(
                unit,
                before,
                before._replace(updated_at=services.clock.now_us()),
                actor=caller.operator,
                kind=EventKind.LESSON_REMOVED,
                data={"finding_id": finding.id},
                rows=Rows(findings=(finding._replace(lesson=0),)),
            )
        return LessonRemoved(finding.id)

    return await transact(services, caller, work)
