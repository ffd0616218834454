"""Nothing is left of the reviewers when their supervisor stops, dies, or finds what an earlier one left."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import psutil
import pytest

from tandem.core import platforms
from tandem.core.platforms import ProcessIdentity
from tandem.errors import InvalidInput, Unavailable
from tandem.pool.rules import supervisor_id
from tests.reviewers.running import is_gone, until
from tests.reviewers.supervising import OrderBook, Scene

pytestmark = pytest.mark.anyio
only_posix = pytest.mark.skipif(sys.platform == "win32", reason="platform: signals and sessions are of POSIX")


@contextmanager
def sleeper(**environment: str) -> Generator[tuple[subprocess.Popen[bytes], ProcessIdentity]]:
    """A process that does nothing, in a session of its own."""
    command = [sys.executable, "-c", "import time; time.sleep(300)"]
    process = subprocess.Popen(command, env={**os.environ, **environment}, start_new_session=True)
    try:
        yield process, ProcessIdentity(process.pid, round(psutil.Process(process.pid).create_time() * 1_000_000))
    finally:
        process.kill()
        process.wait()


def fresh_name() -> str:
    """A reviewer's id that no test beside this one has."""
    return f"codex-r1-{secrets.token_hex(6)}"


# ---------------------------------------------------------------------------------------------------- the stop


async def test_nothing_new_is_started_during_a_stop(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "busy", drain_seconds=60.0) as supervisor:
        first, second = [book.order(scene.root) for _ in range(2)]
        for row in (first, second):
            await scene.job(row)
        stopping = asyncio.create_task(supervisor.stop())
        await book.until("the broker was told", lambda: book.heartbeats[-1]["closing"])
        late = book.order(scene.root)
        os.kill(first.pid, signal.SIGTERM)
        # The answer to this has the late one.
        await book.until("an end was told", lambda: first.ended)
        os.kill(second.pid, signal.SIGTERM)
        await stopping
        assert late.told == {}
        assert scene.noted(late, "pid") is None


@only_posix
async def test_reviewers_that_stand_still_are_ended_by_a_stop(scene: Scene, book: OrderBook) -> None:
    supervisor = scene.supervisor(book, "stands-still")
    await supervisor.start()
    row = book.order(scene.root)
    await scene.job(row)
    for _ in until("it stands still"):
        if psutil.Process(row.pid).status() == psutil.STATUS_STOPPED:
            break
    began = time.monotonic()
    await supervisor.stop()
    assert time.monotonic() - began < 20
    assert is_gone(row.pid)
    assert (row.told["state"], row.told["exit_code"], row.told["quick"]) == ("ended", -signal.SIGKILL, False)


@only_posix
async def test_a_stop_goes_on_when_the_caller_loses_patience(scene: Scene, book: OrderBook) -> None:
    supervisor = scene.supervisor(book, "deaf")
    await supervisor.start()
    row = book.order(scene.root)
    runaway = int(await scene.note(row, "runaway"))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(supervisor.stop(), 0.01)
    await supervisor.wait_ended()
    assert is_gone(row.pid)
    assert is_gone(runaway)


async def test_a_stop_needs_no_broker(scene: Scene, book: OrderBook) -> None:
    supervisor = scene.supervisor(book, "obedient")
    await supervisor.start()
    row = book.order(scene.root)
    await scene.job(row)
    book.away = lambda _: True
    await supervisor.stop()
    assert is_gone(row.pid)


# ---------------------------------------------------------------------------------------------------- orphans


async def marked(scene: Scene) -> str:
    """The supervisor's id, which its processes bear, after it has run once."""
    async with scene.supervising(OrderBook(), "obedient"):
        pass
    return supervisor_id(json.loads((scene.data / "reviewers" / "supervisor.json").read_text())["secret"])


def left_behind(scene: Scene) -> tuple[str, Path]:
    """The folder of a reviewer that an earlier start did not see end."""
    name = fresh_name()
    left = scene.data / "reviewers" / "scratch" / name
    left.mkdir(parents=True)
    return name, left


async def test_only_what_bears_its_marks_is_ended_whatever_the_broker_says(scene: Scene, book: OrderBook) -> None:
    mark = await marked(scene)
    name, left = left_behind(scene)
    bears: list[dict[str, str]] = [
        {},
        {"TANDEM_REVIEWER": name},
        {"TANDEM_REVIEWER": name, "TANDEM_SUPERVISOR": supervisor_id("another")},
        {"TANDEM_REVIEWER": fresh_name(), "TANDEM_SUPERVISOR": mark},
    ]
    with ExitStack() as stack:
        sleepers = [stack.enter_context(sleeper(**environment)) for environment in bears]
        book.lies = {
            "orphans": [
                {"reviewer_id": name, "pid": identity.pid, "started_us": identity.started_us}
                for _, identity in sleepers
            ]
        }
        async with scene.supervising(book, "obedient"):
            # One of the same name, whose end takes all with it that bears its marks.
            row = book.order(scene.root, reviewer_id=name)
            await scene.job(row)
            book.want(row, "kill")
            await book.until("it has ended", lambda: row.ended)
        for process, identity in sleepers:
            assert process.poll() is None
            assert platforms.is_alive(identity)
    assert not left.exists()


# ----------------------------------------------------------------------------------------- refusals at the start


async def test_one_supervisor_runs_on_a_folder(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "obedient") as first:
        second = scene.supervisor(OrderBook(), "obedient")
        with pytest.raises(Unavailable, match="Another supervisor"):
            await second.start()
        assert first.running
    async with scene.supervising(book, "obedient") as third:
        assert third.running


@pytest.mark.parametrize("error", [InvalidInput("no such rules"), Unavailable("no broker answers")])
async def test_a_start_that_fails_leaves_nothing_behind(scene: Scene, book: OrderBook, error: Exception) -> None:
    book.refusal = error
    failed = scene.supervisor(book, "obedient")
    with pytest.raises(type(error)):
        await failed.start()
    await failed.stop()
    await failed.wait_ended()
    book.refusal = None
    async with scene.supervising(book, "obedient") as next_one:
        assert next_one.running
