"""Quiet hours: parts of the day in which no reviewer is started, as the clock on the wall shows them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Self

from tandem.errors import ConfigInvalid
from tandem.pool_settings import QUIET_SPAN

_MINUTES = 60
_SETTING = "quiet_hours"


@dataclass(frozen=True, slots=True)
class _Span:
    """Minutes of the day: from `start` on, up to and without `end`, which may lie behind midnight."""

    start: int
    end: int

    def has(self, minute: int) -> bool:
        if self.start < self.end:
            return self.start <= minute < self.end
        return minute >= self.start or minute < self.end


@dataclass(frozen=True, slots=True)
class QuietHours:
    """Some parts of the day; none if there are no spans.

    The time is compared, never computed with: a day on which the clock is set forward or back has its quiet
    hours by the clock like every other.
    """

    spans: tuple[_Span, ...]

    @classmethod
    def parse(cls, texts: Iterable[str]) -> Self:
        """From texts such as `22:00-07:00`.

        Raises:
            ConfigInvalid: A text has another form, or a span has no length.
        """
        return cls(tuple(_span(text) for text in texts))

    def is_quiet(self, now_local: datetime) -> bool:
        """Whether a time lies in one of the spans.

        Args:
            now_local: The local time, as people there read it from the clock.
        """
        minute = now_local.hour * _MINUTES + now_local.minute
        return any(span.has(minute) for span in self.spans)


def _span(text: str) -> _Span:
    found = QUIET_SPAN.fullmatch(text)
    if found is None or found["start"] == found["end"]:
        raise ConfigInvalid(
            f"{_SETTING}: {text[:40]!r} is no part of the day; write '22:00-07:00', or '00:00-24:00' for all of it.",
            setting=_SETTING,
        )
    return _Span(_minute(found["start"]), _minute(found["end"]))


def _minute(text: str) -> int:
    hours, minutes = text.split(":")
    return int(hours) * _MINUTES + int(minutes)
