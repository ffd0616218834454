"""Time and identifiers, injected so that tests own both."""

from __future__ import annotations

import os
import threading
import time
from datetime import UTC, datetime, timedelta
from functools import lru_cache

MICROSECONDS = 1_000_000
DAY_US = 86_400 * MICROSECONDS
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_LETTERS = 9
_RANDOM_LETTERS = 9
_BITS = 5
"""A letter of the alphabet carries five bits."""

_STEP_BITS = 32
"""How far an id may be from the one before it in its millisecond: other brokers make ids at the same time."""

_DRAWN_AT_ONCE = 64

_SLOWNESS = 10
"""A clock that was set is followed by a tenth of the time that passes: so much may a duration be off at the most."""

_STEADY = getattr(time, "CLOCK_BOOTTIME", None) or getattr(time, "CLOCK_MONOTONIC", None)
"""Goes on while the machine sleeps, unlike Linux's own monotonic clock; Windows has none by number."""


class Clock:
    """The machine's clock, or the database's where several nodes share one, and the source of randomness.

    When that clock is set, this one does not jump: leases and keys would end at once, or much too late. Safe for
    threads.
    """

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._steady_ns = _steady_ns()
        self._now_ns = time.time_ns()
        self._adopted_ns: int | None = None
        self._newest = 0
        self._random: list[int] = []

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        with self._turn:
            steady_ns = _steady_ns()
            elapsed_ns = steady_ns - self._steady_ns
            shown_ns = time.time_ns() if self._adopted_ns is None else steady_ns + self._adopted_ns
            most_ns = elapsed_ns // _SLOWNESS
            behind_ns = shown_ns - self._now_ns - elapsed_ns
            self._now_ns += elapsed_ns + max(-most_ns, min(most_ns, behind_ns))
            self._steady_ns = steady_ns
            return self._now_ns // 1000

    def adopt(self, now_us: int) -> None:
        """Go by another clock, which stands at that time now; again every now and then.

        The first time this one is set by it, as nothing goes by it yet.
        """
        with self._turn:
            steady_ns = _steady_ns()
            if self._adopted_ns is None:
                self._steady_ns, self._now_ns = steady_ns, now_us * 1000
            self._adopted_ns = now_us * 1000 - steady_ns

    def new_id(self, prefix: str) -> str:
        """`prefix_`, the milliseconds since the epoch and 45 random bits, in Crockford's base 32.

        New ids sort behind older ones, those of one clock within a millisecond as well, so that lists go by
        them, and rows that are made together are stored together: a database then writes fewer pages a transaction.
        """
        number = (self.now_us() // 1_000) << (_BITS * _RANDOM_LETTERS)
        with self._turn:
            drawn = self._draw()
            step = self._newest + 1 + (drawn & ((1 << _STEP_BITS) - 1))
            self._newest = number = max(number | drawn & ((1 << _BITS * _RANDOM_LETTERS) - 1), step)
        letters = [
            _ALPHABET[(number >> shift) & 31]
            for shift in range(_BITS * (_TIME_LETTERS + _RANDOM_LETTERS - 1), -1, -_BITS)
        ]
        return f"{prefix}_{''.join(letters)}"

    def _draw(self) -> int:
        """64 random bits, read from the system for many ids at once: where it is a sandbox, each read is dear."""
        if not self._random:
            raw = os.urandom(_DRAWN_AT_ONCE * 8)
            self._random = [int.from_bytes(raw[at : at + 8]) for at in range(0, len(raw), 8)]
        return self._random.pop()


def _steady_ns() -> int:
    return time.monotonic_ns() if _STEADY is None else time.clock_gettime_ns(_STEADY)


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")


def isoformat(instant_us: int) -> str:
    """`2026-11-21T22:23:00.123456Z` for microseconds since the epoch."""
    # Every answer has several times, most of them of the same few seconds.
    seconds, microseconds = divmod(instant_us, MICROSECONDS)
    return f"{_second(seconds)}.{microseconds:06d}Z"


def instant_us(text: str) -> int:
    """Microseconds since the epoch of an ISO 8601 time, UTC unless it says otherwise.

    Raises:
        ValueError: It is none.
    """
    stated = datetime.fromisoformat(text)
    aware = stated if stated.tzinfo is not None else stated.replace(tzinfo=UTC)
    try:
        return (aware - _EPOCH) // timedelta(microseconds=1)
    except OverflowError as error:
        raise ValueError(text) from error


def utc_day(instant_us: int) -> str:
    """`2026-11-21` for microseconds since the epoch."""
    return _second(instant_us // MICROSECONDS)[: len("2026-11-21")]
