"""The gate: what is approved, to the byte."""

from __future__ import annotations

from tandem.domain.answers import GateDecision, PathDecision
from tandem.domain.gates import Approval, Change, cover
from tandem.errors import InvalidInput
from tandem.services.context import Services
from tandem.store import reports
from tandem.store.base import Unit

_CANDIDATES = 500
"""Approvals of the same blob at the same path that are looked at; more would be abuse."""
_APPROVED_PATHS = 100_000


async def check_digest(services: Services, project: str, digest: str) -> GateDecision:
    """Whether a digest is approved and still stands."""
    found = await services.store.read(lambda unit: reports.find_approval(unit, project, digest))
    if found is None:
        return GateDecision(
            allowed=False,
            project=project,
            reason="No approved round has this digest. Put the change up with create_review or tandem submit.",
            review_ids=(),
            paths=(),
        )
    review_id, number = found
    return GateDecision(
        allowed=True,
        project=project,
        reason=f"approved by {review_id}, round {number}",
        review_ids=(review_id,),
        paths=(),
    )


async def check_changes(services: Services, project: str, changes: list[Change]) -> GateDecision:
    """Whether every change is covered by an approval; fails closed.

    Raises:
        InvalidInput: A path is named twice.
    """
    paths = {change.path for change in changes}
    if len(paths) != len(changes):
        raise InvalidInput("Every path may be named once.", field="changes")
    if not changes:
        return GateDecision(allowed=True, project=project, reason="nothing changes", review_ids=(), paths=())

    def work(unit: Unit) -> tuple[list[Approval], dict[str, Approval]]:
        found = _candidates(unit, project, changes)
        # In the reader's thread: a search over many paths must not hold up the event loop.
        return found, cover(changes, found)

    approvals, covered = await services.store.read(work)
    decisions = tuple(_decision(change, covered.get(change.path), approvals) for change in changes)
    allowed = all(decision.allowed for decision in decisions)
    missing = [decision.path for decision in decisions if not decision.allowed]
    reason = (
        "everything is approved"
        if allowed
        else f"{len(missing)} of {len(decisions)} paths are not approved as they are, first {missing[0]}."
        " Put the change up with tandem submit, or commit exactly what was approved."
    )
    used = tuple(sorted({approval.review_id for approval in covered.values()}))
    return GateDecision(allowed=allowed, project=project, reason=reason, review_ids=used, paths=decisions)


def _candidates(unit: Unit, project: str, changes: list[Change]) -> list[Approval]:
    """Every approval that has one of the changes' paths with its blob, whole."""
    found: dict[tuple[str, int], Approval] = {}
    for change in changes:
        rows = reports.list_approved_for_path(unit, project, change.path, change.blob_after, _CANDIDATES)
        for review_id, number, kind, *_ in rows:
            if (review_id, number) in found:
                continue
            entries = reports.list_approved_paths(unit, review_id, number, _APPROVED_PATHS)
            found[review_id, number] = Approval(
                review_id, number, frozenset(Change(*entry) for entry in entries), is_text=kind == "text"
            )
    return list(found.values())


def _decision(change: Change, approval: Approval | None, candidates: list[Approval]) -> PathDecision:
    if approval is not None:
        reason = f"approved by {approval.review_id}, round {approval.round}"
        return PathDecision(
            change.path, allowed=True, review_id=approval.review_id, round=approval.round, reason=reason
        )
    partly = [found for found in candidates if change in found.changes]
    if partly:
        reason = f"approved by {partly[0].review_id} only together with its other paths; commit them together"
    elif any(entry.path == change.path for found in candidates for entry in found.changes):
        reason = "approved with another mode, or against other content before"
    else:
        reason = "no approved round has this content at this path"
    return PathDecision(change.path, allowed=False, review_id=None, round=None, reason=reason)
