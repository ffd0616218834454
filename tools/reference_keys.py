"""The page of all keys, from the one table that pages and terminal have."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import groupby

from reference_parts import code, page, table
from tandem.present.keys import KEYS, Key


def keys() -> str:
    """The keys of the pages and of the terminal, under the headings of their help."""
    parts = [
        (f"## {group}", table(("on the pages", "in the terminal", ""), [_row(one) for one in found]))
        for group, found in groupby(KEYS, lambda one: one.group)
    ]
    return page(
        "Keys",
        "On the [pages](../guide/pages.md) and in the [terminal](../guide/terminal.md), `?` lists the keys that work "
        "where you are. The same key does the same on both. Two characters are pressed one after the other; of a pair, "
        "the second key goes the other way.",
        *(part for both in parts for part in both),
    )


def _row(one: Key) -> tuple[str, str, str]:
    return _said(one.parts if one.page else ()), _said(key for key, _ in one.bound() if one.screens), one.does


def _said(names: Iterable[str]) -> str:
    return code(name.replace(" ", "") if name[0] in "[]" else name for name in names)
