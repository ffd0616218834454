"""The one-time numbers of a run, kept out of all that is written down.

They prove that an answer is the run's own, and that it was read to its end: while a program runs, no one else may
know them. A program may write them anywhere, in pieces too, as models stream their words.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_PIECE = 8
"""Digits: so many in a row that belong to a number of this run are hidden."""
_NUMBER = 64
"""Digits: no number has more."""
_LONGEST = 512
"""Digits: more in a row are no text, and not looked through."""

_DIGITS = re.compile(rb"[0-9a-fA-F]{%d,}" % _PIECE)
_DIGITS_ALONE = bytes(code if chr(code) in "0123456789abcdefABCDEF" else ord(" ") for code in range(256))
_AT_END = re.compile(rb"[0-9a-fA-F]+\Z")


class Redactor:
    """Writes stars for the numbers of one run."""

    def __init__(self, numbers: Iterable[str] = ()) -> None:
        """Know the numbers, which are hexadecimal digits."""
        self._pieces: set[bytes] = set()
        self.add(numbers)

    def add(self, numbers: Iterable[str]) -> None:
        """Know further numbers."""
        texts = [one.encode() for one in numbers]
        self._pieces |= {one[at : at + _PIECE] for one in texts for at in range(len(one) - _PIECE + 1)}

    def hide(self, text: bytes) -> bytes:
        """The text with as many stars in place of each number, and of each recognisable piece of one."""
        # A program may write megabytes, and the expression is the slow part.
        if not self._pieces or not any(len(run) >= _PIECE for run in text.translate(_DIGITS_ALONE).split()):
            return text
        return _DIGITS.sub(self._starred, text)

    def hide_in(self, text: str) -> str:
        """As `hide`, in a text."""
        return self.hide(text.encode("utf-8", "surrogatepass")).decode("utf-8", "surrogatepass")

    def ready(self, chunk: bytes) -> tuple[bytes, bytes]:
        """The part of a stream's chunk that can be written, hidden; and its end that may go on in the next chunk."""
        found = _AT_END.search(chunk[-_NUMBER:])
        end = len(chunk) - (len(found.group()) if found else 0)
        return self.hide(chunk[:end]), chunk[end:]

    def _starred(self, found: re.Match[bytes]) -> bytes:
        shown, digits = bytearray(found.group()), found.group().lower()
        if len(digits) > _LONGEST:
            return b"*" * len(digits)
        for at in range(len(digits) - _PIECE + 1):
            if digits[at : at + _PIECE] in self._pieces:
                shown[at : at + _PIECE] = b"*" * _PIECE
        return bytes(shown)
