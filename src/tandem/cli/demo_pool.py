"""The demonstration of a reviewer pool: nobody reviews, and yet every proposal gets its verdict, or a loud failure."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from importlib.resources import files
from pathlib import Path

import psutil

from tandem import examples
from tandem.cli.demo_stage import PROJECT, SceneFailed
from tandem.cli.demo_teller import Teller, expect, expect_equal
from tandem.client import TandemClient
from tandem.domain.answers import EventView
from tandem.domain.events import Kind
from tandem.domain.pool_answers import ReviewerView
from tandem.domain.reviewers import RETRIES
from tandem.pool_settings import THROUGH_WSL
from tandem.reviewers import REENTRY_VARIABLE

_PROGRAM = "scripted_reviewer.py"
_CAP = 2
_AT_ONCE = 6
_SETTINGS = {
    "enabled": "true",
    "provider": '"custom"',
    "max_pool_size": f"{_CAP}",
    "scaling_ratio": "1",
    # Short, so that the story takes seconds.
    "spawn_cooldown_seconds": "0",
    "retry_delay_seconds": "0.2",
    "drain_seconds": "0.5",
    "grace_seconds": "1",
}
_FILE = "prices.py"
_PROPOSED = '''"""Prices as people type them into the form."""


def price(text):
    return round(eval(text), 2)
'''
_DEFECT_LINE = 5
_BETTER = _PROPOSED.replace("eval(text)", "float(text)")
_BROKEN = _BETTER.replace("2)", "3)")
_PATIENCE_SECONDS = 60.0
_LOOK_SECONDS = 5.0
_REVIEW = re.compile(r"\brv_[0-9a-z]+")


def settings(folder: Path) -> str:
    """The table of the pool for the stage's configuration; puts its program into the stage's folder.

    Raises:
        SceneFailed: This system runs reviewers in a way that a scripted program cannot play.
    """
    if THROUGH_WSL:
        raise SceneFailed("on Windows reviewers run in WSL, which this demonstration does not set up")
    program = folder / _PROGRAM
    program.write_bytes(files(examples).joinpath(_PROGRAM).read_bytes())
    # A text of JSON is one of TOML, too.
    stated = {**_SETTINGS, "command": json.dumps([sys.executable, str(program)])}
    return "\n[reviewer_pool]\n" + "".join(f"{name} = {value}\n" for name, value in stated.items())


class PoolStory:
    """Plays proposals that only a pool reviews, and tells it as it happens."""

    def __init__(self, teller: Teller, client: TandemClient) -> None:
        self._teller = teller
        self._stage = teller.stage
        self._client = client
        self._beginning = ""
        """The place in the log."""

    async def play(self) -> None:
        """Play it to the end, and stop the broker.

        Raises:
            SceneFailed: A step went otherwise; says which, and what differed.
        """
        self._beginning = (await self._client.get_audit_log(limit=1)).cursor
        review_id = await self._defect()
        await self._revision(review_id)
        await self._many()
        await self._pause()
        await self._failure()
        await self._teller.run("reviewers", "list")
        await self._shutdown()

    # ------------------------------------------------------------------------------------------ the scenes

    async def _defect(self) -> str:
        self._teller.scene("Nobody reviews, and a proposal is put up")
        await self._teller.run("reviewers", "list")
        expect_equal("the reviewers before", await self._reviewers(), [])
        self._write(_PROPOSED)
        submitted = await self._teller.run(
            "submit", "-m", "Read prices from the form", "--wait", "--timeout", "60", status=10
        )
        review_id = _id_in(submitted.output)
        comments = [entry for entry in (await self._client.get_discussion(review_id)).entries if entry.file is not None]
        expect_equal("where the defect is", [(one.file, one.line) for one in comments], [(_FILE, _DEFECT_LINE)])
        [reviewer] = await self._reviewers()
        expect_equal("who found it", comments[0].author, reviewer.reviewer_id)
        self._teller.tell("reviewer", f"{reviewer.reviewer_id}, which the pool started by itself, requests changes:")
        self._teller.show_lines([f"{one.file}:{one.line}: {one.body}" for one in comments])
        return review_id

    async def _revision(self, review_id: str) -> None:
        self._teller.scene("A revision, and the gate")
        self._write(_BETTER)
        await self._stage.git("add", "--all")
        await self._teller.run("submit", "--revise", review_id, "--wait", "--timeout", "60")
        await self._teller.run("gate", "check")
        await self._stage.git("commit", "--quiet", "--message", "Read prices from the form")
        await self._client.close_review(review_id)
        self._teller.tell("gate", "passes it, to the byte; it is committed, and the review closed")

    async def _many(self) -> None:
        self._teller.scene(f"{_AT_ONCE} proposals at once, for at most {_CAP} reviewers")
        created = await asyncio.gather(*(self._put_up(f"Note {number}, a SLOW one") for number in range(_AT_ONCE)))
        self._teller.tell("proposer", f"puts up {len(created)} proposals at once")
        verdicts = await asyncio.gather(
            *(self._client.wait_for_verdict(one, timeout_s=_PATIENCE_SECONDS) for one in created)
        )
        expect_equal("the verdicts", {one.status for one in verdicts}, {"approved"})
        reviewers = await self._reviewers()
        for one in reversed(reviewers):
            seconds = f"{one.mean_review_seconds or 0:.1f} s"
            self._teller.tell(
                "reviewer", f"{one.name} has given {one.reviews_completed} verdicts by now, in {seconds} each"
            )
        expect_equal("the verdicts of the pool", sum(one.reviews_completed for one in reviewers), _AT_ONCE + 2)
        most = _most_at_a_time(await self._events())
        expect_equal("how many reviewers there were at a time, at most", most, _CAP)
        self._teller.tell("log", f"proves that there were never more than {most} reviewers at a time")

    async def _pause(self) -> None:
        self._teller.scene("Paused by hand")
        await self._teller.run("reviewers", "pause", "--reason", "the model is down")
        await self._until("all reviewers have ended", self._all_ended)
        self._teller.tell("reviewer", "each finishes what it is at, and ends")

    async def _failure(self) -> None:
        self._teller.scene("A program that fails")
        before = {one.reviewer_id for one in await self._reviewers()}
        self._write(_BROKEN)
        await self._stage.git("add", "--all")
        submitted = await self._teller.run("submit", "-m", "Round to three digits; makes the program CRASH")
        review_id = _id_in(submitted.output)
        expect_equal("the reviewers while it is paused", {one.reviewer_id for one in await self._reviewers()}, before)
        self._teller.tell("proposer", "waits: while the pool is paused, nothing is started")
        await self._teller.run("reviewers", "resume")
        shown = await self._teller.run("review", "status", review_id, "--wait", "--timeout", "60", status=12)
        expect("attention" in shown.output, "the status says that a person has to look", shown.output)
        await self._check_tries(review_id)
        await self._teller.run("gate", "check", status=1)
        self._teller.tell("gate", "stays closed: a review that nobody could do is never an approval")

    async def _check_tries(self, review_id: str) -> None:
        """Insist that it was tried as often as it is to be, by reviewers that were replaced, and never decided."""
        released = [
            event for event in await self._events() if event.kind == Kind.CLAIM_RELEASED and event.subject == review_id
        ]
        expect_equal("how often it was tried", len(released), 1 + RETRIES)
        expect_equal("by how many reviewers", len({event.actor for event in released}), 1 + RETRIES)
        for event in released:
            later = "tried again later" if event.data.get("not_before") else "raised to a person's attention"
            self._teller.tell("log", f"{event.actor}: {event.data['reason']}; {later}")
        status = await self._client.get_review_status(review_id)
        expect_equal("its state", (status.status, status.verdict), ("pending", None))
        expect(bool(status.attention), "it waits for a person's attention", status.attention)

    async def _shutdown(self) -> None:
        self._teller.scene("The broker stops while a program hangs")
        review_id = await self._put_up("Have the program HANG")
        await self._until("a reviewer is at it", lambda: self._is_at(review_id))
        known = {one.reviewer_id for one in await self._reviewers()}
        # The reviewer's process, and its program's; that both are seen shows that none is overlooked below.
        await self._until("its program runs", lambda: self._some_run(known))
        await self._teller.run("down", "--data-dir", str(self._stage.data_dir))
        left = await asyncio.to_thread(_processes_of, self._stage.folder, known)
        expect_equal("the processes that are left", left, [])
        self._teller.tell("log", f"of {len(known)} reviewers, their programs and the broker no process is left")

    # ------------------------------------------------------------------------------------------- its means

    async def _put_up(self, intent: str) -> str:
        """Put up a new file with a line of its own."""
        name = re.sub(r"\W+", "-", intent.lower())
        diff = (
            f"diff --git a/{name}.md b/{name}.md\nnew file mode 100644\n--- /dev/null\n+++ b/{name}.md\n"
            f"@@ -0,0 +1 @@\n+{intent}.\n"
        )
        created = await self._client.create_review(intent=intent, agent_type="demo-proposer", diff=diff)
        return created.review_id

    async def _reviewers(self) -> list[ReviewerView]:
        return list((await self._client.list_reviewers(project=PROJECT)).reviewers)

    async def _all_ended(self) -> bool:
        return all(one.ended_at is not None for one in await self._reviewers())

    async def _is_at(self, review_id: str) -> bool:
        return any(one.review_id == review_id for one in await self._reviewers())

    async def _some_run(self, reviewers: set[str]) -> bool:
        found = await asyncio.to_thread(_processes_of, self._stage.folder, reviewers)
        return any(_PROGRAM in one for one in found) and any("tandem.reviewers.worker" in one for one in found)

    async def _events(self) -> list[EventView]:
        """The log since the story began, oldest first."""
        found: list[EventView] = []
        cursor = self._beginning
        while True:
            page = await self._client.get_audit_log(cursor=cursor, limit=200)
            found += page.events
            cursor = page.cursor
            if not page.more:
                return found

    async def _until(self, what: str, condition: Callable[[], Awaitable[bool]]) -> None:
        """Wait for something, and look again after every event.

        Raises:
            SceneFailed: It does not come.
        """
        deadline = time.monotonic() + _PATIENCE_SECONDS
        cursor = (await self._client.get_audit_log(limit=1)).cursor
        while not await condition():
            if time.monotonic() > deadline:
                raise SceneFailed(f"waited in vain until {what}")
            cursor = (await self._client.get_audit_log(cursor=cursor, wait=True, timeout_s=_LOOK_SECONDS)).cursor

    def _write(self, content: str) -> None:
        (self._stage.repository / _FILE).write_text(content, encoding="utf-8", newline="\n")


def _id_in(output: str) -> str:
    found = _REVIEW.search(output)
    if found is None:
        raise SceneFailed(f"no review was put up:\n{output}")
    return found[0]


def _most_at_a_time(events: list[EventView]) -> int:
    """How many reviewers there were at a time, from the order to start one to its end."""
    now = most = 0
    for event in events:
        now += (event.kind == Kind.REVIEWER_REQUESTED) - (event.kind == Kind.REVIEWER_TERMINATED)
        most = max(most, now)
    return most


def _processes_of(folder: Path, reviewers: set[str]) -> list[str]:
    """What still runs of the stage: processes of reviewers by their environment, others by the folder's name."""
    found: list[str] = []
    for process in psutil.process_iter():
        # Gone, or somebody else's.
        with suppress(psutil.Error, OSError):
            words = " ".join(process.cmdline())
            if process.environ().get(REENTRY_VARIABLE) in reviewers or str(folder) in words:
                found.append(f"{process.pid}: {words}")
    return found
