"""What only a person may decide, and that an agent's own work is not its own to review."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Annotated, Any, TypeVar

from tandem.bridge.project import top_level
from tandem.bridge.session import Session
from tandem.cli.declared import Option
from tandem.cli.terminal import Declined, indented
from tandem.errors import Forbidden, SelfApproval
from tandem.rulings import person

Answer = TypeVar("Answer")

YesOption = Annotated[bool, Option("--yes", hidden=True)]
"""Answers nothing: all that these commands ask loosens a gate. Scripts of earlier versions may have it."""

REVIEWING = frozenset({"claim_review", "submit_verdict"})


def refuse_agents(question: str) -> None:
    """Go on only if no agent runs the command.

    Args:
        question: The decision; begins the refusal.

    Raises:
        Forbidden: An agent runs it.
    """
    mark = person.agent_mark()
    if mark is not None:
        raise Forbidden(
            f"{question} That is a person's to decide, and an agent runs this command ({mark} is set)."
            " Ask the person to run it in their own terminal.",
            needed="person",
        )


def confirm(question: str, *, unasked: Exception) -> None:
    """Go on only if the person at the terminal says yes.

    Args:
        question: With everything that has to be known to answer it.
        unasked: What to raise where there is no terminal.

    Raises:
        Declined: They said no.
    """
    answer = person.ask(f"{indented(question)} Type yes: ")
    if answer is None:
        raise unasked
    if answer.lower() not in {"y", "yes"}:
        raise Declined("Nothing was changed.", needed="person")


def need_decision(project: str, reasons: Sequence[str]) -> None:
    """Go on only if a person at the terminal decides to have a gate let more through.

    Args:
        project: Whose gate it is; they type its name.
        reasons: The content that it would let through, a phrase each.

    Raises:
        Forbidden: An agent runs the command, there is no terminal, or they typed something else.
    """
    said = f"This lets more through the gate of {project}:"
    question = f"Type the project's name ({project}) if that is meant: "
    trouble = person.refused([said, *(f"  {reason}" for reason in reasons), question], project)
    if trouble is not None:
        raise Forbidden(f"{said} {'; '.join(reasons)}. {trouble}", needed="person", loosens=list(reasons))


async def decided(attempt: Callable[[Sequence[str]], Awaitable[Answer]]) -> Answer:
    """Do what may loosen a gate; what it would let through is first put to the person at the terminal.

    Args:
        attempt: Does it, given what they have agreed to. What else would loosen, it raises as `Forbidden`.

    Raises:
        Forbidden: As `need_decision`.
    """
    agreed: list[str] = []
    while True:
        try:
            return await attempt(agreed)
        except Forbidden as error:
            reasons = [one for one in error.details.get("loosens", ()) if one not in agreed]
            if not reasons:
                raise
            need_decision(error.details["project"], reasons)
            agreed += reasons


def _here() -> str:
    here = str(Path.cwd())
    return top_level(here) or here


def marked(request: dict[str, Any]) -> dict[str, Any]:
    """A proposal's request that says where it comes from, if an agent makes it."""
    return person.marked(request, _here())


def refuse(session: Session, review_id: str | None) -> None:
    """Go on only if an agent does not review what it proposed itself.

    Raises:
        SelfApproval: The same session, folder or client proposed it.
    """
    found = person.origin(_here()) if review_id is not None else None
    if found is None:
        return
    proposal = session.data("get_proposal", {"review_id": review_id, "files": []})
    by = person.shared(found, proposal)
    if by is not None:
        raise SelfApproval(person.not_to_review(str(review_id), by), review_id=review_id, next_action="escalate")


def refuse_withdrawal(session: Session, request: dict[str, Any], name: str | None) -> None:
    """Go on only if no agent withdraws an approval that another gave.

    Args:
        session: To ask the broker with.
        request: That of `withdraw_approval`.
        name: Who calls.

    Raises:
        Forbidden: An agent does.
    """
    mark, name = person.agent_mark(), request.get("withdrawn_by") or name
    if mark is None:
        return
    approver = session.data("get_review_status", {"review_id": request["review_id"]})["reviewer_id"]
    if approver != name:
        raise Forbidden(
            f"{approver} approved this, and {name or 'an agent'} runs this command ({mark} is set). Only {approver} or"
            f" a person withdraws that approval. Stop, and tell your person: tandem open {request['review_id']}",
            needed="person",
        )


def give_back(session: Session, envelope: bytes) -> None:
    """After a claim of the next review: release it if it is the agent's own.

    Raises:
        SelfApproval: It is, and was.
    """
    claim: dict[str, Any] = json.loads(envelope).get("data") or {}
    try:
        refuse(session, claim.get("review_id"))
    except SelfApproval:
        named = {name: claim[name] for name in ("review_id", "claim_generation")}
        session.data("release_claim", {**named, "reason": "an agent's own work"})
        raise
