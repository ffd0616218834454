"""A finding on one line by a page of its own, for browsers without the script that writes it below the line."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

from starlette.responses import Response

from tandem.errors import InvalidInput
from tandem.git.hunks import FileDiff
from tandem.web.page import PageRequest, PageResponse, PageRoute, in_worker
from tandem.web.review.acting import NOTHING, FormResult
from tandem.web.review.actions import ACTS, act
from tandem.web.review.discussion import thread_id, values
from tandem.web.review.files import listed, states
from tandem.web.review.text import source
from tandem.web.review.view import ReviewView, find_file, load, spot_of


@dataclass(frozen=True, slots=True)
class Spot:
    """The line that something is said about.

    Attributes:
        index: The file's place in the change.
        path: The file.
        side: Whose number it has.
        number: Its number there.
        text: Its text; None for a line that the diff leaves out.
        is_removed: Whether the file goes on without it.
        near: Where the lines before are those of another round: the line of the file as it would be beside it.
    """

    index: int
    path: str
    side: Literal["before", "after"]
    number: int
    text: str | None
    is_removed: bool = False
    near: int | None = None

    @property
    def place(self) -> tuple[str, Literal["before", "after"], int]:
        """Where a finding on it is kept."""
        return (self.path, self.side, self.number) if self.near is None else (self.path, "after", self.near)

    @property
    def quote(self) -> str:
        """What a finding begins with that cannot be kept at the line itself."""
        is_quoted = self.is_removed and self.near is not None
        return f"On the removed line {self.number}, `{(self.text or '').rstrip()}`:" if is_quoted else ""


async def show(request: PageRequest, acting: FormResult = NOTHING) -> PageResponse:
    """The line with its findings, and a form.

    Raises:
        NotFound: The change has no such file.
        InvalidInput: The address names no line.
    """
    review, found = await _look(request)
    given: dict[str, Any] = values(review, request) | {"view": review, "spot": found, "acting": acting}
    return PageResponse("review/line_comment.html", given, acting.status, heavy=True)


async def send(request: PageRequest) -> PageResponse | Response:
    """Send the text, as the form's button says; or claim the review, and keep it."""
    does = request.form.get("do")
    return await act(request, ACTS[does if does in ("claim", "message") else "comment"], show, _onward)


async def _look(request: PageRequest) -> tuple[ReviewView, Spot]:
    review = await load(request)
    return review, await in_worker(_find, request, review)


def _find(request: PageRequest, review: ReviewView) -> Spot:
    before, after = request.number("before"), request.number("after")
    number = before or after
    if not number:
        raise InvalidInput("Name a line: after=NUMBER, or before=NUMBER for one that is removed.", field="after")
    if review.shape == "diff":
        index, file = find_file(request, review)
    else:
        index, file = 0, source(review)
    found = spot(file, index, "before" if before else "after", number)
    if review.since is not None:
        return found
    return replace(found, near=None, path=(before and file.old_path) or found.path)


def spot(file: FileDiff, index: int, side: Literal["before", "after"], number: int) -> Spot:
    """Where a finding on a line of a file belongs, if the lines before are not those of the base."""
    lines = [line for hunk in file.hunks for line in hunk.walk()]
    numbers = [line.old_number if side == "before" else line.new_number for line in lines]
    if number not in numbers:
        return Spot(index, file.path, side, number, None, near=number if side == "before" else None)
    at = numbers.index(number)
    stays = (line.new_number for line in (*lines[at:], *lines[:at][::-1]) if line.new_number is not None)
    near = next(stays, number) if side == "before" else None
    is_removed = lines[at].new_number is None and any(line.new_number is not None for line in lines)
    return Spot(index, file.path, side, number, lines[at].text, is_removed, near)


async def _onward(request: PageRequest) -> str:
    """To the finding: below its line, or in the discussion."""
    review, found = await _look(request)
    if request.form.get("do") == "message":
        return review.link() + "#talk"
    said = [review.places[one.finding_id] for one in review.findings if spot_of(one) == found.place]
    anchor = thread_id(*(said[-1] if said else found.place))
    # Without a script only some files' lines are on the review's page itself.
    if review.shape != "diff" or dict(states(review, listed(review.outline))).get(found.index) == "shown":
        return f"{review.link()}#{anchor}"
    return f"{review.link(f'/files/{found.index}')}#{anchor}"


_ADDRESS = "/reviews/{review_id}/files/{index}/comment"
ROUTES = (PageRoute(_ADDRESS, show, send),)
