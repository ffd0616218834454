"""What the screen says in words: states, refusals, and what stands above a review."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime

from rich.text import Text

from tandem.cli.render.parts import STATUS_STYLES, ago
from tandem.cli.review_screen.desk import Reading
from tandem.cli.terminal import visible
from tandem.client.connection import Unreachable
from tandem.domain.answers import Proposal
from tandem.domain.hunks import parse
from tandem.domain.unusual import of_diff, of_text, unshown
from tandem.errors import TandemError
from tandem.hooks.visible import visible_line

ELSEWHERE = "This is a reviewer pool: 'tandem reviewers list' shows it, 'tandem reviewers --help' what can be done."
OWN = "It is your own: somebody else gives the verdict."
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
_UNDECIDED = frozenset({"pending", "claimed", "in_review"})
_HELP = {
    "STALE_CLAIM": "What you typed is kept. If it is still open, sending it again claims it anew.",
    "STALE_ROUND": "What you typed is kept. Go back (Escape), look at the new round (]), and come here again.",
    "ALREADY_CLAIMED": "What you typed is kept. It can be yours once they have released it.",
    "TURN_VIOLATION": "What you typed is kept. You can send it once the other side has answered.",
    "SELF_APPROVAL": "Somebody else has to decide; x releases your claim.",
    "INVALID_TRANSITION": "What you typed is kept. The review has gone on: see what it is now.",
}
_NEXT = {
    "wait": "waits for its reviewer",
    "answer_message": "its proposer has to answer",
    "decide_counter_patch": "its proposer has to decide the counter-patch (+ accepts, - declines)",
    "revise": "its proposer has to revise it",
    "apply_and_close": "its proposer applies and closes it",
    "revert": "its proposer takes it back",
    "escalate": "a person has to decide how it goes on",
    "none": "it is over",
}


def state(status: str, outcome: str | None) -> Text:
    """A review's state in its colour."""
    text = Text(visible(status).replace("_", " "), style=STATUS_STYLES.get(status, ""))
    return text.append(f" ({visible(outcome)})") if outcome else text


def refusal(error: TandemError) -> str:
    """A refusal with what helps at the screen."""
    following = _HELP.get(error.code)
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


def headline(reading: Reading) -> Text:
    """What the change is for."""
    return Text(visible_line(reading.proposal.intent), no_wrap=True, overflow="ellipsis")


def lines(reading: Reading, person: str, since: int | None) -> Text:
    """Where it stands, in a line or two."""
    status, proposal = reading.status, reading.proposal
    first = Text().append_text(state(status.status, status.outcome))
    first.append(f"  {_round(reading, since)}  {visible_line(status.project)}  by {visible_line(proposal.agent_type)}")
    if proposal.author != proposal.agent_type:
        first.append(f" ({visible_line(proposal.author)})")
    if not proposal.validated:
        first.append("  not validated", style="yellow")
    second = Text(_held(reading, person))
    second.append(f"  {_NEXT.get(status.next_action, status.next_action)}")
    if reading.is_own(person) and status.status in _UNDECIDED:
        second.append(f"  {OWN}", style="yellow")
    if status.attention:
        second.append(f"  {visible_line(status.attention)}", style="bold red")
    return Text("\n").join((first, second))


def _round(reading: Reading, since: int | None) -> str:
    shown, current = reading.proposal.round, reading.status.round
    said = f"round {shown} of {current}" if current > 1 else f"round {shown}"
    if since is not None:
        said += f", what changed since round {since}"
    if shown != current:
        said += f": ] goes to round {shown + 1}"
    return said


def _held(reading: Reading, person: str) -> str:
    status = reading.status
    if reading.is_held_by(person):
        return f"yours, {lease(status.lease_expires_at)}."
    if reading.is_held:
        return f"with {visible_line(status.reviewer_id or 'a reviewer')}, {lease(status.lease_expires_at)}."
    if status.verdict and status.reviewer_id:
        given = GIVEN.get(status.verdict, status.verdict)
        return f"{visible_line(status.reviewer_id)} {given}."
    return "nobody holds it."


def unusual(proposal: Proposal) -> tuple[str, ...]:
    """What is named beside Approve."""
    if proposal.diff is None:
        found = of_text(proposal.path or "description", proposal.description or "")
    else:
        files = parse(proposal.diff)
        found = (*unshown(files, proposal.affected_files), *of_diff(files))
    return tuple(visible_line(one.line) for one in found)


def look_at(found: Iterable[str]) -> list[str]:
    """What is named, as lines of a dialog."""
    lines = [f"• {one}" for one in found]
    return ["Look at these before you decide:", *lines] if lines else []


def texts(reading: Reading) -> str:
    """The texts as Markdown: the description, or the whole text that is up for review; and the last reason."""
    status, proposal = reading.status, reading.proposal
    shown: list[str] = []
    if proposal.path is None:
        shown += ["# " + " ".join(visible(proposal.intent).split())]
    if status.verdict_reason and reading.is_current:
        shown += ["> **The last verdict:** " + visible(status.verdict_reason).replace("\n", "\n> ")]
    shown.append(visible(proposal.description or "*There is no description.*"))
    if proposal.path is None:
        shown.append(_table(reading))
    return "\n\n".join(part for part in shown if part)


def _table(reading: Reading) -> str:
    proposal = reading.proposal
    facts = (
        ("review", proposal.review_id),
        ("phase", proposal.phase),
        ("plan", proposal.plan),
        ("task", proposal.task),
        ("category", proposal.category),
        ("priority", proposal.priority),
        ("base", proposal.base_commit or proposal.base),
        ("follows", proposal.parent_id),
        ("followed by", ", ".join(proposal.child_ids)),
    )
    rows = [f"| {name} | {_cell(value)} |" for name, value in facts if value]
    return "\n".join(["| | |", "| --- | --- |", *rows])


def _cell(value: str) -> str:
    line = " ".join(visible(value).split())
    return "".join(f"\\{char}" if char in "\\`*_{}[]()#+-.!|<>~" else char for char in line)
