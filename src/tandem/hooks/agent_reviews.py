"""A verdict that an agent is about to give by a command: refused where its own client proposed the change."""

from __future__ import annotations

import re

from tandem.hooks import person
from tandem.hooks.agent_gate import TROUBLE, gate_of
from tandem.hooks.ask import Asker

_REVIEWS = re.compile(r"\breview\s+(?:claim|verdict)\b|\b(?:claim_review|submit_verdict)\b")
_ID = re.compile(r"\brv_[0-9a-z]+")
_MOST = 10
_CLIENTS = {"claude": "claude-code"}


def refusal(client: str, text: str, folder: str) -> list[str] | None:
    """Why a command may not be run; null if it reviews nothing of the agent's own.

    Args:
        client: Whose command it is.
        text: The command.
        folder: Where it would be run.

    Raises:
        GateUnreadable: Whether the gate is on cannot be read.
    """
    ids = list(dict.fromkeys(_ID.findall(text)))[:_MOST] if _REVIEWS.search(text) else []
    gate = gate_of(folder) if ids else None
    own = person.origin(gate.place.top or folder, _CLIENTS.get(client, client)) if gate is not None else None
    if gate is None or own is None:
        return None
    asker = Asker(gate)
    try:
        for review_id in ids:
            by = person.shared(own, asker.call("get_proposal", review_id=review_id, files=[]))
            if by is not None:
                return [person.not_to_review(review_id, by)]
    except TROUBLE:
        # What the broker does not answer now, it does not take from the command either.
        return None
    finally:
        asker.close()
    return None
