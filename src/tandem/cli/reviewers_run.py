"""`tandem reviewers --broker URL`: a pool's supervisor in the foreground, and what happens to its reviewers."""

from __future__ import annotations

import asyncio
import logging
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from tandem import logs, platforms, pool_settings
from tandem.cli.exits import Exit
from tandem.cli.reviewers_logs import log_folder
from tandem.cli.reviewers_told import Teller, Told
from tandem.cli.terminal import say, show_refusal
from tandem.client import TandemClient
from tandem.config import Settings, load_settings
from tandem.errors import ConfigInvalid, InvalidSession, TandemError
from tandem.pool_settings import PoolSettings
from tandem.reviewers.supervisor import Supervisor

_LOG_NAME = "supervisor.jsonl"
_AGENT = "supervisor"


class Remote:
    """A broker elsewhere, as a supervisor calls it; notes what it is told.

    Attributes:
        registration: The first answer to `supervisor_register`; null before it.
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


@dataclass(frozen=True, slots=True)
class Plan:
    """What a supervisor in the foreground is told.

    Attributes:
        broker: The broker's URL.
        projects: Those that it serves; none for all.
        pool: The pool's settings.
        settings: All settings.
    """

    broker: str
    projects: tuple[str, ...]
    pool: PoolSettings
    settings: Settings

    @property
    def log_file(self) -> Path:
        """The supervisor's own log."""
        return self.settings.log_file.with_name(_LOG_NAME)

    @property
    def facts(self) -> dict[str, Any]:
        """What whoever watches may want to know of it."""
        return {
            "broker": self.broker,
            "projects": list(self.projects) or None,
            "program": self.pool.provider,
            "mode": self.pool.mode,
            "max_pool_size": self.pool.max_pool_size,
            "logs": str(log_folder(self.settings)),
        }


def run_pool(
    broker: str, projects: tuple[str, ...], workspace: Path | None, data_dir: Path | None, *, as_json: bool
) -> None:
    """Be a supervisor until asked to stop; ends the process with the exit status.

    Args:
        broker: Its URL.
        projects: Those that it serves; none for all.
        workspace: The folder that the reviewers read, if not the registered one.
        data_dir: Its data folder, if not the user's own.
        as_json: Whether to print JSON lines.
    """
    try:
        settings = load_settings({"data_dir": data_dir}).settings
        plan = Plan(broker, projects, _enabled(settings.reviewer_pool, workspace), settings)
        _begin_log(plan)
        try:
            with asyncio.Runner(loop_factory=platforms.new_event_loop) as runner:
                runner.run(_run(plan, Teller(as_json=as_json)))
        finally:
            logs.end()
    except TandemError as error:
        raise typer.Exit(show_refusal(error, as_json=as_json)) from None
    raise typer.Exit(Exit.DONE)


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


def _begin_log(plan: Plan) -> None:
    settings, file = plan.settings, plan.log_file
    try:
        logs.begin(file, level=settings.log_level, max_bytes=settings.log_max_bytes, backups=settings.log_backups)
    except OSError as error:
        raise ConfigInvalid(f"The log {file} cannot be written: {error.strerror}.", setting="data_dir") from error
    root = logging.getLogger()
    for handler in list(root.handlers):
        # Whoever watches is told what happens in lines of its own.
        if not isinstance(handler, logging.FileHandler):
            root.removeHandler(handler)
    root.addHandler(_Complaints(logging.WARNING))


class _Complaints(logging.Handler):
    """Shows warnings and errors to whoever watches."""

    def emit(self, record: logging.LogRecord) -> None:
        """Print one."""
        say(f"{record.levelname.lower()}: {record.getMessage()}")


async def _run(plan: Plan, teller: Teller) -> None:
    stop, at_once = asyncio.Event(), asyncio.Event()

    def asked() -> None:
        (at_once if stop.is_set() else stop).set()

    platforms.on_stop_signals(asyncio.get_running_loop(), asked)
    async with TandemClient(plan.broker, agent=_AGENT) as client:
        broker = Remote(client)
        supervisor = Supervisor(
            broker,
            plan.pool,
            broker_url=client.url,
            data_dir=plan.settings.data_dir,
            log_dir=log_folder(plan.settings),
            projects=plan.projects or None,
        )
        await supervisor.start()
        registration = broker.registration or {}
        teller.begin({"supervisor_id": registration.get("supervisor_id"), **plan.facts})
        await _remark_unknown(plan.projects, client, teller)
        told = Told(client, str(registration.get("supervisor_id")), registration.get("cursor"), teller)
        following = asyncio.create_task(told.follow(), name="told")
        try:
            await _until_stopped(supervisor, stop)
            if stop.is_set():
                teller.remark(
                    f"stopping: reviews under way may take {plan.pool.drain_seconds:g} s more; Ctrl-C again ends them"
                )
            await _stop(supervisor, at_once)
        finally:
            following.cancel()
            await asyncio.gather(following, return_exceptions=True)
        await told.catch_up()
    if not stop.is_set():
        raise InvalidSession(
            "Another supervisor has this one's place with the broker, or the broker does not take it back; its"
            f" reviewers were ended. What happened is in {plan.log_file}."
        )


async def _remark_unknown(projects: tuple[str, ...], client: TandemClient, teller: Teller) -> None:
    """A project that nobody registered has no proposals, however long one waits."""
    with suppress(TandemError):
        known = {one.project for one in (await client.list_projects()).projects}
        for name in projects:
            if name not in known:
                teller.remark(
                    f"the broker has no project '{name}' yet; in its folder: tandem project add --name {name}"
                )


async def _until_stopped(supervisor: Supervisor, stop: asyncio.Event) -> None:
    """Wait for the signal, or until the supervisor has ended by itself."""
    stopped = asyncio.create_task(stop.wait())
    ended = asyncio.create_task(supervisor.wait_ended())
    await asyncio.wait((stopped, ended), return_when=asyncio.FIRST_COMPLETED)
    stopped.cancel()
    ended.cancel()


async def _stop(supervisor: Supervisor, at_once: asyncio.Event) -> None:
    """Drain; after the second signal end the reviewers with all that they started, which leaves nothing to drain."""
    stopping = asyncio.create_task(supervisor.stop())
    hurried = asyncio.create_task(at_once.wait())
    await asyncio.wait((stopping, hurried), return_when=asyncio.FIRST_COMPLETED)
    hurried.cancel()
    while not stopping.done():
        await asyncio.to_thread(supervisor.end_processes)
        await asyncio.wait((stopping,), timeout=1.0)
    await stopping
