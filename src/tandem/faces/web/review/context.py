"""Unchanged lines that a diff leaves out, put back in where somebody asks for them."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.domain.hunk_gaps import Gap
from tandem.errors import InvalidInput
from tandem.faces.web.answering import Page
from tandem.faces.web.asking import Ask
from tandem.faces.web.diffs.syntax import Budget
from tandem.faces.web.diffs.views import Row, context_rows, fitting
from tandem.faces.web.review import discussion
from tandem.faces.web.review.files import FilePart, change, lines_after
from tandem.faces.web.review.places import place
from tandem.faces.web.review.view import load
from tandem.faces.web.routes import PageRoute
from tandem.faces.web.workers import in_worker

MOST = 400
"""Lines of one answer, so that a click on a long gap stays quick."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which lines of a gap are asked for.

    Attributes:
        gap: All that is left out there.
        take: How many of them.
        at_end: Whether the last of them, above the change that follows.
    """

    gap: Gap
    take: int
    at_end: bool

    @property
    def skipped(self) -> int:
        """Lines of the gap before those that are asked for."""
        return self.gap.count - self.take if self.at_end and self.gap.count is not None else 0


async def show(ask: Ask) -> Page:
    """The rows that take the place of a gap; what is still left out of it is a smaller gap among them.

    Raises:
        NotFound: There is no such file, or nowhere to read it from.
        InvalidInput: The gap is not described as the page describes it.
    """
    wanted = _wanted(ask)
    review = await load(ask, ask.path("review_id"))
    found = await in_worker(change, review)
    index = place(ask, found)
    file = found.files[index]
    first = wanted.gap.new_first + wanted.skipped
    lines = await lines_after(ask, review, file, first, first + wanted.take - 1)
    texts: list[str] = lines["lines"]
    texts = texts[: fitting(texts, Budget(0))]
    opened = Gap(wanted.gap.old_first + wanted.skipped, first, len(texts))
    rows = await in_worker(context_rows, file.path, index, texts, opened, layout=review.mode)
    part = FilePart(review, index, file, "shown")
    values = {
        "view": review,
        "part": part,
        "rows": (*_left_before(wanted), *rows, *_left_after(wanted, len(texts), lines["total_lines"])),
        **discussion.values(review, ask),
    }
    return Page("review/rows.html", values, heavy=True, bare=True)


def _wanted(ask: Ask) -> Wanted:
    old_first, new_first, count = ask.number("old_first"), ask.number("new_first"), ask.number("count")
    if not old_first or not new_first or count == 0:
        raise InvalidInput(
            "Say which lines are left out: old_first, new_first, and count if it is known.", field="count"
        )
    take = min(ask.number("take") or MOST, MOST, count or MOST)
    return Wanted(Gap(old_first, new_first, count), take, at_end=ask.query("from") == "end")


def _left_before(wanted: Wanted) -> tuple[Row, ...]:
    if not wanted.skipped:
        return ()
    return (Row("hunk", gap=Gap(wanted.gap.old_first, wanted.gap.new_first, wanted.skipped)),)


def _left_after(wanted: Wanted, shown: int, total: int) -> tuple[Row, ...]:
    gap = wanted.gap
    if gap.count is None:
        left = total - (gap.new_first + shown - 1)
    else:
        left = gap.count - wanted.skipped - shown if shown else 0
    if left <= 0:
        return ()
    count = None if gap.count is None else left
    return (
        Row("hunk", gap=Gap(gap.old_first + wanted.skipped + shown, gap.new_first + wanted.skipped + shown, count)),
    )


ROUTES = (PageRoute("/reviews/{review_id}/files/{index}/lines", show),)
