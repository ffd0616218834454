"""A player of the demonstration: an agent that has a role in a hand-off cycle and its own MCP connection."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tandem.cli.demo_mcp import McpClient
from tandem.cli.demo_stage import PROJECT
from tandem.cli.demo_teller import Teller, expect, expect_equal
from tandem.client import TandemClient

_TURN_SECONDS = 20
_LISTS = ("files_modified", "endpoints", "data_shapes", "assumptions", "todos", "notes")


async def make_keys(teller: Teller, workflow: str) -> dict[str, str]:
    """Have the broker make the keys of a workflow's roles, as `tandem cycle init` does; they are shown masked."""
    async with TandemClient(teller.stage.url, PROJECT, "demo") as client:
        made = await client.cycle_init(workflow=workflow)
    shown = ", ".join(f"{role} {teller.masked(key)}" for role, key in made.keys.items())
    teller.tell("log", f"keys of {workflow}, shown this once: {shown}")
    return made.keys


@dataclass(slots=True)
class Player:
    """One role, and what it has been given.

    Attributes:
        role: Its role in the workflow.
        workflow: The workflow.
        client: Its MCP connection, to the endpoint for hand-offs.
        teller: Tells what it does.
        session_token: From `open_session`.
        lock_token: The one that it took last; may be stale.
    """

    role: str
    workflow: str
    client: McpClient
    teller: Teller
    session_token: str = ""
    lock_token: str = ""

    def tell(self, what: str) -> None:
        """Say what this player does."""
        self.teller.tell(self.role, what)

    async def open_session(self, key: str) -> None:
        """Show the key, and keep the session's token."""
        tools = await self.client.tools()
        expect("handoff_write" in tools, "the endpoint for hand-offs lists handoff_write", tools)
        opened = await self.client.call("session_open", role=self.role, psk=key, workflow=self.workflow)
        expect_equal("the session's role", opened["role"], self.role)
        self.session_token = opened["session_token"]
        shown = f"{self.teller.masked(key)} for the session {self.teller.masked(self.session_token)}"
        self.tell(f"connects over MCP, finds {len(tools)} tools, and gives {shown}")

    async def start(self, feature: str) -> dict[str, Any]:
        """Begin a cycle."""
        begun = await self.client.call("cycle_start", feature=feature, workflow=self.workflow)
        self.teller.masked(begun["lock_token"])
        return begun

    async def status(self) -> dict[str, Any]:
        """Where the cycle is."""
        return await self.client.call("cycle_status", workflow=self.workflow)

    def wait_for_turn(self) -> asyncio.Task[dict[str, Any]]:
        """Begin to wait for this role's turn, as an agent does that has nothing else to do."""
        return asyncio.create_task(self._turn())

    async def take_lock(self) -> str:
        """Take the lock's current token; answers with what may be shown of it."""
        taken = await self.client.call("lock_acquire", session_token=self.session_token)
        expect_equal("whose lock it is", taken["role"], self.role)
        self.lock_token = taken["lock_token"]
        return self.teller.masked(self.lock_token)

    async def hand_over(self, target: str, facts: Mapping[str, list[Any]]) -> dict[str, Any]:
        """Write a hand-off with the lock token that was taken last; lists without facts are empty."""
        status = await self.status()
        payload = {
            "cycle_id": status["cycle_id"],
            "feature": status["feature"],
            "producer": self.role,
            "consumer": target,
            **{name: [] for name in _LISTS},
            **facts,
        }
        written = await self.client.call("handoff_write", target=target, payload=payload, **self._capabilities())
        expect("lock_token" not in written, "a hand-off's answer has no lock token")
        return written

    async def read(self, facts: Mapping[str, list[Any]]) -> None:
        """Read what was handed over, and insist that it says these facts."""
        given = await self.client.call("handoff_read", target=self.role, workflow=self.workflow)
        expect_equal("what was handed over", {name: given.get(name) for name in facts}, dict(facts))

    async def complete(self) -> None:
        """Complete the cycle."""
        ended = await self.client.call("cycle_complete", **self._capabilities())
        expect_equal("the phase", ended["phase"], "complete")

    async def archive(self) -> str:
        """Archive the cycle; answers with the folder."""
        archived = await self.client.call("cycle_archive", **self._capabilities())
        expect_equal("the cycle afterwards", (await self.status())["cycle_id"], None)
        return str(archived["archive"])

    def _capabilities(self) -> dict[str, str]:
        return {"lock_token": self.lock_token, "session_token": self.session_token}

    async def _turn(self) -> dict[str, Any]:
        # Without a cursor the answer comes when it is this role's turn, even if it has been so for a while.
        status = await self.client.call(
            "cycle_status", workflow=self.workflow, role=self.role, wait=True, timeout_s=_TURN_SECONDS
        )
        expect(status["changed"], f"{self.role} is woken within {_TURN_SECONDS} s", status["next_step"])
        return status
