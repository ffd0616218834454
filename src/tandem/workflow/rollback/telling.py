"""Telling the broker what a rollback did: its commits, what has to be reviewed again, the plan's blocking mode."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

from tandem.client import TandemClient
from tandem.domain.answers import Proposal
from tandem.errors import InvalidTransition, TandemError
from tandem.git.repository import Repository
from tandem.git.snapshot import Scope
from tandem.hooks import record, state
from tandem.hooks.git import GitTrouble
from tandem.workflow.rollback.report import Report, ReReview
from tandem.workflow.rollback.reviewed import Desk

_LONGEST_INTENT = 500
_SHORT = 10


async def tell(client: TandemClient, report: Report) -> Report:
    """Records the rollback and puts up again what changed; telling the same again has no further effect.

    Args:
        client: The broker.
        report: What was done.

    Returns:
        The report with the reviews that were put up again; `unsaid` names what the broker does not take.

    Raises:
        TandemError: The broker does not answer, or refuses the rollback itself.
    """
    root = Path(report.worktree)
    made = [(report.counter_patch.commit, None)] if report.counter_patch is not None else []
    await record_commits(client, root, report, [*made, *((one.becomes, one.commit) for one in report.carried)])
    reverted: Any = [
        {"commit": one.commit, "reverted_by": one.reverted_by} for one in report.reverted if one.reverted_by
    ]
    carried: Any = [{"commit": one.commit, "becomes": one.becomes} for one in report.carried]
    await client.record_rollback(
        report.review_id,
        project=report.project,
        branch=report.branch,
        head_before=report.head_before,
        head_after=report.head_after,
        reverted=reverted,
        carried=carried,
        rework=[one.commit for one in report.rework if one.commit is not None],
    )
    desk = Desk(client, report.project)
    again: list[ReReview] = []
    refused: list[str] = []
    for commit, review_id in _to_review(report):
        try:
            again.append(await _put_up(desk, root, commit, review_id, report))
        except TandemError as error:
            if error.retryable:
                raise
            refused.append(f"{commit[:_SHORT]} cannot be put up again for {review_id}: {error.message}")
    return replace(report, re_reviews=tuple(again), unsaid="; ".join(refused) or None)


async def record_commits(
    client: TandemClient, root: Path, report: Report, commits: Iterable[tuple[str, str | None]]
) -> None:
    """Has the broker know commits of the plan; those that it knows stay as they are.

    Args:
        client: The broker.
        root: A working tree that has them.
        report: Which plan and branch they belong to.
        commits: Each with the commit that it replaces, if there is one.

    Raises:
        TandemError: The broker does not answer, or refuses.
    """
    place = state.find_place(str(root))
    if place is None:
        return
    for commit, replaces in commits:
        try:
            asked: dict[str, Any] = await asyncio.to_thread(record.request, place, commit, report.branch, replaces)
        except GitTrouble:
            # A path that is not UTF-8, which no gate knows either: it is found by its trailer.
            continue
        asked["plan"] = report.plan
        await client.record_commit(project=report.project, **asked)


def _to_review(report: Report) -> Iterable[tuple[str, str]]:
    """The commits whose content is no longer what was put up, and under which review it was."""
    if report.counter_patch is not None and not report.counter_patch.exact:
        yield report.counter_patch.commit, report.review_id
    for one in report.carried:
        if one.approval == "re_review":
            # Several approvals together covered it; the first one's review takes all of it.
            yield one.becomes, one.review_ids[0]


async def _put_up(desk: Desk, root: Path, commit: str, review_id: str, report: Report) -> ReReview:
    """Puts a commit's content up as the next round of its review, or as a new one where that is over."""
    current = (await desk.review(review_id)).current
    content = await asyncio.to_thread(_content, root, commit)
    facts: dict[str, Any] = {
        **_identity(current),
        **content,
        "metadata": {**current.metadata, "rolled_back": report.review_id},
    }
    key = f"rollback-{report.head_after}-{review_id}"
    try:
        made = await desk.client.create_review(review_id=review_id, idempotency_key=key, **facts)
    except InvalidTransition:
        facts |= {"category": current.category, "parent_id": review_id}
        made = await desk.client.create_review(idempotency_key=f"{key}-new", **facts)
    return ReReview(commit, made.review_id, made.round, review_id)


def _identity(current: Proposal) -> dict[str, Any]:
    return {
        "project": current.project,
        "intent": current.intent[:_LONGEST_INTENT],
        "agent_type": current.agent_type,
        "agent_role": current.agent_role,
        "phase": current.phase,
        "plan": current.plan,
        "task": current.task,
        "proposer_id": current.proposer_id,
    }


def _content(root: Path, commit: str) -> dict[str, Any]:
    with Repository(root) as repository:
        found = repository.working_diff(Scope(revision=commit))
    return {"diff": found.diff, "base": found.base}
