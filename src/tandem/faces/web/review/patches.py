"""A counter-patch beside the round that it would replace."""

from __future__ import annotations

from dataclasses import replace

from tandem.faces.web.diffs.outline import outline
from tandem.faces.web.diffs.syntax import Budget
from tandem.faces.web.diffs.views import Cell, FileView, view
from tandem.faces.web.review.against import between

_MOST_LINES = 1_000
_HIGHLIGHT_SECONDS = 0.1


def patch_views(diff: str, round_diff: str | None, name: str) -> list[FileView]:
    """What a counter-patch changes of a round, ready to be shown. Takes a while: call it in a thread.

    Args:
        diff: The counter-patch.
        round_diff: The round's own change; null if it is not known: then all of the counter-patch is shown.
        name: What its anchors begin with: other diffs are on the page.
    """
    files = outline(diff).files if round_diff is None else between(round_diff, diff)
    budget = Budget(_HIGHLIGHT_SECONDS)
    return [
        _renamed(view(file, index, limit=_MOST_LINES, budget=budget), f"{name}-") for index, file in enumerate(files)
    ]


def _renamed(file: FileView, prefix: str) -> FileView:
    rows = tuple(row._replace(left=_cell(row.left, prefix), right=_cell(row.right, prefix)) for row in file.rows)
    return replace(file, anchor=prefix + file.anchor, rows=rows)


def _cell(cell: Cell | None, prefix: str) -> Cell | None:
    return None if cell is None else cell._replace(anchor=prefix + cell.anchor)
