"""The files of a change on the page: which come with it, which are loaded when wanted, and each by itself."""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from threading import Lock
from typing import Any, Literal

from markupsafe import Markup

from tandem.domain.file_answers import RoundFile
from tandem.domain.hunk_gaps import Gap, widened
from tandem.domain.hunks import FileDiff
from tandem.errors import InvalidInput
from tandem.faces.web.diffs.code import shown
from tandem.faces.web.diffs.outline import Outline, notes
from tandem.faces.web.diffs.syntax import Budget
from tandem.faces.web.diffs.views import FileView
from tandem.faces.web.diffs.views import view as painted_view
from tandem.faces.web.page import PageRequest, PageResponse, PageRoute, in_worker
from tandem.faces.web.review import binary, discussion
from tandem.faces.web.review.remarks import OF_ONE_FILE
from tandem.faces.web.review.view import ReviewView, find_file, load

State = Literal["shown", "later", "viewed"]
Key = tuple[str, int, int, str]

_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})?")
AT_ONCE = 400
"""Lines of diffs that come with the page; the files below are loaded when they are scrolled to."""
_HIGHLIGHT_SECONDS = 0.06
_LINE_PIXELS = 19
_KEPT_CHARACTERS = 24_000_000


class _Rendered:
    """HTML of files that was made and asked for lately, by what it was made from; for any thread."""

    def __init__(self) -> None:
        self._length = 0
        self._made: OrderedDict[Key, Markup] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key) -> Markup | None:
        """What was made from this, if it is still there."""
        with self._lock:
            made = self._made.get(key)
            if made is not None:
                self._made.move_to_end(key)
            return made

    def put(self, key: Key, made: Markup) -> None:
        """Keep it, and let go of what was not asked for the longest."""
        with self._lock:
            before = self._made.pop(key, None)
            self._length += len(made) - (0 if before is None else len(before))
            self._made[key] = made
            while self._length > _KEPT_CHARACTERS and self._made:
                _, oldest = self._made.popitem(last=False)
                self._length -= len(oldest)


_rendered = _Rendered()


@dataclass(frozen=True, slots=True)
class FilePart:
    """One file of the change, as far as the page shows it.

    Attributes:
        review: The review.
        index: Its place in the change, from 0.
        file: What is done to it.
        state: `shown`; or `later`, to be loaded when wanted; or `viewed`, folded until somebody wants it again.
        view: Its lines, where they are shown and not known as HTML yet.
        html: Its lines as HTML, where they were made before.
        is_usual: Whether its lines are what everybody is shown first, and so may be kept as HTML.
        content: What is known of a binary file, where it was asked for.
    """

    review: ReviewView
    index: int
    file: FileDiff
    state: State
    view: FileView | None = None
    html: Markup | None = None
    is_usual: bool = False
    content: binary.Content | None = None

    @property
    def anchor(self) -> str:
        """Its name within the page."""
        return f"f{self.index}"

    @property
    def path(self) -> str:
        """As it is known by; any text."""
        return self.file.path

    @property
    def name(self) -> Markup:
        """Its path as HTML in which everything can be seen."""
        return shown(self.file.path)

    @property
    def old_name(self) -> Markup | None:
        """Where it came from, if it was moved or copied."""
        old = self.file.old_path
        return shown(old) if old and old != self.file.path else None

    @property
    def kind(self) -> str:
        """What is done to it."""
        return self.file.kind

    @property
    def added(self) -> int:
        """Lines added."""
        return self.file.added

    @property
    def deleted(self) -> int:
        """Lines deleted."""
        return self.file.deleted

    @property
    def notes(self) -> tuple[str, ...]:
        """What else there is to say of it."""
        return notes(self.file)

    @property
    def lines(self) -> int:
        """Lines of its diff."""
        return size(self.file)

    @property
    def size_class(self) -> int:
        """How high it is about, as the power of two next to its lines; the stylesheet knows the heights."""
        return min(self.lines, OF_ONE_FILE).bit_length()

    @property
    def room(self) -> int:
        """Pixels that are kept free for it while it is not loaded, so that the page does not jump."""
        return min(self.lines, OF_ONE_FILE) * _LINE_PIXELS

    @property
    def viewed(self) -> bool:
        """Whether the person has marked it as viewed."""
        return self.path in self.review.viewed

    @property
    def comments(self) -> int:
        """How many comments there are on it in this round."""
        return self.review.comments.get(self.path, 0)

    @property
    def address(self) -> str:
        """Where it is shown by itself."""
        return self.review.link(f"/files/{self.index}")

    @property
    def part_address(self) -> str:
        """Where a script gets its lines from."""
        return self.review.link(f"/files/{self.index}/part")

    def expand(self, path: str, gap: Gap) -> str:
        """The address that shows what a gap leaves out."""
        del path
        last = "" if gap.new_last is None else gap.new_last
        return self.review.link(f"/files/{self.index}", open=f"{gap.new_first}-{last}") + f"#{self.anchor}-body"

    @property
    def may_expand(self) -> bool:
        """Whether the lines around the change can be read from the repository; a text is all there already."""
        return self.review.shape == "diff" and self.review.proposal.validated

    def more(self, path: str, start: int) -> str:
        """The address that shows its lines from one on."""
        del path
        return self.review.link(f"/files/{self.index}", start=start)

    @property
    def comment(self) -> Callable[[str, str, int], str]:
        """Gives the address where a line can be commented on without a script."""
        address = self.review.link(f"/files/{self.index}/comment")
        start = address + ("&" if "?" in address else "?")
        return lambda _path, side, line: f"{start}{side}={line}"

    def threads(self, thread: Callable[[str, str, int | None], Markup]) -> dict[tuple[str, str, int], Markup]:
        """What was said below its lines, by the key that the diff's macros look for."""
        lines = self.review.commented.get(self.path, frozenset())
        return {(self.path, self.side, line): thread(self.path, self.side, line) for line in lines if line is not None}

    @property
    def side(self) -> str:
        """The side whose line numbers comments mean."""
        return "before" if self.file.new_path is None else "after"

    @property
    def unplaced(self) -> list[int | None]:
        """Commented lines that are not among those shown; None, which stands for the whole file, first."""
        lines = self.review.commented.get(self.path, frozenset())
        there = set(_line_numbers(self.view, self.side)) if self.view else set[int]()
        return sorted(lines - there, key=lambda line: line or 0)

    def keep(self, html: Markup) -> Markup:
        """Remembers the lines as HTML, if nothing in them is anybody's own."""
        if self.is_usual and self.view is not None and not self.view.plain and self.path not in self.review.commented:
            _rendered.put(_key(self.review, self.index), html)
        return html


def size(file: FileDiff) -> int:
    """Lines of a file's diff."""
    return sum(hunk.old_count + hunk.added for hunk in file.hunks)


def states(review: ReviewView, found: Outline) -> Iterator[tuple[int, State]]:
    """Which files come with the page, in the order of the tree."""
    left = AT_ONCE
    for index in (branch.file for branch in found.tree):
        if index is None:
            continue
        file = found.files[index]
        state: State = "viewed" if file.path in review.viewed else "shown" if left > 0 and not file.binary else "later"
        if state == "shown":
            left -= size(file)
        yield index, state


def parts_of(review: ReviewView, found: Outline) -> list[FilePart]:
    """All files of the change as the tree has them, the first of them with their lines.

    Takes a while: call it in a thread.
    """
    budget = Budget(_HIGHLIGHT_SECONDS)
    return [
        part(review, index, found.files[index], budget)
        if state == "shown" and not budget.is_full
        else FilePart(review, index, found.files[index], "viewed" if state == "viewed" else "later")
        for index, state in states(review, found)
    ]


def part(review: ReviewView, index: int, file: FileDiff, budget: Budget | None = None) -> FilePart:
    """A file with its lines."""
    if file.path not in review.commented:
        known = _rendered.get(_key(review, index))
        if known is not None:
            if budget is not None:
                budget.take(len(known))
            return FilePart(review, index, file, "shown", html=known)
    return fresh_part(review, index, file, budget=budget)


def fresh_part(
    review: ReviewView, index: int, file: FileDiff, start: int = 0, budget: Budget | None = None
) -> FilePart:
    """A file with its lines from one on, whatever is known of it."""
    view = painted_view(file, index, layout=review.mode, start=start, limit=OF_ONE_FILE, budget=budget)
    return FilePart(review, index, file, "shown", view=view, is_usual=True)


async def show(request: PageRequest) -> PageResponse:
    """One file on a page of its own.

    `?open=FIRST-LAST` puts unchanged lines in that the diff leaves out, `?start=` goes on below the first lines.

    Raises:
        NotFound: The change has no such file.
    """
    return PageResponse("review/file_page.html", await _file_values(request), heavy=True)


async def show_part(request: PageRequest) -> PageResponse:
    """The same for a script, which puts it into the page."""
    return PageResponse("review/file_part.html", await _file_values(request), heavy=True, is_part=True)


async def _file_values(request: PageRequest) -> dict[str, Any]:
    review = await load(request)
    index, file = await in_worker(find_file, request, review)
    opened, start = request.query("open"), request.number("start") or 0
    if opened:
        file = await opened_file(request, review, file, opened)
    content = await binary.content(request, review, index, file) if file.binary else None
    if content is not None:
        made = await in_worker(fresh_part, review, index, content.text or file, start)
        made = replace(made, is_usual=False, content=content)
    elif opened or start:
        made = replace(await in_worker(fresh_part, review, index, file, start), is_usual=False)
    else:
        made = await in_worker(part, review, index, file)
    return {"view": review, "part": made, **discussion.values(review, request)}


async def opened_file(request: PageRequest, review: ReviewView, file: FileDiff, opened: str) -> FileDiff:
    """The file with unchanged lines put in; `opened` is `FIRST-LAST`, or `FIRST-` for as many as there are.

    Raises:
        InvalidInput: That is no range.
        NotFound: There is nowhere to read the file from.
    """
    match = _RANGE.fullmatch(opened)
    if match is None:
        raise InvalidInput("open is FIRST-LAST, the numbers of the lines to show.", field="open")
    first, last = int(match[1]), int(match[2]) if match[2] else None
    lines = await lines_after(request, review, file, first, last)
    return widened(file, lines.first_line, lines.lines)


async def lines_after(
    request: PageRequest, review: ReviewView, file: FileDiff, first: int, last: int | None
) -> RoundFile:
    """Lines of a file as the round leaves it."""
    return await request.call(
        "get_round_file",
        review_id=review.review_id,
        round=review.round,
        path=file.path,
        side="after",
        first_line=first,
        last_line=last,
    )


def _key(review: ReviewView, index: int) -> Key:
    # The address is in the links among the lines, so lines that were made for another are not taken for it.
    return review.link(), review.round, index, review.mode


def _line_numbers(view: FileView, side: str) -> Iterable[int]:
    for row in view.rows:
        for cell in (row.left, row.right):
            if cell is not None and cell.side == side:
                yield cell.line


ROUTES = (
    PageRoute("/reviews/{review_id}/files/{index}", show),
    PageRoute("/reviews/{review_id}/files/{index}/part", show_part, inbox_rows=0),
)
