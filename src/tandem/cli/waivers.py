"""`tandem waive` and `tandem review settle`: a requirement that a person waives, and its review after the fact."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Literal

from tandem.cli import persons, shown
from tandem.cli.calls import given, present
from tandem.cli.connection_options import ConnectionOptions
from tandem.cli.declared import Argument, Misused, Option, without
from tandem.cli.review import ReviewArgument, RoundOption
from tandem.cli.terminal import Exit, progress
from tandem.rulings import proof
from tandem.rulings.policy import in_words

_DURATION = re.compile(r"([1-9][0-9]{0,2})([hdw])")
_UNITS = {"h": "hours", "d": "days", "w": "weeks"}


@without("project")
def waive(
    review_id: ReviewArgument,
    need: Annotated[
        str, Argument(metavar="NEED", help="As the policy has it: person, agent, agent:NAME, owner, review or checks.")
    ],
    *,
    until: Annotated[
        str, Option(metavar="TIME", help="When it is reviewed after the fact: 12h, 3d, 2w, or an ISO time.")
    ],
    reason: Annotated[str, Option("-m", "--reason", metavar="TEXT", help="Why it cannot wait; it is recorded.")],
    number: RoundOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Let a change go without something that the policy asks for: only for a person at a terminal.

    It stays owed, in the inbox and in audits, until somebody reviews it: 'tandem review settle REVIEW approved'.
    """
    persons.refuse_agents("A waiver lets a change through without all that the policy asks for.")
    by = persons.required_caller(options.agent)
    due = _due(until)
    with options.session() as session:
        status = session.data("get_review_status", {"review_id": review_id})
        current = status["round"]
        seen = number or persons.shown_round({"review_id": review_id, "waived_by": by})
        shown.ensure_current(review_id, current, seen)
        persons.need_decision(
            status["project"], [f"{review_id}, round {current}, without {in_words(need)}, owed until {due}: {reason}"]
        )
        facts = proof.waiver_facts(review_id, need, current, due, by, reason)
        request = {"review_id": review_id, "need": need, "until": due, "reason": reason, "round": current}
        stated = given(waived_by=by, **persons.sealed(session.location, facts, is_asked=True))
        with progress("waiving"):
            envelope = session.call("waive_requirement", request | stated)
    return present(envelope, "waive_requirement", as_json=options.as_json)


@without("project")
def settle(
    review_id: ReviewArgument,
    verdict: Annotated[Literal["approved", "objects"], Argument(metavar="VERDICT", help="Whether the change is good.")],
    *,
    need: Annotated[str | None, Option(metavar="NEED", help="Needed if several are owed.")] = None,
    reason: Annotated[str | None, Option("-m", "--reason", metavar="TEXT", help="Required to object.")] = None,
    number: RoundOption = None,
    options: ConnectionOptions,
) -> Exit:
    """Review a waived requirement after the fact: the change is good, and the debt over; or not, and a person looks."""
    by = persons.required_caller(options.agent)
    with options.session() as session, progress("review settle"):
        persons.refuse(session, review_id)
        facts = proof.settling_facts(review_id, need, verdict, by, reason)
        stated = given(
            need=need, reason=reason, reviewer_id=by, round=number, **persons.sealed(session.location, facts)
        )
        envelope = persons.send(session, "settle_waiver", {"review_id": review_id, "verdict": verdict, **stated})
    return present(envelope, "settle_waiver", as_json=options.as_json)


def _due(text: str) -> str:
    """A duration from now as an ISO time; another text as it is."""
    found = _DURATION.fullmatch(text.strip())
    if found is None:
        try:
            return datetime.fromisoformat(text).isoformat()
        except ValueError:
            raise Misused("It is a duration such as 12h, 3d or 2w, or an ISO time.", "--until") from None
    due = datetime.now(tz=UTC) + timedelta(**{_UNITS[found[2]]: int(found[1])})
    return due.isoformat(timespec="seconds")
