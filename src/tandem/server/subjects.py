"""Checks that what a request names is in the one project that a caller's token is for."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from tandem.contract.access import Subject
from tandem.cycles import history as cycle_history
from tandem.cycles import queries as cycles
from tandem.errors import TandemError
from tandem.pool import queries as reviewers
from tandem.pool import runs as reviewer_runs
from tandem.reviews import queries as reviews
from tandem.store.base import Unit
from tandem.store.context import Services

_FIND: Final[dict[Subject, Callable[[Unit, str], Any]]] = {
    "review": reviews.find,
    "reviewer": reviewers.find,
    "cycle": cycles.find,
}
_UNKNOWN: Final[dict[Subject, Callable[[str], TandemError]]] = {
    "review": reviews.unknown,
    "reviewer": reviewer_runs.unknown,
    "cycle": cycle_history.unknown,
}


async def require_within(services: Services, project: str, subjects: list[tuple[Subject, str]]) -> None:
    """Insist that reviews, reviewers and cycles are of a project; which project one is of never changes.

    Raises:
        NotFound: One is unknown, or another project's: the answer is the same.
        UnknownReviewer: Likewise, of a reviewer.
    """

    def look(unit: Unit) -> None:
        for kind, name in subjects:
            found = _FIND[kind](unit, name)
            if found is None or found.project != project:
                raise _UNKNOWN[kind](name)

    await services.store.read(look)
