"""What is named beside Approve: what of the change may not have been seen, each with a link to its place."""

from __future__ import annotations

from typing import NamedTuple

from markupsafe import Markup

from tandem.domain.unusual import Place, Unusual, counted, of_diff, of_text, unshown
from tandem.faces.web.diffs.code import shown
from tandem.faces.web.diffs.outline import outline
from tandem.faces.web.review.view import ReviewView

OF_ONE_FILE = 1_000
"""Lines of one file that are shown at once."""
_ABOVE = 5


class Remark(NamedTuple):
    """One kind of unusual things.

    Attributes:
        what: How many of which.
        places: Their names and addresses.
        more: How many more places there are.
    """

    what: str
    places: list[tuple[Markup, str]]
    more: int


def remarks(view: ReviewView) -> list[Remark]:
    """What a person is told before they approve the shown round, all of it whatever part of it is shown."""
    diff = view.proposal.diff
    if diff is None:
        path = view.proposal.path or "description"
        return [_remark(view, one) for one in of_text(path, view.proposal.description or "")]
    found = outline(diff)
    sizes = [sum(hunk.old_count + hunk.added for hunk in file.hunks) for file in found.files]
    long = [Place(at, found.files[at].path, at=OF_ONE_FILE) for at, size in enumerate(sizes) if size > OF_ONE_FILE]
    parts = counted(len(long), "file shown in parts", "files shown in parts", long)
    return [_remark(view, one) for one in (*unshown(found.files, view.proposal.affected_files), *found.unusual, *parts)]


def patch_remarks(diff: str) -> list[str]:
    """The same of a counter-patch, without links."""
    return [one.line for one in of_diff(outline(diff).files)]


def _remark(view: ReviewView, one: Unusual) -> Remark:
    return Remark(one.what, [(shown(place.name), _address(view, place)) for place in one.places], one.more)


def _address(view: ReviewView, place: Place) -> str:
    line = "" if place.line is None else f"-{'L' if place.before else 'R'}{place.line}"
    if view.proposal.diff is None:
        return view.link(show="source", since=None) + f"#f0{line}"
    if place.file is None:
        return view.link("/export.patch")
    start = place.at - _ABOVE if place.at > _ABOVE else None
    return view.link(f"/files/{place.file}", since=None, start=start) + f"#f{place.file}{line}"
