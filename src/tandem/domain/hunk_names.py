"""Names of files as the headers of a diff write them."""

from __future__ import annotations

import re

_NOWHERE = "/dev/null"
_QUOTED = re.compile(r'"([^"\\]*(?:\\.[^"\\]*)*)"')
_ESCAPE = re.compile(rb"\\([0-3][0-7]{2}|.)", re.DOTALL)
_LETTERS = {b"a": b"\a", b"b": b"\b", b"t": b"\t", b"n": b"\n", b"v": b"\v", b"f": b"\f", b"r": b"\r"}
_OCTAL_DIGITS = 3
# Every space in the line may be the one between the two names; past this length only the middle is tried.
_LONGEST_TRIED = 4096


def side_name(value: str) -> str | None:
    """The name in a `---` or `+++` line: a tab ends it, one leading folder is a prefix; None for no file."""
    name = _unquoted(value)
    if name is None:
        name = value.split("\t", 1)[0].rstrip("\r")
    return None if name == _NOWHERE else _without_prefix(name)


def moved_name(value: str) -> str:
    """The name in `rename from` and the like: without a prefix, perhaps quoted."""
    name = _unquoted(value)
    return value.rstrip("\r") if name is None else name


def common_name(value: str) -> str | None:
    """The name in `diff --git a/NAME b/NAME`, all there is when neither content nor name changes; None if two."""
    quoted = _unquoted(value)
    if quoted is not None:
        return _without_prefix(quoted)
    middle = len(value) // 2
    if value[middle : middle + 1] == " " and _without_prefix(value[:middle]) == _without_prefix(value[middle + 1 :]):
        return _without_prefix(value[:middle])
    if len(value) > _LONGEST_TRIED:
        return None
    for match in re.finditer(" ", value):
        left = _without_prefix(value[: match.start()])
        if left == _without_prefix(value[match.end() :]):
            return left
    return None


def _without_prefix(name: str) -> str:
    _, slash, rest = name.partition("/")
    return rest if slash else name


def _unquoted(value: str) -> str | None:
    """The name that a C-quoted string at the start of `value` stands for; None when there is none."""
    match = _QUOTED.match(value)
    if match is None:
        return None
    raw = match.group(1)
    return raw if "\\" not in raw else _ESCAPE.sub(_meant, raw.encode("utf-8", "replace")).decode("utf-8", "replace")


def _meant(match: re.Match[bytes]) -> bytes:
    what = match.group(1)
    return bytes([int(what, 8)]) if len(what) == _OCTAL_DIGITS else _LETTERS.get(what, what)
