"""The operations on files, logs and settings. Written by `python -m tandem.client.generate`; do not edit."""

# ruff: noqa: A002 - a method has the fields of its request.
# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from tandem.client.inbox_methods import InboxOperations

if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
    from tandem.domain import file_answers
    from tandem.operations import file_requests


class FileOperations(InboxOperations):
    """The operations on files, logs and settings. Each raises the `TandemError` of the refusal's code."""

    async def get_round_file(
        self,
        review_id: str,
        *,
        path: str,
        project: str | None = None,
        round: int | None = None,
        side: Literal["after", "before"] = "after",
        first_line: int = 1,
        last_line: int | None = None,
        as_base64: bool = False,
    ) -> file_answers.RoundFile:
        """Lines of a file as a round's change found it or leaves it, at most 2,000 a call."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "path": path, "project": project, "round": round, "side": side,
            "first_line": first_line, "last_line": last_line, "as_base64": as_base64,
        }
        return await self._operate("get_round_file", arguments)

    async def draft_counter_patch(
        self,
        review_id: str,
        *,
        project: str | None = None,
        round: int | None = None,
        edits: list[file_requests.FileEdit] | None = None,
        text: str | None = None,
    ) -> file_answers.CounterPatchDraft:
        """Make a counter-patch from edits to the files that a round leaves, or from a text; nothing is sent or kept."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "project": project, "round": round, "edits": edits, "text": text,
        }
        return await self._operate("draft_counter_patch", arguments)

    async def check_counter_patch(
        self,
        review_id: str,
        *,
        counter_patch: str,
        project: str | None = None,
        round: int | None = None,
    ) -> file_answers.CounterPatchCheck:
        """What submit_verdict would say of a counter-patch; nothing is sent or kept."""
        arguments: dict[str, Any] = {
            "review_id": review_id, "counter_patch": counter_patch, "project": project, "round": round,
        }
        return await self._operate("check_counter_patch", arguments)

    async def get_reviewer_log(
        self,
        *,
        reviewer_id: str,
        project: str | None = None,
        lines: int = 200,
        position: str | None = None,
    ) -> file_answers.ReviewerLog:
        """What a pool's reviewer and its program wrote: the last lines, or those after a position."""
        arguments: dict[str, Any] = {
            "reviewer_id": reviewer_id, "project": project, "lines": lines, "position": position,
        }
        return await self._operate("get_reviewer_log", arguments)

    async def get_project_settings(
        self,
        *,
        project: str,
    ) -> file_answers.ProjectSettings:
        """The settings that hold for a project and where each comes from, and its gate."""
        arguments: dict[str, Any] = {
            "project": project,
        }
        return await self._operate("get_project_settings", arguments)
