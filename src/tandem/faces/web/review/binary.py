"""A binary file of the change: sizes and hashes, both versions of an image, and the bytes to take away."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass

from starlette.responses import Response

from tandem.domain.file_answers import RoundFile
from tandem.domain.hunks import FileDiff
from tandem.errors import NotFound, TandemError, TooLarge
from tandem.faces.web.page import PageRequest, PageRoute, in_worker
from tandem.faces.web.review.counter_patch import whole_change
from tandem.faces.web.review.view import ReviewView, find_file, load

_SIDES = ("before", "after")
_PICTURES = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpeg"),
    (b"GIF87a", "gif"),
    (b"GIF89a", "gif"),
)
_POLICY = "default-src 'none'; sandbox"


@dataclass(frozen=True, slots=True)
class Version:
    """The file before or after the change.

    Attributes:
        side: `before` or `after`.
        size: In bytes; null where there is no file.
        sha256: Of its content.
        address: Where its bytes are; null where there are none, or too many.
        is_picture: Whether a browser can show them safely.
    """

    side: str
    size: int | None = None
    sha256: str | None = None
    address: str | None = None
    is_picture: bool = False


@dataclass(frozen=True, slots=True)
class Content:
    """What is known of a binary file.

    Attributes:
        versions: Before and after; none if they cannot be read.
        why_not: Why they cannot.
        text: The change in lines, if both versions are texts that were only sent as binary.
    """

    versions: tuple[Version, ...] = ()
    why_not: str = ""
    text: FileDiff | None = None


async def content(request: PageRequest, review: ReviewView, index: int, file: FileDiff) -> Content:
    """What a binary file holds before and after the change that is shown."""
    try:
        found = [await _read(request, review, file, side) for side in _SIDES]
    except TandemError as error:
        return Content(why_not=error.message)
    versions = tuple(_version(review, index, side, one) for side, one in zip(_SIDES, found, strict=True))
    if any(one is not None and (one.binary or (one.exists and one.base64 is None)) for one in found):
        return Content(versions)
    before, after = (b64decode((one.base64 if one else None) or "").decode() for one in found)
    return Content(versions, text=await in_worker(whole_change, file, before, after))


async def _read(request: PageRequest, review: ReviewView, file: FileDiff, side: str) -> RoundFile | None:
    """The file before or after the change; null where the change says that there is none."""
    is_after = side == "after"
    path = file.new_path if is_after else file.old_path
    if path is None:
        return None
    since = None if is_after else review.since
    return await request.call(
        "get_round_file",
        review_id=review.review_id,
        round=since or review.round,
        path=path,
        side="after" if is_after or since else "before",
        last_line=1,
        as_base64=True,
    )


def _version(review: ReviewView, index: int, side: str, found: RoundFile | None) -> Version:
    if found is None or not found.exists:
        return Version(side)
    data = found.base64
    address = None if data is None else review.link(f"/files/{index}/content", side=side)
    is_picture = data is not None and _picture(b64decode(data[:64])) is not None
    return Version(side, found.size_bytes, found.sha256, address, is_picture)


def _picture(content: bytes) -> str | None:
    """The kind of an image, by its own first bytes; null for what a browser could take for anything else."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "webp"
    return next((kind for start, kind in _PICTURES if content.startswith(start)), None)


async def serve(request: PageRequest) -> Response:
    """The bytes, as a file to save; as an image where they are one, but never as a page.

    Raises:
        NotFound: There is no such file.
        TooLarge: It is larger than what is sent.
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


ROUTES = (PageRoute("/reviews/{review_id}/files/{index}/content", serve, inbox_rows=0),)
