"""Commits that hooks tell of, and what was rolled back of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

import orjson

from tandem.clock import isoformat
from tandem.domain.events import Kind
from tandem.domain.exempt import is_exempt
from tandem.domain.gate_answers import Carried, CommitPage, CommitRecord, Reverted, RollbackRecorded
from tandem.domain.gate_records import Commit, Rollback
from tandem.domain.gates import Change, inverse
from tandem.domain.reviews import Review, check_project
from tandem.errors import InvalidInput, TooLarge
from tandem.git import digest_of
from tandem.services import pages
from tandem.services.context import Call, Services, transact
from tandem.services.gate_rules import exempt_patterns
from tandem.services.gate_switch import require_known
from tandem.services.gates import check_paths
from tandem.store import commits, events, ledger, reviews
from tandem.store.base import Unit

_GIT = "git"
"""Who records what a hook does without saying for whom."""


@dataclass(frozen=True, slots=True)
class NewCommit:
    """A commit as a hook tells of it.

    Attributes:
        id: Its id.
        parent: Its first parent; null for a root commit.
        branch: The branch that it was made on; null on none.
        phase: The phase that it belongs to.
        plan: The plan's key; null for the branch.
        task: The task that it belongs to.
        review_ids: The reviews that its message names.
        unreviewed: Whether it passed unreviewed.
        replaces: The commit that it was made from, by an amend or a rebase.
        depends_on: What its message says that it depends on.
        changes: Its difference to its parent, for the rule of exact inverses; null if there is no such rule for it.
    """

    id: str
    parent: str | None = None
    branch: str | None = None
    phase: str | None = None
    plan: str | None = None
    task: str | None = None
    review_ids: Sequence[str] = ()
    unreviewed: bool = False
    replaces: str | None = None
    depends_on: Sequence[str] = ()
    changes: Sequence[Change] | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which recorded commits a page has: those of a plan, of a review, by their ids, or all."""

    plan: str | None = None
    review_id: str | None = None
    commits: Sequence[str] | None = None


@dataclass(frozen=True, slots=True)
class NewRollback:
    """A rollback as it was done in the repository.

    Attributes:
        branch: The branch that moved.
        head_before: Where it was.
        head_after: Where it is.
        reverted: Each commit that was reverted, with the one that did it.
        carried: Each commit that was made anew, with what it became.
        rework: Commits whose work has to be done again.
    """

    branch: str
    head_before: str
    head_after: str
    reverted: Sequence[tuple[str, str]] = ()
    carried: Sequence[tuple[str, str]] = ()
    rework: Sequence[str] = ()


async def record(services: Services, call: Call, project: str, new: NewCommit) -> CommitRecord:
    """Remember a commit; the same commit again stays as it is.

    Raises:
        InvalidInput: A path is named twice, or the commit is said to replace itself.
        NotFound: The broker does not know the project.
    """
    check_paths(new.changes or ())
    if new.replaces == new.id:
        raise InvalidInput("A commit cannot replace itself; name the commit that it was made from.", field="replaces")
    taking_back = await asyncio.to_thread(_inverse_digest, services, project, new)
    wanted = Commit(
        project=project,
        id=new.id,
        parent=new.parent,
        branch=new.branch,
        phase=new.phase,
        plan=new.plan or new.branch,
        task=new.task,
        review_ids=_json(new.review_ids),
        unreviewed=int(new.unreviewed),
        depends_on=_json(new.depends_on),
        replaces=new.replaces,
        inverse=taking_back,
        recorded_at=services.clock.now_us(),
        recorded_by=call.agent or _GIT,
    )

    def work(unit: Unit) -> CommitRecord:
        events.lock(unit)
        require_known(services, unit, project)
        known = commits.find(unit, project, new.id)
        return _view(unit, known or commits.add(unit, wanted, _facts(wanted)))

    return await transact(services, call, work)


async def list_page(services: Services, project: str, wanted: Wanted, *, limit: int, page: str | None) -> CommitPage:
    """Recorded commits in the order in which they were recorded.

    Raises:
        InvalidInput: More than one of plan, review and ids was named, or the page is none of this list.
        TooLarge: More rows, or more ids, than a page may have.
    """
    pages.check_limit(services, limit)
    if sum(part is not None for part in (wanted.plan, wanted.review_id, wanted.commits)) > 1:
        raise InvalidInput("Name one of plan, review_id and commits.", field="plan")
    if wanted.commits is not None:
        return await _named(services, project, wanted.commits)
    after: int | None = pages.decode(services, page, int)[0] if page else None

    def work(unit: Unit) -> CommitPage:
        found = commits.list_page(
            unit, project, limit=limit + 1, after=after, plan=wanted.plan, review_id=wanted.review_id
        )
        shown = found[:limit]
        following = pages.encode(services, shown[-1].event_seq) if len(found) > limit else None
        return CommitPage(tuple(_view(unit, commit) for commit in shown), following)

    return await services.store.read(work)


async def record_rollback(
    services: Services, call: Call, review_id: str, project: str | None, new: NewRollback
) -> RollbackRecorded:
    """Remember that a review's change was rolled back; the same rollback again stays as it is.

    Its plan is in blocking mode from then on.

    Raises:
        NotFound: There is no such review (in that project).
        InvalidInput: A commit is named twice.
    """
    for field, named in (("reverted", new.reverted), ("carried", new.carried)):
        if len({commit for commit, _ in named}) != len(named):
            raise InvalidInput("Every commit may be named once.", field=field)

    def work(unit: Unit) -> RollbackRecorded:
        before = reviews.get(unit, review_id, lock=True)
        check_project(before, project)
        events.lock(unit)
        earlier = commits.find_rollback(unit, review_id, new.head_after)
        if earlier is not None:
            return _rolled_back(earlier)
        now = services.clock.now_us()
        rollback = _rollback(unit, before, new, now, call.agent or _GIT)
        ledger.change_review(
            unit,
            before,
            before._replace(updated_at=now),
            actor=rollback.rolled_back_by,
            kind=Kind.CHANGE_ROLLED_BACK,
            data=_rollback_facts(rollback, new),
            rows=ledger.Rows(rollback=rollback),
        )
        return _rolled_back(rollback)

    return await transact(services, call, work)


async def _named(services: Services, project: str, ids: Sequence[str]) -> CommitPage:
    most = services.policy.page_limit
    if len(ids) > most:
        raise TooLarge(f"At most {most} commits can be named at once.", field="commits", limit=most, actual=len(ids))

    def work(unit: Unit) -> CommitPage:
        known = [commits.find(unit, project, commit) for commit in dict.fromkeys(ids)]
        found = sorted((commit for commit in known if commit is not None), key=lambda commit: commit.event_seq)
        return CommitPage(tuple(_view(unit, commit) for commit in found), None)

    return await services.store.read(work)


def _inverse_digest(services: Services, project: str, new: NewCommit) -> str | None:
    """The digest of what would take a commit back, exempt paths left out; null if nothing would."""
    if not new.changes or new.parent is None:
        return None
    patterns = exempt_patterns(services, project)
    judged = [change for change in new.changes if not is_exempt(change, patterns)]
    return digest_of(inverse(judged)) if judged else None


def _json(items: Sequence[object]) -> str:
    return orjson.dumps(list(dict.fromkeys(items))).decode()


def _facts(commit: Commit) -> dict[str, object]:
    return {
        "commit": commit.id,
        "branch": commit.branch,
        "plan": commit.plan,
        "review_ids": orjson.loads(commit.review_ids),
        "unreviewed": bool(commit.unreviewed),
        "replaces": commit.replaces,
    }


def _rollback(unit: Unit, review: Review, new: NewRollback, now: int, actor: str) -> Rollback:
    plan = commits.plan_of(unit, review.project, review.id, [commit for commit, _ in new.reverted])
    return Rollback(
        review_id=review.id,
        head_after=new.head_after,
        project=review.project,
        plan=plan or new.branch,
        branch=new.branch,
        head_before=new.head_before,
        reverted=orjson.dumps(new.reverted).decode(),
        carried=orjson.dumps(new.carried).decode(),
        rework=_json(new.rework),
        rolled_back_at=now,
        rolled_back_by=actor,
    )


def _rollback_facts(rollback: Rollback, new: NewRollback) -> dict[str, object]:
    return {
        "plan": rollback.plan,
        "branch": rollback.branch,
        "head_before": rollback.head_before,
        "head_after": rollback.head_after,
        "reverted": len(new.reverted),
        "carried": len(new.carried),
        "rework": len(new.rework),
    }


def _rolled_back(rollback: Rollback) -> RollbackRecorded:
    return RollbackRecorded(
        review_id=rollback.review_id,
        project=rollback.project,
        plan=rollback.plan,
        branch=rollback.branch,
        head_before=rollback.head_before,
        head_after=rollback.head_after,
        reverted=tuple(Reverted(*pair) for pair in orjson.loads(rollback.reverted)),
        carried=tuple(Carried(*pair) for pair in orjson.loads(rollback.carried)),
        rework=tuple(orjson.loads(rollback.rework)),
        rolled_back_at=isoformat(rollback.rolled_back_at),
        rolled_back_by=rollback.rolled_back_by,
    )


def _view(unit: Unit, commit: Commit) -> CommitRecord:
    became = commits.fate(unit, commit)
    return CommitRecord(
        project=commit.project,
        commit=commit.id,
        parent=commit.parent,
        branch=commit.branch,
        phase=commit.phase,
        plan=commit.plan,
        task=commit.task,
        review_ids=tuple(orjson.loads(commit.review_ids)),
        unreviewed=bool(commit.unreviewed),
        depends_on=tuple(orjson.loads(commit.depends_on)),
        replaces=commit.replaces,
        recorded_at=isoformat(commit.recorded_at),
        recorded_by=commit.recorded_by,
        replaced_by=became.replaced_by,
        rolled_back_by=became.rolled_back_by,
    )
