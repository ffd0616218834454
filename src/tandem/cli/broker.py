"""`tandem up`, `status`, `down`, `logs` and `mcp`: the broker's process, and the bridge to it."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Callable, Coroutine
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self
from urllib.parse import urlsplit

from tandem import logs
from tandem.bridge.location import find_data_dir, locate
from tandem.bridge.main import run as run_bridge
from tandem.bridge.messages import as_object
from tandem.bridge.session import unreachable
from tandem.cli.declared import Option
from tandem.cli.render import parts
from tandem.cli.terminal import EnvelopeOption, Exit, indented, say, show_data, show_log, tell
from tandem.core import log_files, platforms
from tandem.core.platforms import ProcessIdentity
from tandem.core.visible import visible
from tandem.errors import ConfigInvalid, TandemError, Unavailable
from tandem.present.facts import worded
from tandem.present.text import Table
from tandem.settings.config import PREFIX, Settings, load_settings
from tandem.settings.instance import (
    LAST_RUN_FILE,
    LOCK_FILE,
    OPTIONS,
    STOP_FILE,
    AuthForgotten,
    FolderTaken,
    Instance,
    LastRun,
    Running,
    find_running,
    refuse_foreign_host,
)
from tandem.setup import service as services
from tandem.setup.background import START_SECONDS, is_full, is_ready, look, run_in_background, serves
from tandem.setup.clients import home_folder

if sys.platform == "win32":
    import asyncio as fastest
else:
    import uvloop as fastest

_log = logging.getLogger("tandem.process")

STOP_SECONDS = 20.0
"""How long `down` waits for an orderly stop: twice what the broker gives to calls under way."""

_KILL_SECONDS = 5.0
_FOLDER_SECONDS = 0.5
_FULL_SECONDS = 1.0
_TAKEN_SECONDS = 0.1
_LOG_BYTES = 10_000_000
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}

DataDirOption = Annotated[Path | None, Option(metavar="DIR", help="The broker's data folder; default: the user's own.")]


@dataclass(frozen=True, slots=True)
class _Start:
    """How a broker starts.

    Attributes:
        settings: With what its options and those of the last run say.
        options: What of `OPTIONS` the next start takes over: what the command line and the environment state, or
            stated in an earlier run, and that the broker asks for access tokens, for any reason.
        given: What this command line states.
        any_port: Whether a free port is taken where that of the settings is taken.
    """

    settings: Settings
    options: dict[str, Any]
    given: dict[str, Any]
    any_port: bool

    @classmethod
    def planned(cls, given: dict[str, Any], data_dir: Path | None) -> Self:
        flags = {**given, "data_dir": data_dir}
        loaded = load_settings(flags)
        last = LastRun.of(loaded.settings.data_dir)
        is_free = {name: loaded.origins[name] == "default" for name in OPTIONS}
        record = loaded.settings.data_dir / LAST_RUN_FILE
        settings = load_settings(flags, last_run=(record, last.options)).settings
        # Who states a port wants that one; who asks for any, or for none, gets the last one if it is free.
        if "port" not in given and (not settings.port or (is_free["port"] and not last.options.get("port"))):
            settings = settings.model_copy(update={"port": last.port or settings.port})
        stated = {
            name: getattr(loaded.settings, name) for name in OPTIONS if loaded.origins[name].startswith(("--", PREFIX))
        }
        return cls(settings, {**last.options, **stated}, given, is_free["port"]).closed_as(settings.auth)

    def closed_as(self, auth: Literal["trusted", "token"]) -> Self:
        """This start, letting callers in like this."""
        options = {name: value for name, value in self.options.items() if name != "auth"}
        if auth == "trusted":
            return replace(self, options=options)
        settings = self.settings.model_copy(update={"auth": auth})
        return replace(self, settings=settings, options={**options, "auth": auth})


def up(
    *,
    port: Annotated[int | None, Option(help="Port to listen on; 0 takes a free one.")] = None,
    host: Annotated[str | None, Option(help="Address to listen on; loopback only without tokens.")] = None,
    data_dir: DataDirOption = None,
    database: Annotated[str | None, Option(metavar="URL", help="PostgreSQL in place of SQLite: postgresql://…")] = None,
    background: Annotated[bool, Option("--background", "-b", help="Return once the broker answers.")] = False,
    unless_running: Annotated[
        bool, Option(help="End without an error if another one has the data, and is ready.")
    ] = False,
    any_port: Annotated[bool, Option(help="Take a free port if that of the settings is taken.")] = False,
    as_json: EnvelopeOption = False,
) -> Coroutine[Any, Any, None] | None:
    """Start the broker; in the foreground until Ctrl-C, or in the background.

    Port, host, database and access are as in the last run on the data folder, where no option or setting states them.

    Examples: tandem up; tandem up --background; tandem up --port 0 --data-dir ./scratch
    """
    if database is not None:
        # Also for the process in the background: on a command line everybody could read its password.
        os.environ["TANDEM_DATABASE_URL"] = database
    stated = {"port": port, "host": host, "database_url": database}
    start = _Start.planned({name: value for name, value in stated.items() if value is not None}, data_dir)
    if any_port and port is None:
        start = replace(start, any_port=True)
    if background:
        return _start_in_background(start, as_json=as_json)
    return _serve_unless_running(start) if unless_running else _serve(start, as_json=as_json)


def status(
    *,
    broker: Annotated[
        str | None, Option(metavar="URL", variable="TANDEM_BROKER", help="Ask this one instead, or one of these.")
    ] = None,
    data_dir: DataDirOption = None,
    as_json: EnvelopeOption = False,
) -> Exit:
    """Say whether the broker runs, where, and since when; exit status 3 if it does not."""
    found = locate(broker, ".", str(data_dir) if data_dir else None)
    said, failure = look(found)
    known = as_object(said.get("data")) if said.get("ok") is True else None
    facts = {"running": known is not None, "url": found.url, "from": found.origin, **(known or {})}
    if found.is_own:
        facts["data_dir"] = found.data_dir
    if known is None:
        trouble = (as_object(said.get("error")) or {}).get("message")
        facts["trouble"] = f"{unreachable(found, failure).message}." if failure else trouble
    if as_json or known is not None:
        tell(facts, _shown(facts), as_json=as_json)
    else:
        say(f"{facts['trouble']}" if failure else f"The broker at {found.url} does not serve: {facts['trouble']}")
    return Exit.DONE if known is not None else Exit.UNREACHABLE


def down(
    *,
    data_dir: DataDirOption = None,
    timeout: Annotated[
        float | None,
        Option(min=0, help=f"Seconds for an orderly stop before it is ended; {STOP_SECONDS:g}, more with a pool."),
    ] = None,
    as_json: EnvelopeOption = False,
) -> None:
    """Stop the broker: it finishes running calls, answers waits, then ends."""
    settings = _of_running(data_dir)
    running = find_running(settings.data_dir)
    patience = stop_seconds(settings) if timeout is None else timeout
    # Also those that no file tells of any more: their folder was deleted, and perhaps made again.
    found = {running.pid: running.process} if running is not None else {}
    for holder in platforms.holders(str(settings.data_dir / LOCK_FILE)):
        process = platforms.identify(holder.pid) if holder.pid not in found else None
        found |= {process.pid: process} if process is not None else {}
    ended = {pid: _stop(process, settings.data_dir, patience) for pid, process in found.items()}
    if as_json:
        pid, how = next(iter(ended.items()), (None, "not_running"))
        return show_data({"ended": how, "pid": pid})
    if not ended:
        say(f"No broker runs on the data in {settings.data_dir}.")
    for pid, how in ended.items():
        where = f"at {running.url}" if running is not None and pid == running.pid else f"on {settings.data_dir}"
        say(f"The broker {where} (process {pid}) {'has stopped' if how == 'stopped' else 'was killed'}.")
    return None


def _of_running(data_dir: Path | None) -> Settings:
    """The settings of a folder's broker: it was started before a mistake in them, and can be stopped all the same."""
    try:
        return load_settings({"data_dir": data_dir}).settings
    except ConfigInvalid as error:
        say(f"The settings cannot be used, and only the data folder counts here: {error.message}")
        return Settings.model_validate({"data_dir": data_dir or find_data_dir()})


def show_logs(
    *,
    data_dir: DataDirOption = None,
    follow: Annotated[bool, Option("--follow", "-f", help="Go on as lines are written, until Ctrl-C.")] = False,
    lines: Annotated[int, Option("-n", "--lines", min=0, help="How many of the last lines.")] = 50,
    as_json: Annotated[bool, Option("--json", help="Print the lines as they are written: JSON.")] = False,
) -> None:
    """Show the broker's log."""
    path = _of_running(data_dir).log_file
    if not path.exists() and not follow:
        say(f"There is no log yet: {path}")
    show_log(log_files.follow(path, lines), str if as_json else _readable, follow=follow)


def forward() -> None:
    """Speak MCP over stdio for an agent."""
    run_bridge([])


def _serve_unless_running(start: _Start) -> None:
    """Be the broker; where another one has the data, end once it is ready, or take its place if it ends."""
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            return _serve(start, as_json=False)
        except FolderTaken as error:
            running = find_running(start.settings.data_dir)
            if running is not None and is_ready(running.url):
                return say(f"A broker runs already (process {running.pid}).")
            if time.monotonic() > deadline:
                raise error from None
        time.sleep(_TAKEN_SECONDS)


def _serve(start: _Start, *, as_json: bool) -> None:
    """Be the broker until asked to stop; where the disk is full, once there is room."""
    is_told, data_dir = False, start.settings.data_dir
    while True:
        try:
            return _serve_now(start, as_json=as_json)
        except AuthForgotten:
            start = start.closed_as("token")
            continue
        except (TandemError, OSError) as error:
            if not _lacks_room(error, data_dir):
                raise
        if not is_told:
            say(f"The disk of {data_dir} is full. Make room: the broker then starts by itself.")
            is_told = True
        time.sleep(_FULL_SECONDS)


def _lacks_room(error: BaseException | None, folder: Path) -> bool:
    """Whether an error came about because the disk is full."""
    while error is not None:
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            return True
        # SQLite says in many ways that it could not make a file.
        if hasattr(error, "sqlite_errorcode") and is_full(folder):
            return True
        error = error.__cause__
    return False


def _serve_now(start: _Start, *, as_json: bool) -> None:
    with Instance(start.settings, any_port=start.any_port) as instance:
        begin_log(start.settings, start.settings.log_file)
        try:
            with asyncio.Runner(loop_factory=new_event_loop) as runner:
                runner.run(_run(start, instance, as_json=as_json))
        except TandemError as error:
            _log.error("not started: %s: %s", error.code, error.message)
            raise
        except Exception:
            _log.exception("the broker failed")
            raise
        else:
            _log.info("stopped")
        finally:
            logs.end()


def new_event_loop() -> asyncio.AbstractEventLoop:
    """The fastest event loop that there is for the platform."""
    return fastest.new_event_loop()


def on_stop_signals(loop: asyncio.AbstractEventLoop, stop: Callable[[], None]) -> None:
    """Call `stop` in the loop's thread whenever the process is asked to stop by a signal."""
    if sys.platform == "win32":
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGBREAK):
            signal.signal(number, lambda _number, _frame: loop.call_soon_threadsafe(stop))
    else:
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, stop)


async def _run(start: _Start, instance: Instance, *, as_json: bool) -> None:
    stop, settings = asyncio.Event(), start.settings
    on_stop_signals(asyncio.get_running_loop(), stop.set)
    # After the signals: a broker that is still importing can be stopped too.
    from tandem import app

    def ready(broker: app.Broker) -> None:
        running = instance.publish(app.VERSION, broker.instance_id, broker.owner_token)
        LastRun(instance.port, start.options).remember(instance.data_dir)
        _log.info("ready", extra={name: value for name, value in asdict(running).items() if name != "token"})
        if settings.port not in {0, instance.port}:
            say(f"Port {settings.port} is taken: the broker listens on {instance.port}.")
        _announce(running, settings, as_json=as_json)

    watching = asyncio.create_task(_watch_folder(instance, stop))
    try:
        await app.run_broker(settings, instance, stop, on_ready=ready)
    finally:
        watching.cancel()


async def _watch_folder(instance: Instance, stop: asyncio.Event) -> None:
    """Stop the broker when its folder says so, or is gone: all later writes would be lost."""
    while not (platforms.STOPS_BY_FILE and instance.is_asked_to_stop()) and instance.has_folder():
        instance.keep_published()
        await asyncio.sleep(_FOLDER_SECONDS)
    stop.set()
    if not instance.has_folder():
        said = f"The data folder {instance.data_dir} was deleted or replaced: the broker ends."
        _log.error(said)
        say(said)


def begin_log(settings: Settings, file: Path) -> None:
    """Log into a file from now on.

    Raises:
        ConfigInvalid: It cannot be written.
    """
    try:
        logs.begin(file, level=settings.log_level, max_bytes=_LOG_BYTES, backups=settings.log_backups)
    except OSError as error:
        raise ConfigInvalid(f"The log {file} cannot be written: {error.strerror}.", setting="data_dir") from error


async def _start_in_background(start: _Start, *, as_json: bool) -> None:
    settings = start.settings
    running = find_running(settings.data_dir)
    if running is not None and serves(running, settings.data_dir):
        if start.given.get("port", 0) not in (0, urlsplit(running.url).port):
            raise FolderTaken(
                f"A broker runs already at {running.url} (process {running.pid}): stop it first, with tandem down.",
                pid=running.pid,
            )
        say(f"A broker runs already (process {running.pid}).")
    else:
        refuse_foreign_host(settings)
        words = [(f"--{name}", str(start.given[name])) for name in ("port", "host") if name in start.given]
        options = [word for pair in words for word in pair] + ["--any-port"] * start.any_port
        running = await run_in_background(settings.data_dir, options, waiting=_say_waiting)
    _announce(running, settings, as_json=as_json)


def _say_waiting(seconds: float) -> None:
    say(f"Waiting for the broker ({round(seconds)} s) …")


def stop_seconds(settings: Settings) -> float:
    """How long an orderly stop may take: reviewers first finish their reviews, if they can in time."""
    pool = settings.reviewer_pool
    return STOP_SECONDS + (pool.drain_seconds + pool.grace_seconds + STOP_SECONDS if pool.enabled else 0)


def _stop(process: ProcessIdentity, data_dir: Path, timeout_seconds: float) -> str:
    """End a broker: `stopped` in order, else `killed`."""
    try:
        if platforms.STOPS_BY_FILE:
            (data_dir / STOP_FILE).touch()
        else:
            platforms.ask_to_stop(process)
        if platforms.wait_until_gone(process, timeout_seconds):
            return "stopped"
        say(f"The broker has not stopped within {timeout_seconds:g} s: it is killed.")
        platforms.kill(process)
    except PermissionError as error:
        raise Unavailable(f"The broker cannot be stopped: {error}.", pid=process.pid) from error
    if not platforms.wait_until_gone(process, _KILL_SECONDS):
        raise Unavailable(f"Process {process.pid} cannot be ended.", pid=process.pid)
    return "killed"


def _announce(running: Running, settings: Settings, *, as_json: bool) -> None:
    if as_json:
        facts = {"url": running.url, "tls_url": running.tls_url, "pid": running.pid, "data_dir": str(settings.data_dir)}
        show_data({**facts, "version": running.version, "instance_id": running.instance_id})
    else:
        sys.stdout.write(f"{running.tls_url or running.url}\n")
        here = "" if running.tls_url is None else f"on this machine {running.url}, "
        say(
            f"Tandem {running.version}, {here}process {running.pid}, data in {settings.data_dir},"
            f" log in {settings.log_file}"
        )


def _shown(facts: dict[str, Any]) -> Table:
    """Facts for people, a line each."""
    return parts.facts(
        (name, "none" if value is None else worded("flag" if isinstance(value, bool) else "text", value))
        for name, value in facts.items()
    )


def _readable(line: str) -> str:
    """A line of the log for people."""
    try:
        return indented(logs.readable(json.loads(line)))
    except (ValueError, KeyError, TypeError):
        return visible(line)


def install_service(*, data_dir: DataDirOption = None, as_json: EnvelopeOption = False) -> None:
    """Start the broker at each login, and now. Called again, the service takes over changed settings.

    The service has the [bold]PATH[/bold] of the shell that you call this in: reviewers' programs have to be on it.
    """
    loaded = load_settings({"data_dir": data_dir})
    folder = loaded.settings.data_dir
    service = services.required_service(home_folder(), os.environ)
    start = services.broker_start(loaded, os.environ, stop_seconds(loaded.settings))
    changed = services.install(service, start)
    running = asyncio.run(services.wait_until_ready(service, folder, _say_waiting))
    stays = service.process() != running.pid
    left_out = sorted(
        name for name in loaded.origins.values() if name.startswith("TANDEM_") and name != "TANDEM_DATA_DIR"
    )
    if as_json:
        facts = {"file": str(service.file), "changed": changed, "url": running.url, "pid": running.pid}
        show_data({**facts, "runs_already": stays, "left_out": left_out})
        return
    say(f"The broker is started at each login ({service.file}).")
    if stays:
        say(
            f"One runs already (process {running.pid}) and goes on, without the service. For the service's own now:"
            " tandem down, then tandem service install"
        )
    else:
        say(f"It runs at {running.url} (process {running.pid}).")
    if left_out:
        say(f"The service does not have this shell's {', '.join(left_out)}. Put lasting settings into config.toml.")


def show_service(*, as_json: EnvelopeOption = False) -> Exit:
    """Say whether the service is installed, whether login starts it, and whether it runs."""
    service = services.required_service(home_folder(), os.environ)
    words = service.command() if service.is_installed else []
    stated = words[words.index("--data-dir") + 1] if "--data-dir" in words else None
    running = find_running(load_settings({"data_dir": stated}).settings.data_dir)
    facts: dict[str, Any] = {
        "installed": service.is_installed,
        "enabled": service.is_enabled(),
        "running": service.process() is not None,
        "manager": service.manager,
        "file": str(service.file),
        "program": words[0] if words else None,
        "broker": running.url if running is not None and is_ready(running.url) else None,
    }
    return tell(facts, _shown(facts), as_json=as_json)


def remove_service(*, as_json: EnvelopeOption = False) -> Exit:
    """Stop the service, and no longer start the broker at login. Its data stays."""
    service = services.required_service(home_folder(), os.environ)
    was_running = service.process() is not None
    was_installed = services.remove(service)
    ended = "The service is removed" if was_installed else "No service was installed"
    words = f"{ended}{', and its broker has stopped' if was_running else ''}."
    return tell({"removed": was_installed, "stopped": was_running, "file": str(service.file)}, words, as_json=as_json)
