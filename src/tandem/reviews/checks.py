"""Checks of rounds: asked for with the round, run by the broker or by a supervisor, and waited for by the gate."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from tandem.contract.answer import shown
from tandem.contract.caller import Caller
from tandem.errors import Forbidden, InvalidTransition, NotFound, StaleClaim
from tandem.reviews import check_queries as rows
from tandem.reviews import contents, writing
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
from tandem.reviews.check_rules import CheckRun, CheckStatus, outcome, runs_of
from tandem.reviews.rules import Review, State
from tandem.store import ledger
from tandem.store.base import Unit
from tandem.store.context import Services, look_or_wait, transact
from tandem.store.event import EventKind

_MOST_UNFINISHED = 100
_MICROSECONDS = 1_000_000
_BROKER = "broker"
_GONE = "The file is trusted now, or no longer names this check."
_AGAIN = "It was asked for again."


def begin(unit: Unit, review: Review, content: contents.Content) -> Review:
    """Ask for the checks of a round that was just written; the review as it is then."""
    runs = runs_of(content.checks, review.id, review.round, review.project, review.updated_at)
    return _requested(unit, review, runs, _BROKER, review.updated_at) if runs else review


async def list_checks(services: Services, caller: Caller, request: ListChecks) -> CheckList:
    """The checks of a round, or those that have not ended; with a wait, once there is news of them.

    Raises:
        NotFound: There is no such review (in that project), or round.
    """
    review_id = request.review_id
    if review_id is None:
        return await _list_unfinished(services, caller, request)
    given = services.waits.read(request.cursor)

    def work(unit: Unit) -> tuple[CheckList, bool]:
        review = reviews.get(unit, review_id, request.project)
        number = request.round or review.round
        reviews.get_round(unit, review.id, number)
        found = rows.list_of_round(unit, review.id, number)
        after = services.waits.place_among(unit, given, review.id)
        is_news = after is None or review.event_seq > after
        place = services.waits.cursor(review.event_seq, unit)
        return CheckList(tuple(map(view, found)), outcome(found), place, changed=is_news), is_news

    return await look_or_wait(services, review_id, lambda: services.store.read(work), request)


async def _list_unfinished(services: Services, caller: Caller, request: ListChecks) -> CheckList:
    project = services.projects.resolve(request.project, caller.project)

    def work(unit: Unit) -> tuple[CheckList, bool]:
        now, newest = services.clock.now_us(), services.waits.newest(unit)
        found = rows.list_unfinished(unit, project, _MOST_UNFINISHED)
        is_news = any(one.status == CheckStatus.QUEUED or one.is_lost(now) for one in found)
        place = services.waits.cursor(newest)
        return CheckList(tuple(map(view, found)), None, place, changed=is_news), is_news

    return await look_or_wait(services, EventKind.CHECKS_REQUESTED, lambda: services.store.read(work), request)


async def run_checks(services: Services, caller: Caller, request: RunChecks) -> CheckList:
    """Ask for the checks of a review's current round again.

    Raises:
        NotFound: There is no such review (in that project), or nothing to run.
        InvalidTransition: The review is over, or went on meanwhile.
    """

    def look(unit: Unit) -> tuple[Review, Any]:
        review = reviews.get(unit, request.review_id, request.project)
        return review, reviews.get_round(unit, review.id, review.round)

    review, current = await services.store.read(look)
    repository = await services.projects.repository(review.project)
    planned: contents.Checks = ()
    if repository is not None and current.base_commit is not None:
        paths = [change["path"] for change in orjson.loads(current.changes)]
        branches = await contents.protected_branches(services, review.project, repository)
        async with services.validations:
            planned = await asyncio.to_thread(contents.planned, repository, current.base_commit, branches, paths)
    services.checks_wanted.set()
    wanted = None if request.checks is None else set(request.checks)
    known = sorted(one.definition.name for one in planned if one.definition)
    if not planned or (wanted is not None and not wanted <= set(known)):
        raise NotFound(
            f"The base of '{review.id}' has no such check in .tandem/checks.toml: {', '.join(known) or 'it has none'}.",
            review_id=review.id,
            allowed=known,
        )

    def work(unit: Unit) -> CheckList:
        before = reviews.get(unit, review.id, lock=True)
        if before.round != current.round or _is_over(before):
            raise InvalidTransition(
                "The review is over, or has another round by now; its checks are not run again.",
                review_id=before.id,
                status=before.state,
                round=before.round,
            )
        now, stored = services.clock.now_us(), rows.list_of_round(unit, before.id, before.round)
        running = {one.name for one in stored if one.status == CheckStatus.RUNNING and not one.is_lost(now)}
        # Not where the file stands for its checks: what it named before is still to pass.
        gone = [one for one in stored if known and one.name not in known and one.name not in running]
        again = tuple(one._replace(status=CheckStatus.SKIPPED.value, required=0, reason=_GONE) for one in gone) + tuple(
            one._replace(reason=_AGAIN) if one.status == CheckStatus.QUEUED else one
            for one in runs_of(planned, before.id, before.round, before.project, now)
            if one.name not in running and (wanted is None or one.name in wanted)
        )
        after = _requested(unit, before, again, caller.agent or before.proposer_id, now) if again else before
        found = rows.list_of_round(unit, after.id, after.round)
        return CheckList(
            tuple(map(view, found)), outcome(found), services.waits.cursor(after.event_seq, unit), changed=bool(again)
        )

    return await transact(services, caller, work)


async def get_check_log(services: Services, _caller: Caller, request: GetCheckLog) -> CheckLog:
    """The end of what a check wrote.

    Raises:
        NotFound: There is no such review (in that project), round or check.
    """

    def work(unit: Unit) -> CheckLog:
        review = reviews.get(unit, request.review_id, request.project)
        found = _find(unit, review, request.round or review.round, request.name)
        return CheckLog(view(found), reviews.find_content(unit, found.log_id) or "")

    return await services.store.read(work)


async def report_check(services: Services, caller: Caller, request: ReportCheck) -> CheckReported:
    """Take in that a check begins, or how it ended.

    Raises:
        Forbidden: A broker without tokens runs its checks itself: anybody could say that one has passed.
        NotFound: There is no such check.
        StaleClaim: Somebody else runs it.
    """
    if caller.access is None or (not services.authenticator.required and not caller.access.is_owner):
        raise Forbidden(
            "A broker without access tokens runs the checks itself, and believes nobody else. For checks on other"
            ' machines set auth = "token".',
            operation="report_check",
        )

    def work(unit: Unit) -> CheckReported:
        review = reviews.get(unit, request.review_id, request.project, lock=True)
        before = _find(unit, review, request.round, request.name)
        now = services.clock.now_us()
        if request.status == CheckStatus.RUNNING:
            return _begun(unit, review, before, request, now)
        if not before.unfinished or (before.status == CheckStatus.RUNNING and before.runner != request.runner):
            raise StaleClaim(
                f"The check '{before.name}' is not yours to report on: it is {before.status}.",
                review_id=review.id,
                actual=before.runner,
            )
        return CheckReported(view(_ended(unit, review, before, request, now)), go=False)

    return await transact(services, caller, work)


def held(unit: Unit, review_id: str, number: int) -> tuple[CheckRun, ...]:
    """The required checks of a round that have not passed."""
    return tuple(one for one in rows.list_of_round(unit, review_id, number) if one.holds)


def view(run: CheckRun) -> CheckView:
    """A check as it is shown."""
    setup: dict[str, Any] | None = orjson.loads(run.setup) if run.setup else None
    return shown(
        CheckView,
        run,
        required=bool(run.required),
        command=tuple(orjson.loads(run.command)),
        setup=CheckSetup(**setup) if setup else None,
        seconds=None if run.duration_us is None else run.duration_us / _MICROSECONDS,
        has_log=run.log_id is not None,
    )


def _is_over(review: Review) -> bool:
    """Whether nothing will come of its content any more."""
    return review.state == State.REJECTED or (review.state == State.CLOSED and review.outcome != "approved")


def _find(unit: Unit, review: Review, number: int, name: str) -> CheckRun:
    found = rows.list_of_round(unit, review.id, number)
    run = next((one for one in found if one.name == name), None)
    if run is None:
        names = [one.name for one in found]
        raise NotFound(
            f"Round {number} of '{review.id}' has no check '{name}'; it has: {', '.join(names) or 'none'}.",
            review_id=review.id,
            allowed=names,
        )
    return run


def _begun(unit: Unit, review: Review, before: CheckRun, request: ReportCheck, now: int) -> CheckReported:
    """A check that is to begin: by this runner, by none as its end is known, or by another."""
    ours = before.status == CheckStatus.RUNNING and before.runner == request.runner
    if not (ours or before.status == CheckStatus.QUEUED or before.is_lost(now)):
        return CheckReported(view(before), go=False)
    if before.round != review.round or _is_over(review):
        ended = before._replace(status=CheckStatus.SKIPPED.value, reason="The review has gone on.", finished_at=now)
        return CheckReported(view(_noted(unit, review, before, ended, request.runner, now)), go=False)
    alike = list(rows.list_alike(unit, before, request.tree)) if request.tree else []
    known = next((one for one in alike if one.tells_of(before)), None)
    # Asked for once more, for a reason, it is to run: whoever asks does not believe what is known.
    if known is not None and before.reason is None:
        same = f"{known.review_id}, round {known.round}"
        copied = ("status", "tree", "exit_status", "duration_us", "log_id", "runner")
        ended = before._replace(
            **{name: getattr(known, name) for name in copied},
            reason=f"As for the same tree in {same}.",
            finished_at=now,
        )
        return CheckReported(view(_noted(unit, review, before, ended, request.runner, now, same_as=same)), go=False)
    if any(one.status == CheckStatus.RUNNING and not one.is_lost(now) for one in alike):
        return CheckReported(view(before), go=False)
    started = before._replace(
        status=CheckStatus.RUNNING.value,
        runner=request.runner,
        tree=request.tree,
        started_at=now,
    )
    return CheckReported(view(_noted(unit, review, before, started, request.runner, now)), go=True)


def _ended(unit: Unit, review: Review, before: CheckRun, request: ReportCheck, now: int) -> CheckRun:
    given_back = request.status == CheckStatus.QUEUED
    ended = before._replace(
        status=request.status,
        runner=None if given_back else request.runner,
        tree=request.tree or before.tree,
        # Given back, it is still asked for again, if it was.
        reason=before.reason if given_back else request.reason,
        exit_status=request.exit_status,
        duration_us=None if request.seconds is None else round(request.seconds * _MICROSECONDS),
        log_id=ledger.keep_content(unit, request.log or None),
        finished_at=None if given_back else now,
    )
    return _noted(unit, review, before, ended, request.runner, now)


def _noted(
    unit: Unit, review: Review, before: CheckRun, after: CheckRun, actor: str, now: int, **facts: object
) -> CheckRun:
    """Write what became of a check, with its event."""
    if after == before:
        return after
    data: dict[str, object] = {"round": after.round, "check": after.name, "status": after.status, **facts}
    if after.status == CheckStatus.QUEUED:
        _requested(unit, review, (after,), actor, now)
        return after
    if after.status == CheckStatus.RUNNING:
        kind = EventKind.CHECK_STARTED
        data |= {"tree": after.tree, "runner": after.runner}
    else:
        kind = EventKind.CHECK_FINISHED
        seconds = None if after.duration_us is None else after.duration_us / _MICROSECONDS
        data |= {"reason": after.reason, "exit_status": after.exit_status, "seconds": seconds}
    _write(unit, review, (after,), actor, kind, data, now)
    return after


def _requested(unit: Unit, review: Review, runs: tuple[CheckRun, ...], actor: str, now: int) -> Review:
    data = {"round": runs[0].round, "checks": [one.name for one in runs]}
    return _write(unit, review, runs, actor, EventKind.CHECKS_REQUESTED, data, now)


def _write(
    unit: Unit,
    review: Review,
    runs: tuple[CheckRun, ...],
    actor: str,
    kind: EventKind,
    data: dict[str, Any],
    now: int,
) -> Review:
    of_round = {one.name: one for one in rows.list_of_round(unit, review.id, runs[0].round)}
    of_round |= {one.name: one for one in runs}
    is_current = runs[0].round == review.round
    came_to = outcome(list(of_round.values())) if is_current else review.checks
    after = review._replace(checks=came_to, updated_at=now)
    return writing.change_review(unit, review, after, actor=actor, kind=kind, data=data, rows=writing.Rows(checks=runs))
