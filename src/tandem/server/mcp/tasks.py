"""MCP Tasks (SEP-2663): a wait that its client polls, in place of a call that blocks.

A wait is a cursor, so a task needs no table. Its id is the call, sealed for its caller, and its state is what the log
says after the cursor: tasks survive restarts, and each broker of a database answers for them.
"""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import orjson

from tandem.contract.caller import Caller
from tandem.core.clock import MICROSECONDS, isoformat
from tandem.core.secret_key import OpaqueTokens
from tandem.errors import NotFound
from tandem.server.dispatch import CallResult
from tandem.server.mcp.tools import Tools, tool_result

WAITS = frozenset({"get_review_status", "list_reviews", "cycle_status"})
"""The operations whose waits become tasks."""

LISTEN_SECONDS = 25.0
"""How long a look lasts for a client that listens."""

_HOLD_SECONDS = 5.0
"""How long `tasks/get` waits for news, so that a client hears of it at once and asks less often."""

_POLL_MS = 1_000
_CALL_SECONDS = 25
"""How long a plain wait lasts. Its answer may say to do something else than to wait on; then the task is over, too."""

_WAIT_SECONDS = 24 * 3600
"""How long a task waits; then its result is the answer without news."""

_LIFE_SECONDS = 25 * 3600
_LONGEST_ID = 128
"""Claude Code before 2.1.332 refuses a longer one. A call that does not fit waits as it does without tasks."""

_APART = frozenset({"wait", "cursor", "timeout_s"})
"""Arguments that each task has; its id says nothing of the last, which is how long a call may block."""

_USUAL = (
    b'"status":"pending""open""category":"priority":"turn":"reviewer""proposer""attention":true,"order":"activity"'
    b'"limit":"page":"project":"workflow":"role":"wake_on":"any"["list_reviews"["cycle_status"["get_review_status","'
    b'",{"review_id":"rv_'
)
"""What calls consist of, the most frequent last. Ids that are out do not survive a change of this."""


@dataclass(frozen=True, slots=True)
class Task:
    """A wait that its client polls.

    Attributes:
        id: The tool, its arguments and the time, sealed for the caller.
        name: The tool.
        arguments: Its arguments, with a cursor.
        caller: Who waits.
        created: When it was created, in seconds since the epoch.
    """

    id: str
    name: str
    arguments: dict[str, Any]
    caller: Caller
    created: int

    def stated(self, status: str, updated: int | None = None, **further: Any) -> dict[str, Any]:
        """The task as the protocol states it."""
        return {
            "taskId": self.id,
            "status": status,
            "createdAt": isoformat(self.created * MICROSECONDS),
            "lastUpdatedAt": isoformat((updated or self.created) * MICROSECONDS),
            "ttlMs": _LIFE_SECONDS * 1000,
            "pollIntervalMs": _POLL_MS,
            **further,
        }


class Tasks:
    """Creates the tasks of an endpoint, and finds them again."""

    def __init__(self, tools: Tools) -> None:
        self._tools = tools
        self._services_for = tools.dispatcher.services_for

    async def call(self, name: str, arguments: dict[str, Any] | None, caller: Caller) -> CallResult | Task:
        """Run a tool for a client that follows tasks: a wait for which there is no news yet becomes a task."""
        if arguments is None or not _is_wait(name, arguments):
            return await self._tools.call(name, arguments, caller)
        seen = await self._tools.call(name, {**arguments, "timeout_s": 0}, caller)
        if seen.error is not None or seen.answer.changed:
            return seen
        pinned = {**arguments, "cursor": arguments.get("cursor") or seen.answer.cursor}
        created = self._now(caller)
        task_id = self._seal(caller, name, pinned, created)
        if len(task_id) > _LONGEST_ID:
            return await self._tools.call(name, pinned, caller)
        return Task(task_id, name, pinned, caller, created)

    def find(self, task_id: str, caller: Caller) -> Task:
        """The task of that id.

        Raises:
            NotFound: It is another caller's, was never given out, or is too old.
        """
        try:
            packed = self._veil(caller).show(task_id[:_LONGEST_ID])
            opened = zlib.decompressobj(-zlib.MAX_WBITS, zdict=_USUAL).decompress(packed)
        except (ValueError, zlib.error):
            raise NotFound("You have no task of this id; call the tool again.") from None
        name, bare, arguments, created = orjson.loads(opened)
        if self._now(caller) > created + _LIFE_SECONDS:
            raise NotFound("This task has expired; call the tool again.")
        cursor = self._services_for(caller).waits.veiled(bare)
        return Task(task_id, name, {**arguments, "cursor": cursor, "wait": True}, caller, created)

    async def get(self, task: Task, seconds: float = _HOLD_SECONDS) -> dict[str, Any]:
        """The state of a task, as soon as it is over or the seconds are."""
        asked = {**task.arguments, "timeout_s": seconds}
        seen = await self._tools.call(task.name, asked, task.caller)
        now = self._now(task.caller)
        if seen.error is not None and seen.error.retryable:
            return task.stated("working", statusMessage=seen.error.message)
        if seen.error is None and not _is_over(task, seen.answer, now - task.created):
            return task.stated("working")
        return task.stated("completed", now, result={**tool_result(seen), "resultType": "complete"})

    def is_closing(self, task: Task) -> bool:
        """Whether the broker drains, so that looks are answered at once."""
        return self._services_for(task.caller).waits.closing

    def _seal(self, caller: Caller, name: str, arguments: dict[str, Any], created: int) -> str:
        bare = self._services_for(caller).waits.unveiled(arguments["cursor"])
        kept = {key: value for key, value in arguments.items() if key not in _APART and value is not None}
        packer = zlib.compressobj(zlib.Z_BEST_COMPRESSION, zlib.DEFLATED, -zlib.MAX_WBITS, zdict=_USUAL)
        packed = packer.compress(orjson.dumps([name, bare, kept, created]))
        return self._veil(caller).hide(packed + packer.flush(), padded=False)

    def _veil(self, caller: Caller) -> OpaqueTokens:
        who = ["task", caller.role, caller.agent, caller.access and caller.access.id]
        return self._services_for(caller).tokens.veil(orjson.dumps(who).decode())

    def _now(self, caller: Caller) -> int:
        return self._services_for(caller).clock.now_us() // MICROSECONDS


def _is_wait(name: str, arguments: dict[str, Any]) -> bool:
    """Whether a call is a wait that may become a task; one of no length only looks."""
    return name.replace(".", "_") in WAITS and arguments.get("wait") is True and arguments.get("timeout_s") != 0


def _is_over(task: Task, answer: Any, age_seconds: int) -> bool:
    """Whether a look's answer is the task's result: there is news, or waiting on is in vain."""
    if answer.changed or age_seconds >= _WAIT_SECONDS:
        return True
    asks = getattr(answer, "next_action", "wait") != "wait" and answer.message
    return bool(asks) and age_seconds >= _CALL_SECONDS and task.arguments.get("wake_on") != "any"
