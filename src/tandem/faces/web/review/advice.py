"""A refusal in words for somebody at a page: the broker's own speak to programs, of calls and of keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_INSTEAD = {
    "IDEMPOTENCY_CONFLICT": "This form was sent before with another text, and that one counts: see what arrived. "
    "What stands here now is not sent; send it again if it is still to be said.",
    "STALE_ROUND": "There is a newer round than the one that this was written about. Look at it, and send this again "
    "if it still holds.",
    "TURN_VIOLATION": "Your side spoke last, and the other side comes next. What you wrote stays here until then.",
}
_BESIDES = {
    "TOO_LARGE": "Shorten it, and send it again.",
    "TIMEOUT": "What you wrote is still here; send it again in a moment.",
    "UNAVAILABLE": "What you wrote is still here; send it again in a moment.",
}


def advice(error: Mapping[str, Any]) -> str:
    """What is refused, and what can be done about it.

    Args:
        error: As an envelope has it.
    """
    code, message = error["code"], error["message"]
    if code in _INSTEAD:
        return _INSTEAD[code]
    return f"{message} {_BESIDES[code]}" if code in _BESIDES else message
