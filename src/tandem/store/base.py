"""What the two databases have in common: the unit of work, and how a store is asked to run one.

StoreError
├── Conflict    a unit broke a constraint of the database (unique, foreign key, check, required value)
└── RunAgain    others were in the way; no caller sees it
    └── RunAlone
"""

from __future__ import annotations

import asyncio
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import astuple, dataclass, replace
from typing import TYPE_CHECKING, Any, Final, TypeVar

from tandem.errors import Unavailable
from tandem.store.event import FOREVER, Seal, unkeyed
from tandem.store.jobs import Completions, Job, WorkQueue

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Coroutine, Iterator, Sequence
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

    from tandem.store.event import CounterMove
    from tandem.store.statement import Statement

T = TypeVar("T")
Row = tuple[Any, ...]

REREAD: Final = 2**63 - 1
"""A notice that means "you may have missed some": read the log again from any cursor."""

_KEYS_AT_ONCE: Final = (1, 16, 256)
"""How many keys a statement may ask for: few sizes, so that there are few statements."""

HIDDEN_ERROR: Final = "a unit of work hid an error of one of its statements; nothing of it was kept"


class StoreError(Exception):
    """A failure of the store that is no answer to a client by itself."""


class Conflict(StoreError):
    """A unit broke a constraint; nothing of it was kept. The cause is the driver's error."""


class RunAgain(StoreError):
    """Others were in the way, nothing of the unit was kept, and the same unit may well succeed."""


class RunAlone(RunAgain):
    """The unit began beside others, and found that it has to be alone."""


class Unit(ABC):
    """One transaction, as its function sees it: synchronous, in one thread, and gone afterwards.

    An error of a statement ends the unit: let it pass, and use `ON CONFLICT` for expected conflicts. A
    function must depend on nothing but its arguments and the database, since it may be run again.

    Attributes:
        dialect: `sqlite` or `postgresql`.
        seal: Hashes this store's events.
        notice: The event up to which to tell the listeners; 0 for nothing.
    """

    __slots__ = ("notice", "seal")
    dialect: str

    def __init__(self, seal: Seal) -> None:
        self.seal = seal
        self.notice = 0

    @property
    def settled(self) -> int:
        """The place in the log behind which nothing can come in any more: there all events are, and here they show."""
        return FOREVER

    def be_alone(self) -> None:  # noqa: B027 - a single writer is
        """Keep others from writing before this transaction ends; a unit that began beside others is run again alone."""

    def lock(self, name: str) -> None:  # noqa: B027 - a single writer has every lock
        """Hold the lock of this name until this transaction ends: for rows that are not there yet."""

    def take_seq(self) -> int | None:
        """The number of the next event where the transaction gives it; None where `log_head` counts them."""
        return None

    @abstractmethod
    def count(self, moves: Sequence[CounterMove]) -> None:
        """Move counters, none twice; of units that work beside others, those who read them see it after the commit."""

    @abstractmethod
    def execute(self, statement: Statement, **params: Any) -> int:
        """Run a statement for its effect; how many rows it touched."""

    @abstractmethod
    def put(self, statement: Statement, **params: Any) -> None:
        """Run a statement of which nothing is asked: perhaps later, on the way with the next one or the commit."""

    @abstractmethod
    def put_one(self, statement: Statement, **params: Any) -> None:
        """As `put`; unless it changes one row nothing of this unit is kept, and where it may help it runs again."""

    @abstractmethod
    def all(self, statement: Statement, **params: Any) -> list[Row]:
        """Every row of the answer."""

    def one_or_none(self, statement: Statement, **params: Any) -> Row | None:
        """The only row of the answer, or None.

        Raises:
            LookupError: There are several.
        """
        rows = self.all(statement, **params)
        if len(rows) > 1:
            raise LookupError(f"more than one row for: {statement.sqlite.sql}")
        return rows[0] if rows else None

    def find(self, record: Callable[..., T], statement: Statement, /, **params: Any) -> T | None:
        """The only row of the answer as a record whose fields are its columns; None without a row.

        Raises:
            LookupError: There are several.
        """
        row = self.one_or_none(statement, **params)
        return None if row is None else record(*row)

    def list_of(self, record: Callable[..., T], statement: Statement, /, **params: Any) -> list[T]:
        """Every row of the answer as such a record."""
        return [record(*row) for row in self.all(statement, **params)]

    def list_by_keys(
        self,
        made: Callable[[int], Statement],
        names: tuple[str, ...],
        keys: Sequence[tuple[Any, ...]],
        limit: int | None = None,
        **params: Any,
    ) -> Iterator[list[Row]]:
        """The rows of many keys, those of some keys at a time; so many rows at most.

        Args:
            made: Gives the statement for a number of keys, which has them as `store.statement.keys_table`.
            names: The columns of a key.
            keys: The keys.
            limit: The most rows; None for all.
            **params: The statement's further parameters.
        """
        at = 0
        while at < len(keys) and limit != 0:
            size = next((one for one in _KEYS_AT_ONCE if one >= len(keys) - at), _KEYS_AT_ONCE[-1])
            part = [*keys[at : at + size]]
            part += [(None,) * len(names)] * (size - len(part))
            given = {
                f"{name}_{number}": value
                for number, key in enumerate(part)
                for name, value in zip(names, key, strict=True)
            }
            rows = self.all(made(size), **given, **params, **({} if limit is None else {"limit": limit}))
            limit = None if limit is None else limit - len(rows)
            at += size
            yield rows

    def value(self, statement: Statement, **params: Any) -> Any:
        """The first column of the only row of the answer; None without a row.

        Raises:
            LookupError: There are several.
        """
        row = self.one_or_none(statement, **params)
        return None if row is None else row[0]

    def on_commit(self, notice: int, subject: str | None = None) -> None:
        """Tell the listeners, once this is committed, of events up to `notice` (1 or more), one of this subject."""
        del subject
        self.notice = max(self.notice, notice)


@dataclass(slots=True)
class StoreStatistics:
    """The work of a store, or of one of its threads, since it was opened."""

    units: int = 0
    """Write units that were committed."""
    commits: int = 0
    """Transactions that it took to commit them."""
    failed: int = 0
    """Write units that ended with an exception."""
    dropped: int = 0
    """Write units whose caller had gone before they began."""
    repeated: int = 0
    """Times a unit was run again after a serialization failure, a deadlock or a lost connection."""
    waiting: int = 0
    """Units that wait for a thread right now."""


class Store(ABC):
    """Runs units of work on threads of its own.

    Closing twice is safe; units that wait when it is closed are still done.
    """

    dialect: str

    def __init__(self, seal: Seal = unkeyed) -> None:
        self.span: Callable[[str], AbstractContextManager[object]] | None = None
        """Opens a span around a unit of work; None unless they are traced."""
        self.answer_seconds: float | None = None
        """How long a unit of work may take before its caller is told that the database is silent; None for ever."""
        self._seal = seal
        self._delivery = Completions()
        self._writes = WorkQueue()
        self._reads = WorkQueue()
        self._queues = [self._writes, self._reads]
        self._done: list[StoreStatistics] = []
        self._threads: list[threading.Thread] = []
        self._state = threading.Lock()
        self._opened = False
        self._closed = False

    def write(self, fn: Callable[[Unit], T], *, works_on: tuple[str, ...] = ()) -> Coroutine[Any, Any, T]:
        """Run `fn` in a transaction; when this returns, it is committed.

        Units that declare `works_on`, such as a review's id, may run concurrently, their statements mixed and perhaps
        in one transaction; units that share a name run one after another. Such a unit may base its decisions on rows
        of these names that it has locked or inserted, and on rows that only units without `works_on` write: all
        others may change after it read them.

        If the awaiting task is cancelled before the unit began it never runs; later it is completed.

        Raises:
            Conflict: A constraint of the database was broken.
            Unavailable: The database cannot do it now, or is silent; retryable unless it may have been done.
            Exception: Raised by `fn`; its unit was rolled back, and no other.
        """
        return self._run(fn, self._inbox_of(works_on), "store.write", works_on)

    def read(self, fn: Callable[[Unit], T]) -> Coroutine[Any, Any, T]:
        """Run `fn` on a consistent snapshot that it cannot change.

        Raises:
            Unavailable: The database cannot be read now, or is silent.
            Exception: Raised by `fn`.
        """
        return self._run(fn, self._reads, "store.read")

    def _run(
        self, fn: Callable[[Unit], T], inbox: WorkQueue, name: str, works_on: tuple[str, ...] = ()
    ) -> Coroutine[Any, Any, T]:
        job = Job(fn, asyncio.get_running_loop(), works_on)
        # One coroutine, not one in another: each is resumed when the answer comes.
        return self._answered(job, inbox) if self.span is None else self._traced(self.span(name), job, inbox)

    async def _traced(self, span: AbstractContextManager[object], job: Job, inbox: WorkQueue) -> Any:
        with span:
            return await self._answered(job, inbox)

    async def _answered(self, job: Job, inbox: WorkQueue) -> Any:
        limit = job.limit(self.answer_seconds) if self.answer_seconds is not None else None
        try:
            inbox.put(job)
            return await job.answer
        finally:
            if limit is not None:
                limit.cancel()

    @asynccontextmanager
    async def turn(self, lock: asyncio.Lock) -> AsyncGenerator[None]:
        """Hold a lock that others hold over units of work: who waits for it is answered as soon as they are.

        Raises:
            Unavailable: The database does not answer those who are first.
        """
        try:
            async with asyncio.timeout(self.answer_seconds):
                await lock.acquire()
        except TimeoutError:
            raise Unavailable(f"The database has not answered for {self.answer_seconds:.0f} s; try again.") from None
        try:
            yield
        finally:
            lock.release()

    def write_blocking(self, fn: Callable[[Unit], T]) -> T:
        """`write` for a caller without an event loop; never from within a unit."""
        return self._blocking(fn, self._inbox_of(()))

    def read_blocking(self, fn: Callable[[Unit], T]) -> T:
        """`read` for a caller without an event loop; never from within a unit."""
        return self._blocking(fn, self._reads)

    def add_listener(self, fn: Callable[[int, Collection[str]], None]) -> None:
        """Call `fn(notice, subjects)` in the running event loop's thread whenever events may have been added.

        Only a hint to read the log again: notices may come twice, out of order, or as `REREAD`, and the subjects are
        some of those that have events.
        """
        self._delivery.add_listener(fn)

    async def open(self) -> None:
        """Connect, bring the schema up to date, start the threads.

        Raises:
            ConfigInvalid: The database is newer, not Tandem's, or cannot be used by this interpreter.
            Unavailable: The database cannot be reached.
        """
        await asyncio.to_thread(self.open_blocking)

    async def close(self) -> None:
        """Finish what waits, end the threads, leave the database tidy."""
        # Shielded: half a close would leave threads running for ever.
        await asyncio.shield(asyncio.to_thread(self.close_blocking))

    def open_blocking(self) -> None:
        """`open` for a caller without an event loop."""
        with self._state:
            if self._opened or self._closed:
                return
            self._start()
            self._opened = True
            for queue in self._queues:
                queue.open()

    def close_blocking(self) -> None:
        """`close` for a caller without an event loop."""
        with self._state:
            if self._closed:
                return
            self._closed = True
            if self._opened:
                self._stop()

    def statistics(self) -> StoreStatistics:
        """Counts of all work so far; for metrics and tests."""
        total = StoreStatistics(*map(sum, zip(*map(astuple, self._done), strict=True)))
        return replace(total, waiting=sum(queue.waiting() for queue in self._queues))

    async def now_us(self) -> int | None:
        """The database's own time, by which all its nodes go; None where it is this machine's."""
        return None

    def settle(self, place: int) -> None:
        """Take note of a place in the log behind which nothing can come in any more; see `Unit.settled`."""
        del place

    def is_missing(self) -> bool:
        """Whether opening the store would make a new database, as far as that can be told before."""
        return False

    def trouble(self) -> str | None:
        """Why everything is refused right now, for people; None if it is not. Cheap."""
        return None

    @abstractmethod
    def advisory_lock(self, name: str) -> AbstractAsyncContextManager[bool]:
        """`async with store.advisory_lock("sweep") as granted:` for chores that one node does at a time.

        Does not wait: `granted` is False when another node holds it. SQLite has one broker: always True.
        """

    def _inbox_of(self, works_on: tuple[str, ...]) -> WorkQueue:
        """The queue of units that write, by their `works_on`."""
        del works_on
        return self._writes

    @abstractmethod
    def _start(self) -> None: ...

    @abstractmethod
    def _stop(self) -> None: ...

    def _run_thread(self, target: Callable[[], None], name: str) -> None:
        thread = threading.Thread(target=target, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    def _blocking(self, fn: Callable[[Unit], T], inbox: WorkQueue) -> T:
        if threading.current_thread() in self._threads:
            raise RuntimeError("a unit of work cannot wait for another one: it would wait for its own thread")
        job = Job(fn, None)
        inbox.put(job)
        answer: T = job.answer.result()
        return answer
