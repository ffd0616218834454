"""The operations on reviewer pools. Written by `python -m tandem.client.generate`; do not edit."""

# ruff: noqa: PLR0913 - a method has the fields of its request.
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tandem.client.cycle_methods import CycleOperations

if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
    from tandem.domain import pool_answers
    from tandem.operations import pool_requests


class PoolOperations(CycleOperations):
    """The operations on reviewer pools. Each raises the `TandemError` of the refusal's code."""

    async def list_reviewers(
        self,
        *,
        project: str | None = None,
    ) -> pool_answers.ReviewerList:
        """The pool's reviewers: who runs, what each does and did, what it cost; and why none is started, if none is."""
        arguments: dict[str, Any] = {
            "project": project,
        }
        return await self._operate("list_reviewers", arguments)

    async def spawn_reviewer(
        self,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> pool_answers.ReviewerView:
        """Start a reviewer for a project now, whatever the queue."""
        arguments: dict[str, Any] = {
            "project": project, "idempotency_key": idempotency_key,
        }
        return await self._operate("spawn_reviewer", arguments)

    async def kill_reviewer(
        self,
        *,
        reviewer_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        force: bool = False,
    ) -> pool_answers.ReviewerView:
        """End a reviewer of the pool: after its current review, or with force at once."""
        arguments: dict[str, Any] = {
            "reviewer_id": reviewer_id, "project": project, "idempotency_key": idempotency_key, "force": force,
        }
        return await self._operate("kill_reviewer", arguments)

    async def pause_reviewers(
        self,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
        supervisor_id: str | None = None,
        reason: str | None = None,
    ) -> pool_answers.PoolsChanged:
        """Start no reviewer any more; those that run finish their review and end."""
        arguments: dict[str, Any] = {
            "project": project, "idempotency_key": idempotency_key, "supervisor_id": supervisor_id, "reason": reason,
        }
        return await self._operate("pause_reviewers", arguments)

    async def resume_reviewers(
        self,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
        supervisor_id: str | None = None,
    ) -> pool_answers.PoolsChanged:
        """Let reviewers be started again, whatever paused the pool; forgets failed starts too."""
        arguments: dict[str, Any] = {
            "project": project, "idempotency_key": idempotency_key, "supervisor_id": supervisor_id,
        }
        return await self._operate("resume_reviewers", arguments)

    async def supervisor_register(
        self,
        *,
        secret: str,
        incarnation: str,
        host: str,
        provider: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        mode: Literal["worker", "agent"] = "worker",
        model: str | None = None,
        projects: list[str] | None = None,
        rules: pool_requests.Rules | None = None,
    ) -> pool_answers.Registered:
        """A supervisor starts: what its earlier starts left behind has ended, and its pool is run by these rules."""
        arguments: dict[str, Any] = {
            "secret": secret, "incarnation": incarnation, "host": host, "provider": provider, "project": project,
            "idempotency_key": idempotency_key, "mode": mode, "model": model, "projects": projects, "rules": rules,
        }
        return await self._operate("supervisor_register", arguments)

    async def supervisor_heartbeat(
        self,
        *,
        secret: str,
        incarnation: str,
        reviewers: list[pool_requests.ReviewerSighting] | None = None,
        quiet: bool = False,
        closing: bool = False,
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
    ) -> pool_answers.Orders:
        """A supervisor says how its reviewers are, and hears what to do; with wait, once there is something to do."""
        arguments: dict[str, Any] = {
            "secret": secret, "incarnation": incarnation, "reviewers": reviewers, "quiet": quiet, "closing": closing,
            "wait": wait, "cursor": cursor, "timeout_s": timeout_s,
        }
        return await self._operate("supervisor_heartbeat", arguments)

    async def report_outcome(
        self,
        review_id: str,
        *,
        reviewer_id: str,
        claim_generation: int,
        outcome: Literal["verdict", "no_verdict", "unreadable", "timeout", "crashed", "cancelled"],
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
        seconds: float | None = None,
        tokens_in: int | None = None,
        tokens_out: int | None = None,
        cost_usd: float | None = None,
        exit_code: int | None = None,
    ) -> pool_answers.OutcomeReported:
        """How a run of a reviewer's program ended. Without a verdict the claim is taken back, to be tried later."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "reviewer_id": reviewer_id, "claim_generation": claim_generation,
            "outcome": outcome, "project": project, "idempotency_key": idempotency_key, "reason": reason,
            "seconds": seconds, "tokens_in": tokens_in, "tokens_out": tokens_out, "cost_usd": cost_usd,
            "exit_code": exit_code,
        }
        return await self._operate("report_outcome", arguments)
