"""The checks of a round on its page: what each came to, and what the gate makes of them; and the log of one."""

from __future__ import annotations

import hashlib
import shlex
from collections import Counter
from dataclasses import dataclass
from urllib.parse import quote

from tandem.present.facts import worded
from tandem.reviews.check_contract import LOG_BYTES, CheckLog, CheckView
from tandem.rulings.trust import CHECKS_FILE
from tandem.web.page import PageRequest, PageResponse, PageRoute, address
from tandem.web.review.view import ReviewView

_LOOKS = {
    "queued": ("○", "waiting"),
    "running": ("◔", "running"),
    "passed": ("✓", "passed"),
    "failed": ("✗", "failed"),
    "timeout": ("✗", "timed out"),
    "error": ("!", "error"),
    "skipped": ("–", "not run"),
}
"""A mark for each status, and words."""
_SHORT = 12
_QUIET = frozenset({"passed", "skipped"})
_UNFINISHED = frozenset({"queued", "running"})


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check.

    Attributes:
        check: The check.
        log: The address of its log; None if it has none.
        fold: What names the fold of that log; another one after another run.
    """

    check: CheckView
    log: str | None
    fold: str

    @property
    def look(self) -> tuple[str, str]:
        """A sign for its status, and words."""
        return _LOOKS[self.check.status]

    @property
    def command(self) -> str:
        """The command, as a shell would take it."""
        return shlex.join(self.check.command)

    @property
    def took(self) -> str:
        """How long it ran; empty if it did not."""
        return "" if self.check.seconds is None else worded("duration", self.check.seconds)

    @property
    def ended(self) -> str:
        """How its program ended; empty where its status has said so."""
        number = self.check.exit_status
        if not number:
            return ""
        return f"exit status {number}" if number > 0 else f"ended by signal {-number}"

    @property
    def ran_on(self) -> str:
        """The commit of the base branch that it ran on, and where that is by now; empty if it did not run."""
        check = self.check
        if check.commit is None or check.branch is None or check.tip is None:
            return "" if check.commit is None else "on its base, as it came"
        since = f", which has moved on to {check.moved_to[:_SHORT]}" if check.moved_to else ""
        return f"on {check.branch} at {check.tip[:_SHORT]}{since}"

    @property
    def is_file(self) -> bool:
        """Whether it stands for checks that are not known, as their file cannot be used."""
        return self.check.name == CHECKS_FILE

    @property
    def is_over(self) -> bool:
        """Whether there is something to be run again."""
        return self.check.status not in _UNFINISHED and self.check.status != "skipped" and not self.is_file

    @property
    def wants_trust(self) -> bool:
        """Whether it is for a person to look at the file."""
        return self.is_file and "tandem trust" in (self.check.reason or "")


@dataclass(frozen=True, slots=True)
class RoundChecks:
    """The checks of the round that is shown.

    Attributes:
        rows: Each of them.
        gate: Why the gate stays closed for the current round with any verdict; empty if no check keeps it so.
        can_run: Whether the person may have them run again, besides what their access token is for.
    """

    rows: tuple[CheckRow, ...]
    gate: str
    can_run: bool

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is left to look at."""
        return all(row.check.status in _QUIET and not row.is_file and not row.check.doubt for row in self.rows)

    @property
    def passed(self) -> str:
        """How many of those that run have passed."""
        run = [row.check.status for row in self.rows if row.check.status != "skipped"]
        return f"{run.count('passed')} of {len(run)} passed" if run else "not run"

    @property
    def summary(self) -> str:
        """How many there are of each status."""
        counts = Counter(row.look for row in self.rows)
        return ", ".join(f"{counts[look]} {look[1]}" for look in _LOOKS.values() if counts[look])


def checks_of(view: ReviewView) -> RoundChecks:
    """The checks of the round that is shown."""
    is_over = view.state == "rejected" or (view.state == "closed" and view.status.outcome != "approved")
    can_run = bool(view.person) and view.is_current and not is_over
    return RoundChecks(tuple(_row(view, one) for one in view.review.checks), "" if is_over else _gate(view), can_run)


def _row(view: ReviewView, check: CheckView) -> CheckRow:
    run = f"{check.round} {check.name} {check.started_at} {check.finished_at}"
    fold = "check-log-" + hashlib.sha256(run.encode()).hexdigest()[:12]
    there = address(f"{view.base}/checks/{quote(check.name, safe='')}", round=check.round)
    return CheckRow(check, there if check.has_log else None, fold)


def _gate(view: ReviewView) -> str:
    outcome = view.status.checks
    if outcome in (None, "passed"):
        return ""
    held = [one for one in view.review.checks if one.required and (one.doubt or one.status != "passed")]
    names = [one.name for one in held if outcome == "pending" or one.status not in _UNFINISHED]
    if not view.is_current:
        names = []
    elif all(one.doubt for one in held):
        return "The gate stays closed: what a required check ran on does not count yet."
    if CHECKS_FILE in names:
        return f"The gate stays closed: the checks of {CHECKS_FILE} cannot run."
    if not names:
        which = "a required check"
    elif len(names) == 1:
        which = f"the required check “{names[0]}”"
    else:
        which = f"{len(names)} required checks"
    has = "have" if len(names) > 1 else "has"
    if outcome == "pending":
        return f"The gate stays closed until {which} {has} passed."
    return f"The gate stays closed: {which} {has} not passed."


async def log(request: PageRequest) -> PageResponse:
    """The end of what a check wrote; a page of its own, of which the review's page takes the log.

    Raises:
        NotFound: There is no such review, round or check.
    """
    found: CheckLog = await request.call(
        "get_check_log",
        review_id=request.path("review_id"),
        name=request.path("name"),
        round=request.number("round"),
    )
    check = found.check
    row = CheckRow(check, None, "")
    values = {
        "row": row,
        "log": found.log.replace("\r\n", "\n"),
        "is_cut": len(found.log.encode()) >= LOG_BYTES,
        "back": address(f"/reviews/{check.review_id}", round=check.round),
    }
    return PageResponse("review/check_log.html", values, heavy=True)


ROUTES = (PageRoute("/reviews/{review_id}/checks/{name}", log),)
