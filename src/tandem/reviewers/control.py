"""What a reviewer process is told while it works: to stop, to stop at once, and that nobody is there any more.

    signal, or a line on standard input ─▶ a queue ─▶ the main thread ─▶ events that the other threads look at

A handler of signals interrupts the main thread anywhere: it may only put something into a queue that is made for
it, since an event that is being looked at cannot be set from there.
"""

from __future__ import annotations

import os
import queue
import signal
import threading
import time
from collections.abc import Callable
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final, Literal

from tandem.reviewers.job import CANCEL_LINE, DRAIN_LINE, Exit

if TYPE_CHECKING:
    from collections.abc import Generator


_News = Literal["signal", "drain", "cancel", "gone"] | Exit
_STOP_SIGNALS = ("SIGTERM", "SIGINT", "SIGBREAK")
_CHUNK_BYTES = 64 * 1024
_LINE_LENGTH = 100
"""Nothing that is said down there is longer."""
_MEANING: Final = {
    "drain": "told to stop after the review under way",
    "cancel": "told to stop at once",
    "gone": "the supervisor is gone",
}
_LOOK_SECONDS = 1.0
"""Windows tells of a signal only between two waits."""


class StopRequests:
    """What was ordered so far. The main thread sets it; the others look, or have themselves told.

    Attributes:
        drain: No further review is to be taken.
        cancel: The review under way is to be ended.
        abandoned: The supervisor is gone.
    """

    def __init__(self, note: Callable[[str], None]) -> None:
        """Begin without any.

        Args:
            note: Writes a line to the log.
        """
        self._note = note
        self._signals = 0
        self.drain: Final = threading.Event()
        self.cancel: Final = threading.Event()
        self.abandoned: Final = threading.Event()
        self._lock = threading.Lock()
        self._listeners: list[Callable[[], None]] = []

    def take(self, news: Literal["signal", "drain", "cancel", "gone"]) -> None:
        """Take an order. A signal asks to drain when it is the first, and to cancel when it is another."""
        if news == "signal":
            self._signals += 1
            news = "drain" if self._signals == 1 else "cancel"
        if news == "gone":
            self.abandoned.set()
        self.drain.set()
        if news != "drain":
            self.cancel.set()
        self._note(_MEANING[news])
        self._tell()

    @contextmanager
    def telling(self, listener: Callable[[], None]) -> Generator[None]:
        """Have a function called, which must be quick, now and whenever something was ordered."""
        with self._lock:
            self._listeners.append(listener)
        try:
            listener()
            yield
        finally:
            with self._lock:
                self._listeners.remove(listener)

    def _tell(self) -> None:
        with self._lock:
            listeners = [*self._listeners]
        for listener in listeners:
            listener()


class ControlInput:
    """Where the main thread hears of everything."""

    def __init__(self, descriptor: int) -> None:
        """Begin to hear signals.

        Args:
            descriptor: Standard input. Not its buffered reader: whoever waits there would hold up our end.
        """
        self._descriptor = descriptor
        self._rest = b""
        # This kind may be filled by a handler that interrupts whoever empties it.
        self._news: queue.SimpleQueue[_News] = queue.SimpleQueue()
        for name in _STOP_SIGNALS:
            number: signal.Signals | None = getattr(signal, name, None)
            if number is not None:
                signal.signal(number, lambda _number, _frame: self._news.put("signal"))

    def first_line(self) -> bytes | None:
        """The job's line; null if the input ended before. Blocks until one of both."""
        read = b""
        while b"\n" not in read:
            chunk = os.read(self._descriptor, _CHUNK_BYTES)
            if not chunk:
                return None
            read += chunk
        line, _, self._rest = read.partition(b"\n")
        return line

    def watch(self) -> None:
        """From now on hear, in a thread, what comes on standard input, and its end."""
        threading.Thread(target=self._listen, name="supervisor", daemon=True).start()

    def ended(self, status: Exit) -> None:
        """Tell the main thread that the work is over."""
        self._news.put(status)

    def obey(self, requests: StopRequests, patience_seconds: float) -> Exit | None:
        """Passes on what comes until the work is over.

        Args:
            requests: Whom to tell.
            patience_seconds: How long the work may go on once it was to be ended at once.

        Returns:
            How the work ended; null if it does not end.
        """
        deadline = float("inf")
        while time.monotonic() < deadline:
            try:
                news = self._news.get(timeout=_LOOK_SECONDS)
            except queue.Empty:
                continue
            if isinstance(news, Exit):
                return news
            requests.take(news)
            if requests.cancel.is_set():
                deadline = min(deadline, time.monotonic() + patience_seconds)
        return None

    def _listen(self) -> None:
        *lines, rest = self._rest.split(b"\n")
        while True:
            for line in lines:
                if line.strip() == DRAIN_LINE:
                    self._news.put("drain")
                elif line.strip() == CANCEL_LINE:
                    self._news.put("cancel")
            try:
                chunk = os.read(self._descriptor, _CHUNK_BYTES)
            except OSError:
                chunk = b""
            if not chunk:
                self._news.put("gone")
                return
            *lines, rest = (rest + chunk).split(b"\n")
            rest = rest[-_LINE_LENGTH:]
