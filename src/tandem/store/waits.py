"""Waits: parked calls, each woken by the first event in the log that concerns it.

The hub follows the log from event to event; the store's notices are only hints to look at it again.
So a restart or a second node loses nothing, and events from before a wait are found by reading.

On PostgreSQL an event can come in behind others, whose transactions began later and were faster. So the log is
followed as far as it is settled. What shows beyond that wakes its waits at once, as they look at rows, and once more
when it is settled.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import defaultdict
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import copy
from functools import partial
from typing import NamedTuple, TypeVar

from tandem.core.secret_key import OpaqueTokens, Tokens
from tandem.errors import CursorExpired, InvalidInput
from tandem.store import events
from tandem.store.base import REREAD, Store, Unit
from tandem.store.event import LOG_SUBJECT, Event, EventKind

T = TypeVar("T")
_log = logging.getLogger("tandem.waits")
_BATCH = 500
_SEPARATOR = "."
_HELD = "-"
_SEQ_DIGITS = 18
_FIRST_RETRY_SECONDS = 0.05
_LAST_RETRY_SECONDS = 5.0
_LOOK_SECONDS = 2.0
"""On several nodes the log is read this often though no notice came: notices may be lost, events are not."""

_UNHURRIED_SECONDS = 0.02
"""How long events may wait to be read, several together, when no call is parked."""

_FIRST_LOOK_SECONDS = 0.001
_LAST_LOOK_SECONDS = 0.05
"""How soon the log is read again while it shows events that are not settled: growing, as some transaction is slow."""

ANY = "*"


def topic(*, project: str | None = None, state: str | None = None) -> str:
    """The topic of events of a project, of reviews that come into or leave a state, or both, or of all."""
    return f"{project or ANY}/{state or ANY}"


_FREEING = frozenset({EventKind.CLAIM_RELEASED, EventKind.REVIEW_RECLAIMED, EventKind.VERDICT_SUBMITTED})
"""Events that may leave something to claim of a review that others still hold."""


def _topics(event: Event) -> Iterator[str]:
    """Every topic that an event is on."""
    yield event.subject
    if event.kind == EventKind.CHECKS_REQUESTED:
        yield event.kind
    for project in (event.project, None):
        yield topic(project=project)
        for state in {event.old, event.new, "pending" if event.kind in _FREEING else None} - {None}:
            yield topic(project=project, state=state)


class Place(NamedTuple):
    """What a cursor stands for.

    Attributes:
        seq: An event that its holder has seen.
        settled: A place that nothing could come in behind any more when the cursor was made; mostly the same.
    """

    seq: int
    settled: int


class WaitHub:
    """Follows the log and wakes the calls that wait for its events.

    Attributes:
        log_id: Which log, and which copy of it, the cursors belong to.
        veil: Hides places in the log from a caller who may know of one project only, as their numbers count what
            happens in all; None for other callers.
    """

    def __init__(self, store: Store) -> None:
        self._store = store
        self._parked: dict[str, set[asyncio.Future[None]]] = defaultdict(set)
        self._followers: list[Callable[[list[Event]], Awaitable[None]]] = []
        self.log_id = ""
        self._log_ids: dict[str, int] = {}
        self._seen = 0
        self._hint = asyncio.Event()
        self._unhurried: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        self._expired = [0]
        self._project: str | None = None
        self.veil: OpaqueTokens | None = None
        self._reading = False
        self._early: frozenset[int] = frozenset()
        self._early_since = 0.0
        self._with_effort = False

    @property
    def closing(self) -> bool:
        """Whether the broker drains: waits are answered at once."""
        return self._closing.is_set()

    @property
    def parked(self) -> int:
        """How many waits are parked now."""
        return len(set[asyncio.Future[None]]().union(*self._parked.values()))

    async def start(self) -> None:
        """Begin to follow the log from its present end."""
        _, self._seen = await self._store.read(events.head)
        await self._name_cursors()
        self._store.add_listener(self._notice)
        self._task = asyncio.create_task(self._follow(), name="log-follower")

    async def _name_cursors(self) -> None:
        self._log_ids = (await self._store.read(events.read_head)).cursor_ids()
        *_, self.log_id = self._log_ids

    async def stop(self) -> None:
        """Answer every wait and stop following; stopping twice is safe."""
        self._closing.set()
        for name in list(self._parked):
            self._wake(name)
        task, self._task = self._task, None
        if task:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    def follow(self, follower: Callable[[list[Event]], Awaitable[None]]) -> None:
        """Have every batch of new events told to `follower`, in order."""
        self._followers.append(follower)

    def only(self, project: str, tokens: Tokens) -> WaitHub:
        """This hub for a caller who is let in to one project, and hears nothing of others, not even how much."""
        one = copy(self)
        one._project, one.veil = project, tokens.veil(project)  # noqa: SLF001 - its own
        return one

    def newest(self, unit: Unit, after: int | None = None) -> int:
        """The place of the newest settled event that the caller may know of, once `after` is known to be in the log.

        Raises:
            CursorExpired: It is ahead of the log.
        """
        end, newest = events.head(unit)
        self.check_place(after, end)
        return newest if self._project is None else events.newest_of(unit, self._project)

    def number(self, seq: int) -> int | None:
        """An event's number as the caller may know it: None where it would count other projects' events too."""
        return seq if self.veil is None else None

    def cursor(self, seq: int, unit: Unit | None = None) -> str:
        """The opaque cursor for a place in the log; with the unit, of an event that may not be settled yet."""
        place = str(seq)
        if unit is not None and unit.settled < seq:
            place = f"{seq}{_HELD}{unit.settled}"
        return self.veiled(f"{self.log_id}{_SEPARATOR}{place}")

    def veiled(self, cursor: str) -> str:
        """A cursor as this hub's caller may have it."""
        log_id, _, place = cursor.rpartition(_SEPARATOR)
        return cursor if self.veil is None else f"{log_id}{_SEPARATOR}{self.veil.hide(place.encode())}"

    def unveiled(self, cursor: str) -> str:
        """A cursor of this hub's caller as other callers have it.

        Raises:
            ValueError: It is none of this caller's.
        """
        log_id, separator, place = cursor.rpartition(_SEPARATOR)
        return cursor if self.veil is None else f"{log_id}{separator}{self.veil.show(place).decode().rstrip()}"

    def place(self, cursor: str | None) -> int | None:
        """The place in the log that a cursor stands for, such that every new event is after it.

        Raises:
            InvalidInput: It is no cursor.
            CursorExpired: It is of another log.
        """
        given = self.read(cursor)
        return None if given is None else given.settled

    def place_among(self, unit: Unit, given: Place | None, *subjects: str) -> int | None:
        """The place that a cursor stands for where only events of these subjects count, which are in order."""
        if given is None or given.seq == given.settled:
            return None if given is None else given.seq
        return given.seq if events.find_subject(unit, given.seq) in subjects else given.settled

    def read(self, cursor: str | None) -> Place | None:
        """All that a cursor says.

        Raises:
            InvalidInput: It is no cursor.
            CursorExpired: It is of another log.
        """
        if cursor is None:
            return None
        try:
            log_id, separator, digits = self.unveiled(cursor).rpartition(_SEPARATOR)
        except ValueError:
            raise CursorExpired("This cursor is of another log or token; call again without one.") from None
        seq, _, held = digits.partition(_HELD)
        numbers = (seq, held or seq)
        if not separator or not all(one.isascii() and one.isdigit() and len(one) <= _SEQ_DIGITS for one in numbers):
            raise InvalidInput("This is no cursor; send one exactly as an answer gave it.", field="cursor")
        if int(seq) > self._log_ids.get(log_id, -1):
            raise CursorExpired(
                "This cursor is of another log, or of a copy of it that was replaced; call again without one.",
                cursor=cursor,
            )
        return Place(*map(int, numbers))

    def expire(self, seq: int) -> None:
        """Note that events up to a number have lost their contents, some of them at least."""
        # A list, which the hubs of callers of one project share.
        self._expired[0] = max(self._expired[0], seq)

    def check_place(self, place: int | None, newest: int) -> None:
        """Refuse a place ahead of the log, as after a restored copy: it would skip new events.

        Raises:
            CursorExpired: It is ahead of the log, or contents after it were removed.
        """
        if place is not None and place < self._expired[0]:
            raise CursorExpired(
                "Events after this cursor have lost their contents (the setting retention_days); call again without"
                " one.",
                cursor=self.cursor(place),
            )
        if place is not None and place > newest:
            raise CursorExpired(
                "This cursor is ahead of the log, which was restored from a copy; call again without one.",
                cursor=self.cursor(place),
                actual=self.cursor(newest),
            )

    @contextmanager
    def parking(self, *names: str) -> Generator[Callable[[float], Awaitable[bool]]]:
        """Listen to topics before looking at the state, so that nothing slips between.

        Yields a function that waits up to so many seconds for the next event on any of the topics, and says
        whether there was one.
        """
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._park(names, waiter)

        async def pause(timeout_seconds: float) -> bool:
            nonlocal waiter
            if self.closing:
                return False
            if not waiter.done():
                await asyncio.wait((waiter,), timeout=max(0.0, timeout_seconds))
            if not waiter.done() or self.closing:
                return False
            self._leave(names, waiter)
            waiter = asyncio.get_running_loop().create_future()
            self._park(names, waiter)
            return True

        try:
            yield pause
        finally:
            self._leave(names, waiter)

    def _park(self, names: Iterable[str], waiter: asyncio.Future[None]) -> None:
        for name in names:
            self._parked[name].add(waiter)

    def _leave(self, names: Iterable[str], waiter: asyncio.Future[None]) -> None:
        for name in names:
            waiters = self._parked[name]
            waiters.discard(waiter)
            if not waiters:
                del self._parked[name]

    def _notice(self, notice: int, subjects: Iterable[str]) -> None:
        # Who waits for one of these need not wait until the log is read; they wake once more when it was.
        for name in subjects:
            self._wake(name)
        # A call that parks from now on looks at the state first, so without parked calls the log need not be read. On
        # several nodes the followers need every event, though not at once. REREAD is no place in the log.
        if self._parked or notice == REREAD:
            self._hint.set()
        elif self._store.dialect != "sqlite":
            loop = asyncio.get_running_loop()
            self._unhurried = self._unhurried or loop.call_later(_UNHURRIED_SECONDS, self._look_up)
        elif self._seen < notice and not self._reading:
            self._seen = notice
        else:
            self._hint.set()

    def _look_up(self) -> None:
        self._unhurried = None
        self._hint.set()

    async def _follow(self) -> None:
        retry_seconds = _FIRST_RETRY_SECONDS
        patience = None if self._store.dialect == "sqlite" else _LOOK_SECONDS
        look_seconds = _FIRST_LOOK_SECONDS
        while True:
            with suppress(TimeoutError):
                async with asyncio.timeout(look_seconds if self._early else patience):
                    await self._hint.wait()
            self._hint.clear()
            try:
                was = self._seen
                await self._catch_up()
                moved = self._seen != was or not self._early
                look_seconds = _FIRST_LOOK_SECONDS if moved else min(2 * look_seconds, _LAST_LOOK_SECONDS)
                retry_seconds = _FIRST_RETRY_SECONDS
            except Exception:  # noqa: BLE001 the follower survives every error; it is logged
                _log.exception("could not read the log; trying again")
                self._hint.set()
                await asyncio.sleep(retry_seconds)
                retry_seconds = min(retry_seconds * 2, _LAST_RETRY_SECONDS)

    async def _catch_up(self) -> None:
        while True:
            after = self._seen
            self._reading = True
            try:
                batch, settled = await self._store.read(partial(self._look, after))
            finally:
                self._reading = False
            self._store.settle(settled)
            news = [event for event in batch if event.seq <= settled]
            woken, self._early = self._early, frozenset(event.seq for event in batch[len(news) :])
            self._watch_stragglers(moved=bool(news))
            if any(event.subject == LOG_SUBJECT for event in news):
                # Another broker may have found that this is a copy, which it then has said there.
                await self._name_cursors()
            if news:
                self._seen = news[-1].seq
            fresh = [event for event in batch if event.seq <= settled or event.seq not in woken]
            for name in {name for event in fresh for name in _topics(event)}:
                self._wake(name)
            if news:
                for follower in self._followers:
                    await follower(news)
            if len(news) < _BATCH:
                return

    def _look(self, after: int, unit: Unit) -> tuple[list[Event], int]:
        """Events behind a place, and up to which place the log is settled."""
        batch = events.list_after(unit, after, _BATCH)
        settled = unit.settled
        if self._with_effort and batch and batch[-1].seq > settled:
            settled = events.find_settled(unit)
        return batch, settled

    def _watch_stragglers(self, *, moved: bool) -> None:
        """Have it looked closer what keeps the log from being settled, if that takes long."""
        now = time.monotonic()
        if not self._early:
            self._with_effort, self._early_since = False, 0.0
        elif moved or not self._early_since:
            self._early_since = now
        elif now - self._early_since > _LAST_LOOK_SECONDS:
            self._with_effort = True

    def _wake(self, name: str) -> None:
        for waiter in self._parked.get(name, ()):
            if not waiter.done():
                waiter.set_result(None)


async def wait_until(
    hub: WaitHub,
    *names: str,
    look: Callable[[], Awaitable[tuple[T, bool]]],
    timeout_seconds: float,
) -> T:
    """Look until there is something new, or the time is up; what the last look saw, which is taken then.

    Args:
        hub: Who wakes.
        names: The topics after whose events it is worth looking again.
        look: Reads the answer, and says whether it is worth answering now.
        timeout_seconds: How long to wait at most.
    """
    loop = asyncio.get_running_loop()
    deadline = loop.time() + timeout_seconds
    with hub.parking(*names) as pause:
        while True:
            answer, is_news = await look()
            left = deadline - loop.time()
            if is_news or hub.closing or left <= 0:
                return answer
            if not await pause(left) and hub.closing:
                return answer
