"""Files as texts and back: byte order marks, line ends, and cuts that join no lines."""

from __future__ import annotations

import codecs
from pathlib import Path

from tandem.workflow.edits.edit import unusable

BOM = "\ufeff"
_WIDE = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def read(path: Path, content: bytes | None, *, lenient: bool = False) -> str:
    """The text of a file, its byte order mark and line ends as they are; empty if there is none.

    Args:
        path: For the refusal.
        content: The bytes.
        lenient: Whether bytes that are no UTF-8 are kept (`write` gives them back) instead of refused.

    Raises:
        ConfigInvalid: It is no text in UTF-8.
    """
    if content is None:
        return ""
    if content.startswith(_WIDE) or b"\0" in content:
        raise unusable(path, "it is not saved as UTF-8 (UTF-16, or no text at all)")
    try:
        return content.decode("utf-8", "surrogateescape" if lenient else "strict")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise unusable(path, f"it is not valid UTF-8 ({error.reason} at byte {error.start})", line=line) from error


def write(text: str) -> bytes:
    """The bytes of a text that `read` gave."""
    return text.encode("utf-8", "surrogateescape")


def newline_of(text: str) -> str:
    """How the lines of a text end, by the majority."""
    windows = text.count("\r\n")
    return "\r\n" if windows * 2 > text.count("\n") else "\n"


def with_newlines(text: str, newline: str) -> str:
    """A text of ours with the line ends of a file, the last one included."""
    return text.rstrip("\n").replace("\n", newline) + newline


def before_place(text: str, place: int, newline: str) -> str:
    """What has to stand before whole lines of ours at a place, so that a blank line sets them apart."""
    head = text[:place].removeprefix(BOM)
    if not head:
        return ""
    if not head.endswith("\n"):
        return newline * 2
    last = head[:-1].rpartition("\n")[2]
    return newline if last.strip() else ""


def cut(text: str, start: int, end: int, lead: str, tail: str) -> str:
    """Cut lines of ours out, with the blank lines that came with them, as far as those are still there.

    Args:
        text: The whole.
        start: Where ours begins.
        end: Where it ends, its own line end included.
        lead: What was put before it.
        tail: What was put behind it.
    """
    head, rest = text[:start], text[end:]
    if lead and head.endswith(lead) and _ends_line(head[: -len(lead)]) == (_line_ends(lead) == 1):
        head = head[: -len(lead)]
    if tail and rest.startswith(tail):
        rest = rest[len(tail) :]
    if rest and not _ends_line(head):
        # Whatever was written behind ours must not end up on the line before it.
        rest = newline_of(text) + rest
    return head + rest


def _line_ends(text: str) -> int:
    return text.count("\n")


def _ends_line(head: str) -> bool:
    return head.removeprefix(BOM) == "" or head.endswith("\n")
