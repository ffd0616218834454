"""Which round of a review the commands have shown to whom, so that a verdict is on exactly that one.

A line for each time, in one file for all projects and brokers: a review's id is never used twice, and a round keeps its
content. Where it cannot be read or written, a verdict is on the current round, as for who saw the change elsewhere.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandem.core import platforms
from tandem.core.files import write_atomically
from tandem.errors import StaleRound
from tandem.rulings import person

if TYPE_CHECKING:
    from collections.abc import Iterable

_MOST_BYTES = 64 * 1024
_KEPT_LINES = 200
_PRIVATE = 0o600
HOLDING = {"get_review": "proposal", "get_proposal": None, "claim_review": "review"}
"""Where the answers that hold a round's content have it; None for those that are it."""


def note(operation: str, envelope: bytes, name: str) -> None:
    """Remember the round whose content an answer shows, if it shows one.

    Args:
        operation: The operation that answered.
        envelope: The answer.
        name: Who sees it; empty if they have not said.
    """
    data: dict[str, Any] = json.loads(envelope).get("data") or {}
    held = HOLDING[operation]
    proposal = data if held is None else data.get(held)
    if not proposal:
        return
    number = proposal["round"]
    line = json.dumps([proposal["review_id"], name, number, number == proposal["current_round"]])
    path = _file()
    try:
        platforms.make_private(str(path.parent))
        # Written at once and at the end: commands that run at the same time lose no line.
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, _PRIVATE)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            file.write(f"{line}\n".encode())
            if file.tell() > _MOST_BYTES:
                file.seek(0)
                write_atomically(path, b"".join(file.readlines()[-_KEPT_LINES:]), durable=False)
    except OSError:
        return


def shown_round(review_id: str, names: Iterable[str | None]) -> int | None:
    """The newest round of a review that was shown to somebody by these names; None if none was.

    To look back at an older round takes nothing from the newer one that was shown before.
    """
    found: dict[str, int] = {}
    try:
        with _file().open(encoding="utf-8") as file:
            lines = [json.loads(line) for line in file if review_id in line]
        for review, name, number, is_current in lines:
            if review == review_id and (is_current or name not in found):
                found[name] = number
    except (OSError, ValueError, TypeError):
        return None
    return max((found[name] for name in names if name in found), default=None)


def ensure_current(envelope: bytes, review_id: str) -> None:
    """Go on unless the broker's answer refuses a verdict because there is a newer round than the one that was shown.

    Raises:
        StaleRound: It did.
    """
    error: dict[str, Any] = json.loads(envelope).get("error") or {}
    if error.get("code") == StaleRound.code:
        facts = error["details"]
        raise StaleRound(
            f"You were shown round {facts['actual']}, and round {facts['expected']} is the current one. Read it, and"
            f" decide then: tandem review show {review_id}",
            **facts,
        )


def _file() -> Path:
    return Path(person.settings_file()).with_name("shown.jsonl")
