"""Statements that look up the rows of many keys, some at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final

from sqlalchemy import Integer, Text, bindparam, column, values

from tandem.store.base import Row, Unit
from tandem.store.statement import Statement

_AT_ONCE: Final = (1, 16, 256)
"""How many keys a statement may ask for: few sizes, so that there are few statements."""


def keys_table(count: int, *names: str) -> Any:
    """So many keys as a table, for statements that find the rows of each by an index."""
    types = {"round": Integer}
    columns = [column(name, types.get(name, Text)) for name in names]
    rows = [tuple(bindparam(f"{one.name}_{number}", type_=one.type) for one in columns) for number in range(count)]
    return values(*columns, name="wanted").data(rows).cte("wanted")


def list_by_keys(
    unit: Unit,
    made: Callable[[int], Statement],
    names: tuple[str, ...],
    keys: Sequence[tuple[Any, ...]],
    limit: int | None = None,
    **params: Any,
) -> Iterator[list[Row]]:
    """The rows of many keys, those of some keys at a time; so many rows at most."""
    at = 0
    while at < len(keys) and limit != 0:
        size = next((one for one in _AT_ONCE if one >= len(keys) - at), _AT_ONCE[-1])
        part = [*keys[at : at + size]]
        part += [(None,) * len(names)] * (size - len(part))
        given = {
            f"{name}_{number}": value for number, key in enumerate(part) for name, value in zip(names, key, strict=True)
        }
        rows = unit.all(made(size), **given, **params, **({} if limit is None else {"limit": limit}))
        limit = None if limit is None else limit - len(rows)
        at += size
        yield rows
