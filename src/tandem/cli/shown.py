"""Which round of a review the commands have shown to whom, so that a verdict is on exactly that one.

A line for each round, in one file for all projects and brokers: a review's id is never used twice, and a round keeps
its content. Where none was shown, a verdict is on the current round.
"""

from __future__ import annotations

import errno
import json
import os
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tandem.cli.terminal import say
from tandem.core import platforms
from tandem.core.files import write_atomically
from tandem.errors import StaleRound
from tandem.rulings import person

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_MOST_BYTES = 64 * 1024
_KEPT_LINES = 200
_PRIVATE = 0o600
HOLDING = {"get_review": "proposal", "get_proposal": None, "claim_review": "review"}
"""Where the answers that hold a round's content have it; None for those that are it."""


def note(proposal: Mapping[str, Any], name: str) -> None:
    """Remember that somebody was shown a round's content.

    Args:
        proposal: The review's id and the round, as `get_proposal` answers them.
        name: Who saw it; empty if they have not said.
    """
    review_id, number = proposal["review_id"], proposal["round"]
    line = json.dumps([review_id, name, number]).encode()
    path = _file()
    try:
        platforms.make_private(str(path.parent))
        # Written at once and at the end: commands that run at the same time lose no line.
        descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT, _PRIVATE)
        with os.fdopen(descriptor, "r+b", buffering=0) as file:
            lines = file.read().splitlines()
            if line in lines:
                return
            # A disk that was full may have cut off the line before.
            written = b"\n" + line + b"\n"
            if file.write(written) < len(written):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            if file.tell() > _MOST_BYTES:
                kept = [one for one in lines if one][-_KEPT_LINES:]
                write_atomically(path, b"\n".join([*kept, line, b""]), durable=False)
    except OSError as error:
        say(
            f"Tandem cannot remember that it showed you round {number} of {review_id} ({path}: {error.strerror})."
            f" Name that round when you decide: --round {number}"
        )


def shown_round(review_id: str, names: Iterable[str | None]) -> int | None:
    """The newest round of a review that was shown to somebody by these names; None if none was."""
    try:
        lines = _file().read_bytes().splitlines()
    except OSError:
        return None
    found = [number for review, name, number in _notes(lines) if review == review_id and name in names]
    return max(found, default=None)


def _notes(lines: Iterable[bytes]) -> Iterator[tuple[str, str, int]]:
    for line in lines:
        with suppress(ValueError):
            review, name, number = json.loads(line)
            yield review, name, number


def ensure_current(review_id: str, current: int, number: int | None) -> None:
    """Go on unless there is a newer round than the one that a person decides about.

    Raises:
        StaleRound: There is.
    """
    if number not in (None, current):
        raise StaleRound(
            f"You decide about round {number}, which you were shown, and round {current} is the current one. Read it,"
            f" and decide then: tandem review show {review_id}",
            review_id=review_id,
            expected=current,
            actual=number,
        )


def _file() -> Path:
    return Path(person.settings_file()).with_name("shown.jsonl")
