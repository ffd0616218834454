"""What only a person may decide, and that an agent's own work is not its own to review."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from tandem.bridge.project import top_level
from tandem.cli.terminal import indented
from tandem.client import TandemClient
from tandem.errors import Forbidden, SelfApproval
from tandem.hooks import person

REVIEWING = frozenset({"claim_review", "submit_verdict"})


def refuse_agents(question: str) -> None:
    """Go on only if no agent runs the command.

    Args:
        question: What is to be decided; begins the refusal.

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
        Forbidden: They said no.
    """
    answer = person.ask(f"{indented(question)} Type yes: ")
    if answer is None:
        raise unasked
    if answer.lower() not in {"y", "yes"}:
        raise Forbidden("Nothing was changed.", needed="person")


def need_person(question: str, *, yes: bool) -> None:
    """Go on only if a person wants it: they say so at the terminal, or said `--yes` and are no agent.

    Raises:
        Forbidden: An agent runs the command, they said no, or nobody can be asked.
    """
    refuse_agents(question)
    if not yes:
        confirm(question, unasked=Forbidden(f"{question} Run it at a terminal, or with --yes.", needed="person"))


def _here() -> str:
    here = str(Path.cwd())
    return top_level(here) or here


def marked(request: dict[str, Any]) -> dict[str, Any]:
    """A proposal's request that says where it comes from, if an agent makes it."""
    return person.marked(request, _here())


async def refuse(client: TandemClient, review_id: str | None) -> None:
    """Go on only if an agent does not review what it proposed itself.

    Raises:
        SelfApproval: The same session, folder or client proposed it.
    """
    found = person.origin(_here()) if review_id is not None else None
    if found is None:
        return
    proposal = await client.data("get_proposal", {"review_id": review_id, "files": []})
    by = person.shared(found, proposal)
    if by is not None:
        raise SelfApproval(person.not_to_review(str(review_id), by), review_id=review_id, next_action="escalate")


async def give_back(client: TandemClient, envelope: bytes) -> None:
    """After a claim of whatever came next: give it back if it is the agent's own.

    Raises:
        SelfApproval: It is, and was.
    """
    claim: dict[str, Any] = orjson.loads(envelope).get("data") or {}
    try:
        await refuse(client, claim.get("review_id"))
    except SelfApproval:
        named = {name: claim[name] for name in ("review_id", "claim_generation")}
        await client.data("release_claim", {**named, "reason": "an agent's own work"})
        raise
