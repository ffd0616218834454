"""Which paths may never be touched."""

from __future__ import annotations

import re

from tandem.core.diff_names import quote
from tandem.errors import InvalidInput

# What HFS+ leaves out when it compares names: `.g<U+200C>it` opens `.git` there.
_HFS_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_GIT_FOLDERS = frozenset({".git", "git~1"})
_DRIVE = re.compile(r"[A-Za-z]:")
_SEPARATORS = re.compile(r"[/\\]")
LONGEST_PATH_BYTES = 1024
"""No system takes much longer ones in a work tree, and what is approved is found by an index on paths."""


def unsafe_reason(path: str) -> str | None:
    """Why a path cannot stand in a repository on any system; None when it can.

    Stricter than the system it runs on, because what is reviewed here may be checked out elsewhere.
    """
    if not path:
        return "is empty"
    if "\0" in path:
        return "contains a NUL byte"
    if len(path.encode("utf-8", "surrogatepass")) > LONGEST_PATH_BYTES:
        return f"is longer than {LONGEST_PATH_BYTES} bytes"
    if path[0] in "/\\" or _DRIVE.match(path):
        return "is absolute"
    return next(filter(None, map(_unsafe_part_reason, _SEPARATORS.split(path))), None)


def _unsafe_part_reason(part: str) -> str | None:
    if part in {"", ".", ".."}:
        return f"has the component {part!r}"
    return "leads into a .git folder" if _is_git_folder(part) else None


def _is_git_folder(part: str) -> bool:
    """Whether some file system takes the name for `.git`."""
    name = part.translate(_HFS_IGNORED).lower()
    return name.split(":", 1)[0].rstrip(" .") in _GIT_FOLDERS


def decode_path(path: bytes) -> str:
    """A path as text.

    Raises:
        InvalidInput: The path is not UTF-8, so that no answer could name it.
    """
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError as exc:
        shown = quote(path).decode("ascii")
        raise InvalidInput(
            f"The path {shown} is not UTF-8; rename the file so that it can be named.", field="path", path=shown
        ) from exc
