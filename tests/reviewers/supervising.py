"""What tests of the supervisor share: the other end of its `Broker` protocol, and scripted reviewer processes."""

from __future__ import annotations

import asyncio
import copy
import json
import os
import secrets
import sys
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tandem.errors import InvalidSession, Unavailable
from tandem.pool.reviewers.supervisor import WORKER_ARGV, Supervisor
from tandem.pool.rules import supervisor_id
from tandem.settings.pool import PoolSettings

SCRIPT = Path(__file__).parent / "programs" / "scripted_worker.py"
PATIENCE_SECONDS = 60.0


@dataclass
class Row:
    """A reviewer as the broker has it."""

    reviewer_id: str
    project: str
    root: str | None
    wanted: str = "run"
    review_id: str | None = None
    told: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def ended(self) -> bool:
        return self.told.get("state") == "ended"

    @property
    def pid(self) -> int:
        return int(self.told["pid"])


class OrderBook:
    """Answers a supervisor as a broker does, with the orders that a test writes into it."""

    def __init__(self) -> None:
        self.rows: dict[str, Row] = {}
        self.registrations: list[dict[str, Any]] = []
        self.heartbeats: list[dict[str, Any]] = []
        self.lies: dict[str, Any] = {}
        self.away: Callable[[dict[str, Any]], bool] = lambda _: False
        self.refusal: Exception | None = None
        # Processes are found and ended by their reviewer's id, and other tests run beside this one.
        self._token = secrets.token_hex(6)
        self._ordered = 0
        self._incarnation: str | None = None
        self._changed = asyncio.Event()
        self._changes = 0

    async def call(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        await asyncio.sleep(0)
        asked = copy.deepcopy(arguments)
        if self.away(asked):
            raise Unavailable("no broker answers")
        return self._register(asked) if operation == "supervisor_register" else await self._heartbeat(asked)

    def order(self, root: Path | str | None, project: str = "acme", reviewer_id: str | None = None) -> Row:
        """Orders a reviewer; its row."""
        self._ordered += 1
        name = reviewer_id or f"custom-r{self._ordered}-{self._token}"
        row = self.rows[name] = Row(name, project, None if root is None else str(root))
        self._note()
        return row

    def want(self, row: Row, wanted: str) -> None:
        row.wanted = wanted
        self._note()

    def forget(self, row: Row) -> None:
        del self.rows[row.reviewer_id]
        self._note()

    def replace(self) -> None:
        """Another start of the supervisor registers."""
        self._incarnation = "others"
        self._note()

    async def until(self, what: str, condition: Callable[[], object]) -> None:
        """Waits until the supervisor has told enough."""
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not condition():
                    await self._changed.wait()
        except TimeoutError:
            raise AssertionError(f"waited in vain until {what}") from None

    def _register(self, asked: dict[str, Any]) -> dict[str, Any]:
        if self.refusal is not None:
            raise self.refusal
        self.registrations.append(asked)
        self._incarnation = asked["incarnation"]
        self.rows = {}
        self._note()
        answer = {"supervisor_id": supervisor_id(asked["secret"]), "incarnation": asked["incarnation"]}
        return {**answer, **self.lies, "cursor": self._cursor}

    async def _heartbeat(self, asked: dict[str, Any]) -> dict[str, Any]:
        self._check(asked)
        self.heartbeats.append(asked)
        for told in asked["reviewers"]:
            if told["reviewer_id"] in self.rows:
                self.rows[told["reviewer_id"]].told = told
        self._note()
        loop = asyncio.get_running_loop()
        deadline = loop.time() + asked.get("timeout_s", 0)
        while asked["wait"] and not self._differs(asked) and loop.time() < deadline:
            await asyncio.wait((asyncio.ensure_future(self._changed.wait()),), timeout=deadline - loop.time())
            self._check(asked)
            if self.away(asked):
                raise Unavailable("the broker stops")
        return {
            "reviewers": self._orders(),
            "paused": None,
            "circuit_open_until": None,
            "again_s": 30.0,
            "changed": self._differs(asked),
            "cursor": self._cursor,
        }

    def _check(self, asked: dict[str, Any]) -> None:
        if asked["incarnation"] != self._incarnation:
            raise InvalidSession("another start of this supervisor has registered")

    def _orders(self) -> list[dict[str, Any]]:
        return [
            {
                "reviewer_id": row.reviewer_id,
                "name": row.reviewer_id.rpartition("-")[0],
                "project": row.project,
                "root": row.root,
                "wanted": row.wanted,
                "drain_reason": None,
                "review_id": row.review_id,
            }
            for row in self.rows.values()
            if not row.ended
        ]

    def _differs(self, asked: dict[str, Any]) -> bool:
        told = {one["reviewer_id"]: one["wanted"] for one in asked["reviewers"] if one["state"] == "running"}
        return told != {row.reviewer_id: row.wanted for row in self.rows.values() if not row.ended}

    @property
    def _cursor(self) -> str:
        return f"log.{self._changes}"

    def _note(self) -> None:
        self._changes += 1
        before, self._changed = self._changed, asyncio.Event()
        before.set()


class Scene:
    """The folders of a test, and supervisors on them."""

    def __init__(self, folder: Path) -> None:
        self.data = folder / "data"
        self.logs = folder / "logs"
        self.notes = folder / "notes"
        self.root = folder / "project"
        for made in (self.notes, self.root):
            made.mkdir(exist_ok=True)

    def supervisor(
        self,
        book: OrderBook,
        *behaviour: str,
        projects: tuple[str, ...] | None = None,
        environment: dict[str, str] | None = None,
        broker_url: str = "http://127.0.0.1:1",
        worker_argv: tuple[str, ...] = WORKER_ARGV,
        **settings: Any,
    ) -> Supervisor:
        """One whose reviewers behave in this way; as the real worker does if nothing is said."""
        script = (sys.executable, str(SCRIPT), str(self.notes), *behaviour)
        # Past the checks: the contract's least times are longer than a test's patience.
        given = PoolSettings(enabled=True, provider="custom", command=(sys.executable,)).model_copy(
            update={"grace_seconds": 0.5, "drain_seconds": 0.5, **settings}
        )
        return Supervisor(
            book,
            given,
            broker_url=broker_url,
            data_dir=self.data,
            log_dir=self.logs,
            projects=projects,
            environment=environment if environment is not None else dict(os.environ),
            worker_argv=script if behaviour else worker_argv,
        )

    @asynccontextmanager
    async def supervising(self, book: OrderBook, *behaviour: str, **more: Any) -> AsyncGenerator[Supervisor]:
        """A supervisor that runs, and is stopped at the end."""
        supervisor = self.supervisor(book, *behaviour, **more)
        await supervisor.start()
        try:
            yield supervisor
        finally:
            await supervisor.stop()

    def noted(self, row: Row, what: str) -> str | None:
        """The note of a reviewer's process; None if it wrote none."""
        path = self.notes / f"{row.reviewer_id}.{what}"
        return path.read_text("utf-8") if path.exists() else None

    async def note(self, row: Row, what: str) -> str:
        """The same, once it is written."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        while (found := self.noted(row, what)) is None:
            assert time.monotonic() < deadline, f"{row.reviewer_id} did not note {what}"
            await self.pause()
        return found

    async def pause(self) -> None:
        """Pauses between two looks at a state without an event."""
        await asyncio.sleep(0.01)

    async def job(self, row: Row) -> dict[str, Any]:
        """The job that a reviewer's process got."""
        return json.loads(await self.note(row, "job"))

    def scratch(self, row: Row) -> Path:
        return self.data / "reviewers" / "scratch" / row.reviewer_id
