"""Records the commits that hooks report, and their rollbacks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import orjson
from typing_extensions import override

from tandem.contract.answer import shown
from tandem.contract.caller import Caller
from tandem.errors import Forbidden, InvalidInput, InvalidTransition, TandemError, TooLarge
from tandem.gate import queries, signing
from tandem.gate.approvals import is_approved
from tandem.gate.contract import (
    Carried,
    CommitPage,
    CommitRecord,
    ListCommits,
    RecordCommit,
    RecordRollback,
    Reverted,
    RevertedCommit,
    RollbackRecorded,
)
from tandem.gate.judging import changes_of, exempt_patterns
from tandem.gate.rules import CommitRow, as_list, inverse, names, names_of
from tandem.gate.switch import require_known
from tandem.git.changes import Change
from tandem.git.raw import digest_of
from tandem.git.snapshot import Returned
from tandem.reviews import queries as reviews
from tandem.reviews import writing
from tandem.reviews.context import Decision, Difference, Participant, Services, key_of
from tandem.reviews.rounds import Round
from tandem.reviews.rules import Review, Rollback
from tandem.rulings import proof
from tandem.settings.policy import is_exempt
from tandem.store import events, pages
from tandem.store.base import Unit
from tandem.store.context import transact
from tandem.store.event import EventKind

_GIT = "git"
"""The actor of a hook that names none."""

_MOST_STANDING = 1_000
"""Commits of one review that are looked at."""

_SHORT = 10


class CommittedReviews(Participant):
    """Reviews whose change was committed already: a verdict against one stops the work on its plan."""

    @override
    def protected_branches(self, unit: Unit, project: str) -> tuple[str, ...]:
        gate = queries.find_gate(unit, project)
        return tuple(names(gate.branches)) if gate is not None and gate.enabled else ()

    @override
    def threshold(self, unit: Unit, project: str) -> str | None:
        gate = queries.find_gate(unit, project)
        return gate.threshold if gate is not None else None

    @override
    def accepted_commits(self, unit: Unit, project: str) -> tuple[str, ...]:
        gate = queries.find_gate(unit, project)
        return tuple(names(gate.accepted)) if gate is not None and gate.enabled else ()

    @override
    def approves(self, unit: Unit, services: Services, project: str, what: Difference) -> bool:
        if is_approved(unit, project, what.digest, what.changes, exempt_patterns(services, project)):
            return True
        gate = queries.find_gate(unit, project) if what.signed else None
        return signing.verify(names_of(gate, "signers"), what.digest, what.signed).signer is not None

    @override
    def commits_of(self, unit: Unit, services: Services, review: Review, current: Round) -> tuple[str, ...]:
        found = queries.list_standing(unit, review.project, review.id)
        if not found:
            return ()
        judged = _judged(services, review.project, [Change(**change) for change in orjson.loads(current.changes)])
        content = digest_of(inverse(judged)) if judged else None
        return tuple(one.id for one in found if _holds(one, content, review))

    @override
    def decided(self, unit: Unit, services: Services, decision: Decision) -> None:
        if decision.verdict in queries.AGAINST:
            queries.note_refusal(unit, decision.review.id)


async def record_commit(services: Services, caller: Caller, request: RecordCommit) -> CommitRecord:
    """Remember a commit; the same commit again stays as it is.

    Raises:
        InvalidInput: A path is named twice, or the commit is said to replace itself.
        NotFound: The broker does not know the project.
    """
    project = services.projects.require(request.project, caller.project)
    if request.replaces == request.commit:
        raise InvalidInput("A commit cannot replace itself; name the commit that it was made from.", field="replaces")
    taking_back = await asyncio.to_thread(_inverse_digest, services, project, request)
    wanted = CommitRow(
        project=project,
        id=request.commit,
        parent=request.parent,
        branch=request.branch,
        phase=request.phase,
        plan=request.plan or request.branch,
        task=request.task,
        review_ids=as_list(request.review_ids),
        unreviewed=int(request.unreviewed),
        depends_on=as_list(request.depends_on),
        replaces=request.replaces,
        inverse=taking_back,
        recorded_at=services.clock.now_us(),
        recorded_by=caller.agent or _GIT,
    )

    def work(unit: Unit) -> CommitRecord:
        events.lock(unit)
        require_known(services, unit, project)
        known = queries.find_commit(unit, project, request.commit)
        return _view(unit, known or queries.add_commit(unit, wanted, _facts(wanted)))

    return await transact(services, caller, work)


async def list_commits(services: Services, caller: Caller, request: ListCommits) -> CommitPage:
    """Recorded commits in the order in which they were recorded.

    Raises:
        InvalidInput: More than one of plan, review and ids was named, or the page is none of this list.
        TooLarge: More rows, or more ids, than a page may have.
    """
    project, limit = services.projects.require(request.project, caller.project), request.limit
    pages.check_limit(services, limit)
    if sum(part is not None for part in (request.plan, request.review_id, request.commits)) > 1:
        raise InvalidInput("Name one of plan, review_id and commits.", field="plan")
    if request.commits is not None:
        return await _named(services, project, request.commits)
    after: int | None = pages.decode(services, request.page, int)[0] if request.page else None

    def work(unit: Unit) -> CommitPage:
        found = queries.list_commits(
            unit, project, limit=limit + 1, after=after, plan=request.plan, review_id=request.review_id
        )
        listed, following = pages.cut(services, found, limit, lambda commit: (commit.event_seq,))
        return CommitPage(tuple(_view(unit, commit) for commit in listed), following)

    return await services.store.read(work)


async def record_rollback(services: Services, caller: Caller, request: RecordRollback) -> RollbackRecorded:
    """Record that a review's change was rolled back; recording the same rollback again changes nothing.

    Its plan is in blocking mode from then on. A change that was not rolled back is settled too once its earlier content
    is back, which the broker sees in the repository itself, or once a person says so.

    Raises:
        NotFound: There is no such review (in that project).
        InvalidInput: A commit is named twice.
        InvalidTransition: There is nothing to settle, or the change stands, or that cannot be seen.
        Forbidden: Nothing proves that a person settled it.
    """
    for field, named in (("reverted", request.reverted), ("carried", request.carried)):
        if len({one.commit for one in named}) != len(named):
            raise InvalidInput("Every commit may be named once.", field=field)
    settling = None if request.how == "rollback" else await _settling(services, request)

    def work(unit: Unit) -> RollbackRecorded:
        before = reviews.get(unit, request.review_id, request.project, lock=True)
        events.lock(unit)
        # A rejection is settled once.
        earlier = queries.find_rollback(unit, before.id, None if settling else request.head_after)
        if earlier is not None:
            return _rolled_back(earlier)
        told = request
        if settling is not None:
            _refuse_to_settle(before)
            if settling.standing != _standing(unit, before):
                raise InvalidTransition(
                    f"A commit of {before.id} was recorded meanwhile; run this again.", review_id=before.id
                )
            told = request.model_copy(update={"reverted": settling.reverted})
        now = services.clock.now_us()
        rollback = _rollback(unit, before, told, now, caller.agent or _GIT)
        writing.change_review(
            unit,
            before,
            before._replace(updated_at=now),
            actor=rollback.rolled_back_by,
            kind=EventKind.CHANGE_ROLLED_BACK,
            data={**_rollback_facts(rollback, told), **(settling.facts if settling else {})},
            rows=writing.Rows(rollback=rollback),
        )
        return _rolled_back(rollback)

    return await transact(services, caller, work)


@dataclass(frozen=True, slots=True)
class _Settling:
    """The end of a rejection without a rollback.

    Attributes:
        standing: The recorded commits of the review, each with the branch that it was made on.
        reverted: Those that are in a branch, and the commits that reverted them.
        facts: For the log.
    """

    standing: Mapping[str, str | None]
    reverted: list[RevertedCommit]
    facts: Mapping[str, object]


async def _settling(services: Services, request: RecordRollback) -> _Settling:
    """The end of the rejection; nothing if it has ended.

    Raises:
        InvalidTransition: It was not decided against, or the change stands, or that cannot be seen.
        Forbidden: Nothing proves that a person settled it.
    """

    def look(unit: Unit) -> tuple[Review, bool, Mapping[str, str | None], Round]:
        review = reviews.get(unit, request.review_id, request.project)
        has_ended = queries.find_rollback(unit, review.id) is not None
        if not has_ended:
            _refuse_to_settle(review)
        return review, has_ended, _standing(unit, review), reviews.get_round(unit, review.id, review.round)

    review, has_ended, standing, current = await services.store.read(look)
    if has_ended:
        return _Settling(standing, [], {})
    if request.how == "settled":
        facts = proof.settled_facts(review.project, review.id, request.head_after, request.reason)
        proved_by = await key_of(services, request.proof, facts)
        if proved_by is None:
            raise Forbidden(
                f"That {review.id} is settled needs the proof that a person was asked and answered. The command makes"
                f" it when a person at a terminal runs: tandem rollback {review.id} --settled -m 'why'.",
                field="proof",
                needed="person",
            )
        return _Settling(standing, [], {"reason": request.reason, "proved_by": proved_by})
    return _Settling(standing, await _observed(services, request, review, standing, current), {})


async def _observed(
    services: Services, request: RecordRollback, review: Review, standing: Mapping[str, str | None], current: Round
) -> list[RevertedCommit]:
    """The commits that reverted those of a review, as the repository shows; without commits that are gone.

    Raises:
        InvalidTransition: One stands, or that cannot be seen.
    """
    repository = await services.projects.repository(review.project)
    by_hand = f"A person can say that it is settled: tandem rollback {review.id} --settled -m 'why'."

    def look() -> Returned:
        if repository is None:
            raise InvalidInput(f"This broker has no folder of the project '{review.project}'")
        patterns = exempt_patterns(services, review.project)
        if not standing:
            # No hook reported a commit: the proposed content is compared with the branch.
            changes = [Change(**change) for change in orjson.loads(current.changes)]
            judged = [change for change in changes if not is_exempt(change, patterns)]
            stands = not judged or repository.has_any(judged, request.head_after)
            return Returned((request.head_after, request.branch) if stands else None, {})
        return repository.returned(
            standing,
            branch=request.branch,
            head=request.head_after,
            judges=lambda change: not is_exempt(change, patterns),
        )

    try:
        async with services.validations:
            found = await asyncio.to_thread(look)
    except TandemError as error:
        problem = f"Whether the change of {review.id} was reverted cannot be seen: {error.message.rstrip('.')}."
        raise InvalidTransition(f"{problem} {by_hand}", review_id=review.id) from error
    if found.standing is not None:
        commit, branch = found.standing
        raise InvalidTransition(
            f"What {review.id} is about stands on {branch} ({commit[:_SHORT]}). Take it back there: tandem rollback"
            f" {review.id}. {by_hand}",
            review_id=review.id,
            commit=commit,
            branch=branch,
        )
    return [RevertedCommit(commit=commit, reverted_by=by) for commit, by in found.by.items()]


def _standing(unit: Unit, review: Review) -> Mapping[str, str | None]:
    found = queries.list_standing(unit, review.project, review.id, _MOST_STANDING)
    return {commit.id: commit.branch for commit in found}


def _refuse_to_settle(review: Review) -> None:
    """Refuse a review that was not decided against.

    Raises:
        InvalidTransition: It was not.
    """
    if not {review.verdict, review.state, review.outcome} & {*queries.AGAINST}:
        raise InvalidTransition(
            f"{review.id} is {review.state} and was not decided against; there is nothing to settle.",
            review_id=review.id,
            status=review.state,
            expected=list(queries.AGAINST),
        )


async def _named(services: Services, project: str, ids: Sequence[str]) -> CommitPage:
    most = services.policy.page_limit
    if len(ids) > most:
        raise TooLarge(
            f"At most {most} commits can be named at once; name fewer, or raise page_limit in the"
            " broker's configuration.",
            field="commits",
            limit=most,
            actual=len(ids),
            setting="page_limit",
        )

    def work(unit: Unit) -> CommitPage:
        known = [queries.find_commit(unit, project, commit) for commit in dict.fromkeys(ids)]
        found = sorted((commit for commit in known if commit is not None), key=lambda commit: commit.event_seq)
        return CommitPage(tuple(_view(unit, commit) for commit in found), None)

    return await services.store.read(work)


def _inverse_digest(services: Services, project: str, request: RecordCommit) -> str | None:
    """The digest of the change that would revert a commit, without exempt paths; None if no change would."""
    changes = changes_of(request.changes)
    if not changes or request.parent is None:
        return None
    judged = _judged(services, project, changes)
    return digest_of(inverse(judged)) if judged else None


def _judged(services: Services, project: str, changes: Sequence[Change]) -> list[Change]:
    patterns = exempt_patterns(services, project)
    return [change for change in changes if not is_exempt(change, patterns)]


def _holds(commit: CommitRow, content: str | None, review: Review) -> bool:
    """Whether a commit that names an approved review has the approved content, rather than an earlier round.

    For a commit of several reviews, or without an inverse, only the time tells: it came after the approval.
    """
    if commit.inverse is not None and len(orjson.loads(commit.review_ids)) == 1:
        return commit.inverse == content
    return review.decided_at is not None and commit.recorded_at >= review.decided_at


def _facts(commit: CommitRow) -> dict[str, object]:
    said = {name: getattr(commit, name) for name in ("branch", "plan", "replaces")}
    lists = {"review_ids": names(commit.review_ids), "unreviewed": bool(commit.unreviewed)}
    return {"commit": commit.id, **said, **lists}


def _rollback(unit: Unit, review: Review, request: RecordRollback, now: int, actor: str) -> Rollback:
    plan = queries.plan_of(unit, review.project, review.id, [one.commit for one in request.reverted])
    return Rollback(
        review_id=review.id,
        head_after=request.head_after,
        project=review.project,
        plan=plan or request.branch,
        branch=request.branch,
        head_before=request.head_before,
        reverted=orjson.dumps([(one.commit, one.reverted_by) for one in request.reverted]).decode(),
        carried=orjson.dumps([(one.commit, one.becomes) for one in request.carried]).decode(),
        rework=as_list(request.rework),
        rolled_back_at=now,
        rolled_back_by=actor,
    )


def _rollback_facts(rollback: Rollback, request: RecordRollback) -> dict[str, object]:
    moved = {name: getattr(rollback, name) for name in ("plan", "branch", "head_before", "head_after")}
    listed = {name: len(getattr(request, name)) for name in ("reverted", "carried", "rework")}
    return {"how": request.how, **moved, **listed}


def _rolled_back(rollback: Rollback) -> RollbackRecorded:
    return shown(
        RollbackRecorded,
        rollback,
        reverted=tuple(Reverted(*pair) for pair in orjson.loads(rollback.reverted)),
        carried=tuple(Carried(*pair) for pair in orjson.loads(rollback.carried)),
        rework=tuple(orjson.loads(rollback.rework)),
    )


def _view(unit: Unit, commit: CommitRow) -> CommitRecord:
    replaced_by, rolled_back_by = queries.fate(unit, commit)
    return shown(
        CommitRecord,
        commit,
        commit=commit.id,
        review_ids=tuple(orjson.loads(commit.review_ids)),
        unreviewed=bool(commit.unreviewed),
        depends_on=tuple(orjson.loads(commit.depends_on)),
        replaced_by=replaced_by,
        rolled_back_by=rolled_back_by,
    )
