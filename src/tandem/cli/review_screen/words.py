"""What the screen says in words: states, reasons to look, and what helps after a refusal."""

from __future__ import annotations

from datetime import UTC, datetime

from rich.text import Text

from tandem.cli.render.parts import STATUS_STYLES, ago
from tandem.cli.terminal import visible
from tandem.client.connection import Unreachable
from tandem.errors import TandemError

ELSEWHERE = "This is a reviewer pool: 'tandem reviewers list' shows it, 'tandem reviewers --help' what can be done."
VERDICTS = {
    "approved": "Approve",
    "changes_requested": "Request changes",
    "rejected": "Reject",
    "comment": "Comment",
}
GIVEN = {
    "approved": "approved",
    "changes_requested": "requested changes",
    "rejected": "rejected",
    "comment": "commented",
}
_NEXT = {
    "STALE_CLAIM": "What you typed is kept. If it is still open, sending it again claims it anew.",
    "STALE_ROUND": "What you typed is kept. Go back (Escape), look at the new round (]), and come here again.",
    "ALREADY_CLAIMED": "What you typed is kept. It can be yours once they have released it.",
    "TURN_VIOLATION": "What you typed is kept. You can send it once the other side has answered.",
    "SELF_APPROVAL": "Somebody else has to decide; x releases your claim.",
    "INVALID_TRANSITION": "What you typed is kept. The review has gone on: see what it is now.",
}


def state(status: str, outcome: str | None) -> Text:
    """A review's state in its colour."""
    text = Text(visible(status).replace("_", " "), style=STATUS_STYLES.get(status, ""))
    return text.append(f" ({visible(outcome)})") if outcome else text


def refusal(error: TandemError) -> str:
    """A refusal with what helps at the screen."""
    following = _NEXT.get(error.code)
    if isinstance(error, Unreachable):
        following = "What you typed is kept. Try again once it is back."
    return f"{error.message}\n{following}" if following else error.message


def since(at: str) -> str:
    """How long something has been so: `3 min`."""
    return ago(at).removesuffix(" ago")


def lease(until: str | None, *, now: datetime | None = None) -> str:
    """How long a claim lasts still."""
    if until is None:
        return ""
    left = (datetime.fromisoformat(until) - (now or datetime.now(tz=UTC))).total_seconds()
    return f"claim ends {ago(until, now=now)}" if left > 0 else "claim has ended"
