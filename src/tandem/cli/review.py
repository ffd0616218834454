"""`tandem review …`: operations; and without one, at a terminal, the screen for a person."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Any

from tandem.bridge.operations import OPERATIONS
from tandem.cli import persons
from tandem.cli.calls import Inputs, call, given, present
from tandem.cli.connection_options import (
    BrokerOption,
    ConnectionOptions,
    ProjectOption,
    TimeoutOption,
    WaitOption,
)
from tandem.cli.declared import Argument, Misused, Option, without
from tandem.cli.terminal import Exit, progress
from tandem.core.platforms import how_to_add
from tandem.errors import Forbidden, InvalidInput, Unavailable
from tandem.present.words import draft_name

if TYPE_CHECKING:
    from tandem.bridge.session import Session
    from tandem.contract.request import StatusName
    from tandem.reviews.rules import Category, Priority, Side


def listed(  # noqa: PLR0913 an option each
    *,
    all_: Annotated[bool, Option("--all", help="Closed ones too.")] = False,
    closed: Annotated[bool, Option(help="Closed ones only.")] = False,
    status: Annotated[StatusName | None, Option(help="Only reviews in this state.")] = None,
    category: Annotated[Category | None, Option(help="Only reviews of this kind.")] = None,
    priority: Annotated[Priority | None, Option(help="Only reviews of this priority.")] = None,
    turn: Annotated[Side | None, Option(help="Only reviews where it is this side's turn.")] = None,
    attention: Annotated[bool | None, Option(help="Only those that do, or do not, wait for a person.")] = None,
    limit: Annotated[int, Option(min=1, help="Rows a page.")] = 50,
    page: Annotated[str | None, Option(help="The token with which an answer says how the list goes on.")] = None,
    cursor: Annotated[str | None, Option(help="Wait for changes after this place.")] = None,
    wait: WaitOption = False,
    timeout: TimeoutOption = None,
    options: ConnectionOptions,
) -> Exit:
    """List open reviews, newest activity first. With a filter such as --status: in the order of the queue."""
    if all_ + closed + (status is not None) > 1:
        raise Misused("Choose one of --all, --closed and --status.")
    filters = given(category=category, priority=priority, turn=turn, attention=attention)
    order = "queue" if filters or status is not None else "activity"
    shown = status or ("closed" if closed else None if all_ else "open")
    arguments = given(status=shown, order=order, limit=limit, page=page, cursor=cursor) | filters
    return call(OPERATIONS["list_reviews"], arguments, options, wait=wait, timeout=timeout)


async def screen(
    *,
    name: Annotated[
        str | None, Option("--as", metavar="NAME", help="Who decides; default: the name you gave the first time.")
    ] = None,
    project: ProjectOption = None,
    broker: BrokerOption = None,
) -> Exit:
    """Open a screen with what waits for you: changes, discussion, verdicts. Its keys are under ?."""
    # Agents give verdicts by the other commands, each under its own name. A decision made here counts as a person's.
    persons.refuse_agents(
        "Here a person reviews in their own name; agents review with 'tandem review claim' and the others."
    )
    if not is_at_terminal():
        raise Forbidden(
            "The screen needs a terminal for its input and its output. Without one, 'tandem review list' and the"
            " other commands that 'tandem review --help' lists do the same.",
            needed="terminal",
        )
    # Late: nothing else needs Textual, which takes longer to import than most commands take, and is an extra.
    try:
        from tandem.cli.review_screen import open_screen  # see above
    except ImportError as exc:
        raise Unavailable(
            "The terminal screen needs a library that is not installed. Install it with:"
            f" {how_to_add('screen')}; 'tandem open' shows the same in a browser."
        ) from exc

    person = persons.remembered() if name is None else persons.checked(name)
    return await open_screen(ConnectionOptions(broker, project, person), person)


ReviewArgument = Annotated[str, Argument(metavar="REVIEW", completes="review")]
RoundOption = Annotated[
    int | None,
    Option("--round", metavar="N", min=1, help="Only if this is the current round; default: the one shown to you."),
]
FindingsOption = Annotated[
    str | None,
    Option(
        metavar="JSON",
        help='What you found: [{"file": "a.py", "line": 3, "severity": "minor", "claim": "…"}]; @FILE, -.',
    ),
]

WithoutDraftsOption = Annotated[
    bool, Option(help="Decide also where you wrote something and did not send it; it stays a draft.")
]


@without("project")
def approve(
    review_id: ReviewArgument,
    *,
    reason: Annotated[str | None, Option("-m", "--reason", metavar="TEXT", help="What convinced you.")] = None,
    findings: FindingsOption = None,
    answers: Annotated[
        str | None,
        Option(
            metavar="JSON", help='Of earlier findings: [{"finding_id": "fn_8w1x", "answer": "verified"}]; @FILE, -.'
        ),
    ] = None,
    number: RoundOption = None,
    without_drafts: WithoutDraftsOption = False,
    options: ConnectionOptions,
) -> Exit:
    """Approve a review in your own name ('tandem me'); no one approves their own work."""
    said = given(verdict="approved", reason=reason, round=number, findings=findings, answers=answers)
    return _decide(review_id, said, options, without_drafts=without_drafts)


@without("project")
def reject(
    review_id: ReviewArgument,
    *,
    reason: Annotated[str, Option("-m", "--reason", metavar="TEXT", help="Why, for the proposer.")],
    findings: FindingsOption = None,
    number: RoundOption = None,
    without_drafts: WithoutDraftsOption = False,
    options: ConnectionOptions,
) -> Exit:
    """Reject a review for good, in your own name. To ask for changes: 'tandem review verdict'."""
    said = given(verdict="rejected", reason=reason, round=number, findings=findings)
    return _decide(review_id, said, options, without_drafts=without_drafts)


def _decide(review_id: str, verdict: dict[str, Any], options: ConnectionOptions, *, without_drafts: bool) -> Exit:
    """Claim a review and give the verdict; if that is refused, everything is as before."""
    inputs = Inputs()
    if reason := verdict.get("reason"):
        verdict["reason"] = inputs.text("--reason", reason)
    for name in verdict.keys() & {"findings", "answers"}:
        verdict[name] = inputs.json(f"--{name}", verdict[name])
    reviewer = persons.required_caller(options.agent)
    with options.session() as session, progress("review verdict"):
        persons.refuse(session, review_id)
        if reviewer and not without_drafts:
            _refuse_drafts(session, review_id, reviewer)
        stated = given(review_id=review_id, claim=True, reviewer_id=reviewer)
        envelope = persons.send(session, "submit_verdict", {**stated, **verdict})
    return present(envelope, "submit_verdict", as_json=options.as_json)


def _refuse_drafts(session: Session, review_id: str, person: str) -> None:
    """Go on only if the person has sent everything that they wrote about a review.

    Raises:
        InvalidInput: They have not.
    """
    drafts = session.data("list_drafts", {"review_id": review_id, "person": person})["drafts"]
    if drafts:
        raise InvalidInput(
            f"You wrote something about this review and did not send it: {'; '.join(map(draft_name, drafts))}. Send it"
            f" on its page ('tandem open {review_id}'), or decide without it: --without-drafts",
            review_id=review_id,
        )


def is_at_terminal() -> bool:
    """Whether standard input and output both are a terminal."""
    return sys.stdin.isatty() and sys.stdout.isatty()
