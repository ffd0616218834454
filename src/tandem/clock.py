"""Time and identifiers, injected so that tests own both."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from functools import lru_cache
from typing import Protocol

MICROSECONDS = 1_000_000
_ALPHABET = "0123456789abcdefghjkmnpqrstvwxyz"
_TIME_LETTERS = 9
_RANDOM_LETTERS = 9
_BITS = 5
"""A letter of the alphabet carries five bits."""


class Clock(Protocol):
    """Where time and new ids come from."""

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        ...

    def new_id(self, prefix: str) -> str:
        """A fresh identifier such as `rv_4k2…`, safe in paths, URLs and shells."""
        ...


class SystemClock:
    """The machine's clock and its source of randomness."""

    def now_us(self) -> int:
        """Microseconds since the epoch, UTC."""
        return time.time_ns() // 1000

    def new_id(self, prefix: str) -> str:
        """`prefix_`, the milliseconds since the epoch and 45 random bits, in Crockford's base 32.

        New ids sort behind older ones, so that what is made together is stored together: a database
        then writes fewer pages a transaction.
        """
        number = (time.time_ns() // 1_000_000) << (_BITS * _RANDOM_LETTERS) | secrets.randbits(_BITS * _RANDOM_LETTERS)
        letters = [
            _ALPHABET[(number >> shift) & 31]
            for shift in range(_BITS * (_TIME_LETTERS + _RANDOM_LETTERS - 1), -1, -_BITS)
        ]
        return f"{prefix}_{''.join(letters)}"


@lru_cache(maxsize=4096)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")


def isoformat(instant_us: int) -> str:
    """`2026-11-21T22:23:00.123456Z` for microseconds since the epoch."""
    # Every answer has several times, most of them of the same few seconds.
    seconds, microseconds = divmod(instant_us, MICROSECONDS)
    return f"{_second(seconds)}.{microseconds:06d}Z"


def utc_day(instant_us: int) -> str:
    """`2026-11-21` for microseconds since the epoch."""
    return _second(instant_us // MICROSECONDS)[: len("2026-11-21")]
