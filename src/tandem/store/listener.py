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
from tandem.store.connector import TIMEOUT_SECONDS

if TYPE_CHECKING:
    from collections.abc import Iterable

    from tandem.store.connector import Connector
    from tandem.store.jobs import Completions

CHANNEL: Final = "tandem_events"
_FIRST_PAUSE_SECONDS: Final = 0.1
_LONGEST_PAUSE_SECONDS: Final = 5.0
_MOST_WORDS: Final = 100
"""Of a notice, which PostgreSQL takes up to 8,000 bytes. What it does not say is found in the log a little later."""

_log = logging.getLogger(__name__)


def notice_of(node: str, place: int, subjects: Iterable[str]) -> str:
    """What a node tells the others: up to which place in the log there are events, and of which reviews some are."""
    words = [f"{place:d}", node, *(subject for subject in subjects if ":" not in subject)]
    return " ".join(words[:_MOST_WORDS])


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
        made = self._connector.connect()
        made.ask((f"LISTEN {CHANNEL}",), seconds=TIMEOUT_SECONDS)
        return made.end()

    def _hear(self, connection: psycopg.Connection[Row]) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(connection.fileno(), selectors.EVENT_READ)
            selector.register(self._woken, selectors.EVENT_READ)
            while not self._ending.is_set():
                # A burst is one wake-up: the highest number says it all.
                place, subjects = 0, set[str]()
                for note in connection.notifies(timeout=0):
                    number, node, *about = (*note.payload.split(" "), "")
                    if node != self._node and number.isdecimal():
                        place = max(place, int(number))
                        subjects.update(about)
                if place:
                    self._delivery.deliver((), place, subjects)
                selector.select()

    def _drop(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()
