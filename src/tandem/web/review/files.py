"""The files of a change: which come with its page, which are loaded when wanted, and each on a page of its own.

Also what a diff leaves out: unchanged lines around the change, and the content of binary files.
"""

from __future__ import annotations

import re
from base64 import b64decode
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, NamedTuple

from markupsafe import Markup
from starlette.responses import Response

from tandem.core.recent import Recent
from tandem.errors import InvalidInput, NotFound, TandemError, TooLarge
from tandem.git.hunks import FileDiff, Gap, gaps, widened
from tandem.reviews.page_contract import RoundFile
from tandem.web.diffs.syntax import Budget
from tandem.web.diffs.views import FileView, Outline, Row, ShownFile, context_rows, fitting, notes, outline, tree
from tandem.web.diffs.views import view as painted_view
from tandem.web.page import PageRequest, PageResponse, PageRoute, in_worker
from tandem.web.review import discussion
from tandem.web.review.offers import MOST_FILES, OF_ONE_FILE
from tandem.web.review.view import ReviewView, Spot, find_file, load

State = Literal["shown", "later", "viewed"]
Key = tuple[str, int, int, str]

_RANGE = re.compile(r"([1-9][0-9]{0,8})-([1-9][0-9]{0,8})?")
_SIDES = ("before", "after")
_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
)
_POLICY = "default-src 'none'; sandbox"
AT_ONCE = 400
"""Lines of diffs that come with the page; the files below are loaded when they are scrolled to."""
_HIGHLIGHT_SECONDS = 0.06
_LINE_PIXELS = 19
_MOST_OPENED = 400
"""Lines of a gap in one answer, so that a click on a long one stays quick."""
_KEPT_CHARACTERS = 24_000_000


_rendered = Recent[Key, Markup](_KEPT_CHARACTERS, len)


class Version(NamedTuple):
    """A binary file before or after the change.

    Attributes:
        side: `before` or `after`.
        file: None where there is none.
        address: Where its bytes are; None where there are none, or too many.
        is_picture: Whether a browser can show them safely.
    """

    side: str
    file: RoundFile | None
    address: str | None
    is_picture: bool


@dataclass(frozen=True, slots=True)
class Content:
    """The known facts of a binary file.

    Attributes:
        versions: Before and after; none if they cannot be read.
        why_not: Why they cannot.
    """

    versions: tuple[Version, ...] = ()
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class FilePart(ShownFile):
    """One file of the change, as far as the page shows it.

    Attributes:
        review: The review.
        index: Its place in the change, from 0.
        state: `shown`; or `later`, to be loaded when wanted; or `viewed`, folded until somebody wants it again.
        view: Its lines, where they are shown and not known as HTML yet.
        html: Its lines as HTML, where they were made before.
        is_usual: Whether its lines are what everybody is shown first, and so may be kept as HTML.
        content: Of a binary file, where it was asked for.
    """

    review: ReviewView
    index: int
    state: State
    view: FileView | None = None
    html: Markup | None = None
    is_usual: bool = False
    content: Content | None = None

    @property
    def anchor(self) -> str:
        """Its name within the page."""
        return f"f{self.index}"

    @property
    def size_class(self) -> int:
        """How high it is about, as the power of two next to its lines; the stylesheet knows the heights."""
        return min(self.lines, OF_ONE_FILE).bit_length()

    @property
    def room(self) -> int:
        """Pixels that are kept free for it while it is not loaded, so that the page does not jump."""
        return min(self.lines, OF_ONE_FILE) * _LINE_PIXELS

    @property
    def notes(self) -> list[str]:
        """See `ShownFile`."""
        if not self.review.is_calm:
            return notes(self.file)
        whole = outline(self.review.diff, origins=self.review.origins).files[self.index]
        hidden = whole.added - self.file.added
        told = [f"{hidden:,} {'line' if hidden == 1 else 'lines'} hidden: only whitespace differs"] if hidden else []
        return [*notes(whole), *told]

    @property
    def viewed(self) -> bool:
        """Whether the person has marked it as viewed."""
        return self.path in self.review.viewed

    @property
    def findings(self) -> int:
        """How many findings stand in it."""
        return len(self.review.spots.get(self.path, ()))

    def link(self, under: str = "", **changes: Any) -> str:
        """The address where it is shown by itself, or of something below that."""
        return self.review.link(f"/files/{self.index}{under}", **changes)

    def expand(self, _path: str, gap: Gap) -> str:
        """The address that shows what a gap leaves out."""
        last = "" if gap.new_last is None else gap.new_last
        return self.link(open=f"{gap.new_first}-{last}") + f"#{self.anchor}-body"

    @property
    def may_expand(self) -> bool:
        """Whether the lines around the change can be read from the repository; a text is all there already."""
        return self.review.shape == "diff" and self.review.proposal.validated

    @property
    def is_folded(self) -> bool:
        """Whether it has lines and its diff has none of them, as it was moved as it is."""
        return self.may_expand and not self.file.hunks and gaps(self.file) != (None,)

    def more(self, _path: str, start: int) -> str:
        """The address that shows its lines from one on."""
        return self.link(start=start)

    @property
    def comment(self) -> Callable[[str, str, int], str]:
        """Gives the address where a line can be commented on without a script."""
        address = self.link("/comment")
        start = address + ("&" if "?" in address else "?")
        return lambda _path, side, line: f"{start}{side}={line}"

    def threads(self, thread: Callable[[str, str, int | None], Markup]) -> dict[tuple[str, str, int], Markup]:
        """The threads below its lines, by the key that the diff's macros look for."""
        found: dict[tuple[str, str, int], Markup] = {}
        for spot in dict.fromkeys(self.review.spots.get(self.path, ())):
            if (key := self._key(spot)) is not None:
                found[key] = found.get(key, Markup()) + thread(*spot)
        return found

    def _key(self, spot: Spot) -> tuple[str, str, int] | None:
        """The line that a spot is below; None where it is not for sure in the diff that is shown."""
        _, side, line = spot
        # Since a round, the lines before are those of that round; findings know those of the base.
        if line is None or (side == "before" and self.review.since is not None):
            return None
        return self.path, "before" if self.file.new_path is None else side, line

    @property
    def unplaced(self) -> list[Spot]:
        """Where findings stand that are not among the lines shown; the whole file first."""
        rows = self.view.rows if self.view else ()
        # Side by side, a line that stays is known by its number after the change.
        there = {
            (self.path, cell.side, cell.line)
            for row in rows
            for cell in (row.left, row.right)
            if cell and (cell is not row.left or row.right is None or cell.kind == "deleted")
        }
        found = {spot for spot in self.review.spots.get(self.path, ()) if self._key(spot) not in there}
        return sorted(found, key=lambda spot: (spot[2] or 0, spot[1]))

    def keep(self, html: Markup) -> Markup:
        """Remembers the lines as HTML, if nothing in them is anybody's own."""
        if self.is_usual and self.view is not None and not self.view.plain and self.path not in self.review.spots:
            _rendered.put(_key(self.review, self.index), html)
        return html


def listed(found: Outline, first: int = 0) -> Outline:
    """The change with as many files in its tree as one page lists, from one on in the order of the tree."""
    if len(found.files) <= MOST_FILES:
        return found
    indexes = [branch.file for branch in found.tree if branch.file is not None]
    return replace(found, tree=tree(found.files, indexes[first : first + MOST_FILES]))


def states(review: ReviewView, found: Outline) -> Iterator[tuple[int, State]]:
    """Which files come with the page, in the order of the tree."""
    left = AT_ONCE
    for index in (branch.file for branch in found.tree):
        if index is None:
            continue
        file = found.files[index]
        state: State = "viewed" if file.path in review.viewed else "shown" if left > 0 and not file.binary else "later"
        if state == "shown":
            left -= ShownFile(file).lines
        yield index, state


def parts_of(review: ReviewView, found: Outline) -> list[FilePart]:
    """All files of the change as the tree has them, the first of them with their lines.

    Takes a while: call it in a thread.
    """
    budget = Budget(_HIGHLIGHT_SECONDS)
    return [
        part(review, index, found.files[index], budget=budget)
        if state == "shown" and not budget.is_full
        else FilePart(found.files[index], review, index, "viewed" if state == "viewed" else "later")
        for index, state in states(review, found)
    ]


def part(
    review: ReviewView,
    index: int,
    file: FileDiff,
    start: int = 0,
    budget: Budget | None = None,
    *,
    is_usual: bool = True,
    content: Content | None = None,
) -> FilePart:
    """A file with its lines from one on."""
    known = _rendered.get(_key(review, index)) if is_usual and file.path not in review.spots else None
    if known is not None:
        if budget is not None:
            budget.take(len(known))
        return FilePart(file, review, index, "shown", html=known)
    view = painted_view(file, index, layout=review.mode, start=start, limit=OF_ONE_FILE, budget=budget)
    return FilePart(file, review, index, "shown", view, is_usual=is_usual, content=content)


async def show(request: PageRequest, template: str = "review/file_page.html") -> PageResponse:
    """One file on a page of its own; or its part of the page, for a script.

    `?open=FIRST-LAST` puts unchanged lines in that the diff leaves out, `?start=` goes on below the first lines.

    Raises:
        NotFound: The change has no such file.
    """
    review = await load(request)
    index, file = await in_worker(find_file, request, review)
    opened, start = request.query("open"), request.number("start") or 0
    if opened:
        asked = _RANGE.fullmatch(opened)
        if asked is None:
            raise InvalidInput("open is FIRST-LAST, the numbers of the lines to show.", field="open")
        first, last = int(asked[1]), int(asked[2]) if asked[2] else None
        lines = await _round_file(request, review, file.path, first_line=first, last_line=last)
        file = widened(file, lines.first_line, lines.lines)
    content = await _content(request, review, index, file) if file.binary else None
    is_usual = not (opened or start or content)
    made = await in_worker(part, review, index, file, start, is_usual=is_usual, content=content)
    values = {"view": review, "part": made, **discussion.values(review, request)}
    return PageResponse(template, values, heavy=True, is_part=template != "review/file_page.html")


async def _round_file(
    request: PageRequest, review: ReviewView, path: str, *, number: int | None = None, side: str = "after", **lines: Any
) -> RoundFile:
    """A file of the shown round, or of another one."""
    return await request.call(
        "get_round_file", review_id=review.review_id, round=number or review.round, path=path, side=side, **lines
    )


def _key(review: ReviewView, index: int) -> Key:
    # The address is in the links among the lines, so lines that were made for another are not taken for it.
    return review.link(), review.round, index, review.mode


async def _content(request: PageRequest, review: ReviewView, index: int, file: FileDiff) -> Content:
    """What a binary file holds before and after the change that is shown."""
    versions: list[Version] = []
    try:
        for side in _SIDES:
            found = await _read(request, review, file, side)
            found = found if found and found.exists else None
            body = found.base64 if found else None
            address = None if body is None else review.link(f"/files/{index}/content", side=side)
            versions.append(Version(side, found, address, bool(body) and _picture(b64decode(body[:64])) is not None))
    except TandemError as error:
        return Content(why_not=error.message)
    return Content(tuple(versions))


async def _read(request: PageRequest, review: ReviewView, file: FileDiff, side: str) -> RoundFile | None:
    """The file before or after the change; None where the change says that there is none."""
    is_after = side == "after"
    path = file.new_path if is_after else file.old_path
    if path is None:
        return None
    since = None if is_after else review.since
    side = "after" if is_after or since else "before"
    return await _round_file(request, review, path, number=since, side=side, last_line=1, as_base64=True)


def _picture(content: bytes) -> str | None:
    """The kind of an image, by its own first bytes; None for what a browser could take for anything else."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "webp"
    return next((kind for start, kind in _PICTURES if content.startswith(start)), None)


async def send_content(request: PageRequest) -> Response:
    """The bytes, as a file to save; as an image where they are one, but never as a page.

    Raises:
        NotFound: There is no such file.
        TooLarge: It is too large to be sent.
    """
    review = await load(request)
    _, file = await in_worker(find_file, request, review)
    side = "before" if request.query("side") == "before" else "after"
    answer = await _read(request, review, file, side)
    if answer is None or not answer.exists:
        raise NotFound(f"There is no such file {side} the change.")
    if answer.base64 is None:
        raise TooLarge("The file is too large to be sent here; open it in a working tree.", actual=answer.size_bytes)
    data = b64decode(answer.base64)
    kind = _picture(data)
    return Response(
        data,
        media_type="application/octet-stream" if kind is None else f"image/{kind}",
        headers={
            "content-disposition": f'attachment; filename="{side}.{kind or "bin"}"',
            "content-security-policy": _POLICY,
            "cache-control": "no-store",
        },
    )


async def show_gap(request: PageRequest) -> PageResponse:
    """The rows that take the place of a gap, or of what is around its line `?at=`; the rest is smaller gaps among them.

    Raises:
        NotFound: There is no such file, or nowhere to read it from.
        InvalidInput: The gap is not described as the page describes it.
    """
    old_first, new_first, count = request.number("old_first"), request.number("new_first"), request.number("count")
    if not old_first or not new_first or count == 0:
        raise InvalidInput(
            "Say which lines are left out: old_first, new_first, and count if it is known.", field="count"
        )
    take = min(request.number("take") or _MOST_OPENED, _MOST_OPENED, count or _MOST_OPENED)
    skipped = count - take if count is not None and request.query("from") == "end" else 0
    if at := request.number("at"):
        skipped = max(min(at - new_first - take // 2, count - take if count else at), 0)
    old, new = old_first + skipped, new_first + skipped
    review = await load(request)
    index, file = await in_worker(find_file, request, review)
    found = await _round_file(request, review, file.path, first_line=new, last_line=new + take - 1)
    texts = found.lines[: fitting(found.lines, Budget(0))]
    shown = len(texts)
    rows = list(await in_worker(context_rows, file.path, index, texts, Gap(old, new, shown), layout=review.mode))
    skipped = min(skipped, found.total_lines - new_first + 1)
    if skipped > 0:
        rows.insert(0, Row("hunk", gap=Gap(old_first, new_first, skipped)))
    left = found.total_lines - (new + shown - 1)
    if count is not None:
        left = count - skipped - shown if shown else 0
    if left > 0:
        rows.append(Row("hunk", gap=Gap(old + shown, new + shown, None if count is None else left)))
    part = FilePart(file, review, index, "shown")
    values = {"view": review, "part": part, "rows": rows, **discussion.values(review, request)}
    return PageResponse("review/rows.html", values, heavy=True, is_part=True)


ROUTES = (
    PageRoute("/reviews/{review_id}/files/{index}", show),
    PageRoute("/reviews/{review_id}/files/{index}/part", partial(show, template="review/file_part.html"), inbox_rows=0),
    PageRoute("/reviews/{review_id}/files/{index}/lines", show_gap, inbox_rows=0),
    PageRoute("/reviews/{review_id}/files/{index}/content", send_content, inbox_rows=0),
)
