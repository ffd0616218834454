"""An agent's own work: its proposals say where they come from, and it does not review them by these commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import orjson

from tandem.bridge.project import top_level
from tandem.client import TandemClient
from tandem.errors import SelfApproval
from tandem.hooks import person

REVIEWING = frozenset({"claim_review", "submit_verdict"})


def origin() -> dict[str, Any] | None:
    """Where this command comes from; null unless an agent runs it."""
    here = str(Path.cwd())
    return person.origin(top_level(here) or here)


def marked(request: dict[str, Any]) -> dict[str, Any]:
    """A proposal's request that says where it comes from, if an agent makes it."""
    found = origin()
    if found is None:
        return request
    return {**request, "metadata": {**(request.get("metadata") or {}), person.ORIGIN: found}}


async def refuse(client: TandemClient, review_id: str | None) -> None:
    """Go on only if an agent does not review what it proposed itself.

    Raises:
        SelfApproval: The same session, folder or client proposed it.
    """
    found = origin() if review_id is not None else None
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
