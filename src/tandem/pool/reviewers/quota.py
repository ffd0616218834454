"""A provider's quota: whether a program says that its provider takes no more requests, and how long that lasts.

The words are those of Claude Code, Codex, Gemini CLI, opencode and the services behind them. They count only where no
model writes: in an error of the program's own events, on the standard error of a program without an answer, and, where
it failed, on standard output. What a model writes is about the change, and a change can have it write anything.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from tandem.pool.reviewers import Finished
from tandem.pool.reviewers.outcomes import LAST_LINE_LENGTH, complaints, one_line

_WEEK_SECONDS: Final = 7 * 86_400
_MOMENT: Final = 1_000_000_000
"""Seconds: so large a number is a moment, not a length."""

_LINES, _LINES_OF_TRIES = 5, 20
"""Of standard error: a program that was ended while it tried again may have written where it was in its code, too."""
_PLAIN_LENGTH = 500
"""Characters: what a program says instead of an answer is short."""

_LATE_SECONDS = 600
"""A time of day that was so long ago is not tomorrow's."""

_SAYS_SO = re.compile(
    # At the start of a statement, and not the name of a file or of a test: elsewhere the words are about something.
    r"(?:^|[:;,.!?({\[|\"][\s\\\"]*|\b(?:error|failed|warn(?:ing)?|status|code|http(?:/[\d.]+)?)[\"'\\ :=(]{0,6})"
    r"(?:429[ :-]*(?:too many|\{)|too many requests|rate[ -]?limited|rate_limit_error|insufficient_quota"
    r"|(?:[\w-]+ ){0,2}(?:rate|usage|session|hourly|daily|weekly|monthly|(?:\d-)?hour|request)[ _-]limit[ _-]"
    r"(?:reached|exceeded)"
    r"|(?:your )?quota[ _](?:exceeded|exhausted|resets|will reset)|resource[ _](?:has been )?exhausted"
    r"|you(?:'ve| have)? (?:hit|reached|exceeded|exhausted) (?:your|the) (?:[\w-]+ ){0,3}(?:limits?|quota|capacity)"
    r"|(?:this )?requests? [^\"]{0,150}?exceed(?:ed)? (?:[\w'-]+ ){0,4}rate limit"
    r"|(?:the )?usage limit has been reached"
    r"|retry[ _-]?after\b)(?![\w/-]|\.\w|::)"
    r"|(?:status|code|error|http(?:/[\d.]+)?)[\"'\\ :=(]{0,6}429\b(?!\.\w)|^\W*429(?:[:.,;]\s|\W*$)",
    re.IGNORECASE,
)
_QUOTES = re.compile(r"\s*(?:[+>@✗✖×●✘-]|FAIL(?:ED)?\b|not ok\b)")
"""A line of a difference, of a quotation, or of a test that failed."""
_UNITS: Final = {"s": 1, "m": 60, "h": 3600, "d": 86_400}
_MONTHS: Final = "janfebmaraprmayjunjulaugsepoctnovdec"
_SPAN = re.compile(
    r"(?P<number>\d+(?:\.\d+)?(?:e\+?\d+)?)\s*(?P<unit>ms|milliseconds?|s(?:ec(?:ond)?s?)?|m(?:in(?:ute)?s?)?"
    r"|h(?:(?:ou)?rs?)?|d(?:ays?)?)(?![a-z])[\s,]*(?:and\s+)?",
    re.IGNORECASE,
)
_NAMED = re.compile(
    r"(?:retry(?:ing)?|again|resets?|wait)(?P<within>[ _-]?(?:after|in|delay|for))?(?:[ _-]seconds)?[\"'\\ :=]*"
    r"(?P<length>\d.*)",
    re.IGNORECASE,
)
_EPOCH = re.compile(r"(?:resets?[ _]?at|reached\|)[\"'\\ :=]*(?P<seconds>\d{10})(?:\d{3})?\b", re.IGNORECASE)
_DATED = re.compile(
    r"(?:resets?|again|until|after|at)[\"'\\ :=a-z]{0,12}(?:(?P<iso>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d+)?)?"
    r"(?:Z|[+-]\d\d:\d\d)?)|(?P<http>[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} [\d:]{8} GMT))",
    re.IGNORECASE,
)
_CLOCK = re.compile(
    r"(?:resets?|again)\s+(?:(?:at|on)\s+)?(?:(?P<month>[a-z]{3})[a-z]*\.?\s+(?P<day>\d{1,2})(?:st|nd|rd|th)?,?\s+"
    r"(?:(?P<year>\d{4}),?\s+)?(?:at\s+)?)?(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?\s?(?P<half>[ap]m)?\b"
    r"(?:\s*\(?(?P<zone>[a-z_]+/[a-z_/]+|UTC|GMT)\)?)?",
    re.IGNORECASE,
)


class Quota(NamedTuple):
    """What a program says of its provider's quota.

    Attributes:
        said: Its words, in a line.
        seconds: The wait that they name; 0 if they name none.
    """

    said: str
    seconds: float


def quota_in(finished: Finished, error: str | None, text: str | None, now: datetime | None = None) -> Quota | None:
    """The quota by which a run without a verdict failed; None if it failed otherwise.

    Args:
        finished: How the program ended.
        error: The error that it names itself: then nothing else counts.
        text: Its words instead of an answer. A model may have written it, so that the wait that it names does not
            count, nor any of it if the program ended in order.
        now: The time, with its zone.
    """
    if finished.ended_by in {"cancelled", "too_much_output"}:
        return None
    now = now or datetime.now().astimezone()
    if error is not None:
        return _quota([error], now)
    by_itself = finished.ended_by == "itself"
    if by_itself and finished.exit_code == 0 and text is not None:
        return None
    most = _LINES if by_itself else _LINES_OF_TRIES
    found = _quota([*islice(complaints(finished.stderr_tail), most)], now)
    plain = text is not None and len(text) <= _PLAIN_LENGTH and not text.lstrip("` \n").startswith(("{", "json"))
    if found is None and by_itself and plain and (said := _quota((text or "").splitlines()[::-1], now)):
        return said._replace(seconds=0)
    return found


def _quota(lines: list[str], now: datetime) -> Quota | None:
    lines = [line for line in lines if not _QUOTES.match(line)]
    found = [line for line in lines if _SAYS_SO.search(line)]
    if not found:
        return None
    # The wait may stand in a line of its own.
    waits = ((wait_seconds(line, now), line) for line in (*found, *lines))
    seconds, line = next(((seconds, line) for seconds, line in waits if seconds), (0.0, found[0]))
    said = line if line in found else found[0]
    return Quota(one_line(said, LAST_LINE_LENGTH), min(seconds, _WEEK_SECONDS))


def wait_seconds(text: str, now: datetime) -> float | None:
    """The wait that a text names, in seconds; None if it names none, or one that is over."""
    for found in _NAMED.finditer(text):
        if seconds := _length(found["length"], bare=found["within"] is not None):
            return seconds
    for moment in (*_moments(text), *(_of_clock(found, now) for found in _CLOCK.finditer(text))):
        if moment is not None and (seconds := (moment - now).total_seconds()) > 0:
            return seconds
    return None


def _length(text: str, *, bare: bool) -> float | None:
    """A length of time at the start of a text: `6m0s`, `2 days 3 hours`, `120`."""
    seconds, at = 0.0, 0
    while found := _SPAN.match(text, at):
        unit = found["unit"].lower()
        seconds += float(found["number"]) * (0.001 if unit.startswith(("ms", "milli")) else _UNITS[unit[0]])
        at = found.end()
    number = re.match(r"\d+(?:\.\d+)?(?:e\+?\d+)?(?![\de:.]|\s?[ap]m\b|-\d)", text, re.IGNORECASE)
    return seconds or (float(number[0]) if bare and number and float(number[0]) < _MOMENT else None)


def _moments(text: str) -> list[datetime | None]:
    found = [datetime.fromtimestamp(int(one["seconds"]), UTC) for one in _EPOCH.finditer(text)]
    return [*found, *(_dated(one) for one in _DATED.finditer(text))]


def _dated(found: re.Match[str]) -> datetime | None:
    try:
        if found["http"]:
            return parsedate_to_datetime(found["http"])
        moment = datetime.fromisoformat(found["iso"].upper())
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def _of_clock(found: re.Match[str], now: datetime) -> datetime | None:
    """The moment of a time of day, perhaps with a date: in the zone that it names, else in this machine's."""
    if not (found["half"] or found["minute"]):
        return None
    half = (found["half"] or "").lower()
    hour = int(found["hour"]) % 12 + 12 * (half == "pm") if half else int(found["hour"])
    try:
        here = now.astimezone(ZoneInfo(found["zone"])) if found["zone"] else now
        moment = here.replace(hour=hour, minute=int(found["minute"] or 0), second=0, microsecond=0)
        if found["month"] is None:
            is_over = here - moment > timedelta(seconds=_LATE_SECONDS)
            return moment + timedelta(days=1) if is_over else moment
        month = _MONTHS.index(found["month"].lower()) // 3 + 1
        moment = moment.replace(year=int(found["year"] or here.year), month=month, day=int(found["day"]))
        years = int(found["year"] is None and here - moment > timedelta(days=180))
        return moment.replace(year=moment.year + years)
    except (ValueError, KeyError, OSError):
        # No such time, or no such zone on this machine.
        return None
