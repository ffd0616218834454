"""The supervisor: makes it so that the reviewers run which the broker's database says there should be.

    broker ──orders──▶ supervisor ──starts, asks, ends──▶ worker processes
       ▲──────reports──────┘ ◀──────────exits──────────────────┘

One call at a time goes to the broker, and each says everything: nothing is lost when one is. A call that waits is
broken off when there is news. Every decision is the broker's; what happens here needs none: limits, exits, the stop.
"""

from __future__ import annotations

import asyncio
import logging
import os
import secrets
import shutil
import socket
import sys
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter

from tandem.bridge.credentials import SECRET_VARIABLES
from tandem.errors import ConfigInvalid, CursorExpired, InvalidSession, TandemError
from tandem.pool.contract import Orders, PoolRules, ProfileRules
from tandem.pool.reviewers import REENTRY_VARIABLE, Broker, prompt
from tandem.pool.reviewers.lifecycle import REPORT_SECONDS, ReviewerSet
from tandem.pool.reviewers.processes import end_marked
from tandem.pool.reviewers.reviewer_files import SupervisorContext, SupervisorIdentity
from tandem.settings import pool as pool_settings
from tandem.settings.pool import PoolSettings

# Not a module beside the worker's folder: `-P` keeps it from being imported.
WORKER_ARGV: Final = (sys.executable, "-P", "-m", "tandem.pool.reviewers.worker")

_INCARNATION_BYTES = 3
"""Six digits that tell one start from another; should two draw the same, the broker goes on with their numbers."""

_LONGEST_HOST = 200
_LONGEST_WAIT_SECONDS = 45.0
_SHORTEST_WAIT_SECONDS = 0.1
_ANSWER_SECONDS = 30.0
"""How long the broker may take to answer, beyond the wait that it was asked for."""
_LAST_CALL_SECONDS = 5.0
_BETWEEN_WAITS_SECONDS = 0.2
"""A broker that answers each wait at once is not asked more often than that."""
_START_SECONDS = 5.0
_CLOSING_LOOK_SECONDS = 10.0
_FIRST_PAUSE_SECONDS = 0.5
_LAST_PAUSE_SECONDS = 30.0
_KILL_SECONDS = 15.0
_SETTLED_SECONDS = 300.0
"""A supervisor that is replaced sooner than that, after it registered again, shares its id with another."""

_ORDERS = TypeAdapter(Orders)
_log = logging.getLogger("tandem.supervisor")


class Supervisor:
    """Runs the reviewers of one pool; starting and stopping twice is safe."""

    def __init__(
        self,
        broker: Broker,
        settings: PoolSettings,
        *,
        broker_url: str,
        data_dir: Path,
        log_dir: Path,
        projects: tuple[str, ...] | None = None,
        environment: Mapping[str, str] = os.environ,
        worker_argv: tuple[str, ...] = WORKER_ARGV,
    ) -> None:
        """A supervisor that has not started.

        Args:
            broker: Where the orders come from.
            settings: The pool's settings.
            broker_url: Where the reviewers find the broker.
            data_dir: The data folder; the supervisor's own is `reviewers` below it.
            log_dir: The folder of the reviewers' logs.
            projects: The projects whose reviewers run here; None for all.
            environment: What the reviewers inherit.
            worker_argv: How a reviewer's process is started.
        """
        self._broker = broker
        self._identity = SupervisorIdentity(data_dir)
        self._news = asyncio.Event()
        # What lets the supervisor in is none of its reviewers' business: each gets a pass of its own.
        inherited = {name: value for name, value in environment.items() if name not in SECRET_VARIABLES}
        self._context = SupervisorContext(
            self._identity, settings, broker_url, log_dir, projects, worker_argv, inherited, self._news.set
        )
        self._reviewers = ReviewerSet(self._context)
        self._incarnation: str | None = None
        self._registering: str | None = None
        self._cursor: str | None = None
        self._again_seconds = settings.background_check_interval_seconds
        self._ended = asyncio.Event()
        self._closing = False
        self._has_taken_leave = False
        self._task: asyncio.Task[None] | None = None
        self._stopping: asyncio.Task[None] | None = None
        self._asked_at = 0.0
        self._registered_at = 0.0
        self._renewed = False
        self._state: tuple[str | None, str | None] = (None, None)

    @property
    def running(self) -> bool:
        """Whether it follows the broker's orders."""
        return self._task is not None and not self._task.done() and not self._closing

    async def start(self) -> None:
        """Registers, ends what earlier starts left behind, and begins to follow the broker's orders.

        Raises:
            ConfigInvalid: The settings cannot be used, or this process is itself part of a reviewer.
            Unavailable: Another supervisor runs on the data folder, or no broker answers.
            TandemError: The broker refuses.
        """
        if self._task is not None or self._closing:
            return
        try:
            await asyncio.to_thread(_refuse_what_cannot_work, self._context.settings, self._context.environment)
            await asyncio.to_thread(self._identity.take)
            await self._register()
            await asyncio.to_thread(_end_leftovers, self._context)
        except BaseException:
            await self.stop()
            raise
        self._task = asyncio.create_task(self._run(), name="supervisor")

    async def change(self, settings: PoolSettings) -> None:
        """Goes on with other settings: reviewers that run finish their review by theirs, new ones get these.

        Raises:
            ConfigInvalid: The settings cannot be used; it goes on with those that it has.
        """
        await asyncio.to_thread(_refuse_what_cannot_work, settings, self._context.environment)
        self._context = replace(self._context, settings=settings)
        self._reviewers.change(self._context)
        # As the same start, whose reviewers the broker does not take for gone.
        self._registering, self._incarnation = self._incarnation or self._registering, None
        self._news.set()

    async def stop(self) -> None:
        """Drains the reviewers, ends those that take too long, and tells the broker; none of them is left.

        Takes at most the time to drain, the grace of a program, and half a minute.
        """
        if self._stopping is None:
            self._stopping = asyncio.create_task(self._stop(), name="supervisor-stop")
        # A caller that loses patience leaves no reviewer behind.
        await asyncio.shield(self._stopping)

    def end_processes(self) -> None:
        """Kills every process of its reviewers at once; blocks."""
        self._reviewers.end_processes()

    async def wait_ended(self) -> None:
        """Waits until it was stopped, or has ended because another supervisor has its place."""
        await self._ended.wait()

    async def _stop(self) -> None:
        self._closing = True
        self._news.set()
        self._reviewers.want("drain")
        await self._reviewers.until_ended(self._context.settings.drain_seconds)
        await self._end_reviewers()
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        if self._incarnation is not None and not self._has_taken_leave:
            try:
                request = self._heartbeat(self._reviewers.reports(), wait=False)
                await self._call("supervisor_heartbeat", request, _LAST_CALL_SECONDS)
            except Exception as error:  # noqa: BLE001 - the broker finds out by itself when it hears nothing more
                _log.warning("the broker could not be told that its reviewers have ended: %s", error)
        await self._reviewers.abandon()
        await asyncio.to_thread(self._identity.release)
        self._ended.set()

    async def _end_reviewers(self) -> None:
        self._reviewers.want("kill")
        if not await self._reviewers.until_ended(self._context.settings.grace_seconds + REPORT_SECONDS + _KILL_SECONDS):
            _log.error("some reviewers' processes could not be ended")

    async def _register(self) -> None:
        # The same until it is acknowledged: a registration whose answer was lost is not written again.
        self._registering = incarnation = self._registering or secrets.token_hex(_INCARNATION_BYTES)
        settings = self._context.settings
        request = {
            "secret": self._identity.secret,
            "incarnation": incarnation,
            "host": (socket.gethostname() or "unknown")[:_LONGEST_HOST],
            "provider": settings.provider,
            "mode": settings.mode,
            "model": settings.model,
            "projects": None if self._context.projects is None else list(self._context.projects),
            "rules": _rules(settings),
            "idempotency_key": secrets.token_hex(16),
        }
        answer = await self._call("supervisor_register", request, _ANSWER_SECONDS)
        # Otherwise they were changed meanwhile, and it registers with them.
        if settings is self._context.settings:
            self._incarnation, self._registering = incarnation, None
        self._cursor = answer["cursor"]
        self._registered_at = asyncio.get_running_loop().time()
        # The orders, and when to look again, are not known yet.
        self._news.set()
        _log.info("registered as %s, start %s", self._identity.supervisor_id, incarnation)

    async def _run(self) -> None:
        """Follows the broker's orders until another has this supervisor's place."""
        pause_seconds = 0.0
        while True:
            try:
                while self._incarnation is None:
                    await self._register()
                await self._heartbeat_once()
            except InvalidSession:
                if not await self._may_register_again():
                    break
            except CursorExpired:
                self._cursor = None
                self._news.set()
            except Exception as error:  # noqa: BLE001 - the reviewers are kept on every error of the broker; it is logged
                # The reports may not have arrived: the next call tells them again, and does not wait.
                self._news.set()
                if self._incarnation is None and isinstance(error, TandemError) and not error.retryable:
                    _log.error("the broker does not take this supervisor back: %s", error.message)
                    break
                _tell_of(error, first=pause_seconds == 0.0)
                pause_seconds = min(max(2 * pause_seconds, _FIRST_PAUSE_SECONDS), _LAST_PAUSE_SECONDS)
                await asyncio.sleep(pause_seconds)
                continue
            if pause_seconds:
                _log.info("the broker is back")
            pause_seconds = 0.0
        if not self._closing:
            self._ended.set()

    async def _may_register_again(self) -> bool:
        """Ends the reviewers, whose claims are gone; says whether to register once more."""
        self._incarnation = self._cursor = None
        if self._closing:
            return False
        _log.warning("another start has this supervisor's place with the broker; its reviewers are ended")
        await self._end_reviewers()
        await self._reviewers.abandon()
        if self._renewed and asyncio.get_running_loop().time() - self._registered_at < _SETTLED_SECONDS:
            _log.error("another supervisor uses the id %s: this one ends", self._identity.supervisor_id)
            return False
        self._renewed = True
        return True

    async def _heartbeat_once(self) -> None:
        """Tells the broker of the reviewers, and follows its answer."""
        loop, reviewers = asyncio.get_running_loop(), self._reviewers
        # A start has something to tell in a moment; and a broker that answers each wait at once is not hurried.
        pause_seconds = _START_SECONDS if reviewers.starting else self._asked_at + _BETWEEN_WAITS_SECONDS - loop.time()
        await self._news_within(pause_seconds)
        wait = not (self._news.is_set() or self._closing or reviewers.starting)
        if wait:
            self._asked_at = loop.time()
        self._news.clear()
        reports = reviewers.reports()
        request = self._heartbeat(reports, wait=wait)
        call = self._call("supervisor_heartbeat", request, request.get("timeout_s", 0.0) + _ANSWER_SECONDS)
        answer = await (self._unless_news(call) if wait else call)
        if answer is None:
            return
        orders = _ORDERS.validate_python(answer)
        self._cursor = orders.cursor
        self._again_seconds = orders.again_s
        self._note(orders)
        reviewers.obey(orders, reports, may_start=not self._closing)
        if request["closing"]:
            self._has_taken_leave = not orders.reviewers
            await self._news_within(_CLOSING_LOOK_SECONDS)

    def _heartbeat(self, reports: list[dict[str, Any]], *, wait: bool) -> dict[str, Any]:
        request: dict[str, Any] = {
            "secret": self._identity.secret,
            "incarnation": self._incarnation,
            "reviewers": reports,
            "quiet": pool_settings.is_quiet(self._context.settings.quiet_hours, datetime.now(UTC).astimezone()),
            "closing": self._closing,
            "wait": wait,
            "cursor": self._cursor,
        }
        if wait:
            longest = min(self._context.settings.background_check_interval_seconds, _LONGEST_WAIT_SECONDS)
            request["timeout_s"] = max(_SHORTEST_WAIT_SECONDS, min(self._again_seconds, longest))
        return request

    async def _call(self, operation: str, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        async with asyncio.timeout(seconds):
            return await self._broker.call(operation, request)

    async def _unless_news(self, call: Coroutine[Any, Any, dict[str, Any]]) -> dict[str, Any] | None:
        """The answer to a call that waits; None if it was broken off because there is something to tell."""
        asking = asyncio.create_task(call)
        news = asyncio.create_task(self._news.wait())
        try:
            await asyncio.wait((asking, news), return_when=asyncio.FIRST_COMPLETED)
            return asking.result() if asking.done() else None
        finally:
            asking.cancel()
            news.cancel()
            await asyncio.gather(asking, news, return_exceptions=True)

    async def _news_within(self, seconds: float) -> None:
        """Waits until there is something to tell, for so long at most."""
        if seconds > 0:
            with suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await self._news.wait()

    def _note(self, orders: Orders) -> None:
        state = (orders.paused, orders.circuit_open_until)
        if state != self._state:
            self._state = state
            paused, until = state
            _log.info(
                "nothing is paused" if state == (None, None) else f"paused: {paused}; circuit open until: {until}"
            )


def _rules(settings: PoolSettings) -> dict[str, Any]:
    """What the broker runs the pool by; nothing of how its programs are called."""
    rules = {name: getattr(settings, name) for name in PoolRules.model_fields if name != "profile"}
    kinds = [
        {
            **one.model_dump(mode="json", include={*ProfileRules.model_fields}),
            "provider": settings.of(one.name).provider,
            "model": settings.of(one.name).model,
        }
        for one in settings.profile
    ]
    return rules | {"profile": kinds}


def _tell_of(error: Exception, *, first: bool) -> None:
    if isinstance(error, TandemError | TimeoutError | OSError):
        _log.log(logging.WARNING if first else logging.DEBUG, "no orders from the broker: %s", error or type(error))
    elif first:
        _log.error("the broker's answer cannot be followed", exc_info=error)


def _end_leftovers(context: SupervisorContext) -> None:
    """Ends and removes what earlier starts left behind: what their folders say there was, and no broker's word."""
    for reviewer_id in context.leftovers():
        _log.warning("reviewer %s was left behind by an earlier start and is ended", reviewer_id)
        end_marked(context.marks(reviewer_id))
        context.clear(reviewer_id)


def _refuse_what_cannot_work(settings: PoolSettings, environment: Mapping[str, str]) -> None:
    """Refuses settings that cannot work, and warns of a missing program, which may come later. Blocks for the disk.

    Raises:
        ConfigInvalid: This process is itself part of a reviewer, or the provider or the template cannot be used.
    """
    if environment.get(REENTRY_VARIABLE) or os.environ.get(REENTRY_VARIABLE):
        raise ConfigInvalid(
            f"{REENTRY_VARIABLE} is set: this process was started by a reviewer, and a reviewer must not run reviewers."
            " Start the supervisor outside of it.",
            setting=pool_settings.TABLE,
        )
    form = prompt.AGENT if settings.mode == "agent" else prompt.REVIEW
    prompt.load_template(settings.prompt_template_path, form)
    search_path = environment.get("PATH", os.defpath)
    for program in dict.fromkeys((one.command or (one.provider,))[0] for one in settings.kinds()):
        if not pool_settings.THROUGH_WSL and shutil.which(program, path=search_path) is None:
            _log.warning("the reviewers' program %r is not on the PATH; until it is, they end at once", program)
