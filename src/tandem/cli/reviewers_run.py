"""`tandem reviewers --broker URL`: a pool's supervisor in the foreground, and what happens to its reviewers."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import orjson

from tandem import logs
from tandem.bridge.session import CALL_SECONDS
from tandem.cli.broker import begin_log, new_event_loop, on_stop_signals
from tandem.cli.declared import Misused, Option
from tandem.cli.render.parts import duration
from tandem.cli.terminal import say, show, show_data, show_envelope
from tandem.client import TandemClient
from tandem.core.visible import visible_line
from tandem.errors import ConfigInvalid, CursorExpired, Forbidden, InvalidSession, TandemError
from tandem.pool.check_runner import CheckRunner
from tandem.pool.reviewers.supervisor import Supervisor
from tandem.present.text import Text, Whole
from tandem.reviews.answers import AuditPage, EventView
from tandem.settings import pool as pool_settings
from tandem.settings.config import Settings, load_settings
from tandem.settings.pool import PoolSettings
from tandem.store.event import EventKind

_PAGE = 200
_PAUSE_SECONDS = 1.0
"""After a call that failed or was answered early: the broker is away, or stops."""
_LAST_SECONDS = 2.0
_REVIEWER = "reviewer:"


class _Told(NamedTuple):
    """How an event is told: the words with its facts put in, their style, and whether it concerns one reviewer."""

    words: str
    style: str = ""
    is_of_reviewer: bool = True


_TOLD: dict[str, _Told] = {
    EventKind.REVIEWER_SPAWNED: _Told("started for {project}, process {pid}", "green"),
    EventKind.REVIEW_CLAIMED: _Told("reviews {subject}", "cyan"),
    EventKind.ATTENTION_RAISED: _Told("{subject} waits for a person now: {reason}", "bold red", is_of_reviewer=False),
    EventKind.REVIEWER_DRAIN_START: _Told("will end ({reason})"),
    EventKind.REVIEWER_TERMINATED: _Told("ended ({reviews_completed} reviews done): {reason}", "dim"),
    EventKind.POOL_PAUSED: _Told("paused: {reason}", "yellow", is_of_reviewer=False),
    EventKind.POOL_RESUMED: _Told("goes on", is_of_reviewer=False),
    EventKind.CIRCUIT_OPENED: _Told(
        "starts nothing until {until}, too many failed at once: {reason}", "bold red", is_of_reviewer=False
    ),
    EventKind.CIRCUIT_CLOSED: _Told("starts reviewers again: {reason}", is_of_reviewer=False),
}
_LOG_NAME = "supervisor.jsonl"
_AGENT = "supervisor"


class EventPrinter:
    """Prints a line for each event: for people, or as JSON."""

    def __init__(self, *, as_json: bool) -> None:
        self._as_json = as_json

    def begin(self, facts: Mapping[str, Any]) -> None:
        """Say who runs reviewers for whom."""
        if self._as_json:
            show_data(facts)
            return
        projects = ", ".join(facts["projects"] or ()) or "all projects"
        self.remark(
            f"{facts['supervisor_id']} runs reviewers for {facts['broker']}: {projects}, {facts['program']}"
            f" ({facts['mode']}), at most {facts['max_pool_size']}; their logs are in {facts['logs']}"
        )

    def remark(self, words: str) -> None:
        """Say something that is no event of the broker's."""
        if not self._as_json:
            self._line("", words, time.strftime("%H:%M:%S"))

    def event(self, event: EventView, who: str, told: _Told) -> None:
        """Say what happened to a reviewer or to the pool."""
        if self._as_json:
            facts = {name: getattr(event, name) for name in ("at", "kind", "project", "subject", "actor", "data")}
            show_envelope(orjson.dumps(facts))
        else:
            at = datetime.fromisoformat(event.at).astimezone().strftime("%H:%M:%S")
            self._line(who if told.is_of_reviewer else "", told.words, at, told.style)

    def _line(self, who: str, words: str, at: str, style: str = "") -> None:
        name = f"{visible_line(who)}  " if who else ""
        show(Whole(Text.assemble((f"{at}  ", "dim"), (name, "bold"), (visible_line(words), style))))


class EventFollower:
    """Follows the broker's log from a supervisor's registration on.

    Attributes:
        printer: Prints it.
    """

    def __init__(self, client: TandemClient, supervisor_id: str, cursor: str | None, printer: EventPrinter) -> None:
        self.printer = printer
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
                    self.printer.remark(f"the broker does not show what the reviewers do: {error.message}")
                    return
            else:
                if page.events or time.monotonic() - began >= _PAUSE_SECONDS:
                    continue
            await asyncio.sleep(_PAUSE_SECONDS)

    async def catch_up(self) -> None:
        """Tell of the remaining events, if the broker answers."""
        try:
            async with asyncio.timeout(_LAST_SECONDS):
                while (await self._read(wait=False)).more:
                    pass
        except (TandemError, TimeoutError):
            return

    async def _read(self, *, wait: bool) -> AuditPage:
        page = await self._client.get_audit_log(
            cursor=self._cursor, limit=_PAGE, wait=wait, timeout_s=CALL_SECONDS if wait else None
        )
        # Without a cursor it is the newest page, which tells of the past.
        for event in page.events if self._cursor is not None else ():
            self._tell(event)
        self._cursor = page.cursor
        return page

    def _tell(self, event: EventView) -> None:
        if event.kind == EventKind.REVIEWER_REQUESTED and event.data.get("pool") == self._supervisor_id:
            self._reviewers.add(event.subject.removeprefix(_REVIEWER))
        whose = event.subject.removeprefix(_REVIEWER) if event.subject.startswith(_REVIEWER) else event.actor
        if event.subject != self._pool and whose not in self._reviewers:
            return
        told = _told(event)
        if told is not None:
            self.printer.event(event, whose, told)


def _told(event: EventView) -> _Told | None:
    """How to tell of an event; None if it is no news to people who watch."""
    if event.kind == EventKind.REVIEWER_OUTCOME:
        words = _outcome(event.data)
        return None if words is None else _Told(words)
    form = _TOLD.get(event.kind)
    known = {"project": event.project, "subject": event.subject, **event.data}
    return form and form._replace(words=form.words.format_map(defaultdict(lambda: "unknown", known)))


def _outcome(data: Mapping[str, Any]) -> str | None:
    if data.get("outcome") != "verdict":
        return f"gave no verdict on {data.get('review_id')} ({data.get('outcome')}): {data.get('reason')}"
    if "verdict" not in data:
        # The costs of a verdict, which follow it.
        return None
    return f"gave its verdict on {data.get('review_id')} after {duration(data.get('seconds'))}: {data['verdict']}"


class Remote:
    """A broker elsewhere, as a supervisor calls it; notes its registration.

    Attributes:
        registration: The first answer to `supervisor_register`; None before it.
    """

    def __init__(self, client: TandemClient) -> None:
        self._client = client
        self.registration: dict[str, Any] | None = None

    async def call(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The data of the answer.

        Raises:
            TandemError: The broker refuses, or does not answer.
        """
        data: dict[str, Any] = await self._client.data(operation, arguments)
        if operation == "supervisor_register":
            self.registration = self.registration or data
        return data


def supervise(
    *,
    # Not from the environment: to ask a broker is one thing, to run programs for it another.
    broker: Annotated[str | None, Option(metavar="URL", help="Run a pool of reviewers here for this broker.")] = None,
    project: Annotated[
        list[str] | None,
        Option(
            metavar="NAME",
            help="Only for this project; for several, several times. Default: all that are registered.",
            completes="project",
        ),
    ] = None,
    workspace: Annotated[
        Path | None,
        Option(metavar="DIR", help="The one project's folder on this machine; default: where it is registered."),
    ] = None,
    data_dir: Annotated[
        Path | None, Option(metavar="DIR", help="For its own id, logs and scratch; default: the user's own.")
    ] = None,
    as_json: Annotated[bool, Option("--json", help="Print a line of JSON for each event.")] = False,
) -> None:
    """Run a pool of reviewers here for that broker, until Ctrl-C."""
    if broker is None:
        raise Misused("Name the broker to run reviewers for.", "--broker")
    if workspace is not None and len(project or ()) != 1:
        raise Misused("It is one project's folder: name that with --project.", "--workspace")
    settings = load_settings({"data_dir": data_dir}).settings
    pool = _enabled(settings.reviewer_pool, workspace)
    _begin_log(settings)
    try:
        with asyncio.Runner(loop_factory=new_event_loop) as runner:
            runner.run(_run(broker, tuple(project or ()), pool, settings, EventPrinter(as_json=as_json)))
    finally:
        logs.end()


def _enabled(pool: PoolSettings, workspace: Path | None) -> PoolSettings:
    """The settings of a pool that runs, checked as such."""
    stated: dict[str, Any] = {**pool.model_dump(exclude_unset=True), "enabled": True}
    if workspace is not None:
        folder = workspace.expanduser().resolve()
        if not folder.is_dir():
            raise ConfigInvalid(
                f"There is no folder {folder}. Name the project's with --workspace.", setting="workspace_path"
            )
        stated["workspace_path"] = str(folder)
    return pool_settings.load(stated)


def _begin_log(settings: Settings) -> None:
    begin_log(settings, settings.log_file.with_name(_LOG_NAME))
    root = logging.getLogger()
    for handler in list(root.handlers):
        # People who watch are told what happens in lines of its own.
        if not isinstance(handler, logging.FileHandler):
            root.removeHandler(handler)
    root.addHandler(_Complaints(logging.WARNING))


class _Complaints(logging.Handler):
    """Shows warnings and errors to people who watch."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        say(f"{record.levelname.lower()}: {record.getMessage()}")


async def _run(
    url: str, projects: tuple[str, ...], pool: PoolSettings, settings: Settings, printer: EventPrinter
) -> None:
    stop, at_once = asyncio.Event(), asyncio.Event()

    def asked() -> None:
        (at_once if stop.is_set() else stop).set()

    on_stop_signals(asyncio.get_running_loop(), asked)
    async with TandemClient(url, agent=_AGENT) as client:
        broker = Remote(client)
        supervisor = Supervisor(
            broker,
            pool,
            broker_url=client.url,
            data_dir=settings.data_dir,
            log_dir=settings.reviewer_logs,
            projects=projects or None,
        )
        await supervisor.start()
        registration = broker.registration or {}
        printer.begin(
            {
                "supervisor_id": registration.get("supervisor_id"),
                "broker": url,
                "projects": list(projects) or None,
                "program": pool.provider,
                "mode": pool.mode,
                "max_pool_size": pool.max_pool_size,
                "logs": str(settings.reviewer_logs),
            }
        )
        await _remark_unknown(projects, client, printer)
        follower = EventFollower(client, str(registration.get("supervisor_id")), registration.get("cursor"), printer)
        following = asyncio.create_task(follower.follow(), name="event-follower")
        checking = asyncio.create_task(_check(broker, projects, pool, settings), name="checks")
        try:
            # Another supervisor may take this one's place.
            await _first(stop.wait(), supervisor.wait_ended())
            if stop.is_set():
                printer.remark(
                    f"stopping: reviews under way may take {pool.drain_seconds:g} s more; Ctrl-C again ends them"
                )
            await _stop(supervisor, at_once)
        finally:
            following.cancel()
            checking.cancel()
            await asyncio.gather(following, checking, return_exceptions=True)
        await follower.catch_up()
    if not stop.is_set():
        raise InvalidSession(
            "Another supervisor has this one's place with the broker, or the broker does not take it back; its"
            f" reviewers were ended. The reason is in {settings.log_file.with_name(_LOG_NAME)}."
        )


async def _check(broker: Remote, projects: tuple[str, ...], pool: PoolSettings, settings: Settings) -> None:
    """Run checks too, where the broker believes others than itself."""
    if settings.checks_at_once:
        with suppress(Forbidden):
            workspace = None if pool.workspace_path == pool_settings.AUTO else pool.workspace_path
            await CheckRunner(broker, settings, of_broker=False, projects=projects or None, workspace=workspace).run()


async def _remark_unknown(projects: tuple[str, ...], client: TandemClient, printer: EventPrinter) -> None:
    """A project that is not registered has no proposals, however long one waits."""
    with suppress(TandemError):
        known = {one.project for one in (await client.list_projects()).projects}
        for name in projects:
            if name not in known:
                printer.remark(
                    f"the broker has no project '{name}' yet; in its folder: tandem project add --name {name}"
                )


async def _first(*waits: asyncio.Future[Any] | Coroutine[Any, Any, Any]) -> None:
    """Wait until one of these has ended; the waits begun for that end with it."""
    begun = [asyncio.ensure_future(one) for one in waits]
    await asyncio.wait(begun, return_when=asyncio.FIRST_COMPLETED)
    for one, given in zip(begun, waits, strict=True):
        if one is not given:
            one.cancel()


async def _stop(supervisor: Supervisor, at_once: asyncio.Event) -> None:
    """Drain; after the second signal end the reviewers with all that they started, which leaves nothing to drain."""
    stopping = asyncio.create_task(supervisor.stop())
    await _first(stopping, at_once.wait())
    while not stopping.done():
        await asyncio.to_thread(supervisor.end_processes)
        await asyncio.wait((stopping,), timeout=1.0)
    await stopping
