"""The tables of routes and flows: text files beside this one, with the steps of a row indented below its name.

A row whose name follows a `~` is a variation: it takes the same way as another row, which always runs.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tandem.rulings.state import COMMITS
from tests.modes import VARIATION

_FOLDER = Path(__file__).parent


@dataclass(frozen=True)
class Row:
    """One row.

    Attributes:
        name: Unique in its table.
        section: The text behind the last `=` above it; empty without one.
        steps: In their order.
        is_variation: Whether it runs with `--every-mode` only.
    """

    name: str
    section: str
    steps: list[str]
    is_variation: bool


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
            name = line.removeprefix("~ ")
            assert name not in names, f"two rows are called {name}"
            names.add(name)
            steps = list[str]()
            yield Row(name, section, steps, name != line)


def cases(table: str, *, only: Collection[str] | None = None) -> list[Any]:
    """The rows of a table as the cases of a test: all, or only some, which then always run."""
    found = {row.name: row for row in rows(table)}
    chosen = found.keys() if only is None else only
    assert found.keys() >= {*chosen}, f"{table} has no {sorted({*chosen} - found.keys())}"
    marks = {name: [VARIATION] if row.is_variation and only is None else [] for name, row in found.items()}
    return [pytest.param(row, id=name, marks=marks[name]) for name, row in found.items() if name in chosen]


def turns(table: str) -> list[Any]:
    """The rows in each mode of the gate: by turns one of them always runs, the others are variations."""
    found, turn = list[Any](), 0
    for row in list(rows(table)):
        turn += not row.is_variation
        for at, commits in enumerate(COMMITS):
            is_due = not row.is_variation and turn % len(COMMITS) == at
            found.append(pytest.param(row, commits, id=f"{commits}-{row.name}", marks=[] if is_due else [VARIATION]))
    return found
