"""The outcome of a run, and why, in one line for the log and for the person who looks after the reviewers.

One reason is a provider's quota: whether a program says that its provider takes no more requests, and how long that
lasts. The words are those of Claude Code, Codex, Gemini CLI, opencode and the services behind them. They count only
where no model writes: in an error of the program's own events, on the standard error of a program without an answer,
and, where it failed, on standard output. A model writes about the change, and a change can have it write anything.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from enum import StrEnum
from itertools import islice
from typing import Final, NamedTuple
from zoneinfo import ZoneInfo

from tandem.core.visible import visible_line
from tandem.pool.reviewers import Finished
from tandem.pool.reviewers.providers.output import parsed
from tandem.pool.reviewers.verdicts import SCHEMA, ReviewerAnswer, Unreadable
from tandem.pool.rules import NOT_LOGGED_IN
from tandem.present.words import duration

LAST_LINE_LENGTH: Final = 300
_REASON_LENGTH = 600

_TERMINAL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_SEE_LOG = "See its output: `tandem reviewers logs`."
_LOGIN = re.compile(
    r"not logged in|/login\b|log ?in again|auth(?:entication)? method|\b401\b|unauthori[sz]ed|unauthenticated"
    r"|authentication(?: has)? (?:failed|error|required)|authentication_error|ProviderAuthError"
    r"|(?:invalid|incorrect|missing|no) (?:x-)?api[ -]key|api key (?:not|is not|is missing)|token (?:has |is )?expired",
    re.IGNORECASE,
)
"""What client programs say of a login or key that is missing, or counts no more."""


class Outcome(StrEnum):
    """How a reviewer's run ended. Only a verdict changes the review."""

    VERDICT = "verdict"
    """The program answered, and the answer counts."""
    NO_VERDICT = "no_verdict"
    """The program ended in order and said nothing."""
    UNREADABLE = "unreadable"
    """It said something that is no answer, or an answer to another question."""
    TIMEOUT = "timeout"
    """It took too long, or was silent for too long."""
    CRASHED = "crashed"
    """It ended with an error, or by a signal."""
    CANCELLED = "cancelled"
    """It was ended because its verdict was not wanted any more."""


_ENDED_BY_US: dict[str, Outcome] = {
    "cancelled": Outcome.CANCELLED,
    "timeout": Outcome.TIMEOUT,
    "silence": Outcome.TIMEOUT,
    "too_much_output": Outcome.UNREADABLE,
}


def outcome_of(finished: Finished, answer: ReviewerAnswer | Unreadable | None, error: str | None = None) -> Outcome:
    """What became of a run. How the program ended counts first: no answer makes up for a failure.

    Args:
        finished: How the program ended.
        answer: What `read_answer` made of its words, or raised; None if it wrote none at all.
        error: What the program itself says that went wrong.
    """
    if finished.ended_by != "itself":
        return _ENDED_BY_US[finished.ended_by]
    if finished.exit_code != 0 or (answer is None and error is not None):
        return Outcome.CRASHED
    if answer is None:
        return Outcome.NO_VERDICT
    return Outcome.VERDICT if isinstance(answer, ReviewerAnswer) and not finished.output_was_cut else Outcome.UNREADABLE


def one_line(text: str, most: int = _REASON_LENGTH) -> str:
    """A text as one line of at most so many characters, with nothing that a terminal or a page would act on."""
    shown = visible_line(" ".join(_TERMINAL_SEQUENCE.sub("", text).split()))
    return shown if len(shown) <= most else f"{shown[: most - 1]}…"


def last_line(stderr: bytes) -> str:
    """The last line of a program's complaints that says something."""
    return next(complaints(stderr), "")


def complaints(stderr: bytes) -> Iterator[str]:
    """The lines of a program's standard error that say something, the last one first."""
    lines = reversed(stderr.decode("utf-8", "backslashreplace").splitlines())
    return filter(None, (one_line(line, LAST_LINE_LENGTH) for line in lines))


def lacks_login(finished: Finished, error: str | None) -> bool:
    """Whether a program that failed says that its login or key is missing, or counts no more."""
    return _LOGIN.search(error or last_line(finished.stderr_tail)) is not None


def reason_of(
    outcome: Outcome,
    finished: Finished,
    answer: ReviewerAnswer | Unreadable | None,
    error: str | None = None,
) -> str:
    """What to say of a run that brought no answer and was not cancelled.

    Args:
        outcome: What `outcome_of` says of it.
        finished: How the program ended.
        answer: Its words as an answer, or the refusal of them.
        error: What the program itself says that went wrong.
    """
    match outcome:
        case Outcome.TIMEOUT:
            return _too_slow(finished)
        case Outcome.CRASHED:
            return crash_reason(finished, error)
        case Outcome.UNREADABLE:
            return _unreadable(finished, answer)
        case _:
            return f"The program ended in order and gave no answer. {_SEE_LOG}"


def _too_slow(finished: Finished) -> str:
    ran = duration(finished.seconds)
    if finished.ended_by == "silence":
        return (
            f"The program hung: it fell silent, and was ended {ran} after its start. {_SEE_LOG} A"
            " model that thinks for long needs a longer silence_seconds."
        )
    if not finished.stdout and not finished.stderr_tail:
        return f"The program said nothing and was ended after {ran}. See whether its service answers."
    return f"The program was ended after {ran}. {_SEE_LOG} Give it more time, or less to do."


def crash_reason(finished: Finished, error: str | None) -> str:
    """Why a program failed: in its own words where it has some among its events, else by its last complaint."""
    said = one_line(error, LAST_LINE_LENGTH) if error else last_line(finished.stderr_tail)
    if lacks_login(finished, error):
        return f"{NOT_LOGGED_IN}: {said}"
    code = finished.exit_code
    how = f"by signal {-code}" if code is not None and code < 0 else f"with status {code}"
    return f"The program ended {how}: {said}" if said else f"The program ended {how}. {_SEE_LOG}"


def _unreadable(finished: Finished, answer: ReviewerAnswer | Unreadable | None) -> str:
    if finished.ended_by == "too_much_output":
        return f"The program wrote without end and was ended. {_SEE_LOG}"
    if finished.output_was_cut:
        return f"The program wrote more than is kept, so that its answer may not be whole. {_SEE_LOG}"
    return one_line(f"The program's answer cannot be used: {answer}")


# ------------------------------------------------------------------------------------------------- quotas

_WEEK_SECONDS: Final = 7 * 86_400
_MOMENT: Final = 1_000_000_000
"""Seconds: so large a number is a moment, not a length."""

_LINES, _LINES_OF_TRIES = 5, 20
"""Of standard error: a program that was ended while it tried again may have written where it was in its code, too."""
_PLAIN_LENGTH = 500
"""Characters: what a program says instead of an answer is short."""
_ANSWER_FIELDS = frozenset(SCHEMA["properties"])

_LATE_SECONDS = 600
"""A time of day that was so long ago is not tomorrow's."""

_SAYS_SO = re.compile(
    # At the start of a statement, and not the name of a file or of a test: elsewhere the words are about something.
    r"(?:^|[:;,.!?({\[|\"][\s\\\"]*|\b(?:error|failed|warn(?:ing)?|status|code|http(?:/[\d.]+)?)[\"'\\ :=(]{0,6})"
    r"(?:429[ :-]*(?:too many|\{)|too many requests|rate[ -]?limited|rate_limit_error|insufficient_quota"
    r"|(?:[\w-]+ ){0,2}(?:rate|usage|session|hourly|daily|weekly|monthly|(?:\d-)?hour|request)[ _-]limit[ _-]"
    r"(?:reached|exceeded)"
    r"|(?:your )?quota[ _](?:exceeded|exhausted|resets|will reset)|resource[ _](?:has been )?exhausted"
    r"|you(?:'ve| have)? (?:hit|reached|exceeded|exhausted) (?:your|the)"
    r" (?:(?!context|size|length|input|output|memory|buffer)[\w-]+ ){0,3}(?:limits?|quota|capacity)"
    r"|(?:this )?requests? [^\"]{0,150}?exceed(?:ed)? (?:[\w'-]+ ){0,4}rate limit"
    r"|(?:the )?usage limit has been reached"
    r"|retry[ _-]?after\b)(?![\w/-]|\.\w|::)"
    r"|(?:status|code|error|http(?:/[\d.]+)?)[\"'\\ :=(]{0,6}429\b(?!\.\w)|^\W*429(?:[:.,;]\s|\W*$)",
    re.IGNORECASE,
)
_QUOTES = re.compile(r"\s*(?:[+>@✗✖×●✘-]|✕(?!\s*\[)|FAIL(?:ED)?\b|not ok\b)")
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
    if found is None and by_itself and _is_plain(text or "") and (said := _quota((text or "").splitlines()[::-1], now)):
        return said._replace(seconds=0)
    return found


def _is_plain(text: str) -> bool:
    """Whether words in place of an answer are a program's own: short, and no answer, whole or cut.

    A service's error in JSON has none of an answer's fields.
    """
    if len(text) > _PLAIN_LENGTH:
        return False
    found = parsed(text.encode("utf-8", "surrogateescape"))
    return found.keys().isdisjoint(_ANSWER_FIELDS) if found else not text.lstrip("` \n").startswith(("{", "json"))


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
