"""The demonstration of a reviewer pool: nobody reviews, and yet every proposal gets its verdict, or a loud failure."""

from __future__ import annotations

import asyncio
import json
import re
import sys
import time
from collections.abc import Callable
from contextlib import suppress

import psutil

from tandem.cli.demo_stage import PROJECT, SceneFailed, Stage, expect
from tandem.client import TandemClient
from tandem.pool.contract import ReviewerView
from tandem.pool.reviewers import REENTRY_VARIABLE
from tandem.reviews.answers import EventView
from tandem.settings.pool import THROUGH_WSL
from tandem.store.event import EventKind

_PROGRAM = "tandem.examples.scripted_reviewer"
_CAP = 2
_AT_ONCE = 6
# Short times, so that the story takes seconds. A text of JSON is one of TOML, too.
SETTINGS = f"""
[reviewer_pool]
enabled = true
provider = "custom"
command = {json.dumps([sys.executable, "-m", _PROGRAM])}
max_pool_size = {_CAP}
scaling_ratio = 1
spawn_cooldown_seconds = 0
retry_delay_seconds = 0.2
drain_seconds = 0.5
grace_seconds = 1
"""
_FILE = "prices.py"
_PROPOSED = '''"""Prices as people type them into the form."""


def price(text):
    return round(eval(text), 2)
'''
_BETTER = _PROPOSED.replace("eval(text)", "float(text)")
_WAIT = ("--wait", "--timeout", "60")


async def play(stage: Stage) -> None:
    """Play it to the end, and stop the broker."""
    if THROUGH_WSL:
        raise SceneFailed("on Windows reviewers run in WSL, which this demonstration does not set up")
    async with TandemClient(stage.url, PROJECT, "demo") as client:
        story = _PoolStory(stage, client, (await client.get_audit_log(limit=1)).cursor)
        for part in (story.defect_and_revision, story.many, story.pause_and_failure, story.shutdown):
            await part()


class _PoolStory:
    def __init__(self, stage: Stage, client: TandemClient, beginning: str) -> None:
        self._stage, self._client, self._beginning = stage, client, beginning

    async def defect_and_revision(self) -> None:
        """A proposal with a defect, and its revision up to the commit."""
        stage, client = self._stage, self._client
        stage.scene("Nobody reviews, and a proposal is put up")
        await stage.tandem("reviewers", "list")
        stage.write(f"{PROJECT}/{_FILE}", _PROPOSED)
        review_id = _id_in(await stage.tandem("submit", "-m", "Read prices from the form", *_WAIT, status=10))
        comments = [entry for entry in (await client.get_discussion(review_id)).entries if entry.file is not None]
        stage.tell("reviewer", f"{comments[0].author}, which the pool started by itself, requests changes:")
        stage.show(*(f"{one.file}:{one.line}: {one.body}" for one in comments))

        stage.scene("A revision, and the gate")
        await stage.stage_file(_FILE, _BETTER)
        await stage.tandem("submit", "--revise", review_id, *_WAIT)
        await stage.tandem("gate", "check")
        await stage.git("commit", "--quiet", "--message", "Read prices from the form")
        await client.close_review(review_id)
        stage.tell("gate", "passes it, to the byte; it is committed, and the review closed")

    async def many(self) -> None:
        """More proposals at once than there may be reviewers."""
        stage, client = self._stage, self._client
        stage.scene(f"{_AT_ONCE} proposals at once, for at most {_CAP} reviewers")
        created = await asyncio.gather(*(self._put_up(f"Note {number}, a SLOW one") for number in range(_AT_ONCE)))
        stage.tell("proposer", f"puts up {len(created)} proposals at once")
        waits = (client.wait_for_verdict(one, timeout_s=60) for one in created)
        expect("the verdicts", {one.status for one in await asyncio.gather(*waits)}, {"approved"})
        for one in reversed(await self._reviewers()):
            stage.tell("reviewer", f"{one.name} has given {one.reviews_completed} verdicts by now")
        now = most = 0
        for event in await self._events(self._beginning):
            now += (event.kind == EventKind.REVIEWER_REQUESTED) - (event.kind == EventKind.REVIEWER_TERMINATED)
            most = max(most, now)
        expect("how many reviewers there were at a time, at most", most, _CAP)
        stage.tell("log", f"proves that there were never more than {most} reviewers at a time")

    async def pause_and_failure(self) -> None:
        """A pool that is paused, and a program that fails."""
        stage = self._stage
        stage.scene("Paused by hand")
        await stage.tandem("reviewers", "pause", "--reason", "the model is down")
        await self._until("all reviewers have ended", lambda found: all(one.ended_at is not None for one in found))
        stage.tell("reviewer", "each finishes what it is at, and ends")

        stage.scene("A program that fails")
        await stage.stage_file(_FILE, _BETTER.replace("2)", "3)"))
        review_id = _id_in(await stage.tandem("submit", "-m", "Round to three digits; makes the program CRASH"))
        stage.tell("proposer", "waits: while the pool is paused, nothing is started")
        await stage.tandem("reviewers", "resume")
        await stage.tandem("review", "status", review_id, *_WAIT, status=14)
        for event in await self._events(self._beginning):
            if event.kind == EventKind.CLAIM_RELEASED and event.subject == review_id:
                later = "tried again later" if event.data.get("not_before") else "raised to a person's attention"
                stage.tell("log", f"{event.actor}: {event.data['reason']}; {later}")
        await stage.tandem("gate", "check", status=1)
        stage.tell("gate", "stays closed: a review that nobody could do is never an approval")
        await stage.tandem("reviewers", "list")

    async def shutdown(self) -> None:
        """The broker stops in the middle of a review."""
        self._stage.scene("The broker stops while a program hangs")
        await self._put_up("Have the program HANG")
        await self._until("its program runs", lambda found: any(_PROGRAM in words for words in self._processes(found)))
        known = await self._reviewers()
        await self._stage.tandem("down", "--data-dir", str(self._stage.data_dir))
        expect("the processes that are left", self._processes(known), [])
        self._stage.tell("log", f"of {len(known)} reviewers, their programs and the broker no process is left")

    async def _put_up(self, intent: str) -> str:
        """Put up a new file with a line of its own."""
        name = re.sub(r"\W+", "-", intent.lower()) + ".md"
        head = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
        diff = f"{head}@@ -0,0 +1 @@\n+{intent}.\n"
        return (await self._client.create_review(intent=intent, agent_type="demo-proposer", diff=diff)).review_id

    async def _reviewers(self) -> list[ReviewerView]:
        return list((await self._client.list_reviewers(project=PROJECT)).reviewers)

    def _processes(self, reviewers: list[ReviewerView]) -> list[str]:
        """What still runs of the stage: processes of reviewers by their environment, others by the folder's name."""
        known = {one.reviewer_id for one in reviewers}
        found: list[str] = []
        for process in psutil.process_iter():
            # Gone, or somebody else's.
            with suppress(psutil.Error, OSError):
                words = " ".join(process.cmdline())
                if process.environ().get(REENTRY_VARIABLE) in known or str(self._stage.folder) in words:
                    found.append(words)
        return found

    async def _events(self, cursor: str) -> list[EventView]:
        """The log behind a place in it, oldest first."""
        page = await self._client.get_audit_log(cursor=cursor, limit=200)
        return [*page.events, *(await self._events(page.cursor) if page.more else ())]

    async def _until(self, what: str, condition: Callable[[list[ReviewerView]], bool]) -> None:
        """Wait for something, and look again after every event."""
        deadline = time.monotonic() + 60
        cursor = (await self._client.get_audit_log(limit=1)).cursor
        while not condition(await self._reviewers()):
            if time.monotonic() > deadline:
                raise SceneFailed(f"waited in vain until {what}")
            # Not for longer: that a process begins is no event.
            cursor = (await self._client.get_audit_log(cursor=cursor, wait=True, timeout_s=5)).cursor


def _id_in(output: str) -> str:
    return re.findall(r"\brv_[0-9a-z]+", output)[0]
