"""The tables of routes and flows: text files beside this one, with the steps of a row indented below its name."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        name: Unique in its table.
        section: The text behind the last `=` above it; empty without one.
        steps: In their order.
    """

    name: str
    section: str
    steps: list[str]


def rows(table: str) -> Iterator[Row]:
    """Yields the rows of a table; a row's steps are complete only once the next row is taken.

    Lines that are indented twice continue a step.
    """
    section, names, steps = "", set[str](), list[str]()
    for line in (_FOLDER / table).read_text("utf-8").splitlines():
        if line.startswith("= "):
            section = line.removeprefix("= ")
        elif line.startswith(" " * 8):
            steps[-1] += " " + line.strip()
        elif line.startswith(" "):
            steps.append(line.strip())
        elif line and not line.startswith("#"):
            assert line not in names, f"two rows are called {line}"
            names.add(line)
            steps = list[str]()
            yield Row(line, section, steps)


def cases(table: str, *, only: Collection[str] | None = None) -> list[Any]:
    """The rows of a table as the cases of a test: all, or only some."""
    found = {row.name: row for row in rows(table)}
    chosen = found.keys() if only is None else only
    assert found.keys() >= {*chosen}, f"{table} has no {sorted({*chosen} - found.keys())}"
    return [pytest.param(row, id=name) for name, row in found.items() if name in chosen]
