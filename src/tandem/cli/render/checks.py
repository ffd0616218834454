"""Checks in words: in a table, in a line, and with the end of what one wrote."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from typing import TYPE_CHECKING

from tandem.cli.render.parts import STYLES, block, listing, plain, renders
from tandem.present.facts import worded
from tandem.present.text import Group, Text
from tandem.rulings.trust import CHECKS_FILE

if TYPE_CHECKING:
    from tandem.present.text import Drawable
    from tandem.reviews.check_contract import CheckList, CheckLog, CheckReported, CheckView

_WORDS = {"queued": "waits", "running": "runs", "timeout": "timed out"}
_SHORT_ID = 7
_ENDED_BADLY = frozenset({"failed", "timeout", "error"})
COMES_TO = {
    "pending": "A required check has not ended yet; until it has passed, the gate stays closed.",
    "failed": "A required check has not passed: the gate stays closed.",
    "doubtful": "Every required check has passed, and not all of them count: the gate stays closed.",
    "passed": "Every required check has passed.",
}


def failed(check: CheckView) -> bool:
    """Whether it ended, and not well."""
    return check.status in _ENDED_BADLY


def status(check: CheckView) -> Text:
    """Where it is."""
    return Text(_WORDS.get(check.status, check.status), style=STYLES.get(check.status, ""))


def why(check: CheckView) -> str:
    """What its status leaves open; empty if nothing."""
    if check.doubt is not None:
        return f"does not count: it {check.doubt}"
    if check.reason is not None or check.status != "failed" or check.exit_status is None:
        return check.reason or ""
    if check.exit_status < 0:
        return f"ended by signal {-check.exit_status}"
    return f"exit status {check.exit_status}"


def took(check: CheckView) -> str:
    """How long it ran; empty if it did not."""
    return "" if check.seconds is None else worded("duration", check.seconds)


def ran_on(check: CheckView) -> str:
    """The commit of the base branch that it ran on, and whether that has moved on since; empty if it did not run."""
    if check.commit is None:
        return ""
    if check.branch is None or check.tip is None:
        return "its base"
    since = f", now {check.moved_to[:_SHORT_ID]}" if check.moved_to else ""
    return f"{check.branch} {check.tip[:_SHORT_ID]}{since}"


def line(check: CheckView) -> str:
    """All of it as a remark."""
    if check.name == CHECKS_FILE:
        return f"the checks of {CHECKS_FILE} do not run: {why(check)}"
    facts = (f" ({seconds})" if (seconds := took(check)) else "", f": {reason}" if (reason := why(check)) else "")
    return f"check '{check.name}' {status(check)}{''.join(facts)}"


def table(checks: Iterable[CheckView], *, with_review: bool = False) -> Drawable:
    """Checks, one a row."""
    rows = [
        (
            *((check.review_id, str(check.round)) if with_review else ()),
            plain(check.name, "bold"),
            status(check),
            "required" if check.required else "",
            took(check),
            ran_on(check),
            why(check),
        )
        for check in checks
    ]
    columns = "check, status!, needed!, took!, on, why"
    return listing(f"review!, round!, {columns}" if with_review else columns, rows)


@renders
def _(answer: CheckList) -> Drawable:
    if not answer.checks:
        return Text("No checks.", style="dim")
    if answer.outcome is None:
        return table(answer.checks, with_review=True)
    shown = [table(answer.checks), Text(COMES_TO[answer.outcome], style=STYLES[answer.outcome])]
    told = next((check for check in answer.checks if failed(check) and check.has_log), None)
    if told is not None:
        shown.append(Text(f"Read its output: {log_command(told)}", style="dim"))
    return Group(*shown)


@renders
def _(answer: CheckReported) -> Drawable:
    return table([answer.check], with_review=True)


@renders
def _(answer: CheckLog) -> Drawable:
    check = answer.check
    head = Text.assemble(plain(check.name, "bold"), "  ", status(check))
    for fact in (took(check), why(check)):
        head.append(plain(f"  {fact}", "dim") if fact else Text(""))
    return Group(head, block(answer.log.rstrip("\n")) if answer.log else Text("It wrote nothing.", style="dim"))


def log_command(check: CheckView) -> str:
    """The command that shows what a check wrote."""
    return f"tandem checks log {check.review_id} {shlex.quote(check.name)}"
