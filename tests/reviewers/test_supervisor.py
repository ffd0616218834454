"""A supervisor makes it so that the reviewers run which the broker orders, and tells what became of them."""

from __future__ import annotations

import json
import os
import shutil
import signal
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

from tandem.core import platforms
from tandem.core.platforms import ProcessIdentity
from tandem.pool.reviewers.job import read_job
from tests.reviewers.running import is_gone
from tests.reviewers.supervising import OrderBook, Row, Scene

pytestmark = pytest.mark.anyio
only_posix = pytest.mark.skipif(sys.platform == "win32", reason="platform: signals and sessions are of POSIX")


async def ended(book: OrderBook, row: Row) -> dict[str, Any]:
    """The report of a reviewer's end, once it came."""
    await book.until(f"{row.reviewer_id} has ended", lambda: row.ended)
    return {name: row.told[name] for name in ("exit_code", "quick", "error")}


async def test_its_id_stays_and_its_incarnation_is_new_at_each_start(scene: Scene, book: OrderBook) -> None:
    for _ in range(2):
        async with scene.supervising(book, "obedient"):
            pass
    first, second = book.registrations
    assert first["secret"] == second["secret"]
    assert first["incarnation"] != second["incarnation"]
    assert all(len(one["incarnation"]) == 6 and one["incarnation"].isalnum() for one in (first, second))
    file = scene.data / "reviewers" / "supervisor.json"
    assert json.loads(file.read_text())["secret"] == first["secret"]
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert stat.S_IMODE(file.parent.stat().st_mode) == 0o700


async def test_an_unreadable_id_is_replaced(scene: Scene, book: OrderBook) -> None:
    (scene.data / "reviewers").mkdir(parents=True)
    (scene.data / "reviewers" / "supervisor.json").write_text('{"secret": "../etc"}')
    async with scene.supervising(book, "obedient"):
        assert len(book.registrations[0]["secret"]) == 64


async def test_the_copy_of_a_data_folder_is_another_supervisor(scene: Scene, book: OrderBook, tmp_path: Path) -> None:
    (tmp_path / "copied").mkdir()
    copied = Scene(tmp_path / "copied")
    # A book has one supervisor: another that registers with it takes the place of the first.
    book_of_copy = OrderBook()
    async with scene.supervising(book, "obedient"):
        shutil.copytree(scene.data, copied.data)
        async with copied.supervising(book_of_copy, "obedient"):
            [first], [second] = book.registrations, book_of_copy.registrations
            assert first["secret"] != second["secret"]
    async with scene.supervising(book, "obedient"):
        assert [one["secret"] for one in book.registrations] == [first["secret"]] * 2


async def test_starts_what_is_ordered_and_gives_it_its_job(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "obedient", idle_timeout_seconds=90.0, model="gpt-5"):
        row = book.order(scene.root)
        job = await scene.job(row)
        assert (row.told["state"], row.told["wanted"], row.pid) == ("running", "run", job["pid"])
        assert platforms.is_alive(ProcessIdentity(row.pid, row.told["started_us"]))
        cwd = Path(job.pop("cwd"))
        assert job.pop("pid")
        # The very worker can read it.
        read = read_job(json.dumps(job).encode())
        assert (read.reviewer_id, read.project, read.workspace) == (row.reviewer_id, "acme", str(scene.root))
        assert (read.broker, read.mode, read.idle_seconds) == ("http://127.0.0.1:1", "worker", 90)
        assert (read.provider, read.command, read.model) == ("custom", (sys.executable,), "gpt-5")
        assert read.log_file == str(scene.logs / f"{row.reviewer_id}.log")
        assert read.scratch == str(scene.scratch(row))
        assert scene.scratch(row).is_dir()
        if sys.platform != "win32":
            assert stat.S_IMODE(scene.scratch(row).stat().st_mode) == 0o700
        # What lies in a repository must not be found by the worker's imports.
        assert cwd == scene.data / "reviewers"


async def test_a_stated_workspace_is_that_of_every_reviewer(scene: Scene, book: OrderBook, tmp_path: Path) -> None:
    (tmp_path / "copy").mkdir()
    async with scene.supervising(book, "obedient", workspace_path=str(tmp_path / "copy")):
        assert (await scene.job(book.order(None)))["workspace"] == str(tmp_path / "copy")


async def test_no_job_is_given_before_the_broker_knows_the_process(scene: Scene, book: OrderBook) -> None:
    book.away = lambda asked: any("pid" in one for one in asked.get("reviewers", ()))
    async with scene.supervising(book, "obedient", drain_seconds=20.0):
        row = book.order(scene.root)
        await scene.note(row, "pid")
    assert scene.noted(row, "end") == "no job"
    assert scene.noted(row, "job") is None


async def test_a_reviewer_that_was_drained_ends_in_order(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "obedient"):
        row = book.order(scene.root)
        await scene.job(row)
        book.want(row, "drain")
        assert await ended(book, row) == {"exit_code": 0, "quick": False, "error": None}
        assert scene.noted(row, "end") == "drain"
        assert not scene.scratch(row).exists()
        assert (scene.logs / f"{row.reviewer_id}.log").exists()
        await scene.job(book.order(scene.root))


async def test_a_reviewer_that_is_to_be_killed_or_was_given_up_is_cancelled_first(
    scene: Scene, book: OrderBook
) -> None:
    async with scene.supervising(book, "busy", grace_seconds=30.0):
        killed, forgotten = book.order(scene.root), book.order(scene.root)
        for row in (killed, forgotten):
            await scene.job(row)
        book.want(killed, "drain")
        assert await scene.note(killed, "heard") == "drain"
        book.want(killed, "kill")
        assert await ended(book, killed) == {"exit_code": 0, "quick": False, "error": None}
        assert scene.noted(killed, "end") == "drain cancel"
        book.forget(forgotten)
        assert await scene.note(forgotten, "end") == "cancel"


async def test_a_reviewer_that_is_not_to_run_any_more_is_not_started(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "obedient"):
        row = book.order(scene.root)
        row.wanted = "drain"
        assert await ended(book, row) == {"exit_code": None, "quick": False, "error": None}
        assert "pid" not in row.told
        assert scene.noted(row, "pid") is None


@only_posix
async def test_a_reviewer_that_hears_nothing_is_killed_with_all_that_it_started(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "deaf"):
        row = book.order(scene.root)
        runaway = int(await scene.note(row, "runaway"))
        book.want(row, "kill")
        told = await ended(book, row)
        assert (told["exit_code"], told["quick"]) == (-signal.SIGKILL, False)
        assert "was killed" in told["error"]
        assert is_gone(row.pid)
        assert is_gone(runaway)


@pytest.mark.parametrize(
    ("status", "quick", "says"),
    [
        (0, False, None),
        (1, True, "fault of its own"),
        (3, True, "program cannot be started"),
        (5, True, "The broker refused it"),
        (77, True, "exit status 77"),
    ],
)
async def test_an_end_is_told_with_its_meaning(
    scene: Scene, book: OrderBook, status: int, quick: bool, says: str | None
) -> None:
    async with scene.supervising(book, "leave", str(status)):
        row = book.order(scene.root)
        told = await ended(book, row)
        assert (told["exit_code"], told["quick"]) == (status, quick)
        if says is None:
            assert told["error"] is None
        else:
            assert says in told["error"]
            assert "these are my last words" in told["error"]
            assert "\x1b" not in told["error"]
            assert len(told["error"]) < 500
        assert is_gone(int(scene.noted(row, "child") or 0))
        assert not scene.scratch(row).exists()


async def test_a_worker_that_cannot_be_started_is_told(scene: Scene, book: OrderBook) -> None:
    supervisor = scene.supervisor(book, worker_argv=(str(scene.notes / "no-such-program"),))
    await supervisor.start()
    told = await ended(book, book.order(scene.root))
    await supervisor.stop()
    assert (told["exit_code"], told["quick"]) == (None, True)
    assert "cannot be started" in told["error"]


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"root": None}, "The project 'acme' has no folder that a reviewer could read; set workspace_path"),
    ({"root": "gone"}, "The folder of the project 'acme', '"),
    ({"project": "other"}, "does not serve the project 'other'"),
    *(({"reviewer_id": name}, "no id of a reviewer") for name in ("../../etc/cron", "codex-r1-a/b", "x")),
    ({"reviewer_id": "codex-r1-" + "a" * 300}, "no id of a reviewer"),
]


async def test_a_reviewer_that_cannot_work_here_is_refused_clearly(
    scene: Scene, book: OrderBook, tmp_path: Path
) -> None:
    async with scene.supervising(book, "obedient", projects=("acme",)):
        for order, said in REFUSED:
            given: dict[str, Any] = {"root": str(scene.root), "project": "acme", "reviewer_id": None, **order}
            root = given.pop("root")
            told = await ended(book, book.order(tmp_path / root if root else None, **given))
            assert (told["exit_code"], told["quick"]) == (None, True)
            assert said in told["error"]
    assert not list(scene.notes.iterdir())


@only_posix
async def test_a_reviewer_that_lives_too_long_is_killed(scene: Scene, book: OrderBook) -> None:
    limits = {"max_ttl_seconds": 0.2, "checks_wait_seconds": 0, "attempt_seconds": 0.3, "grace_seconds": 0.5}
    async with scene.supervising(book, "deaf", **limits):
        row = book.order(scene.root)
        told = await ended(book, row)
        assert told["exit_code"] == -signal.SIGKILL
        assert "1 s after its start" in told["error"]
        assert is_gone(row.pid)


async def test_an_agent_is_asked_to_drain_when_it_holds_no_review(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "obedient", mode="agent", background_check_interval_seconds=1.0):
        row = book.order(scene.root)
        row.review_id = "rv_1"
        assert (await scene.job(row))["mode"] == "agent"
        book.want(row, "drain")
        heard = len(book.heartbeats)
        await book.until("the order was heard", lambda: len(book.heartbeats) > heard + 1)
        assert scene.noted(row, "end") is None
        row.review_id = None
        assert await ended(book, row) == {"exit_code": 0, "quick": False, "error": None}


async def test_an_agent_that_holds_a_review_for_too_long_is_asked_all_the_same(scene: Scene, book: OrderBook) -> None:
    async with scene.supervising(book, "obedient", mode="agent", attempt_seconds=0.5):
        row = book.order(scene.root)
        row.review_id = "rv_1"
        await scene.job(row)
        book.want(row, "drain")
        assert await ended(book, row) == {"exit_code": 0, "quick": False, "error": None}


async def test_logs_of_the_newest_reviewers_are_kept(scene: Scene, book: OrderBook) -> None:
    scene.logs.mkdir()
    old = [scene.logs / f"custom-r{number}-abcdef.log" for number in range(60)]
    for age, path in enumerate(old):
        for log in (path, path.with_name(f"{path.name}.1")):
            log.write_text("")
            _set_time(log, 1_700_000_000 - age)
    (scene.logs / "broker.log").write_text("of somebody else")
    _set_time(scene.logs / "broker.log", 1)
    async with scene.supervising(book, "obedient"):
        row = book.order(scene.root)
        await scene.job(row)
        kept = {path.name for path in scene.logs.iterdir()}
    newest = {name for path in old[:49] for name in (path.name, f"{path.name}.1")}
    assert kept == newest | {"broker.log", f"{row.reviewer_id}.log"}


def _set_time(path: Path, seconds: int) -> None:
    os.utime(path, (seconds, seconds))
