"""The operations on the inbox, searches and marks. Written by `python -m tandem.client.generate`; do not edit."""

# ruff: noqa: A002, PLR0913, E501 - a method has the fields of its request.
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tandem.client.gate_methods import GateOperations

if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
    from tandem.domain import inbox_answers


class InboxOperations(GateOperations):
    """The operations on the inbox, searches and marks. Each raises the `TandemError` of the refusal's code."""

    async def get_inbox(
        self,
        *,
        person: str,
        project: str | None = None,
        limit: int = 50,
    ) -> inbox_answers.Inbox:
        """What waits for a person, what waits for others, and what is wrong; of every project unless one is named."""
        arguments: dict[str, Any] = {
            "person": person, "project": project, "limit": limit,
        }
        return await self._operate("get_inbox", arguments)

    async def search_reviews(
        self,
        *,
        project: str | None = None,
        status: Literal["pending", "claimed", "in_review", "changes_requested", "approved", "rejected", "closed"] | None = None,
        category: Literal["plan_review", "code_change", "verification", "handoff"] | None = None,
        priority: Literal["critical", "normal", "low"] | None = None,
        turn: Literal["proposer", "reviewer"] | None = None,
        attention: bool | None = None,
        proposer: str | None = None,
        reviewer: str | None = None,
        text: str | None = None,
        path: str | None = None,
        sort: Literal["queue", "newest", "oldest", "updated"] = "queue",
        limit: int = 50,
        page: str | None = None,
    ) -> inbox_answers.SearchPage:
        """Reviews by what they say and touch; looks through at most 2,000 a call, and goes on with next_page."""
        arguments: dict[str, Any] = {
            "project": project, "status": status, "category": category, "priority": priority, "turn": turn,
            "attention": attention, "proposer": proposer, "reviewer": reviewer, "text": text, "path": path,
            "sort": sort, "limit": limit, "page": page,
        }
        return await self._operate("search_reviews", arguments)

    async def mark_viewed(
        self,
        review_id: str,
        *,
        round: int,
        path: str,
        viewed: bool,
        person: str,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> inbox_answers.ViewedFiles:
        """Mark a file of a round as viewed by a person, or as not; it stands in no log."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "round": round, "path": path, "viewed": viewed, "person": person,
            "project": project, "idempotency_key": idempotency_key,
        }
        return await self._operate("mark_viewed", arguments)

    async def list_viewed(
        self,
        review_id: str,
        *,
        round: int,
        person: str,
        project: str | None = None,
    ) -> inbox_answers.ViewedFiles:
        """The files of a round that a person has marked as viewed."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "round": round, "person": person, "project": project,
        }
        return await self._operate("list_viewed", arguments)
