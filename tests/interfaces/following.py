"""A client that follows tasks: the SDK's, with the extension declared."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, ClassVar, Literal

import mcp_types as types
from mcp.client import ClientExtension
from mcp.client.extension import ClaimContext, ResultClaim

from tandem.server.mcp.recognition import TASKS


class CreatedTask(types.Result):
    """The answer to a wait."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str
    created_at: str
    last_updated_at: str
    ttl_ms: int | None
    poll_interval_ms: int


class TaskState(types.Result):
    """The answer to `tasks/get`."""

    result_type: str = "complete"
    task_id: str
    status: str
    result: dict[str, Any] | None = None


class TaskRequest(types.Request[dict[str, Any], str]):
    """A request about a task."""

    name_param: ClassVar[str | None] = "taskId"


def about(method: str, task_id: str, **more: Any) -> TaskRequest:
    """A request about a task."""
    return TaskRequest(method=method, params={"taskId": task_id, **more})


class Follower(ClientExtension):
    """Polls each task until it is over, and notes its states.

    Attributes:
        created: The tasks that it got.
        heard: Every status that it was told.
    """

    identifier = TASKS

    def __init__(self) -> None:
        self.created: asyncio.Queue[CreatedTask] = asyncio.Queue()
        self.heard: asyncio.Queue[str] = asyncio.Queue()

    def claims(self) -> Sequence[ResultClaim[Any]]:
        return (ResultClaim(result_type="task", model=CreatedTask, resolve=self._follow),)

    async def _follow(self, task: CreatedTask, context: ClaimContext) -> types.CallToolResult:
        self.created.put_nowait(task)
        while True:
            state = await context.session.send_request(about("tasks/get", task.task_id), TaskState)
            self.heard.put_nowait(state.status)
            if state.result is not None:
                return types.CallToolResult.model_validate(state.result)
            await asyncio.sleep(task.poll_interval_ms / 1000)
