"""Paths: as git quotes them, as the headers of a diff name them, and which may never be touched."""

from __future__ import annotations

import re

from tandem.git.names import encode_path, unquote

_NOWHERE = b"/dev/null"
_LONGEST_TRIED = 8_192
"""Of a header's two names: every space may be where the second begins; past this length only the middle is tried."""


def header_name(value: bytes) -> bytes | None:
    """The name in a line such as `--- ` or `rename from `, perhaps quoted; a tab ends it. None for no file."""
    quoted = unquote(value)
    name = value.split(b"\t", 1)[0].rstrip(b"\r") if quoted is None else quoted[0]
    return None if name == _NOWHERE else name


def common_name(value: bytes, *, strip: bool = True) -> bytes | None:
    """The name in `diff --git a/NAME b/NAME`, all there is when neither content nor name changes; None if two.

    Without `strip` the names have no prefix.
    """
    if not strip:
        middle = len(value) // 2
        return header_name(value[:middle]) if value[:middle] == value[middle + 1 :] else None
    quoted = unquote(value)
    if quoted is not None:
        return without_prefix(quoted[0])
    start = value.find(b"/") + 1
    at = value.find(b" ") if len(value) <= _LONGEST_TRIED else len(value) // 2
    while at >= 0 and value[at : at + 1] == b" ":
        left = slice(start if start <= at else 0, at)
        other = unquote(value[at + 1 :]) if value.startswith(b'"', at + 1) else None
        if other is not None:
            if value[left] == without_prefix(other[0]):
                return value[left]
        else:
            # Most places are told apart by length, without a copy of the names: a hostile header is all spaces.
            begin = value.find(b"/", at + 1) + 1 or at + 1
            if len(value) - begin == at - left.start and value[begin:] == value[left]:
                return value[left]
        at = value.find(b" ", at + 1) if len(value) <= _LONGEST_TRIED else -1
    return None


def without_prefix(name: bytes) -> bytes:
    """A name without its first folder."""
    _, slash, rest = name.partition(b"/")
    return rest if slash else name


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
    if path.startswith('"'):
        path = encode_path(path).decode("utf-8", "surrogateescape")
    if "\0" in path:
        return "contains a NUL byte"
    if len(path.encode("utf-8", "surrogatepass")) > LONGEST_PATH_BYTES:
        return f"is longer than {LONGEST_PATH_BYTES} bytes"
    if path[0] in "/\\" or _DRIVE.match(path):
        return "is absolute"
    return next(filter(None, map(_unsafe_part_reason, _SEPARATORS.split(path))), None)


def link_reason(path: str, target: bytes) -> str | None:
    """Why the text of a symbolic link could lead out of the repository; None when it cannot.

    `..` leads up from the link's folder, which is a real one, and may stand only where the text begins: behind a name,
    which may be a link itself, nobody can tell from the text where it leads.

    Args:
        path: The link.
        target: Its text.
    """
    text = target.decode("utf-8", "surrogateescape")
    if not text or "\0" in text or len(target) > LONGEST_PATH_BYTES:
        return "has no usable target"
    if text[0] in "/\\" or _DRIVE.match(text):
        return "is absolute"
    depth = encode_path(path).count(b"/")
    names = 0
    for part in _SEPARATORS.split(text):
        if part == "..":
            if names:
                return "has '..' behind a name"
            depth -= 1
        elif part not in {"", "."}:
            names += 1
            if _is_git_folder(part):
                return "leads into a .git folder"
        if depth < 0:
            return "leads out of it"
    return None


def _unsafe_part_reason(part: str) -> str | None:
    if part in {"", ".", ".."}:
        return f"has the component {part!r}"
    return "leads into a .git folder" if _is_git_folder(part) else None


def _is_git_folder(part: str) -> bool:
    """Whether some file system takes the name for `.git`."""
    name = part.translate(_HFS_IGNORED).lower()
    return name.split(":", 1)[0].rstrip(" .") in _GIT_FOLDERS
