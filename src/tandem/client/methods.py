"""The operations on reviews and projects. Written by `python -m tandem.client.generate`; do not edit."""

# ruff: noqa: A002, PLR0913, E501 - a method has the fields of its request, by the contract's names.
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tandem.client.access_methods import AccessOperations

if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
    from tandem.domain import answers
    from tandem.operations import requests

KEYED = frozenset({
    "accept_counter_patch", "add_message", "claim_review", "close_review", "create_review", "create_token",
    "cycle_archive", "cycle_complete", "cycle_init", "cycle_revoke", "cycle_rotate", "cycle_start", "handoff_write",
    "kill_reviewer", "lock_acquire", "mark_viewed", "override_gate", "pause_reviewers", "record_commit",
    "record_rollback", "reject_counter_patch", "release_claim", "renew_claim", "report_outcome", "resume_reviewers",
    "retry_review", "revoke_token", "session_close", "session_open", "set_gate", "spawn_reviewer", "submit_verdict",
    "supervisor_register",
})
"""Operations that take an idempotency key."""
REPEATABLE = frozenset({
    "accept_counter_patch", "add_message", "check_counter_patch", "check_gate", "claim_review", "close_review",
    "create_login", "create_review", "create_token", "cycle_archive", "cycle_complete", "cycle_init", "cycle_revoke",
    "cycle_rotate", "cycle_start", "cycle_status", "draft_counter_patch", "get_activity_feed", "get_audit_log",
    "get_cycle", "get_discussion", "get_gate", "get_inbox", "get_project_settings", "get_proposal",
    "get_review_stats", "get_review_status", "get_review_timeline", "get_reviewer_log", "get_round_file",
    "handoff_read", "handoff_write", "kill_reviewer", "list_commits", "list_cycles", "list_projects",
    "list_reviewers", "list_reviews", "list_tokens", "list_viewed", "lock_acquire", "mark_viewed", "override_gate",
    "pause_reviewers", "record_commit", "record_rollback", "register_project", "reject_counter_patch",
    "release_claim", "renew_claim", "report_outcome", "resume_reviewers", "retry_review", "revoke_token",
    "search_reviews", "session_close", "session_open", "set_gate", "spawn_reviewer", "submit_verdict",
    "supervisor_heartbeat", "supervisor_register",
})
"""Reads, and writes that have one effect also when sent twice."""


class Operations(AccessOperations):
    """Every operation of the broker. Each raises the `TandemError` of the refusal's code."""

    async def create_review(
        self,
        *,
        intent: str,
        agent_type: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        agent_role: str = "proposer",
        phase: str | None = None,
        plan: str | None = None,
        task: str | None = None,
        category: Literal["plan_review", "code_change", "verification", "handoff"] | None = None,
        description: str | None = None,
        diff: str | None = None,
        base: str | None = None,
        path: str | None = None,
        metadata: dict[str, Any] | None = None,
        proposer_id: str | None = None,
        review_id: str | None = None,
        parent_id: str | None = None,
        skip_diff_validation: bool = False,
    ) -> answers.ReviewCreated:
        """Put a change up for review; with review_id, revise one; with parent_id, resubmit a rejected one."""
        arguments: dict[str, Any] = {
            "intent": intent, "agent_type": agent_type, "project": project, "idempotency_key": idempotency_key,
            "agent_role": agent_role, "phase": phase, "plan": plan, "task": task, "category": category,
            "description": description, "diff": diff, "base": base, "path": path, "metadata": metadata,
            "proposer_id": proposer_id, "review_id": review_id, "parent_id": parent_id,
            "skip_diff_validation": skip_diff_validation,
        }
        return await self._operate("create_review", arguments)

    async def get_review_status(
        self,
        review_id: str,
        *,
        project: str | None = None,
        wait: bool = False,
        cursor: str | None = None,
        wake_on: Literal["turn", "any"] = "turn",
        timeout_s: float | None = None,
    ) -> answers.ReviewStatus:
        """Where a review stands; with wait, answers when it is your turn."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "project": project, "wait": wait, "cursor": cursor, "wake_on": wake_on,
            "timeout_s": timeout_s,
        }
        return await self._operate("get_review_status", arguments)

    async def get_proposal(
        self,
        review_id: str,
        *,
        project: str | None = None,
        round: int | None = None,
        since_round: int | None = None,
        files: list[str] | None = None,
    ) -> answers.Proposal:
        """A round's whole content, and the pending counter-patch."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "project": project, "round": round, "since_round": since_round, "files": files,
        }
        return await self._operate("get_proposal", arguments)

    async def list_reviews(
        self,
        *,
        project: str | None = None,
        status: Literal["pending", "claimed", "in_review", "changes_requested", "approved", "rejected", "closed"] | None = None,
        category: Literal["plan_review", "code_change", "verification", "handoff"] | None = None,
        priority: Literal["critical", "normal", "low"] | None = None,
        turn: Literal["proposer", "reviewer"] | None = None,
        attention: bool | None = None,
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> answers.ReviewPage:
        """Reviews by priority and age, a page at a time; with wait, answers when the list may have changed."""
        arguments: dict[str, Any] = {
            "project": project, "status": status, "category": category, "priority": priority, "turn": turn,
            "attention": attention, "wait": wait, "cursor": cursor, "timeout_s": timeout_s, "limit": limit,
            "page": page,
        }
        return await self._operate("list_reviews", arguments)

    async def claim_review(
        self,
        *,
        reviewer_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        review_id: str | None = None,
        category: Literal["plan_review", "code_change", "verification", "handoff"] | None = None,
    ) -> answers.Claim:
        """Claim a review, or the next in the queue; answers with the proposal, or review: null."""
        arguments: dict[str, Any] = {
            "reviewer_id": reviewer_id, "project": project, "idempotency_key": idempotency_key,
            "review_id": review_id, "category": category,
        }
        return await self._operate("claim_review", arguments)

    async def renew_claim(
        self,
        review_id: str,
        *,
        claim_generation: int,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> answers.ClaimRenewed:
        """Extend your lease while you work."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "claim_generation": claim_generation, "project": project,
            "idempotency_key": idempotency_key,
        }
        return await self._operate("renew_claim", arguments)

    async def release_claim(
        self,
        review_id: str,
        *,
        claim_generation: int,
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> answers.ClaimReleased:
        """Give your claim back: the review returns to the queue."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "claim_generation": claim_generation, "project": project,
            "idempotency_key": idempotency_key, "reason": reason,
        }
        return await self._operate("release_claim", arguments)

    async def submit_verdict(
        self,
        review_id: str,
        *,
        verdict: Literal["approved", "changes_requested", "rejected", "comment", "approve", "request_changes", "reject"],
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
        counter_patch: str | None = None,
        comments: list[requests.LineComment] | None = None,
        claim_generation: int | None = None,
        reviewer_id: str | None = None,
        round: int | None = None,
    ) -> answers.VerdictGiven:
        """Give your verdict on the claimed round; changes_requested and comment may carry a counter-patch."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "verdict": verdict, "project": project, "idempotency_key": idempotency_key,
            "reason": reason, "counter_patch": counter_patch, "comments": comments,
            "claim_generation": claim_generation, "reviewer_id": reviewer_id, "round": round,
        }
        return await self._operate("submit_verdict", arguments)

    async def accept_counter_patch(
        self,
        review_id: str,
        *,
        counter_patch_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> answers.CounterPatchDecided:
        """Make the pending counter-patch the next round's content."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "counter_patch_id": counter_patch_id, "project": project,
            "idempotency_key": idempotency_key, "reason": reason,
        }
        return await self._operate("accept_counter_patch", arguments)

    async def reject_counter_patch(
        self,
        review_id: str,
        *,
        counter_patch_id: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> answers.CounterPatchDecided:
        """Decline the pending counter-patch; the round's content stays."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "counter_patch_id": counter_patch_id, "project": project,
            "idempotency_key": idempotency_key, "reason": reason,
        }
        return await self._operate("reject_counter_patch", arguments)

    async def add_message(
        self,
        review_id: str,
        *,
        sender_role: Literal["proposer", "reviewer"],
        body: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        metadata: dict[str, Any] | None = None,
        resolves: str | None = None,
        reviewer_id: str | None = None,
        claim_generation: int | None = None,
    ) -> answers.MessageSent:
        """Say something in the discussion; the two sides alternate."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "sender_role": sender_role, "body": body, "project": project,
            "idempotency_key": idempotency_key, "metadata": metadata, "resolves": resolves,
            "reviewer_id": reviewer_id, "claim_generation": claim_generation,
        }
        return await self._operate("add_message", arguments)

    async def get_discussion(
        self,
        review_id: str,
        *,
        project: str | None = None,
        round: int | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> answers.Discussion:
        """Messages, line comments, verdicts and counter-patches, oldest first."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "project": project, "round": round, "limit": limit, "page": page,
        }
        return await self._operate("get_discussion", arguments)

    async def close_review(
        self,
        review_id: str,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
        reason: str | None = None,
    ) -> answers.ReviewClosed:
        """End a review: approved, rejected, or withdrawn if it was undecided."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "project": project, "idempotency_key": idempotency_key, "reason": reason,
        }
        return await self._operate("close_review", arguments)

    async def get_review_timeline(
        self,
        review_id: str,
        *,
        project: str | None = None,
    ) -> answers.Timeline:
        """Every event of one review, oldest first."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "project": project,
        }
        return await self._operate("get_review_timeline", arguments)

    async def get_activity_feed(
        self,
        *,
        project: str | None = None,
        status: Literal["pending", "claimed", "in_review", "changes_requested", "approved", "rejected", "closed"] | None = None,
        category: Literal["plan_review", "code_change", "verification", "handoff"] | None = None,
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> answers.ActivityFeed:
        """Reviews by latest activity with their last event; with wait, answers on the next one."""
        arguments: dict[str, Any] = {
            "project": project, "status": status, "category": category, "wait": wait, "cursor": cursor,
            "timeout_s": timeout_s, "limit": limit, "page": page,
        }
        return await self._operate("get_activity_feed", arguments)

    async def get_audit_log(
        self,
        *,
        project: str | None = None,
        review_id: str | None = None,
        kind: str | None = None,
        actor: str | None = None,
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
        limit: int = 50,
    ) -> answers.AuditPage:
        """Events after a cursor, oldest first; without a cursor, the newest page."""
        arguments: dict[str, Any] = {
            "project": project, "review_id": review_id, "kind": kind, "actor": actor, "wait": wait, "cursor": cursor,
            "timeout_s": timeout_s, "limit": limit,
        }
        return await self._operate("get_audit_log", arguments)

    async def get_review_stats(
        self,
        *,
        project: str | None = None,
        since: str | None = None,
    ) -> answers.Statistics:
        """Counts, approval rate and mean times, by category and reviewer."""
        arguments: dict[str, Any] = {
            "project": project, "since": since,
        }
        return await self._operate("get_review_stats", arguments)

    async def check_gate(
        self,
        *,
        project: str,
        changes: list[requests.GateChange] | None = None,
        digest: str | None = None,
        head: str | None = None,
        base: str | None = None,
    ) -> answers.GateDecision:
        """Is exactly this content approved? Give the raw changes or a digest."""
        arguments: dict[str, Any] = {
            "project": project, "changes": changes, "digest": digest, "head": head, "base": base,
        }
        return await self._operate("check_gate", arguments)

    async def register_project(
        self,
        *,
        root: str,
        name: str | None = None,
    ) -> answers.ProjectView:
        """Register a folder as a project; its name defaults to the folder's."""
        arguments: dict[str, Any] = {
            "root": root, "name": name,
        }
        return await self._operate("register_project", arguments)

    async def list_projects(self) -> answers.ProjectList:
        """All registered projects; with a token of one project, that one."""
        return await self._operate("list_projects", {})

    async def remove_project(
        self,
        *,
        name: str,
    ) -> answers.ProjectRemoved:
        """Forget a project's folder; its reviews stay."""
        arguments: dict[str, Any] = {
            "name": name,
        }
        return await self._operate("remove_project", arguments)

    async def retry_review(
        self,
        review_id: str,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> answers.ReviewStatus:
        """Put a review that waits for a person's attention, or for a later try, back into the queue now."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "project": project, "idempotency_key": idempotency_key,
        }
        return await self._operate("retry_review", arguments)
