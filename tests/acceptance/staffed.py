"""A real broker with a pool of real reviewers, whose program is scripted: what the tests of the pool share.

What a review's program does is said by its intent; see `programs/scripted.py`.
"""

from __future__ import annotations

import json
import os
import secrets
import signal
import sys
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

import psutil
import pytest

from tests.acceptance.reviewing import Desk, edited
from tests.broker import BrokerProcess, fresh_project
from tests.git.sandbox import Sandbox

T = TypeVar("T")
PROGRAMS = Path(__file__).parent / "programs"
PATIENCE_SECONDS = 60.0
"""How long anything may take that is waited for: far longer than it does, for the machine may be busy."""

WORKER = "tandem.pool.reviewers.worker"
VARIABLE = "STAFFED_BY"
only_posix = pytest.mark.skipif(sys.platform == "win32", reason="platform: signals and sessions are of POSIX")
_GONE = {psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD}


def until(look: Callable[[], T | None], what: str) -> T:
    """What `look` gives once that is true; fails when it does not come."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not (found := look()):
        assert time.monotonic() < deadline, f"waited in vain until {what}"
        time.sleep(0.05)
    return found


def program(notes: Path, *arguments: str, name: str = "scripted.py") -> list[str]:
    """How a scripted program is called; without the site's packages, so that it starts quickly."""
    return [sys.executable, "-I", "-S", str(PROGRAMS / name), str(notes), *arguments]


class StaffedBroker(BrokerProcess):
    """A broker that starts reviewers, and all that anybody can see of those on this machine.

    Attributes:
        notes: Where the program leaves its input, and finds the signals of tests.
        pool: The pool's settings.
    """

    def __init__(self, folder: Path, pool: dict[str, Any] | None = None, **settings: object) -> None:
        """A broker that has not started.

        Args:
            folder: Its own.
            pool: Settings of the pool that differ from the usual.
            settings: Settings of the broker.
        """
        self.notes = folder / "notes"
        self.notes.mkdir(parents=True, exist_ok=True)
        # Tests do not wait for delays that they do not test.
        usual = {"provider": "custom", "command": program(self.notes), "enabled": True}
        hasty = {"spawn_cooldown_seconds": 0, "retry_delay_seconds": 0.001, "grace_seconds": 0.5, "drain_seconds": 0.2}
        self.pool: dict[str, Any] = {**usual, **hasty, **(pool or {})}
        super().__init__(folder, reviewer_pool=json.dumps(self.pool), **settings)
        self._token = secrets.token_hex(8)

    @property
    def environment(self) -> dict[str, str]:
        """As usual, and with a mark that its reviewers inherit."""
        return {**super().environment, VARIABLE: self._token}

    def stop(self) -> None:
        """An orderly end, after which nothing of it may be left."""
        super().stop()
        self.assert_nobody_is_left()

    def signal_stop(self) -> None:
        """Asks it to stop, and does not wait."""
        os.kill(self.pid, signal.SIGTERM)

    def wait_stopped(self) -> int:
        """Its exit status, once it has ended after `signal_stop`."""
        process, self._process = self._process, None
        assert process is not None
        with process:
            return process.wait(PATIENCE_SECONDS)

    # --------------------------------------------------------------------------------- on this machine

    def workers(self) -> list[psutil.Process]:
        """Its reviewer processes."""
        found = {one.pid: one for one in _living() if _is_worker(one, self._token)}
        # One that is about to become a program still looks like the reviewer that starts it.
        return [one for one in found.values() if _parent(one) not in found]

    def children(self) -> list[psutil.Process]:
        """Its own reviewer processes only, which is quicker to find out."""
        return [one for one in psutil.Process(self.pid).children() if WORKER in _words(one)]

    def programs(self) -> list[psutil.Process]:
        """Its reviewers' programs, and all processes that these started."""
        return [one for one in _living() if _mentions(one, str(self.notes))]

    def started(self) -> list[int]:
        """The numbers of all processes that programs noted so far."""
        return [int(path.name.removeprefix("process-")) for path in self.notes.glob("process-*")]

    def trees(self) -> list[Path]:
        """The folders of rounds that reviewers have."""
        return [*(self.data_dir / "reviewers" / "scratch").glob("*/tree")]

    def assert_nobody_is_left(self) -> None:
        """Fails if any reviewer process or program runs, or a folder of theirs is there; processes are ended first."""
        left = [*self.workers(), *self.programs()]
        shown = [(one.pid, _words(one)) for one in left]
        for one in left:
            with suppress(psutil.Error):
                one.kill()
        assert shown == []
        assert self.trees() == []

    def runs(self, review_id: str) -> list[dict[str, Any]]:
        """The program's notes on its runs of a review, in order."""
        count = len(list(self.notes.glob(f"run-{review_id}-*.json")))
        files = [self.notes / f"run-{review_id}-{number}.json" for number in range(1, count + 1)]
        return [json.loads(file.read_text("utf-8")) for file in files]

    def running(self, review_id: str, number: int = 1) -> dict[str, Any]:
        """The program's notes on a run of a review, once that has begun."""
        return until(lambda: self.runs(review_id)[number - 1 :], f"run {number} of {review_id} begins")[0]

    def let(self, name: str) -> None:
        """Lets a program go on that holds for this name."""
        (self.notes / name).touch()


class Counter(Desk):
    """A registered project, at whose counter proposals are handed in."""

    def __init__(self, broker: StaffedBroker, root: Path, project: str | None = None) -> None:
        super().__init__(broker.url, project or fresh_project())
        self.broker = broker
        self.root = root

    def ask(self, deed: str, line: int = 2) -> str:
        """Proposes a new change whose intent names the program's deed; the review's id."""
        return self.put_up(intent=deed, diff=edited(line=line, text=f"better {secrets.token_hex(4)}"))

    def when(self, review_id: str, look: Callable[[dict[str, Any]], Any], what: str) -> dict[str, Any]:
        """A review's status, once it is as looked for."""
        deadline = time.monotonic() + PATIENCE_SECONDS
        status = self.status(review_id)
        while not look(status):
            assert time.monotonic() < deadline, self._in_vain(review_id, what, status)
            waiting = {"wait": True, "wake_on": "any", "cursor": status["cursor"], "timeout_s": 5}
            status = self.do("get_review_status", review_id=review_id, **waiting)
        return status

    def _in_vain(self, review_id: str, what: str, status: dict[str, Any]) -> str:
        """All that may say why something did not come."""
        shown = {"status": status, "events": self.events(review_id), **self.do("list_reviewers")}
        return f"waited in vain until {review_id} {what}: {json.dumps(shown, indent=1)}"

    def decided(self, review_id: str) -> dict[str, Any]:
        """A review's status, once there is a verdict or a person is asked."""
        return self.when(review_id, lambda one: one["verdict"] or one["attention"], "is decided")

    def claimed(self, review_id: str) -> dict[str, Any]:
        """A review's status, once somebody holds it."""
        return self.when(review_id, lambda one: one["status"] == "claimed", "is claimed")

    def approved(self, deed: str = "approve") -> str:
        """Proposes a change that the program approves; the review's id, once it is approved."""
        review = self.ask(deed)
        status = self.decided(review)
        assert status["status"] == "approved", (status, self.events(review))
        return review

    # ------------------------------------------------------------------------------------ as operators see it

    def team(self) -> list[dict[str, Any]]:
        """All reviewers."""
        return self.do("list_reviewers")["reviewers"]

    def member(self, reviewer_id: str) -> dict[str, Any]:
        """One reviewer."""
        return next(one for one in self.team() if one["reviewer_id"] == reviewer_id)

    def active(self) -> list[dict[str, Any]]:
        """The reviewers that have not ended, once they have a process."""
        return [one for one in self.team() if one["state"] != "terminated" and one["pid"] is not None]

    def supervision(self) -> dict[str, Any]:
        """The pool; the broker has one."""
        [pool] = self.do("list_reviewers")["pools"]
        return pool

    def log(self, subject: str) -> list[dict[str, Any]]:
        """The events of a reviewer or pool."""
        return self.do("get_audit_log", review_id=subject, project=None, limit=200, cursor=None)["events"]

    def of_kind(self, review_id: str, kind: str) -> list[dict[str, Any]]:
        """A review's events of one kind."""
        return [event for event in self.events(review_id) if event["kind"] == kind]

    def outcomes(self, review_id: str) -> list[str]:
        """How the runs for a review ended, as its reviewers' logs have it, in their order."""
        claimants = dict.fromkeys(event["actor"] for event in self.of_kind(review_id, "review_claimed"))
        events = [event for who in claimants for event in self.log(f"reviewer:{who}")]
        about = [one for one in events if one["kind"] == "reviewer_outcome" and one["data"]["review_id"] == review_id]
        return [one["data"]["outcome"] for one in sorted(about, key=lambda one: one["seq"])]


@contextmanager
def counter(broker: StaffedBroker, folder: Path, project: str | None = None) -> Generator[Counter]:
    """A project with a repository of its own, registered with a broker; the folder is made."""
    repository = Sandbox(folder)
    repository.write("a.txt", "".join(f"line {number}\n" for number in range(1, 11)))
    repository.commit("start")
    with Counter(broker, repository.root, project) as opened:
        opened.register(repository.root)
        yield opened


def stand_still(processes: Iterable[int]) -> None:
    """Stops processes as they are, like a machine that was put to sleep."""
    for pid in processes:
        os.kill(pid, signal.SIGSTOP)


def go_on(processes: Iterable[int]) -> None:
    """Lets them go on."""
    for pid in processes:
        os.kill(pid, signal.SIGCONT)


def _living() -> list[psutil.Process]:
    living: list[psutil.Process] = []
    for one in psutil.process_iter():
        try:
            if one.status() not in _GONE:
                living.append(one)
        except psutil.Error:
            continue
    return living


def _words(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


def _parent(process: psutil.Process) -> int | None:
    try:
        return process.ppid()
    except psutil.Error:
        return None


def _mentions(process: psutil.Process, text: str) -> bool:
    return any(text in word for word in _words(process))


def _is_worker(process: psutil.Process, token: str) -> bool:
    try:
        return WORKER in process.cmdline() and process.environ().get(VARIABLE) == token
    except (psutil.Error, OSError):
        return False
