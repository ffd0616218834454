"""What reviewers of this machine wrote, a part at a time."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from tandem.contract.caller import Caller
from tandem.domain.pool_answers import ReviewerLog
from tandem.domain.reviewers import Reviewer
from tandem.domain.texts import visible
from tandem.errors import InvalidInput
from tandem.operations.pool_requests import GetReviewerLog
from tandem.reviewers import logs
from tandem.reviewers.logs import Part
from tandem.services import reviewer_runs
from tandem.services.context import Services

_LONGEST_LINE = 4_000
"""Characters; of a longer one the beginning is shown."""


async def get_reviewer_log(services: Services, _caller: Caller, request: GetReviewerLog) -> ReviewerLog:
    """The last lines of a reviewer's log, or those after a position.

    Raises:
        UnknownReviewer: No pool of this broker has it.
        InvalidInput: The position is none of ours.
    """
    reviewer = await services.store.read(lambda unit: reviewer_runs.require(unit, request.reviewer_id))
    part = await asyncio.to_thread(_part, services, reviewer, request.lines, request.position)
    return ReviewerLog(
        reviewer_id=reviewer.id,
        lines=() if part is None else tuple(map(_shown, part.lines)),
        position=request.position if part is None else part.position,
        available=part is not None,
        host=reviewer.host,
    )


def _part(services: Services, reviewer: Reviewer, lines: int, position: str | None) -> Part | None:
    """What is asked for; null if the log is not here."""
    log = logs.newest(services.reviewer_logs, reviewer.id)
    if log is None:
        return None
    # It may be removed, or be nobody's to read.
    with suppress(OSError):
        if not position:
            return logs.last_part(log, lines)
        found = logs.next_part(log, position, lines)
        if found is None:
            raise InvalidInput("position must be one that get_reviewer_log answered.", field="position")
        return found
    return None


def _shown(line: str) -> str:
    return visible(line if len(line) <= _LONGEST_LINE else f"{line[:_LONGEST_LINE]}…")
