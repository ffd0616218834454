"""The outcome of a run, and why, in one line for the log and for the person who looks after the reviewers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import StrEnum
from typing import Final

from tandem.core.visible import visible_line
from tandem.pool.reviewers import Finished
from tandem.pool.reviewers.verdicts import ReviewerAnswer, Unreadable
from tandem.pool.rules import NOT_LOGGED_IN
from tandem.present.words import duration

LAST_LINE_LENGTH: Final = 300
_REASON_LENGTH = 600

_TERMINAL_SEQUENCE = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_SEE_LOG = "See what it wrote: `tandem reviewers logs`."
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
    """It said something that is no answer, or not to what it was asked."""
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
