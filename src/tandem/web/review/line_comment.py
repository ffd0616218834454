"""A comment on one line by a page of its own, for browsers without the script that writes it below the line."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from starlette.responses import Response

from tandem.errors import InvalidInput
from tandem.git.hunks import FileDiff
from tandem.web.page import PageRequest, PageResponse, PageRoute, in_worker
from tandem.web.review.acting import JUDGING, NOTHING, TALKING, FormResult
from tandem.web.review.actions import ACTS, Act, act, spoken, verdict_by_form
from tandem.web.review.discussion import thread_id, values
from tandem.web.review.files import listed, states
from tandem.web.review.text import source
from tandem.web.review.view import ReviewView, change, find_file, load

FORM = "line"


@dataclass(frozen=True, slots=True)
class Spot:
    """The line that is commented on.

    Attributes:
        index: The file's place in the change.
        path: The file.
        side: Whose number it has.
        number: Its number there.
        line: The line that a comment on it is kept at; beside a removed one, a line of the file as it would be.
        text: What it says; None for a line that the diff leaves out.
        is_removed: Whether the file goes on without it, so that a comment has to quote it.
    """

    index: int
    path: str
    side: Literal["before", "after"]
    number: int
    line: int
    text: str | None
    is_removed: bool = False

    def quoting(self, body: str) -> str:
        """What somebody says of it, as it is kept."""
        return f"On the removed line {self.number}, `{self.text}`:\n\n{body}" if self.is_removed else body


async def show(request: PageRequest, acting: FormResult = NOTHING, status: int = 200) -> PageResponse:
    """The line with what was said about it, and a form.

    Raises:
        NotFound: The change has no such file.
        InvalidInput: The address names no line.
    """
    review, found = await _look(request)
    given: dict[str, Any] = values(review, request) | {"view": review, "spot": found, "acting": acting}
    return PageResponse("review/line_comment.html", given, status, heavy=True)


async def send(request: PageRequest) -> PageResponse | Response:
    """Send what was written, as the form's button says; or claim the review, and keep it."""
    _, spot = await _look(request)
    match request.form.get("do"):
        case "claim":
            one = ACTS["claim"]
        case "message":
            one = Act("add_message", TALKING, partial(_message, spot=spot))
        case _:
            one = Act("submit_verdict", JUDGING, partial(_comment, spot=spot))
    return await act(request, one, show, _onward)


def _body(request: PageRequest, spot: Spot) -> str:
    body = request.form.get("text", "").strip()
    if not body:
        raise InvalidInput("Write something to say about the line.", field="text")
    return spot.quoting(body)


def _comment(request: PageRequest, spot: Spot) -> dict[str, Any]:
    remark = {"file": spot.path, "line": spot.line, "body": _body(request, spot)}
    return {
        **verdict_by_form(request),
        "verdict": "comment",
        "reason": f"On {spot.path}:{spot.line}."[:500],
        "comments": [remark],
    }


def _message(request: PageRequest, spot: Spot) -> dict[str, Any]:
    return {**spoken(request, _body(request, spot)), "metadata": {"file": spot.path, "line": spot.line}}


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
        return spot(file, index, "before" if before else "after", number)
    return spot(source(review), 0, "before" if before else "after", number)


def spot(file: FileDiff, index: int, side: Literal["before", "after"], number: int) -> Spot:
    """Where a comment on a line of a file belongs."""
    lines = [line for hunk in file.hunks for line in hunk.walk()]
    numbers = [line.old_number if side == "before" else line.new_number for line in lines]
    if number not in numbers:
        return Spot(index, file.path, side, number, number, None)
    at = numbers.index(number)
    stays = (line.new_number for line in (*lines[at:], *lines[:at][::-1]) if line.new_number is not None)
    near = next(stays, number) if side == "before" else number
    is_removed = lines[at].new_number is None and any(line.new_number is not None for line in lines)
    return Spot(index, file.path, side, number, near, lines[at].text, is_removed)


async def _onward(request: PageRequest) -> str:
    """To what was said: below its line, or in the discussion."""
    review, found = await _look(request)
    if request.form.get("do") == "message":
        return review.link() + "#talk"
    anchor = thread_id(found.path, found.line)
    # Without a script only some files' lines are on the review's page itself.
    if review.shape != "diff" or dict(states(review, listed(change(review)))).get(found.index) == "shown":
        return f"{review.link()}#{anchor}"
    return f"{review.link(f'/files/{found.index}')}#{anchor}"


_ADDRESS = "/reviews/{review_id}/files/{index}/comment"
ROUTES = (PageRoute(_ADDRESS, show, send),)
