"""How much content the binary parts of a diff stand for: a few lines of it can be many megabytes."""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Iterator

# Git takes up to two parts after the marker: what the file becomes, and the way back. Each says how many bytes it has
# without compression, and git holds it to that.
_PARTS = re.compile(rb"^GIT binary patch\n|^(literal|delta) [ \t\v\f\r]*([+-]?)(\d+)", re.MULTILINE)
_LENGTHS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TWO_NUMBERS_BYTES = 20
_BEYOND = 2**53
"""More than any file has; JSON has larger numbers only in part."""


def inflated_bytes(diff: bytes) -> int:
    """Bytes of content that a diff's binary parts make, and that reading them takes."""
    total = parts_left = 0
    for match in _PARTS.finditer(diff):
        if match[1] is None:
            parts_left = 2
        elif parts_left:
            total += _BEYOND if match[2] == b"-" else int(match[3][:_TWO_NUMBERS_BYTES])
            if parts_left == 2 and match[1] == b"delta":  # noqa: PLR2004 the way forward
                total += _result_of_delta(diff, diff.find(b"\n", match.end()) + 1)
            parts_left -= 1
    return min(total, _BEYOND)


def _result_of_delta(diff: bytes, start: int) -> int:
    """Size of what a delta makes: its second number. Nothing for what git cannot read either."""
    unpacker = zlib.decompressobj()
    head = b""
    try:
        for packed in _packed_lines(diff, start):
            head += unpacker.decompress(unpacker.unconsumed_tail + packed, _TWO_NUMBERS_BYTES - len(head))
            if len(head) == _TWO_NUMBERS_BYTES or unpacker.eof:
                break
    except (ValueError, zlib.error):
        pass
    _, at = _number(head, 0)
    return _number(head, at)[0]


def _packed_lines(diff: bytes, start: int) -> Iterator[bytes]:
    """The bytes of each line of base 85, of which the first letter says how many there are."""
    while (end := diff.find(b"\n", start)) > start:
        length = _LENGTHS.index(diff[start : start + 1]) + 1
        yield base64.b85decode(diff[start + 1 : end])[:length]
        start = end + 1


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of a delta's head, seven bits a byte and the lowest first, and where the next one begins."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 the highest bit says that there is more
            break
    return value, at
