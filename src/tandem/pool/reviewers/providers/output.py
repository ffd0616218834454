"""Reading the JSON that programs print, which may be cut, mixed with other lines, or no JSON at all."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeVar, cast

Number = TypeVar("Number", int, float)


def objects(output: bytes) -> Iterator[dict[str, Any]]:
    """Every line that is a JSON object; the others are passed over."""
    for line in output.splitlines():
        if line.lstrip()[:1] == b"{" and (found := parsed(line)):
            yield found


def parsed(text: bytes | None) -> dict[str, Any]:
    """The JSON object that a text is; empty if it is none."""
    try:
        # As text: from bytes it would guess other encodings than UTF-8.
        value = json.loads((text or b"").decode())
    except (ValueError, RecursionError):
        return {}
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def part(record: dict[str, Any], name: str) -> dict[str, Any]:
    """An object inside an object; empty if there is none."""
    inner = record.get(name)
    return cast("dict[str, Any]", inner) if isinstance(inner, dict) else {}


def last(events: list[dict[str, Any]], kind: str) -> dict[str, Any]:
    """The last event of a kind; empty if there is none."""
    nothing: dict[str, Any] = {}
    return next((one for one in reversed(events) if one.get("type") == kind), nothing)


def text(record: dict[str, Any], name: str) -> str | None:
    """A text that is not empty, else None."""
    value = record.get(name)
    return value if isinstance(value, str) and value.strip() else None


def count(record: dict[str, Any], *names: str) -> int | None:
    """The sum of the whole numbers that are there and not negative; None if none is."""
    found = [value for name in names if type(value := record.get(name)) is int and value >= 0]
    return sum(found) if found else None


def total(numbers: Iterable[Number | None]) -> Number | None:
    """The sum of the numbers that are there; None if none is."""
    found = [number for number in numbers if number is not None]
    return sum(found[1:], found[0]) if found else None


def amount(record: dict[str, Any], name: str) -> float | None:
    """A number that is not negative, else None."""
    value = record.get(name)
    if not isinstance(value, int | float) or isinstance(value, bool):
        return None
    return float(value) if 0 <= value < float("inf") else None
