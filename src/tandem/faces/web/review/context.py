"""Unchanged lines that a diff leaves out, put back in where somebody asks for them."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.domain.hunk_gaps import Gap
from tandem.errors import InvalidInput
from tandem.faces.web.diffs.syntax import Budget
from tandem.faces.web.diffs.views import Row, context_rows, fitting
from tandem.faces.web.page import PageRequest, PageResponse, PageRoute, in_worker
from tandem.faces.web.review import discussion
from tandem.faces.web.review.files import FilePart, lines_after
from tandem.faces.web.review.view import find_file, load

MOST = 400
"""Lines of one answer, so that a click on a long gap stays quick."""


@dataclass(frozen=True, slots=True)
class OpenedGap:
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


async def show(request: PageRequest) -> PageResponse:
    """The rows that take the place of a gap; what is still left out of it is a smaller gap among them.

    Raises:
        NotFound: There is no such file, or nowhere to read it from.
        InvalidInput: The gap is not described as the page describes it.
    """
    asked = _opened_gap(request)
    review = await load(request)
    index, file = await in_worker(find_file, request, review)
    first = asked.gap.new_first + asked.skipped
    lines = await lines_after(request, review, file, first, first + asked.take - 1)
    texts = lines.lines[: fitting(lines.lines, Budget(0))]
    opened = Gap(asked.gap.old_first + asked.skipped, first, len(texts))
    rows = await in_worker(context_rows, file.path, index, texts, opened, layout=review.mode)
    part = FilePart(review, index, file, "shown")
    values = {
        "view": review,
        "part": part,
        "rows": (*_left_before(asked), *rows, *_left_after(asked, len(texts), lines.total_lines)),
        **discussion.values(review, request),
    }
    return PageResponse("review/rows.html", values, heavy=True, is_part=True)


def _opened_gap(request: PageRequest) -> OpenedGap:
    old_first, new_first, count = request.number("old_first"), request.number("new_first"), request.number("count")
    if not old_first or not new_first or count == 0:
        raise InvalidInput(
            "Say which lines are left out: old_first, new_first, and count if it is known.", field="count"
        )
    take = min(request.number("take") or MOST, MOST, count or MOST)
    return OpenedGap(Gap(old_first, new_first, count), take, at_end=request.query("from") == "end")


def _left_before(asked: OpenedGap) -> tuple[Row, ...]:
    if not asked.skipped:
        return ()
    return (Row("hunk", gap=Gap(asked.gap.old_first, asked.gap.new_first, asked.skipped)),)


def _left_after(asked: OpenedGap, shown: int, total: int) -> tuple[Row, ...]:
    gap = asked.gap
    if gap.count is None:
        left = total - (gap.new_first + shown - 1)
    else:
        left = gap.count - asked.skipped - shown if shown else 0
    if left <= 0:
        return ()
    count = None if gap.count is None else left
    return (Row("hunk", gap=Gap(gap.old_first + asked.skipped + shown, gap.new_first + asked.skipped + shown, count)),)


ROUTES = (PageRoute("/reviews/{review_id}/files/{index}/lines", show, inbox_rows=0),)
