"""Parsing clients' JSON within a limit of values.

A body within the limit of bytes can hold millions of keys, and parsing and checking them would stop the event loop for
seconds. Counting them takes some milliseconds.
"""

from __future__ import annotations

from typing import Any

import orjson

from tandem.errors import TooLarge

MOST_VALUES = 50_000
MOST_LONG_LIST_VALUES = 1_000_000
"""For operations that take the changes of a whole commit."""


def parse_json(body: bytes, most_values: int = MOST_VALUES) -> Any:
    """A body's JSON.

    Raises:
        JSONDecodeError: It is not JSON.
        TooLarge: It holds more values than that.
    """
    if len(body) > most_values and _separators(body) > most_values:  # most of a diff's are within its text
        _check(body, most_values)
    return orjson.loads(body)


def _separators(text: bytes) -> int:
    """How many values a text can hold outside of strings: each stands behind one of these."""
    return text.count(b",") + text.count(b"[") + text.count(b"{")


def _check(body: bytes, most_values: int) -> None:
    # Without escapes, every other part between quotes is outside of strings.
    plain = body.replace(rb"\\", b"").replace(rb"\"", b"")
    count = plain.count(b'"') // 2
    if count <= 2 * most_values:
        count = _separators(b"".join(plain.split(b'"')[::2]))
    if count > most_values:
        raise TooLarge(
            f"The JSON holds more than {most_values} values; send fewer at once.", limit="json_values", most=most_values
        )
