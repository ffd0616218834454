"""The operations on gates. Written by `python -m tandem.client.generate`; do not edit."""

# ruff: noqa: PLR0913 - a method has the fields of its request.
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tandem.client.pool_methods import PoolOperations

if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
    from tandem.domain import gate_answers
    from tandem.operations import gate_requests, requests


class GateOperations(PoolOperations):
    """The operations on gates. Each raises the `TandemError` of the refusal's code."""

    async def set_gate(
        self,
        *,
        enabled: bool,
        project: str | None = None,
        idempotency_key: str | None = None,
        branches: list[str] | None = None,
        accepted: list[str] | None = None,
        reason: str | None = None,
    ) -> gate_answers.GateState:
        """Switch a project's gate on or off: whether its commits have to be approved."""
        arguments: dict[str, Any] = {
            "enabled": enabled, "project": project, "idempotency_key": idempotency_key, "branches": branches,
            "accepted": accepted, "reason": reason,
        }
        return await self._operate("set_gate", arguments)

    async def get_gate(
        self,
        *,
        project: str | None = None,
        plan: str | None = None,
    ) -> gate_answers.GateState:
        """Whether a project's gate is on, and where one of its plans stands."""
        arguments: dict[str, Any] = {
            "project": project, "plan": plan,
        }
        return await self._operate("get_gate", arguments)

    async def override_gate(
        self,
        *,
        changes: list[requests.GateChange],
        reason: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        override_id: str | None = None,
        branch: str | None = None,
        at: str | None = None,
    ) -> gate_answers.GateOverridden:
        """Let exactly this difference pass, because a person says so; it is recorded with who and why."""
        arguments: dict[str, Any] = {
            "changes": changes, "reason": reason, "project": project, "idempotency_key": idempotency_key,
            "override_id": override_id, "branch": branch, "at": at,
        }
        return await self._operate("override_gate", arguments)

    async def record_commit(
        self,
        *,
        commit: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        parent: str | None = None,
        branch: str | None = None,
        phase: str | None = None,
        plan: str | None = None,
        task: str | None = None,
        review_ids: list[str] | None = None,
        unreviewed: bool = False,
        replaces: str | None = None,
        depends_on: list[str] | None = None,
        changes: list[requests.GateChange] | None = None,
    ) -> gate_answers.CommitRecord:
        """Tell of a commit that was made, so that it can be found by its plan and review; told twice, it is one."""
        arguments: dict[str, Any] = {
            "commit": commit, "project": project, "idempotency_key": idempotency_key, "parent": parent,
            "branch": branch, "phase": phase, "plan": plan, "task": task, "review_ids": review_ids,
            "unreviewed": unreviewed, "replaces": replaces, "depends_on": depends_on, "changes": changes,
        }
        return await self._operate("record_commit", arguments)

    async def list_commits(
        self,
        *,
        project: str | None = None,
        plan: str | None = None,
        review_id: str | None = None,
        commits: list[str] | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> gate_answers.CommitPage:
        """Recorded commits, oldest first: of a plan, of a review, by their ids, or all of the project."""
        arguments: dict[str, Any] = {
            "project": project, "plan": plan, "review_id": review_id, "commits": commits, "limit": limit,
            "page": page,
        }
        return await self._operate("list_commits", arguments)

    async def record_rollback(
        self,
        review_id: str,
        *,
        branch: str,
        head_before: str,
        head_after: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        reverted: list[gate_requests.RevertedCommit] | None = None,
        carried: list[gate_requests.CarriedCommit] | None = None,
        rework: list[str] | None = None,
    ) -> gate_answers.RollbackRecorded:
        """Tell that a review's change was rolled back; its plan goes on in blocking mode. Told twice, it is one."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "branch": branch, "head_before": head_before, "head_after": head_after,
            "project": project, "idempotency_key": idempotency_key, "reverted": reverted, "carried": carried,
            "rework": rework,
        }
        return await self._operate("record_rollback", arguments)
