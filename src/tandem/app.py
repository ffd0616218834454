"""The composition root: the only module that wires, and the broker's life from start to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import shutil
import socket
import threading
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import orjson
import uvicorn

from tandem import logs
from tandem.access.admission import Authenticator
from tandem.bridge import credentials
from tandem.contract.caller import OWNER_ACCESS, Caller
from tandem.core import platforms
from tandem.core.clock import Clock
from tandem.core.files import write_atomically
from tandem.core.scratch import sweep
from tandem.core.secret_key import Tokens, load_or_make
from tandem.cycles.handoffs import HandoffReviews
from tandem.errors import ConfigInvalid
from tandem.gate.commits import CommittedReviews
from tandem.git.runner import Git, Limits, memory_folder
from tandem.pool import queries as reviewers
from tandem.pool import runs as reviewer_runs
from tandem.pool.runs import PoolReviews
from tandem.projects.mirrors import FOLDER as MIRRORS
from tandem.projects.mirrors import MirrorSettings
from tandem.projects.registry import Projects
from tandem.retention import newest_removed
from tandem.reviews import queries as reviews
from tandem.reviews.context import Services
from tandem.rulings import proof
from tandem.schema import TANDEM
from tandem.server.app import Application
from tandem.server.asgi.connections import BrokerProtocol, Connections, TlsListener
from tandem.server.asgi.guard import RateLimits
from tandem.server.authorisation import Authorisation
from tandem.server.catalogue import REGISTRY
from tandem.server.dispatch import Dispatcher
from tandem.server.handlers import HANDLERS
from tandem.server.http.health import BrokerPhase, Health, prove_identity
from tandem.server.maintenance import Maintenance
from tandem.server.measurements import Measurements
from tandem.server.mirrors import MirrorRoutes
from tandem.settings.config import Settings, masked
from tandem.settings.following import FollowedSettings
from tandem.settings.instance import AuthForgotten, Instance, LastRun
from tandem.settings.pool import THROUGH_WSL, PoolSettings
from tandem.settings.workflows import load as load_workflows
from tandem.store import events, log
from tandem.store.base import Store
from tandem.store.engine import make_store
from tandem.store.event import Event, EventKind, Seal
from tandem.store.waits import WaitHub
from tandem.web import Pages
from tandem.webhooks import queries as webhooks
from tandem.webhooks.sender import Sender

if TYPE_CHECKING:
    from tandem.pool.check_runner import CheckRunner
    from tandem.pool.reviewers.supervisor import Supervisor
    from tandem.server.tracing import Tracing

VERSION = version("tandem-broker")
DRAIN_SECONDS = 10
"""How long calls that are under way may take to end after the broker was asked to stop."""
_KEEP_ALIVE_SECONDS = 75
_BACKLOG = 2048
_CONNECTIONS = 4096
_OPEN_FILES = 16_384
_ANSWER_SECONDS = 15.0
"""The guide promises an answer within 16 s, also when the database does not answer."""
_VALIDATIONS_AT_ONCE = 4
"""More than the connections, those that wait to be taken, the database and git need together."""
_COLLECTOR = ("OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT")
"""The standard variables that say where traces go."""
_log = logging.getLogger("tandem.app")


def _store_of(settings: Settings, seal: Seal) -> Store:
    """The store that the settings name, not open yet; its events are hashed with the seal."""
    return make_store(
        settings.database, schema=TANDEM, durability=settings.durability, readers=settings.reader_threads, seal=seal
    )


def _addresses(settings: Settings) -> tuple[str, ...]:
    """What clients elsewhere call a broker by that listens on an address of its own."""
    everywhere = settings.host in {"0.0.0.0", "::"}  # noqa: S104 - compared, not listened on
    return () if settings.auth == "trusted" or everywhere else (settings.host,)


def _owner_key(data_dir: Path) -> bytes:
    """What the broker proves with whose it is; a new one where the file is damaged, or was open to others.

    Raises:
        ConfigInvalid: There is none, and none can be made.
    """
    path = data_dir / credentials.OWNER_FILE
    try:
        return load_or_make(path)
    except ConfigInvalid:
        # Clients read it each time, so that nothing depends on the former one.
        path.unlink(missing_ok=True)
        return load_or_make(path)


class InProcessBroker:
    """The broker's operations as its own supervisor calls them: without a socket, and with the same checks."""

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher

    async def call(self, operation: str, arguments: dict[str, Any]) -> dict[str, Any]:
        """The data of the answer.

        Raises:
            TandemError: The broker refuses, with the code's own subclass.
        """
        caller = Caller(agent="supervisor", access=OWNER_ACCESS)
        # As JSON has it, since a supervisor elsewhere is answered in JSON.
        data: dict[str, Any] = orjson.loads(orjson.dumps(await self._dispatcher.call(operation, arguments, caller)))
        return data


class Broker:
    """Everything that one broker is made of.

    Attributes:
        instance_id: Tells this run of the broker from every other.
        application: The ASGI application of all interfaces.
        measurements: What monitoring is told.
        owner_token: The token of the person who runs the broker; None if it needs no tokens.
        published: Set unless clients cannot find the broker and its owner's token yet, although it may answer already.
    """

    _supervisor: Supervisor | None = None
    _check_runner: CheckRunner | None = None

    def __init__(self, settings: Settings, names: Iterable[str] = ()) -> None:
        """Make everything; nothing is opened yet.

        Args:
            settings: The broker's settings.
            names: Those of its certificate, by which clients address it, too.
        """
        self.instance_id = secrets.token_hex(8)
        self._started, self._clock = time.monotonic(), Clock()
        tokens = Tokens(load_or_make(settings.secret_key))
        self._store = _store_of(settings, tokens.seal_event)
        git = Git(settings.git_executable, settings.git_timeout_seconds, Limits(settings.inflated_limit_bytes))
        mirrors = MirrorSettings(
            folder=settings.data_dir / MIRRORS,
            tokens=tokens,
            clock=self._clock,
            git=settings.git_executable,
            timeout_seconds=settings.mirror_timeout_seconds,
            limit_bytes=settings.mirror_limit_bytes,
        )
        self._followed = FollowedSettings(settings, tokens.person_key())
        self._services = Services(
            store=self._store,
            clock=self._clock,
            settings=self._followed,
            projects=Projects(self._store, git, mirrors),
            waits=WaitHub(self._store),
            validations=asyncio.Semaphore(_VALIDATIONS_AT_ONCE),
            workflows=load_workflows(settings.workflows),
            tokens=tokens,
            authenticator=Authenticator(
                self._store,
                self._clock,
                tokens,
                required=settings.auth == "token",
                reviewer_project=reviewer_runs.project_of,
            ),
            archives=settings.archives,
            pool=reviewer_runs,
            reviewer_logs=settings.reviewer_logs,
            participants=(PoolReviews(), CommittedReviews(), HandoffReviews()),
            options=self._followed.options,
        )
        self._record = log.Record(settings.data_dir, masked("database_url", settings.database))
        self._maintenance = Maintenance(
            self._services,
            self._record,
            sweep_seconds=settings.sweep_interval_seconds,
            checkpoint_seconds=settings.checkpoint_interval_seconds,
        )
        self.owner_token = self._services.authenticator.owner_token
        self.published = self._services.authenticator.published
        identity = partial(prove_identity, str(settings.data_dir), _owner_key(settings.data_dir))
        self.health = Health(self._facts, trouble=self._store.trouble, identity=identity)
        authorisation = Authorisation(self._services) if self._services.authenticator.required else None
        self._dispatcher = Dispatcher(REGISTRY, HANDLERS, self._services, self._clock, authorisation)
        self.measurements = Measurements(self._services, self._dispatcher, VERSION)
        self.application = self._application(settings, tokens.seal, names)
        self._tracing = self._trace()

    def _trace(self) -> Tracing | None:
        """Trace the operations, if the environment names a collector; None if it does not."""
        if not any(os.environ.get(name) for name in _COLLECTOR) or os.environ.get("OTEL_SDK_DISABLED") == "true":
            return None
        try:
            from tandem.server.tracing import Tracing  # an extra
        except ModuleNotFoundError:
            _log.warning("no traces are sent: %s, or unset %s", platforms.how_to_add("traces"), _COLLECTOR[0])
            return None
        tracing = Tracing(VERSION, self.instance_id)
        self._dispatcher.span, self._store.span = tracing.operation, tracing.child
        Git.span = tracing.child
        return tracing

    def _application(self, settings: Settings, seal: Callable[[str], str], names: Iterable[str]) -> Application:
        limits = RateLimits(settings.rate_limit_per_minute, settings.rate_limit_burst)
        self.measurements.rate_limited = limits.refused
        return Application(
            self._dispatcher,
            clock=self._clock,
            authenticator=self._services.authenticator,
            health=self.health,
            version=VERSION,
            workflows=self._services.workflows,
            pages=Pages(
                dispatcher=self._dispatcher,
                clock=self._clock,
                seal=seal,
                authenticator=self._services.authenticator,
                check_ready=self.health.check,
                body_limit_bytes=settings.body_limit_bytes,
                charge=limits.charge,
                person_key=self._services.tokens.person_key(),
            ),
            limits=limits,
            measurements=self.measurements,
            mirrors=MirrorRoutes(self._services, settings.body_limit_bytes),
            allowed_hosts=(*settings.allowed_hosts, *_addresses(settings), *names),
            trusted_proxies=settings.trusted_proxies,
            body_limit_bytes=settings.body_limit_bytes,
            fast_path=settings.fast_path,
        )

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncGenerator[None]:
        """Open the data, recover, and serve until left; everything that began is ended in reverse."""
        async with contextlib.AsyncExitStack() as stack:
            if self._tracing is not None:
                stack.push_async_callback(asyncio.to_thread, self._tracing.stop)
            self._leave_person_key()
            is_named = "database_url" in self.settings.model_fields_set
            self._record.refuse_missing(self._store, is_named=is_named)
            await self._store.open()
            stack.push_async_callback(self._store.close)
            is_older = await log.begin(self._store, self._clock, self._record)
            await self._keep_auth(is_older=is_older)
            self._store.answer_seconds = _ANSWER_SECONDS
            await self._services.projects.load()
            stack.push_async_callback(self._services.projects.close)
            self._services.waits.follow(self._services.projects.notice)
            self._services.waits.follow(self._notice_wanted)
            if await self._store.read(lambda unit: reviews.list_unfinished_checks(unit, None, 1)):
                self._services.checks_wanted.set()
            self._services.waits.expire(await self._store.read(newest_removed))
            await self._services.waits.start()
            stack.push_async_callback(self.drain)
            if await self._store.read(webhooks.list_all):
                self._services.webhooks_wanted.set()
            if await self._store.read(reviewers.list_pools):
                self._services.has_pools.set()
            # What processes left behind that were killed, in this one and others; no start waits for it.
            threading.Thread(target=sweep, args=((None, memory_folder()),), name="sweep", daemon=True).start()
            await self._maintenance.start()
            stack.push_async_callback(self._maintenance.stop)
            self.health.phase = BrokerPhase.READY
            yield

    async def _keep_auth(self, *, is_older: bool) -> None:
        """Note how callers are let in, for a start to which nothing says it.

        Args:
            is_older: Whether the database is a copy from before the last start, which may have asked for tokens.

        Raises:
            AuthForgotten: This is such a start, and the last one asked for access tokens.
        """
        now = self.settings.auth
        stated = now if "auth" in self.settings.model_fields_set else None
        # How the last start let callers in, on an older copy or on one of several databases, only its record says.
        if stated is None and (is_older or self._record.knows_others()) and not LastRun.of(self.settings.data_dir).port:
            raise AuthForgotten
        if await self._store.write(lambda unit: events.keep_auth(unit, stated) or events.keep_auth(unit, now)) != now:
            raise AuthForgotten

    @property
    def settings(self) -> Settings:
        """Those that hold now."""
        return self._followed.current

    async def follow_settings(self, url: str) -> None:
        """Take changes of the user's file over until cancelled.

        Args:
            url: Where reviewers find the broker.
        """

        async def apply(changed: Settings) -> None:
            if changed.reviewer_pool != self.settings.reviewer_pool:
                await self.keep_reviewers(changed.reviewer_pool, url)
            if self._check_runner is not None:
                self._check_runner.settings = changed
            logs.set_level(changed.log_level)

        await self._followed.follow(apply)

    async def keep_reviewers(self, pool: PoolSettings, url: str) -> None:
        """Have a supervisor run the reviewers of a pool as its settings are now, if it is on.

        Raises:
            ConfigInvalid: The settings cannot be used.
            Unavailable: Another supervisor runs on the data folder.
        """
        if self._supervisor is not None and pool.enabled and self._supervisor.running:
            await self._supervisor.change(pool)
            return
        await self.stop_reviewers()
        if pool.enabled:
            # Not before: a broker without a pool starts the sooner for it.
            from tandem.pool.reviewers.supervisor import Supervisor

            broker, log_dir = InProcessBroker(self._dispatcher), self._services.reviewer_logs
            folder = self.settings.data_dir
            supervisor = Supervisor(broker, pool, broker_url=url, data_dir=folder, log_dir=log_dir)
            await supervisor.start()
            self._supervisor = supervisor

    async def stop_reviewers(self) -> None:
        """End the supervisor with its reviewers, if there is one."""
        if self._supervisor is not None:
            await self._supervisor.stop()
            self._supervisor = None

    async def run_checks(self) -> None:
        """Run the checks of rounds until cancelled; nothing is loaded for it before there is one."""
        if not self.settings.checks_at_once:
            return
        await self._services.checks_wanted.wait()
        # Few brokers have checks to run.
        from tandem.pool.check_runner import CheckRunner

        self._check_runner = CheckRunner(InProcessBroker(self._dispatcher), self.settings)
        await self._check_runner.run()

    async def send_webhooks(self) -> None:
        """Send events to webhooks until cancelled."""
        await Sender(self._services, standby_seconds=self.settings.sweep_interval_seconds).run()

    async def _notice_wanted(self, batch: list[Event]) -> None:
        kinds = {event.kind for event in batch}
        if EventKind.CHECKS_REQUESTED in kinds:
            self._services.checks_wanted.set()
        if EventKind.WEBHOOK_ADDED in kinds:
            self._services.webhooks_wanted.set()
        if EventKind.POOL_REGISTERED in kinds:
            self._services.has_pools.set()
        if EventKind.CONTENTS_REMOVED in kinds:
            self._services.waits.expire(await self._store.read(newest_removed))

    def _leave_person_key(self) -> None:
        """Leave the key by which hooks prove that a person answered, for this user alone."""
        folder = self.settings.data_dir
        platforms.make_private(str(folder))
        write_atomically(folder / proof.FILE, f"{self._services.tokens.person_key()}\n".encode(), durable=False)

    async def drain(self) -> None:
        """Take no new work and answer every wait, so that running calls can end."""
        self.health.phase = BrokerPhase.DRAINING
        await self._services.waits.stop()

    def _facts(self) -> Mapping[str, Any]:
        pool = self.settings.reviewer_pool
        return {
            "version": VERSION,
            "pid": os.getpid(),
            "instance_id": self.instance_id,
            "log_id": self._services.waits.log_id,
            "uptime_seconds": round(time.monotonic() - self._started, 3),
            "calls": self._dispatcher.calls,
            "waiting": self._services.waits.parked,
            "auth": self.settings.auth,
            "settings_changed": self._followed.waiting,
            "settings_problem": self._followed.problem,
            "program_missing": self._program_missing(),
            "reviewer_pool": _described(pool) if pool.enabled else "off",
        }

    def _program_missing(self) -> str | None:
        """The reviewers' program, if this process does not find it; None where all is well, or there is no pool."""
        pool = self.settings.reviewer_pool
        if not pool.enabled or THROUGH_WSL:
            return None
        programs = ((one.command or (one.provider,))[0] for one in pool.kinds())
        return next((one for one in programs if not shutil.which(one)), None)


def _described(pool: PoolSettings) -> str:
    kinds = ", ".join(f"{one.name}{'' if one.voting else ' without a vote'}" for one in pool.profile)
    return f"{pool.provider}, at most {pool.max_pool_size}" + (f", with the profiles {kinds}" if kinds else "")


class _Server(uvicorn.Server):
    """uvicorn's server, which also listens with TLS where the broker has a certificate."""

    def __init__(self, config: uvicorn.Config, connections: Connections, instance: Instance) -> None:
        super().__init__(config)
        self._connections, self._instance = connections, instance
        self._secured: asyncio.Task[None] | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        tls, listener = self._instance.tls, self._instance.tls_listener
        if tls is not None and listener is not None:

            def make() -> BrokerProtocol:
                return BrokerProtocol(self._connections, self.config, self.server_state, self.lifespan.state)

            self._secured = asyncio.create_task(TlsListener(listener, tls.context, make).run(), name="tls")

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        if self._secured is not None:
            self._secured.cancel()
        await super().shutdown(sockets)


async def run_broker(
    settings: Settings, instance: Instance, stop: asyncio.Event, *, on_ready: Callable[[Broker], None] | None = None
) -> None:
    """Serve on ports that are taken already, until asked to stop; then drain and leave the data tidy.

    Args:
        settings: The broker's settings.
        instance: The ports, taken before the data is touched.
        stop: Set to ask the broker to stop.
        on_ready: Called once the broker answers.

    Raises:
        ConfigInvalid: The database cannot be used, e.g. because it is newer.
        Unavailable: The database cannot be reached.
    """
    broker = Broker(settings, names=instance.tls.certificate.names if instance.tls else ())
    broker.published.clear()
    listener, beside = instance.listener, instance.beside
    async with broker.running():
        server = _server(broker, instance)
        listeners = [listener] if beside is None else [listener, beside]
        # Not `serve()`: that would take the signals, which the process's own handler turns into `stop`.
        serve = server._serve(sockets=listeners)  # noqa: SLF001  # pyright: ignore[reportPrivateUsage]
        serving = asyncio.create_task(serve, name="server")
        stopping = asyncio.create_task(stop.wait(), name="stop")
        while not server.started and not serving.done():  # noqa: ASYNC110 uvicorn has no event for it
            await asyncio.sleep(0.001)
        try:
            async with _reviewing(broker, listener):
                if on_ready and not serving.done():
                    on_ready(broker)
                broker.published.set()
                await asyncio.wait((serving, stopping), return_when=asyncio.FIRST_COMPLETED)
                _log.info("stopping")
        finally:
            await broker.drain()
            server.should_exit = True
            stopping.cancel()
            await serving


@contextlib.asynccontextmanager
async def _reviewing(broker: Broker, listener: socket.socket) -> AsyncGenerator[None]:
    """Have checks run, the pool's reviewers work and webhooks told while the broker serves; they are ended first."""
    url = _url_of(listener)
    tasks = [
        asyncio.create_task(broker.run_checks(), name="checks"),
        asyncio.create_task(broker.send_webhooks(), name="webhooks"),
    ]
    try:
        await broker.keep_reviewers(broker.settings.reviewer_pool, url)
        tasks.append(asyncio.create_task(broker.follow_settings(url), name="changes of the settings"))
        for task in tasks:
            task.add_done_callback(_tell_of_its_end)
        yield
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await broker.stop_reviewers()


def _tell_of_its_end(task: asyncio.Task[None]) -> None:
    """The broker serves on without it; why, is in the log."""
    if not task.cancelled() and (error := task.exception()) is not None:
        _log.error("%s are no longer run", task.get_name(), exc_info=error)


def _url_of(listener: socket.socket) -> str:
    """Where processes of this machine reach a listener."""
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104 - compared, not listened on
        host = "127.0.0.1" if listener.family == socket.AF_INET else "::1"
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def _server(broker: Broker, instance: Instance) -> _Server:
    open_files = platforms.raise_open_files(_OPEN_FILES)
    connections = Connections(min(_CONNECTIONS, open_files // 2))
    broker.measurements.connections = connections.counts
    config = uvicorn.Config(
        broker.application,
        http=cast("type[BrokerProtocol]", partial(BrokerProtocol, connections)),
        ws="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        date_header=False,
        proxy_headers=False,
        # So many connections may be taken at once, before any is closed for it.
        backlog=min(_BACKLOG, open_files // 4),
        timeout_keep_alive=_KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=DRAIN_SECONDS,
    )
    return _Server(config, connections, instance)
