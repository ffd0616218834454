"""What a counter-patch changes in a round, as the page shows it."""

from __future__ import annotations

from typing import Any

from tandem.web.diffs.documents import compare
from tandem.web.diffs.syntax import Budget
from tandem.web.diffs.views import FileView, outline, views
from tandem.web.review.view import ReviewView

_HIGHLIGHT_SECONDS = 0.1
_LEVEL = 3


def patch_views(diff: str, name: str) -> list[FileView]:
    """A counter-patch, or its changes, ready to be shown. Takes a while: call it in a thread.

    Args:
        diff: The diff.
        name: What its anchors begin with: other diffs are on the page.
    """
    return views(outline(diff).files, Budget(_HIGHLIGHT_SECONDS), f"{name}-")


def counter_patch_values(view: ReviewView) -> dict[str, Any]:
    """What the section is given. Takes a while: call it in a thread."""
    patch = view.counter_patch
    if patch is None or patch.round != view.round:
        return {"patch": None, "patch_files": (), "patch_changes": None}
    if patch.diff is None:
        before, after = view.proposal.description or "", patch.description or ""
        return {"patch": patch, "patch_files": (), "patch_changes": compare(before, after, heading=_LEVEL)}
    files = patch_views(patch.diff if patch.interdiff is None else patch.interdiff, "counter-patch")
    return {"patch": patch, "patch_files": files, "patch_changes": None}
