"""Hears from PostgreSQL what other nodes have committed."""

from __future__ import annotations

import logging
import selectors
import socket
import threading
from typing import TYPE_CHECKING, Final

import psycopg

from tandem.errors import TandemError
from tandem.store.base import REREAD, Row

if TYPE_CHECKING:
    from tandem.store.connector import Connector
    from tandem.store.jobs import Completions

CHANNEL: Final = "tandem_events"
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_QUIET_SECONDS: Final = 0.002
"""Notices are not sent faster than that."""

_log = logging.getLogger(__name__)


class Announcer:
    """A thread that tells the other nodes what this one has committed, many units at a time.

    Not in the units' own transactions: a commit with NOTIFY holds a lock of the whole cluster until the disk has it, so
    that no two commits could share a flush. What is lost with this process is found by the others' looks at the log.
    """

    def __init__(self, connector: Connector, node: str) -> None:
        """Make it; `node` is the sender, whose own listener passes over what it says."""
        self._connector = connector
        self._node = node
        self._guard = threading.Condition()
        self._notice = 0
        self._ending = False

    def announce(self, notice: int) -> None:
        """Have every node told that there are events up to a number; from any thread."""
        with self._guard:
            self._notice = max(self._notice, notice)
            self._guard.notify()

    def end(self) -> None:
        """Tell the thread to end once everything is said; from any thread."""
        with self._guard:
            self._ending = True
            self._guard.notify()

    def run(self) -> None:
        """Say what there is to say until `end`; the body of the thread."""
        connection: psycopg.Connection[Row] | None = None
        while notice := self._next():
            try:
                connection = connection or self._connector.connect()
                connection.execute(f"NOTIFY {CHANNEL}, '{notice:d} {self._node}'".encode("ascii"))
            except (psycopg.Error, TandemError) as exc:
                if connection is not None:
                    connection.close()
                connection = None
                _log.warning("could not tell other nodes of events, next try soon: %s", exc)
                self._pause(notice, _FIRST_PAUSE_SECONDS)
            else:
                # Whoever listens is woken once for all that is committed meanwhile.
                self._pause(0, _QUIET_SECONDS)
        if connection is not None:
            connection.close()

    def _next(self) -> int:
        """The next notice; 0 is the sign to end."""
        with self._guard:
            self._guard.wait_for(lambda: self._notice or self._ending)
            notice, self._notice = self._notice, 0
            return notice

    def _pause(self, notice: int, seconds: float) -> None:
        """Wait before the next notice, which says this one too; not at the end."""
        with self._guard:
            if not self._ending:
                self._notice = max(self._notice, notice)
                self._guard.wait_for(lambda: self._ending, seconds)


class Listener:
    """A thread with a connection that does nothing but LISTEN, and finds its way back when it is cut."""

    def __init__(self, connector: Connector, delivery: Completions, node: str) -> None:
        self._connector = connector
        self._delivery = delivery
        self._node = node
        self._ending = threading.Event()
        self._connection: psycopg.Connection[Row] | None = None

    def open(self) -> None:
        """Begin to listen, so that nothing is missed from here on.

        Raises:
            Unavailable: The server does not answer.
        """
        self._connection = self._listen()
        # A thread that waits for the server can only be woken through something else that it waits for.
        self._wake, self._woken = socket.socketpair()

    def end(self) -> None:
        """Tell the thread to end; from any thread."""
        # In this order: a thread that sees that it is to end closes the socket.
        self._wake.send(b"\0")
        self._ending.set()

    def run(self) -> None:
        """Pass notices on until `end`; the body of the listener's thread."""
        pause_seconds = _FIRST_PAUSE_SECONDS
        while not self._ending.is_set():
            try:
                if self._connection is None:
                    self._connection = self._listen()
                    # Whatever was said while nobody listened is lost.
                    self._delivery.deliver((), REREAD)
                pause_seconds = _FIRST_PAUSE_SECONDS
                self._hear(self._connection)
            except (psycopg.Error, OSError, TandemError) as exc:
                self._drop()
                if not self._ending.is_set():
                    _log.warning("no word from PostgreSQL, next try in %.1f s: %s", pause_seconds, exc)
                    self._ending.wait(pause_seconds)
                    pause_seconds = min(2 * pause_seconds, _LONGEST_PAUSE_SECONDS)
        self._drop()
        self._wake.close()
        self._woken.close()

    def _listen(self) -> psycopg.Connection[Row]:
        connection = self._connector.connect()
        try:
            connection.execute(f"LISTEN {CHANNEL}")
        except psycopg.Error:
            connection.close()
            raise
        return connection

    def _hear(self, connection: psycopg.Connection[Row]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._ending.is_set():
                # A burst is one wake-up: the highest number says it all.
                notice = max(
                    (
                        int(number)
                        for number, _, node in (note.payload.partition(" ") for note in connection.notifies(timeout=0))
                        if node != self._node and number.isdecimal()
                    ),
                    default=0,
                )
                if notice:
                    self._delivery.deliver((), notice)
                selector.select()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
