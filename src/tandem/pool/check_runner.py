"""Runs the checks of rounds, each on the reviewed tree: in the broker, or beside the reviewers of a pool elsewhere.

    list_checks ─▶ report_check (it is ours) ─▶ the tree ─▶ its setup, once ─▶ the command ─▶ report_check

What a check writes goes to a folder of its own, which is gone afterwards. A check that is cut short is given back; of
one that a kill cut short, the next start says so.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import os
import shutil
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

import psutil
from pydantic import TypeAdapter

from tandem.core.platforms import ProcessIdentity
from tandem.core.scratch import remove_tree
from tandem.errors import Forbidden, TandemError, Unauthenticated
from tandem.git.repository import Repository
from tandem.git.reviewed_tree import ReviewedTree, RoundContent
from tandem.git.runner import Git
from tandem.pool import sandbox
from tandem.pool.reviewers import Broker, Invocation, RunLimits, programs
from tandem.pool.reviewers.processes import end_marked
from tandem.pool.reviewers.providers.clean_room import CERTIFICATES, LANGUAGE, PROXIES, search_path
from tandem.reviews.check_contract import LOG_BYTES, CheckReported, CheckSetup, CheckView
from tandem.reviews.check_findings import read_findings
from tandem.reviews.check_rules import UNCONFINED, CheckStatus
from tandem.rulings import trust
from tandem.settings.checks import named_files
from tandem.settings.config import Settings, user_file

_FOLDER: Final = "checks"
"""Below the data folder: the files of the broker's runner."""
_REMOTE_FOLDER: Final = "pool-checks"
"""Below the data folder: the files of the runner beside a pool's supervisor."""
SETUP_VARIABLE: Final = "TANDEM_SETUP"
_MARK = "TANDEM_CHECKS"
"""In the environment of every check: who runs it."""
_WAIT_SECONDS = 25.0
_AGAIN_SECONDS = 5.0
_GIT_SECONDS = 600.0
_GRACE_SECONDS = 3.0
_LOOK_SECONDS = 0.5
_MOST_PROCESSES = 1_000
_MOST_SETUPS = 8
_LONGEST_REASON = 1_500
_READ_BYTES = 4_000_000
"""Of what a check writes, looked through for findings: a linter's report is longer than a log that anybody reads."""
_DONE = "done"
_TITLE = "The change under review"
"""The same for all: the commit's id says whether the same was checked before."""
_Key = tuple[str, int, str]
_CHECK = TypeAdapter(CheckView)
_REPORTED = TypeAdapter(CheckReported)
_log = logging.getLogger("tandem.checks")


@dataclass(frozen=True, slots=True)
class _Run:
    """A check on its tree.

    Attributes:
        check: The check.
        root: The project's folder.
        place: The folder of this run: the tree, a home, a place for temporary files.
        tree: Where the round is.
        confined: The program that confines it; None where a person trusted it to run without.
    """

    check: CheckView
    root: str
    place: Path
    tree: ReviewedTree
    confined: str | None


class _NotRun(Exception):
    """A check that cannot be run; the message says why, `log` what its setup wrote."""

    def __init__(self, reason: str, log: str = "") -> None:
        super().__init__(reason)
        self.log = log


class _CutShort(Exception):
    """The runner stops, and gives back the check under way."""


class CheckRunner:
    """Runs checks until it is cancelled; then gives back the check under way."""

    def __init__(
        self,
        broker: Broker,
        settings: Settings,
        *,
        of_broker: bool = True,
        projects: tuple[str, ...] | None = None,
        workspace: str | None = None,
    ) -> None:
        """A runner that has not started.

        Args:
            broker: Names the checks, and is told how they end.
            settings: How many run at a time, the disk space of each, and the files to hide and to show.
            of_broker: Whether the broker itself runs them, which has every project that has checks.
            projects: The projects whose checks are run; None for all.
            workspace: Where the projects are on this machine, if not where the broker has them.
        """
        self._broker = broker
        self.settings = settings
        self._of_broker = of_broker
        self._projects = projects
        self._workspace = workspace
        self._folder = settings.data_dir / (_FOLDER if of_broker else _REMOTE_FOLDER)
        self._config_dir = user_file().parent
        seed = f"{socket.gethostname()}\0{self._folder.resolve()}"
        self.name = f"checks-{hashlib.sha256(seed.encode()).hexdigest()[:12]}"
        self._free = [self._folder / f"run-{number}" for number in range(settings.checks_at_once)]
        self._tasks: dict[_Key, asyncio.Task[None]] = {}
        self._setups: dict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._made: dict[_Key, Path] = {}
        self._stopped = threading.Event()

    async def run(self) -> None:
        """Run the checks that are due, until cancelled."""
        await asyncio.to_thread(self._clear)
        try:
            await self._give_back()
            while True:
                try:
                    await self._once()
                except (Forbidden, Unauthenticated):
                    raise
                except Exception as error:  # noqa: BLE001 - without a runner every gate with checks would stay closed
                    is_fault = not isinstance(error, TandemError)
                    _log.warning("no checks from the broker: %s", error, exc_info=is_fault)
                    await asyncio.sleep(_AGAIN_SECONDS)
        finally:
            self._stopped.set()
            await asyncio.shield(self._finish())

    def _clear(self) -> None:
        """Ends the processes that an earlier start left running, and removes its files."""
        killed = end_marked({_MARK: self.name})
        if killed:
            _log.warning("ended %d processes of checks that were left behind", killed)
        for place in self._folder.glob("run-*"):
            remove_tree(str(place))
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    async def _give_back(self) -> None:
        """Queues the checks again that this runner ran when it was killed."""
        for check in await self._listed():
            if check.runner == self.name and check.status == CheckStatus.RUNNING:
                await self._report(check, CheckStatus.QUEUED)

    async def _finish(self) -> None:
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await asyncio.to_thread(self._clear)

    async def _listed(self, **arguments: Any) -> list[CheckView]:
        answer = await self._broker.call("list_checks", arguments)
        found = [_CHECK.validate_python(one) for one in answer["checks"]]
        return [one for one in found if self._projects is None or one.project in self._projects]

    async def _once(self) -> None:
        """Begins what there is room for, and waits for the next thing to do."""
        if not self._free:
            await asyncio.wait(self._tasks.values(), return_when=asyncio.FIRST_COMPLETED)
            return
        due = [one for one in await self._listed(wait=True, timeout_s=_WAIT_SECONDS) if _key(one) not in self._tasks]
        begun = len(self._tasks)
        for check in due:
            if self._free and await self._is_here(check):
                await self._offer(check)
        if due and len(self._tasks) == begun:
            # They are for others.
            await asyncio.sleep(_AGAIN_SECONDS)

    async def _offer(self, check: CheckView) -> None:
        """Begins a check, unless somebody else runs it; one that cannot be begun keeps none of the others waiting."""
        try:
            reported = await self._report(check, CheckStatus.RUNNING)
        except (Forbidden, Unauthenticated):
            raise
        except TandemError as error:
            _log.warning("the check %s of %s does not begin: %s", check.name, check.review_id, error.message)
        else:
            if reported.go:
                # With its present ground.
                run = self._check(reported.check, self._free.pop())
                self._tasks[_key(check)] = asyncio.create_task(run, name=f"check {check.name}")

    async def _is_here(self, check: CheckView) -> bool:
        """Whether this machine has the project; the broker's own runner says so if it does not."""
        if self._of_broker:
            return True
        root = await self._root(check)
        return root is not None and await asyncio.to_thread(os.path.isdir, root)

    async def _report(self, check: CheckView, status: str, **facts: Any) -> CheckReported:
        about = {"review_id": check.review_id, "round": check.round, "name": check.name, "runner": self.name}
        return _REPORTED.validate_python(await self._broker.call("report_check", {**about, "status": status, **facts}))

    async def _check(self, check: CheckView, place: Path) -> None:
        """Runs one check to its end, and reports it."""
        try:
            try:
                status, facts = await self._outcome(check, place)
            finally:
                await asyncio.to_thread(_empty, place)
            if status is not None:
                await self._deliver(check, status, facts)
        except Exception:  # noqa: BLE001 - any fault ends the check, and somebody waits for it
            _log.exception("the check %s of %s could not be run", check.name, check.review_id)
            with suppress(TandemError):
                await self._report(check, CheckStatus.ERROR, reason="The runner failed; see the broker's log.")
        finally:
            key = _key(check)
            del self._tasks[key]
            self._made.pop(key, None)
            self._free.append(place)

    async def _deliver(self, check: CheckView, status: str, facts: dict[str, Any]) -> None:
        """Reports how a check ended; again and again, while the broker cannot take it in."""
        while True:
            try:
                await self._report(check, status, **facts)
            except TandemError as error:
                if self._stopped.is_set():
                    # The next start gives it back: it has not failed.
                    _log.warning("the check %s of %s: %s", check.name, check.review_id, error.message)
                    return
                if not error.retryable:
                    raise
                await asyncio.sleep(_AGAIN_SECONDS)
            else:
                return

    async def _outcome(self, check: CheckView, place: Path) -> tuple[str | None, dict[str, Any]]:
        """How a check of ours ends; None if that was reported already."""
        try:
            run = await self._prepared(check, place)
            if run is None:
                return None, {}
            made = await self._set_up(run)
            return await self._ran(run, check.command, check.timeout_seconds, made)
        except _CutShort:
            return CheckStatus.QUEUED, {}
        except _NotRun as error:
            reason, log = str(error), error.log
        except TandemError as error:
            reason, log = f"{error.code}: {error.message}", ""
        except OSError as error:
            reason, log = f"The disk does not take it: {error}", ""
        return CheckStatus.ERROR, {"reason": reason[:_LONGEST_REASON], "log": log or None}

    async def _prepared(self, check: CheckView, place: Path) -> _Run | None:
        """A check on its tree, once it is its turn; None if the same check of the same tree had the result."""
        root = await self._root(check)
        if root is None:
            raise _NotRun(f"The project '{check.project}' has no folder any more.")
        asked = {"review_id": check.review_id, "round": check.round}
        proposal = await self._broker.call("get_proposal", asked)
        names = ("base_commit", "digest", "diff", "path", "description")
        content = RoundContent(*(proposal[name] for name in names))
        confined = await asyncio.to_thread(self._confinement, check, root)
        tree = await asyncio.to_thread(_laid_out, root, content, place, check)
        stands = {"tree": tree.tree, "commit": tree.commit}
        while not (reported := await self._report(check, CheckStatus.RUNNING, **stands)).go:
            if reported.check.status != CheckStatus.RUNNING or reported.check.runner != self.name:
                return None
            # The same check of the same tree runs for another round: its result holds for this one.
            if await asyncio.to_thread(self._stopped.wait, _AGAIN_SECONDS):
                raise _CutShort
        return _Run(check, root, place, tree, confined)

    async def _root(self, check: CheckView) -> str | None:
        if self._workspace is not None:
            return self._workspace
        projects = (await self._broker.call("list_projects", {}))["projects"]
        found = next((one for one in projects if one["project"] == check.project), None)
        if found is None:
            return None
        # The broker's folder of a mirror is none of another machine.
        mirror = found.get("mirror") if self._of_broker else None
        return found["root"] or (mirror["folder"] if mirror else "")

    def _confinement(self, check: CheckView, root: str) -> str | None:
        program = sandbox.bubblewrap()
        if program is None and not trust.is_trusted(str(self._config_dir), root, trust.UNCONFINED, check.source):
            raise _NotRun(UNCONFINED)
        return program

    async def _set_up(self, run: _Run) -> Path | None:
        """The folder that the check's setup made, now or earlier; None if it has none."""
        setup = run.check.setup
        if setup is None:
            return None
        files = run.place / "setup"
        key = await asyncio.to_thread(_laid_out_for_setup, run.check.project, setup, run.tree.folder, files)
        folder = self._folder / "setup" / key
        async with self._setups[key]:
            # From here on kept until the check has ended.
            self._made[_key(run.check)] = folder
            if (folder / _DONE).exists():
                os.utime(folder)
                return folder / "made"
            await asyncio.to_thread(_fresh, folder)
            # Of the round it sees those files alone: what else is in the tree must not change what others are given.
            status, facts = await self._ran(run, setup.command, setup.timeout_seconds, folder / "made", files)
            if status != CheckStatus.PASSED:
                await asyncio.to_thread(remove_tree, str(folder))
                said = facts.get("reason") or f"exit status {facts.get('exit_status')}"
                raise _NotRun(f"Its setup did not pass: {status}, {said}", facts.get("log") or "")
            (folder / _DONE).touch()
            await asyncio.to_thread(_keep_newest, folder.parent, _MOST_SETUPS, {*self._made.values()})
        return folder / "made"

    async def _ran(
        self, run: _Run, command: Iterable[str], timeout_seconds: float, made: Path | None, files: Path | None = None
    ) -> tuple[str, dict[str, Any]]:
        """How a command ended: on the tree, or, with `files`, the part of it that it sees, as a setup."""
        invocation = self._invocation(run, command, made, files)
        places = [run.place, *([made] if made is not None and files is not None else [])]
        watch = _Watch(places, self.settings.check_disk_bytes, self._stopped, partial(self._is_over, run.check))
        # Of both outputs, in the order in which they come.
        written = programs.OutputTail(_READ_BYTES)
        limits = RunLimits(total_seconds=timeout_seconds, output_bytes=LOG_BYTES, grace_seconds=_GRACE_SECONDS)
        watching = asyncio.create_task(watch.until_ended(), name="check-watch")
        try:
            finished = await asyncio.to_thread(
                programs.run, invocation, limits, on_start=watch.begin, cancelled=watch.ended, log=written.add
            )
        finally:
            watching.cancel()
        said = written.content()[-LOG_BYTES:].decode("utf-8", "replace").replace("\0", "\ufffd")
        facts: dict[str, Any] = {"log": said or None, "seconds": round(finished.seconds, 3)}
        match finished.ended_by:
            case "itself":
                status = CheckStatus.PASSED if finished.exit_code == 0 else CheckStatus.FAILED
                found = [] if files is not None else await asyncio.to_thread(_findings, run, written.content())
                return status, {**facts, "exit_status": finished.exit_code, "findings": found}
            case "cancelled" if watch.reason is None:
                raise _CutShort
            case "cancelled":
                return CheckStatus.ERROR, {**facts, "reason": watch.reason}
            case "timeout":
                return CheckStatus.TIMEOUT, {**facts, "reason": f"It was ended after {timeout_seconds:g} seconds."}
            case _:
                return CheckStatus.ERROR, {**facts, "reason": "It was ended, because it wrote more than 64 MB."}

    async def _is_over(self, check: CheckView) -> bool:
        """Whether nothing will come of the round that a check is of; in doubt, something may."""
        # Bounded, as the limits of the run are not looked at meanwhile. A later look asks again.
        with suppress(TandemError, TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                found = await self._broker.call("get_review_status", {"review_id": check.review_id})
            is_closed = found["status"] == "closed" and found["outcome"] != "approved"
            return found["round"] != check.round or found["status"] == "rejected" or is_closed
        return False

    def _invocation(self, run: _Run, command: Iterable[str], made: Path | None, files: Path | None) -> Invocation:
        settings, place, setup = self.settings, run.place, run.check.setup
        folder = files or run.tree.folder
        network = files is not None and setup is not None and setup.network
        programs.lay_out(place, {})
        kept = (*LANGUAGE, *CERTIFICATES, *(PROXIES if network else ()))
        search = search_path(os.environ, [run.root])
        environment = {
            **{name: value for name in kept if (value := os.environ.get(name))},
            "PATH": search,
            "HOME": str(place / programs.HOME_FOLDER),
            "TMPDIR": str(place / programs.TEMPORARY_FOLDER),
            "CI": "true",
            "TERM": "dumb",
            _MARK: self.name,
            **({SETUP_VARIABLE: str(made)} if made is not None else {}),
        }
        argv = tuple(command)
        if run.confined is not None:
            may_write = (made,) if made is not None and files is not None else ()
            readable = (
                *settings.checks_readable,
                *search.split(os.pathsep),
                *run.tree.objects,
                *([made] if made else ()),
            )
            bounds = sandbox.Confinement(
                folder,
                temporary=place / programs.TEMPORARY_FOLDER,
                writable=(place / programs.HOME_FOLDER, *may_write),
                readable=tuple(map(str, readable)),
                hidden=tuple(map(str, (*named_files(settings), self._config_dir, run.root, self._folder))),
                network=network,
            )
            argv = sandbox.confined(run.confined, argv, bounds)
        limited = sandbox.limited(argv, settings.check_disk_bytes)
        return Invocation(limited, environment, str(folder), b"", {}, talks=False)


class _Watch:
    """Looks at what a check makes of the machine.

    Attributes:
        ended: Set when it must end.
        reason: Why; None if it is only cut short.
    """

    def __init__(
        self,
        written: Sequence[Path],
        disk_bytes: int,
        stopped: threading.Event,
        is_over: Callable[[], Awaitable[bool]],
    ) -> None:
        self.ended = threading.Event()
        self.reason: str | None = None
        self._stopped = stopped
        self._is_over = is_over
        self._written = written
        self._disk_bytes = disk_bytes
        self._process: psutil.Process | None = None
        self._free_bytes = shutil.disk_usage(written[0]).free

    def begin(self, process: ProcessIdentity) -> None:
        """Looks from now on at a process that has just started, and all that it starts."""
        with suppress(psutil.Error):
            self._process = psutil.Process(process.pid)

    async def until_ended(self) -> None:
        """Looks again and again, and ends it if it takes too much, its review goes on, or the runner stops."""
        asks_at = time.monotonic() + _AGAIN_SECONDS
        while not self.ended.is_set():
            await asyncio.sleep(_LOOK_SECONDS)
            self.reason = None if self._stopped.is_set() else await asyncio.to_thread(self._excess)
            is_over = False
            if time.monotonic() > asks_at:
                is_over, asks_at = await self._is_over(), time.monotonic() + _AGAIN_SECONDS
            if self.reason is not None or is_over or self._stopped.is_set():
                self.ended.set()

    def _excess(self) -> str | None:
        """The limit that it exceeds, in words; blocks for the disk."""
        if self._process is None:
            return None
        with suppress(psutil.Error):
            if len(self._process.children(recursive=True)) > _MOST_PROCESSES:
                return f"It was ended, as it started more than {_MOST_PROCESSES} processes."
        # To count takes long in a large tree, and only where something has gone is there something to count.
        gone = self._free_bytes - shutil.disk_usage(self._written[0]).free
        most = self._disk_bytes
        if gone > most and sum(sandbox.folder_bytes(one, most) for one in self._written) > most:
            return f"It was ended, as it wrote more than {most} bytes (check_disk_bytes)."
        return None


def _key(check: CheckView) -> _Key:
    return check.review_id, check.round, check.name


def _findings(run: _Run, written: bytes) -> list[dict[str, Any]]:
    """What a check's output says of places, as it is reported."""
    folder = run.tree.folder.resolve()

    def content(path: str) -> str | None:
        # It has ended; a link that it left could lead anywhere.
        place = folder / path
        try:
            if place.resolve() != place or place.stat().st_size > _READ_BYTES or not place.is_file():
                return None
            return place.read_bytes().decode()
        except FileNotFoundError:
            raise
        except (OSError, ValueError):
            return None

    found = read_findings(written.decode("utf-8", "replace"), folder.as_posix(), content)
    return [asdict(one) for one in found]


def _laid_out(root: str, content: RoundContent, place: Path, check: CheckView) -> ReviewedTree:
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    with Repository.discover(Path(root), Git(timeout_seconds=_GIT_SECONDS)) as repository:
        return repository.lay_out(content, place / "tree", _TITLE, place / "index", tip=check.tip)


def _laid_out_for_setup(project: str, setup: CheckSetup, tree: Path, folder: Path) -> str:
    """Gives a setup its files, and nothing else of the round; the key tells its result from those of other files."""
    remove_tree(str(folder))
    folder.mkdir(mode=0o700)
    digest = hashlib.sha256(json.dumps([project, asdict(setup)]).encode())
    for name in setup.files:
        path = tree / name
        content = b"-"
        if path.is_file() and path.resolve().is_relative_to(tree.resolve()):
            content = path.read_bytes()
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
        digest.update(json.dumps([name, hashlib.sha256(content).hexdigest()]).encode())
    return digest.hexdigest()[:32]


def _fresh(folder: Path) -> None:
    remove_tree(str(folder))
    (folder / "made").mkdir(mode=0o700, parents=True)


def _keep_newest(folder: Path, most: int, used: Collection[Path]) -> None:
    known = sorted(folder.iterdir(), key=lambda one: one.stat().st_mtime, reverse=True)
    for old in known[most:]:
        if old not in used:
            remove_tree(str(old))


def _empty(place: Path) -> None:
    """Removes what a check left, but for the tree, which the next one is moved on from."""
    for left in ("setup", *programs.PRIVATE_FOLDERS):
        remove_tree(str(place / left))
