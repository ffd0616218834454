"""Making an answer from a record."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from inspect import signature
from operator import attrgetter
from typing import Any, TypeVar

from tandem.core.clock import isoformat

T = TypeVar("T")


def time_or_none(instant_us: int | None) -> str | None:
    """ISO time, or None."""
    return None if instant_us is None else isoformat(instant_us)


def shown(kind: type[T], record: Any, /, **stated: Any) -> T:
    """An answer from a record: the fields that both name alike, times as ISO 8601, and the stated fields.

    Args:
        kind: The answer's type.
        record: The record. Its times are microseconds, and their names end in `_at`.
        stated: Fields that the record does not have, or has in another form.
    """
    plain, values, times = _common(kind, record.__class__, tuple(stated))
    stated.update(zip(plain, values(record), strict=False))
    for name in times:
        time = getattr(record, name)
        # A text is what others named so.
        stated[name] = time if isinstance(time, str) else time_or_none(time)
    return kind(**stated)


@cache
def _common(
    kind: type[Any], record: type[Any], stated: tuple[str, ...]
) -> tuple[list[str], Callable[[Any], tuple[Any, ...]], list[str]]:
    """Fields that an answer takes from a record as they are, what reads them, and the times among them."""
    common = [name for name in signature(kind).parameters if name not in stated and hasattr(record, name)]
    plain = [name for name in common if not name.endswith("_at")]
    # With two more, as of a single attribute it would read the value instead of a tuple.
    return plain, attrgetter(*plain, "__class__", "__class__"), [name for name in common if name.endswith("_at")]
