"""The operations on hand-off cycles. Written by `python -m tandem.client.generate`; do not edit."""

# It is compared with the registry byte for byte, so that no formatter may touch it:
# fmt: off

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # Named in signatures only; to build the types would take longer than a call.
    from tandem.domain import cycle_answers


class CycleOperations(ABC):
    """The operations on hand-off cycles. Each raises the `TandemError` of the refusal's code."""

    @abstractmethod
    async def _operate(self, operation: str, arguments: Mapping[str, Any]) -> Any:
        """Send one operation and read its answer, of the type that it has; arguments that are null are left out."""
        ...

    async def session_open(
        self,
        *,
        role: str,
        psk: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycle_answers.SessionOpened:
        """Open a session as a role of a workflow; its token goes with lock, hand-off, completion and archive."""
        arguments: dict[str, Any] = {
            "role": role, "psk": psk, "project": project, "idempotency_key": idempotency_key, "workflow": workflow,
        }
        return await self._operate("session_open", arguments)

    async def cycle_start(
        self,
        *,
        feature: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycle_answers.CycleStarted:
        """Begin a cycle: one feature on its way through the workflow's phases."""
        arguments: dict[str, Any] = {
            "feature": feature, "project": project, "idempotency_key": idempotency_key, "workflow": workflow,
        }
        return await self._operate("cycle_start", arguments)

    async def cycle_status(
        self,
        *,
        project: str | None = None,
        workflow: str | None = None,
        role: str | None = None,
        wait: bool = False,
        cursor: str | None = None,
        timeout_s: float | None = None,
    ) -> cycle_answers.CycleStatus:
        """Where the cycle is; with wait and your role, answers when it is your turn."""
        arguments: dict[str, Any] = {
            "project": project, "workflow": workflow, "role": role, "wait": wait, "cursor": cursor,
            "timeout_s": timeout_s,
        }
        return await self._operate("cycle_status", arguments)

    async def lock_acquire(
        self,
        *,
        session_token: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycle_answers.LockAcquired:
        """Take the lock's current token when it is your role's turn."""
        arguments: dict[str, Any] = {
            "session_token": session_token, "project": project, "idempotency_key": idempotency_key,
            "workflow": workflow,
        }
        return await self._operate("lock_acquire", arguments)

    async def handoff_write(
        self,
        *,
        target: str,
        payload: Any,
        lock_token: str,
        session_token: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycle_answers.HandoffWritten:
        """Hand your work over to the next role; in approval mode it is reviewed first."""
        arguments: dict[str, Any] = {
            "target": target, "payload": payload, "lock_token": lock_token, "session_token": session_token,
            "project": project, "idempotency_key": idempotency_key, "workflow": workflow,
        }
        return await self._operate("handoff_write", arguments)

    async def handoff_read(
        self,
        *,
        target: str,
        project: str | None = None,
        workflow: str | None = None,
    ) -> dict[str, Any]:
        """What was handed over to a role last, or {}."""
        arguments: dict[str, Any] = {
            "target": target, "project": project, "workflow": workflow,
        }
        return await self._operate("handoff_read", arguments)

    async def cycle_complete(
        self,
        *,
        lock_token: str,
        session_token: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycle_answers.CycleCompleted:
        """Complete the cycle, from a phase that allows it."""
        arguments: dict[str, Any] = {
            "lock_token": lock_token, "session_token": session_token, "project": project,
            "idempotency_key": idempotency_key, "workflow": workflow,
        }
        return await self._operate("cycle_complete", arguments)

    async def cycle_archive(
        self,
        *,
        lock_token: str,
        session_token: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycle_answers.CycleArchived:
        """Write a complete cycle to its archive; a new one can then begin."""
        arguments: dict[str, Any] = {
            "lock_token": lock_token, "session_token": session_token, "project": project,
            "idempotency_key": idempotency_key, "workflow": workflow,
        }
        return await self._operate("cycle_archive", arguments)

    async def session_close(
        self,
        *,
        session_token: str,
        project: str | None = None,
        idempotency_key: str | None = None,
    ) -> cycle_answers.SessionClosed:
        """End a session."""
        arguments: dict[str, Any] = {
            "session_token": session_token, "project": project, "idempotency_key": idempotency_key,
        }
        return await self._operate("session_close", arguments)

    async def cycle_init(
        self,
        *,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
        keys: dict[str, str] | None = None,
    ) -> cycle_answers.KeysMade:
        """Make the keys of a workflow's roles; each is shown this once, and only a hash is kept."""
        arguments: dict[str, Any] = {
            "project": project, "idempotency_key": idempotency_key, "workflow": workflow, "keys": keys,
        }
        return await self._operate("cycle_init", arguments)

    async def cycle_rotate(
        self,
        *,
        role: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
        key: str | None = None,
    ) -> cycle_answers.KeysMade:
        """Replace a role's key; its sessions end."""
        arguments: dict[str, Any] = {
            "role": role, "project": project, "idempotency_key": idempotency_key, "workflow": workflow, "key": key,
        }
        return await self._operate("cycle_rotate", arguments)

    async def cycle_revoke(
        self,
        *,
        role: str,
        project: str | None = None,
        idempotency_key: str | None = None,
        workflow: str | None = None,
    ) -> cycle_answers.KeyRevoked:
        """Make a role's key void; its sessions end, and the workflow rests until the role has a new one."""
        arguments: dict[str, Any] = {
            "role": role, "project": project, "idempotency_key": idempotency_key, "workflow": workflow,
        }
        return await self._operate("cycle_revoke", arguments)

    async def list_cycles(
        self,
        *,
        project: str | None = None,
        workflow: str | None = None,
        limit: int = 50,
        page: str | None = None,
    ) -> cycle_answers.CyclePage:
        """Cycles, newest first, and the workflows that there are."""
        arguments: dict[str, Any] = {
            "project": project, "workflow": workflow, "limit": limit, "page": page,
        }
        return await self._operate("list_cycles", arguments)

    async def get_cycle(
        self,
        *,
        project: str | None = None,
        cycle_id: str | None = None,
        workflow: str | None = None,
    ) -> cycle_answers.CycleHistory:
        """A whole cycle: state, workflow, and every hand-off with its payload."""
        arguments: dict[str, Any] = {
            "project": project, "cycle_id": cycle_id, "workflow": workflow,
        }
        return await self._operate("get_cycle", arguments)
