"""What happens to the reviewers of one supervisor, told as it happens: from the broker's log, which has all of it."""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import orjson
from rich.text import Text

from tandem.cli.render.parts import duration
from tandem.cli.terminal import console, show_envelope
from tandem.client import TandemClient
from tandem.domain.answers import AuditPage, EventView
from tandem.domain.events import Kind
from tandem.errors import CursorExpired, TandemError
from tandem.hooks.visible import visible_line

_PAGE = 200
_WAIT_SECONDS = 50.0
_PAUSE_SECONDS = 1.0
"""After a call that failed or was answered early: the broker is away, or stops."""
_LAST_SECONDS = 2.0
_REVIEWER = "reviewer:"

_SAID: dict[str, str] = {
    Kind.REVIEWER_SPAWNED: "started for {project}, process {pid}",
    Kind.REVIEW_CLAIMED: "reviews {subject}",
    Kind.ATTENTION_RAISED: "{subject} waits for a person now: {reason}",
    Kind.REVIEWER_DRAIN_START: "is to end ({reason})",
    Kind.REVIEWER_TERMINATED: "ended ({reviews_completed} reviews done): {reason}",
    Kind.POOL_PAUSED: "paused: {reason}",
    Kind.POOL_RESUMED: "goes on",
    Kind.CIRCUIT_OPENED: "starts nothing until {until}, too many failed at once: {reason}",
    Kind.CIRCUIT_CLOSED: "starts reviewers again: {reason}",
}
"""What is said of an event, by its kind, with its facts put in."""

_OF_ALL = frozenset(
    {Kind.ATTENTION_RAISED, Kind.POOL_PAUSED, Kind.POOL_RESUMED, Kind.CIRCUIT_OPENED, Kind.CIRCUIT_CLOSED}
)
"""What concerns more than the reviewer, if any, that was at work."""

_STYLES: dict[str, str] = {
    Kind.REVIEWER_SPAWNED: "green",
    Kind.REVIEW_CLAIMED: "cyan",
    Kind.ATTENTION_RAISED: "bold red",
    Kind.POOL_PAUSED: "yellow",
    Kind.CIRCUIT_OPENED: "bold red",
    Kind.REVIEWER_TERMINATED: "dim",
}


class Teller:
    """Prints a line for whatever happens: for people, or as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Say who runs reviewers for whom."""
        if self._as_json:
            show_envelope(orjson.dumps({"ok": True, "data": facts}))
            return
        projects = ", ".join(facts["projects"] or ()) or "all projects"
        self.remark(
            f"{facts['supervisor_id']} runs reviewers for {facts['broker']}: {projects}, {facts['program']}"
            f" ({facts['mode']}), at most {facts['max_pool_size']}; their logs are in {facts['logs']}"
        )

    def remark(self, words: str) -> None:
        """Say what is no event of the broker's."""
        if not self._as_json:
            self._line("", words, time.strftime("%H:%M:%S"))

    def event(self, event: EventView, who: str, words: str) -> None:
        """Say what happened to a reviewer or to the pool."""
        if self._as_json:
            told = {name: getattr(event, name) for name in ("at", "kind", "project", "subject", "actor", "data")}
            show_envelope(orjson.dumps(told))
        else:
            at = datetime.fromisoformat(event.at).astimezone().strftime("%H:%M:%S")
            self._line(who, words, at, _STYLES.get(event.kind, ""))

    def _line(self, who: str, words: str, at: str, style: str = "") -> None:
        name = f"{visible_line(who)}  " if who else ""
        console().print(Text.assemble((f"{at}  ", "dim"), (name, "bold"), (visible_line(words), style)), soft_wrap=True)


class Told:
    """Follows the broker's log from a supervisor's registration on.

    Attributes:
        teller: Prints it.
    """

    def __init__(self, client: TandemClient, supervisor_id: str, cursor: str | None, teller: Teller) -> None:
        self.teller = teller
        self._client = client
        self._pool = f"pool:{supervisor_id}"
        self._supervisor_id = supervisor_id
        self._cursor = cursor
        self._reviewers: set[str] = set()

    async def follow(self) -> None:
        """Tell of everything until cancelled."""
        while True:
            began = time.monotonic()
            try:
                page = await self._read(wait=True)
            except CursorExpired:
                self._cursor = None
            except TandemError as error:
                if not error.retryable:
                    self.teller.remark(f"the broker does not show what the reviewers do: {error.message}")
                    return
            else:
                if page.events or time.monotonic() - began >= _PAUSE_SECONDS:
                    continue
            await asyncio.sleep(_PAUSE_SECONDS)

    async def catch_up(self) -> None:
        """Tell what is left, if the broker is there to say it."""
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                while (await self._read(wait=False)).more:
                    pass
        except (TandemError, TimeoutError):
            return

    async def _read(self, *, wait: bool) -> AuditPage:
        page = await self._client.get_audit_log(
            cursor=self._cursor, limit=_PAGE, wait=wait, timeout_s=_WAIT_SECONDS if wait else None
        )
        # Without a cursor it is the newest page, which tells of the past.
        for event in page.events if self._cursor is not None else ():
            self._tell(event)
        self._cursor = page.cursor
        return page

    def _tell(self, event: EventView) -> None:
        if event.kind == Kind.REVIEWER_REQUESTED and event.data.get("pool") == self._supervisor_id:
            self._reviewers.add(event.subject.removeprefix(_REVIEWER))
        whose = event.subject.removeprefix(_REVIEWER) if event.subject.startswith(_REVIEWER) else event.actor
        if event.subject != self._pool and whose not in self._reviewers:
            return
        words = _words(event)
        if words is not None:
            self.teller.event(event, "" if event.kind in _OF_ALL else whose, words)


def _words(event: EventView) -> str | None:
    """What to say of an event; null if it says nothing new to whoever watches."""
    if event.kind == Kind.REVIEWER_OUTCOME:
        return _outcome(event.data)
    form = _SAID.get(event.kind)
    known = {"project": event.project, "subject": event.subject, **event.data}
    return None if form is None else form.format_map(defaultdict(lambda: "unknown", known))


def _outcome(data: Mapping[str, Any]) -> str | None:
    if data.get("outcome") != "verdict":
        return f"gave no verdict on {data.get('review_id')} ({data.get('outcome')}): {data.get('reason')}"
    if "verdict" not in data:
        # What a verdict cost, which follows it.
        return None
    return f"gave its verdict on {data.get('review_id')} after {duration(data.get('seconds'))}: {data['verdict']}"
