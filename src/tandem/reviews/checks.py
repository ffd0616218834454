"""Checks of rounds: asked for with the round, run by the broker or by a supervisor, and waited for by the gate.

Their findings are taken in with their results, and corrected once a check no longer finds them.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import orjson

from tandem.contract.answer import shown
from tandem.contract.caller import Caller
from tandem.core.clock import MICROSECONDS
from tandem.errors import Forbidden, InvalidInput, InvalidTransition, NotFound, StaleClaim
from tandem.git.ground import Ground
from tandem.reviews import contents, finding_queries, finding_rules, grounds, seats, writing
from tandem.reviews import queries as reviews
from tandem.reviews.check_contract import (
    CheckList,
    CheckLog,
    CheckReported,
    CheckSetup,
    CheckView,
    GetCheckLog,
    ListChecks,
    ReportCheck,
    RunChecks,
)
from tandem.reviews.check_rules import DOUBTFUL, PASSED, SAYS_SOMETHING, CheckRun, CheckStatus, Hold, outcome, runs_of
from tandem.reviews.context import Services
from tandem.reviews.finding_contract import GivenFinding, new_finding
from tandem.reviews.finding_rules import Finding
from tandem.reviews.rules import Review, State
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.context import look_or_wait, transact
from tandem.store.event import EventKind

_MOST_UNFINISHED = 100
_BROKER = "broker"
_GONE = "The file is trusted now, or no longer names this check."
_AGAIN = "It was asked for again."


def begin(unit: Unit, services: Services, review: Review, content: contents.Content) -> Review:
    """Ask for the checks of a round that was just written; the review as it is then."""
    ground = grounds.as_json(content.ground)
    runs = runs_of(content.checks, review.id, review.round, review.project, review.updated_at, ground)
    return _requested(unit, services, review, runs, _BROKER, review.updated_at) if runs else review


async def list_checks(services: Services, caller: Caller, request: ListChecks) -> CheckList:
    """The checks of a round, or those that have not ended; with a wait, once there is news of them.

    Raises:
        NotFound: There is no such review (in that project), or round.
    """
    review_id, given = request.review_id, services.waits.read(request.cursor)
    if review_id is None:
        return await _list_unfinished(services, caller, request)

    def work(unit: Unit) -> tuple[CheckList, bool]:
        review = reviews.get(unit, review_id, request.project)
        number = request.round or review.round
        reviews.get_round(unit, review.id, number)
        found = reviews.list_checks(unit, review.id, number)
        after = services.waits.place_among(unit, given, review.id)
        is_news = after is None or review.event_seq > after
        place = services.waits.cursor(review.event_seq, unit)
        return _listed(unit, services, found, place, changed=is_news), is_news

    answer = await look_or_wait(services, review_id, lambda: services.store.read(work), request)
    project = next((one.project for one in answer.checks), "")
    return replace(answer, checks=await as_of_now(services, project, answer.checks))


def _listed(unit: Unit, services: Services, found: Sequence[CheckRun], cursor: str, *, changed: bool) -> CheckList:
    """The checks of a round and their outcome."""
    listed = views(unit, services, found)
    comes_to = DOUBTFUL if any(one.doubt for one in listed) and outcome(found) == PASSED else outcome(found)
    return CheckList(listed, comes_to, cursor, changed=changed)


async def _list_unfinished(services: Services, caller: Caller, request: ListChecks) -> CheckList:
    project = services.projects.resolve(request.project, caller.project)

    def work(unit: Unit) -> tuple[CheckList, bool]:
        now, newest = services.clock.now_us(), services.waits.newest(unit)
        found = reviews.list_unfinished_checks(unit, project, _MOST_UNFINISHED)
        is_news = any(one.status == CheckStatus.QUEUED or one.is_lost(now) for one in found)
        place = services.waits.cursor(newest)
        return CheckList(views(unit, services, found), None, place, changed=is_news), is_news

    return await look_or_wait(services, EventKind.CHECKS_REQUESTED, lambda: services.store.read(work), request)


async def run_checks(services: Services, caller: Caller, request: RunChecks) -> CheckList:
    """Ask for the checks of a review's current round again.

    Raises:
        NotFound: There is no such review (in that project), or nothing to run.
        InvalidTransition: The review is over, or went on meanwhile.
        InvalidInput: There is no such base branch.
    """
    found = await services.store.read(lambda unit: reviews.get_content(unit, request.review_id, request.project))
    review, current = found.review, found.round
    stands = await grounds.look(services, found, request.branch)
    planned = await _planned(services, request, found, stands)
    ground = None if stands is None else grounds.as_json(stands.ground)
    wanted = None if request.checks is None else set(request.checks)
    known = {one.definition.name for one in planned if one.definition}

    def work(unit: Unit) -> CheckList:
        before = reviews.get(unit, review.id, lock=True)
        if before.round != current.round or _is_over(before):
            raise InvalidTransition(
                "The review is over, or has another round by now; its checks are not run again.",
                review_id=before.id,
                status=before.state,
                round=before.round,
            )
        now, stored = services.clock.now_us(), reviews.list_checks(unit, before.id, before.round)
        running = {one.name for one in stored if one.status == CheckStatus.RUNNING and not one.is_lost(now)}
        # Not where the file stands for its checks: those that it named before must still pass.
        gone = [one for one in stored if known and one.name not in known and one.name not in running]
        left = {"status": CheckStatus.SKIPPED.value, "required": 0, "reason": _GONE, "ground": ground}
        # One that is new is asked for, too: who names some of them must not have the others left out.
        named = None if wanted is None else wanted | known - {one.name for one in stored}
        again = tuple(one._replace(**left) for one in gone) + tuple(
            one._replace(reason=_AGAIN) if one.status == CheckStatus.QUEUED else one
            for one in runs_of(planned, before.id, before.round, before.project, now, ground)
            if one.name not in running and (named is None or one.name in named)
        )
        after = _requested(unit, services, before, again, caller.agent or before.proposer_id, now) if again else before
        found = reviews.list_checks(unit, after.id, after.round)
        place = services.waits.cursor(after.event_seq, unit)
        return _listed(unit, services, found, place, changed=bool(again))

    return await transact(services, caller, work)


async def _planned(
    services: Services, request: RunChecks, found: reviews.RoundContent, stands: grounds.Look | None
) -> contents.Checks:
    """What the base branch's file has run on a round now.

    Raises:
        NotFound: There is no check, or none of the given name.
        InvalidInput: There is no such base branch.
    """
    planned: contents.Checks = ()
    if stands is not None:
        if request.branch not in (None, *stands.branches):
            raise InvalidInput(
                f"'{request.branch}' is no base branch of '{found.review.project}'; name one of:"
                f" {', '.join(stands.branches) or 'none'}.",
                field="branch",
                allowed=[*stands.branches],
            )
        paths = [change["path"] for change in orjson.loads(found.round.changes)]
        async with services.validations:
            planned = await asyncio.to_thread(
                contents.planned, stands.repository, stands.ground, stands.branches, paths
            )
    services.checks_wanted.set()
    known = sorted(one.definition.name for one in planned if one.definition)
    unknown = sorted({*(request.checks or ())} - {*known})
    if not planned or unknown:
        raise NotFound(
            f"There is no check {' or '.join(map(repr, unknown)) or 'at all'} in .tandem/checks.toml of the base branch"
            f" of '{found.review.id}'; it has: {', '.join(known) or 'none'}.",
            review_id=found.review.id,
            allowed=known,
        )
    return planned


async def get_check_log(services: Services, _caller: Caller, request: GetCheckLog) -> CheckLog:
    """The end of what a check wrote.

    Raises:
        NotFound: There is no such review (in that project), round or check.
    """

    def work(unit: Unit) -> CheckLog:
        review = reviews.get(unit, request.review_id, request.project)
        found = _find(unit, review, request.round or review.round, request.name)
        return CheckLog(view(unit, services, found), reviews.find_content(unit, found.log_id) or "")

    return await services.store.read(work)


async def report_check(services: Services, caller: Caller, request: ReportCheck) -> CheckReported:
    """Take in that a check begins, or how it ended.

    Raises:
        Forbidden: A broker without tokens runs its checks itself: anybody could say that one has passed.
        NotFound: There is no such check.
        StaleClaim: Somebody else runs it.
        InvalidInput: It is not said which commit it runs on.
    """
    if caller.access is None or (not services.authenticator.required and not caller.access.is_owner):
        raise Forbidden(
            "A broker without access tokens runs the checks itself, and accepts no other reports. For checks on other"
            ' machines set auth = "token".',
            operation="report_check",
        )

    begins = request.status == CheckStatus.RUNNING
    if (request.tree is None) != (request.commit is None) or (not begins and request.commit is not None):
        raise InvalidInput("Report tree and commit together, with running: update what runs checks.", field="commit")
    for at, one in enumerate(request.findings or ()):
        contents.check_finding(services, one, f"findings.{at}")
    ground = await _ground(services, request) if begins and request.commit is None else None

    def work(unit: Unit) -> CheckReported:
        review = reviews.get(unit, request.review_id, request.project, lock=True)
        before = _find(unit, review, request.round, request.name)
        now = services.clock.now_us()
        if begins:
            after, go = _begun(unit, services, review, before, request, now, ground)
            return CheckReported(view(unit, services, after), go=go)
        if not before.unfinished or (before.status == CheckStatus.RUNNING and before.runner != request.runner):
            raise StaleClaim(
                f"The check '{before.name}' is not yours to report on: it is {before.status}.",
                review_id=review.id,
                actual=before.runner,
            )
        stands = grounds.parsed(before.ground)
        if request.status in SAYS_SOMETHING and (stands is None or stands.commit is None):
            raise InvalidInput("Report tree and commit before its end: update what runs checks.", field="commit")
        return CheckReported(view(unit, services, _ended(unit, services, review, before, request, now)), go=False)

    return await transact(services, caller, work)


async def _ground(services: Services, request: ReportCheck) -> Ground | None:
    """What a check that begins stands on, which may have moved on since it was asked for."""

    def look(unit: Unit) -> tuple[reviews.RoundContent, CheckRun]:
        found = reviews.get_content(unit, request.review_id, request.project, request.round)
        return found, _find(unit, found.review, request.round, request.name)

    found, run = await services.store.read(look)
    if not run.unfinished or found.round.round != found.review.round:
        return None
    asked = grounds.parsed(run.ground)
    stands = await grounds.look(services, found, None if asked is None else asked.branch)
    return None if stands is None else stands.ground


_WAYS = {CheckStatus.QUEUED: "has not begun", CheckStatus.RUNNING: "still runs", CheckStatus.FAILED: "failed"}


def held(unit: Unit, doubts: grounds.Doubts, review_id: str, number: int) -> tuple[Hold, ...]:
    """The required checks of a round that keep the gate closed."""
    found: list[Hold] = []
    runs = reviews.list_checks(unit, review_id, number)
    for one in runs:
        name = f"its required check '{one.name}'"
        if one.holds:
            words = _WAYS.get(CheckStatus(one.status), f"has not passed: {one.status}")
            found.append(Hold(f"{name} {words}", one.unfinished))
        elif one.required and (doubt := doubts.of(one.ground)):
            found.append(Hold(f"{name} {doubt.words}", is_pending=True, ground=doubt.ground))
    stood_on = [one.ground for one in runs] or [reviews.get_round(unit, review_id, number).ground]
    if not found and (words := doubts.missed(stood_on)):
        found.append(Hold(words, is_pending=True))
    return tuple(found)


def conflict(unit: Unit, review: Review) -> str | None:
    """The base branch that the current round does not merge with, as a required check found; None without one."""
    held = (one for one in reviews.list_checks(unit, review.id, review.round) if one.holds)
    return next((one.branch for run in held if (one := grounds.parsed(run.ground)) and one.conflict), None)


def views(unit: Unit, services: Services, runs: Sequence[CheckRun]) -> tuple[CheckView, ...]:
    """Checks of a project as they are shown."""
    doubts = grounds.Doubts(unit, services, runs[0].project) if runs else None
    return tuple(_view(one, doubts) for one in runs)


def view(unit: Unit, services: Services, run: CheckRun) -> CheckView:
    """A check as it is shown."""
    return views(unit, services, (run,))[0]


def _view(run: CheckRun, doubts: grounds.Doubts | None) -> CheckView:
    setup: dict[str, Any] | None = orjson.loads(run.setup) if run.setup else None
    ground = grounds.parsed(run.ground)
    doubt = doubts.of(run.ground) if doubts and run.required and run.status == CheckStatus.PASSED else None
    return shown(
        CheckView,
        run,
        required=bool(run.required),
        command=tuple(orjson.loads(run.command)),
        setup=CheckSetup(**setup) if setup else None,
        seconds=None if run.duration_us is None else run.duration_us / MICROSECONDS,
        has_log=run.log_id is not None,
        commit=ground and ground.commit,
        branch=ground and ground.branch,
        tip=ground and ground.tip,
        moved_to=None,
        doubt=doubt and doubt.words,
    )


async def as_of_now(services: Services, project: str, found: tuple[CheckView, ...]) -> tuple[CheckView, ...]:
    """Checks with where the branches are by now that they ran on."""
    tips = await grounds.tips(services, project, (one.branch for one in found))
    moved = ((one, tips.get(one.branch or "") if one.commit else None) for one in found)
    return tuple(one if tip in (None, one.tip) else replace(one, moved_to=tip) for one, tip in moved)


def _is_over(review: Review) -> bool:
    """Whether nothing will come of its content any more."""
    return review.state == State.REJECTED or (review.state == State.CLOSED and review.outcome != "approved")


def _find(unit: Unit, review: Review, number: int, name: str) -> CheckRun:
    found = reviews.list_checks(unit, review.id, number)
    run = next((one for one in found if one.name == name), None)
    if run is None:
        names = [one.name for one in found]
        raise NotFound(
            f"Round {number} of '{review.id}' has no check '{name}'; it has: {', '.join(names) or 'none'}.",
            review_id=review.id,
            allowed=names,
        )
    return run


def _begun(
    unit: Unit,
    services: Services,
    review: Review,
    before: CheckRun,
    request: ReportCheck,
    now: int,
    ground: Ground | None,
) -> tuple[CheckRun, bool]:
    """A check that a runner begins, and whether this runner runs it: its end may be known, or another runs it."""
    ours = before.status == CheckStatus.RUNNING and before.runner == request.runner
    if not (ours or before.status == CheckStatus.QUEUED or before.is_lost(now)):
        return before, False
    noted = partial(_noted, unit, services, review, before, actor=request.runner, now=now)
    if before.round != review.round or _is_over(review):
        ended = before._replace(status=CheckStatus.SKIPPED.value, reason="The review has gone on.", finished_at=now)
        return noted(ended), False
    if ground is not None and ground.problem is not None:
        kept = grounds.as_json(ground)
        ended = before._replace(status=CheckStatus.ERROR.value, reason=ground.problem, ground=kept, finished_at=now)
        return noted(ended), False
    stands = ground or grounds.parsed(before.ground)
    if stands is not None:
        stands = replace(stands, commit=request.commit)
    alike = [
        one
        for one in (reviews.list_alike_checks(unit, before, request.tree) if request.tree else ())
        if (other := grounds.parsed(one.ground)) is not None and other.commit == request.commit
    ]
    told = (one for one in alike if one.tells_of(before))
    known = next((one for one in told if not _went_on(unit, one, before.review_id)), None)
    # Asked for once more, for a reason, it must run: the caller does not believe the known result.
    if known is not None and before.reason is None:
        same = f"{known.review_id}, round {known.round}"
        copied = ("status", "tree", "exit_status", "duration_us", "log_id", "runner")
        ended = before._replace(
            **{name: getattr(known, name) for name in copied},
            reason=f"As for the same tree in {same}.",
            ground=grounds.as_json(stands),
            finished_at=now,
        )
        return noted(ended, _copied_findings(unit, services, review, known, now), same_as=same), False
    if any(one.status == CheckStatus.RUNNING and not one.is_lost(now) for one in alike):
        return before, False
    started = before._replace(
        status=CheckStatus.RUNNING.value,
        runner=request.runner,
        tree=request.tree,
        ground=grounds.as_json(stands),
        started_at=now,
    )
    return noted(started), True


def _ended(
    unit: Unit, services: Services, review: Review, before: CheckRun, request: ReportCheck, now: int
) -> CheckRun:
    given_back = request.status == CheckStatus.QUEUED
    ended = before._replace(
        status=request.status,
        runner=None if given_back else request.runner,
        tree=request.tree or before.tree,
        # Given back, it is still asked for again, if it was.
        reason=before.reason if given_back else request.reason,
        exit_status=request.exit_status,
        duration_us=None if request.seconds is None else round(request.seconds * MICROSECONDS),
        log_id=ledger.keep_content(unit, request.log or None),
        finished_at=None if given_back else now,
    )
    says = request.status in SAYS_SOMETHING
    found = _taken_findings(unit, services, review, ended, request.findings or (), now) if says else ()
    return _noted(unit, services, review, before, ended, found, actor=request.runner, now=now)


def _noted(
    unit: Unit,
    services: Services,
    review: Review,
    before: CheckRun,
    after: CheckRun,
    found: tuple[Finding, ...] = (),
    *,
    actor: str,
    now: int,
    **facts: object,
) -> CheckRun:
    """Write what became of a check, with its event."""
    if after == before:
        return after
    data: dict[str, object] = {"round": after.round, "check": after.name, "status": after.status, **facts}
    if after.status == CheckStatus.QUEUED:
        _requested(unit, services, review, (after,), actor, now)
        return after
    if after.status == CheckStatus.RUNNING:
        kind = EventKind.CHECK_STARTED
        data |= {"tree": after.tree, "runner": after.runner}
    else:
        kind = EventKind.CHECK_FINISHED
        seconds = None if after.duration_us is None else after.duration_us / MICROSECONDS
        data |= {"reason": after.reason, "exit_status": after.exit_status, "seconds": seconds}
    _write(unit, services, review, writing.Rows(checks=(after,), findings=found), actor, kind, data, now)
    return after


def _requested(
    unit: Unit, services: Services, review: Review, runs: tuple[CheckRun, ...], actor: str, now: int
) -> Review:
    data = {"round": runs[0].round, "checks": [one.name for one in runs]}
    rows = writing.Rows(checks=runs)
    return _write(unit, services, review, rows, actor, EventKind.CHECKS_REQUESTED, data, now)


def _write(
    unit: Unit,
    services: Services,
    review: Review,
    rows: writing.Rows,
    actor: str,
    kind: EventKind,
    data: dict[str, Any],
    now: int,
) -> Review:
    runs = rows.checks
    of_round = {one.name: one for one in reviews.list_checks(unit, review.id, runs[0].round)}
    of_round |= {one.name: one for one in runs}
    is_current = runs[0].round == review.round
    came_to = outcome(list(of_round.values())) if is_current else review.checks
    after = review._replace(checks=came_to, updated_at=now)
    written = writing.change_review(unit, review, after, actor=actor, kind=kind, data=data, rows=rows)
    return seats.approve_by_rule(unit, services, written, list(of_round.values()), now) if is_current else written


_SAID = ("file", "line", "end_line", "side", "severity", "category", "claim", "failure", "suggestion")


def _taken_findings(
    unit: Unit, services: Services, review: Review, run: CheckRun, given: Sequence[GivenFinding], now_us: int
) -> tuple[Finding, ...]:
    """The new findings of a check, and those that it no longer has, which are verified; or has again.

    The same words about the same file, for the same time, are the same finding: its lines may have moved.
    """
    known, found = _numbered(_of(unit, review.id, run.name)), _numbered(given)
    # One that failed and names nothing may have ended before it looked.
    looked = bool(given) or run.status == CheckStatus.PASSED
    gone = [one for what, one in known.items() if looked and what not in found and one.is_open]
    back = (one for what, one in known.items() if what in found and one.state == "verified")
    new = [one for what, one in found.items() if what not in known]
    return (
        *(finding_rules.after(one, "reopened", run.name, "The check finds it again.") for one in back),
        *(finding_rules.after(one, "verified", run.name, None, review.round) for one in gone),
        *(
            new_finding(
                one,
                review,
                id=services.clock.new_id("fn"),
                position=at,
                round=run.round if run.review_id == review.id else review.round,
                source="check",
                author=run.name,
                created_at=now_us,
            )
            for at, one in enumerate(new)
        ),
    )


def _went_on(unit: Unit, known: CheckRun, review_id: str) -> bool:
    """Whether a known result does not tell any more what the check finds: later rounds of its review changed that."""
    return known.review_id == review_id and bool(_of(unit, review_id, known.name))


def _copied_findings(
    unit: Unit, services: Services, review: Review, known: CheckRun, now_us: int
) -> tuple[Finding, ...]:
    """The same of a check that is not run again, as its result for the same tree is known."""
    if known.review_id == review.id:
        return ()
    there = (one for one in _of(unit, known.review_id, known.name) if one.is_open)
    given = [GivenFinding(**{name: getattr(one, name) for name in _SAID}) for one in there]
    return _taken_findings(unit, services, review, known, given, now_us)


def _of(unit: Unit, review_id: str, name: str) -> list[Finding]:
    known = finding_queries.list_of_review(unit, review_id)
    return [one for one in known if (one.source, one.author) == ("check", name)]


_One = TypeVar("_One", Finding, GivenFinding)


def _numbered(listed: Iterable[_One]) -> dict[tuple[str | None, str | None, str, int], _One]:
    """Findings by their file, category and words, and how many of those came before."""
    seen: Counter[tuple[str | None, str | None, str]] = Counter()
    found: dict[tuple[str | None, str | None, str, int], _One] = {}
    for one in listed:
        what = (one.file, one.category, one.claim)
        found[(*what, seen[what])] = one
        seen[what] += 1
    return found
