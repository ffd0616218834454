"""What stands above a review: what it is, where it stands, and whose it is."""

from __future__ import annotations

from collections.abc import Iterable

from rich.text import Text

from tandem.cli.review_screen import words
from tandem.cli.review_screen.reading import Reading
from tandem.cli.terminal import visible
from tandem.domain.answers import Proposal
from tandem.domain.hunks import parse
from tandem.domain.unusual import of_diff, of_text, unshown
from tandem.hooks.visible import visible_line

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


def headline(reading: Reading) -> Text:
    """What the change is for."""
    return Text(visible_line(reading.proposal.intent), no_wrap=True, overflow="ellipsis")


def lines(reading: Reading, person: str, since: int | None) -> Text:
    """Where it stands, in a line or two."""
    status, proposal = reading.status, reading.proposal
    first = Text().append_text(words.state(status.status, status.outcome))
    first.append(f"  {_round(reading, since)}  {visible_line(status.project)}  by {visible_line(proposal.agent_type)}")
    if proposal.author != proposal.agent_type:
        first.append(f" ({visible_line(proposal.author)})")
    if not proposal.validated:
        first.append("  not validated", style="yellow")
    second = Text(_held(reading, person))
    second.append(f"  {_NEXT.get(status.next_action, status.next_action)}")
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
        return f"yours, {words.lease(status.lease_expires_at)}."
    if reading.is_held:
        return f"with {visible_line(status.reviewer_id or 'a reviewer')}, {words.lease(status.lease_expires_at)}."
    if status.verdict and status.reviewer_id:
        given = words.GIVEN.get(status.verdict, status.verdict)
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
