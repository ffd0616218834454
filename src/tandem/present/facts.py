"""An answer as rows of facts, from the labels and kinds of its fields: what every generic renderer draws.

The terminal draws them with `cli.render`, pages and exports with their templates. Answers are records or instances of
their types; one of a type that is not known has its labels and kinds by the names and values of its fields.
"""

from __future__ import annotations

import json
import re
from contextlib import suppress
from datetime import datetime

from tandem.present.shape import IN_TABLES, OF_NUMBERS, Record, ShownField, kind_of, label_of, record
from tandem.present.shapes import SHAPES
from tandem.present.words import duration

TYPE_CHECKING = False  # as in `text`
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import Any, Final

_LEAST_SECONDS: Final = 0.05
_SHORT_SECONDS: Final = 10
_LONGEST_DETAIL: Final = 200
_HASH: Final = re.compile("[0-9a-f]{40,}")
_HASH_DIGITS: Final = 12
_WORK: Final = ShownField("work", "work", "text")
"""The column of a table with what each row's review belongs to, as `work` says it."""
_ALL_OF_WORK: Final = "*"
"""Leads to all of `Work`: no field has that name."""


class Fact:
    """One fact of an answer.

    Attributes:
        field: What declares it.
        value: Its value; empty only in a table's cell.
    """

    __slots__ = ("field", "value")

    def __init__(self, field: ShownField, value: Any) -> None:
        self.field, self.value = field, value

    @property
    def label(self) -> str:
        """Its name for people."""
        return self.field.label

    @property
    def kind(self) -> str:
        """How it is shown; see `shape`."""
        return self.field.kind

    @property
    def words(self) -> str:
        """Its value in words, for kinds that have no form of their own where they are shown."""
        return worded(self.kind, self.value)


def facts(kind: str, answer: Any, *, but: Sequence[str] = ()) -> list[Fact]:
    """What an answer says, in the order of its fields, without hidden ones, and without empty ones that have no words.

    The facts of a record within it have that record's label before theirs. `but` names fields that are not wanted.
    """
    found = (_fact(field, _at(answer, way)) for field, way in _flat(kind, [answer]) if way[0] not in but)
    return [entry for fact in found if not _is_empty(fact.value) for entry in _entries(fact)]


def details(data: Any) -> list[Fact]:
    """What an event says besides its kind: a fact for each entry, by its name and value, long ones cut."""
    return [_shortened(fact) for fact in facts("", record(data))]


def given(label: str, entries: Mapping[str, Any]) -> list[Fact]:
    """Facts that others named; the label stands before each name, so that none is mistaken for one of ours."""
    return [Fact(ShownField(name, f"{label} {brief(name)}", "text"), entries[name]) for name in entries]


def brief(text: str) -> str:
    """Enough of a hash to tell it from others; the beginning of any other text that is too long for a list."""
    if _HASH.fullmatch(text):
        return text[:_HASH_DIGITS]
    return text if len(text) <= _LONGEST_DETAIL else text[:_LONGEST_DETAIL] + "…"


def work(answer: Any) -> str:
    """What a review belongs to, as short as a list has room for: `03 · 03-01 · 2`; nothing where it does not say."""
    return " · ".join(fact.words for fact in facts("Work", answer))


def table(
    kind: str, records: Sequence[Any], only: Sequence[str] | None = None
) -> tuple[list[ShownField], list[list[Fact]]]:
    """The columns of a table that have room in one and say something in at least one row, and the rows' cells.

    `only` chooses and orders the columns, by the dotted names that lead to them; `work` is all of `Work` in one.
    """
    columns = [(field, way) for field, way in _flat(kind, records) if field.kind in IN_TABLES]
    if only is not None:
        known = {name: (_WORK, (*name.split(".")[:-1], _ALL_OF_WORK)) for name in only if name.endswith(_WORK.name)}
        known |= {".".join(way): (field, way) for field, way in columns}
        columns = [known[name] for name in only if name in known]
    told = [(field, [_fact(field, _at(record, way)) for record in records]) for field, way in columns]
    told = [(field, cells) for field, cells in told if not all(_is_empty(cell.value) for cell in cells)]
    return [field for field, _ in told], [[cells[at] for _, cells in told] for at in range(len(records))]


def _fact(field: ShownField, value: Any) -> Fact:
    """A field with its value, or with the words for an empty one; those of a list stand where its rows would."""
    if field.empty and field.kind != "table" and _is_empty(value):
        return Fact(ShownField(field.name, field.label, "text"), field.empty)
    if field.kind == "time" and value is not None and not _is_time(value):
        return Fact(ShownField(field.name, field.label, "text"), value)
    return Fact(field, value)


def _entries(fact: Fact) -> list[Fact]:
    """The facts that the entries of an object are; of any other fact that one."""
    if fact.kind == "details":
        return details(fact.value)
    return given(fact.label, fact.value) if fact.kind == "given" else [fact]


def _shortened(fact: Fact) -> Fact:
    words = brief(fact.words)
    if words == fact.words:
        return fact
    kind = fact.kind if isinstance(fact.value, str) else "text"
    return Fact(ShownField(fact.field.name, fact.label, kind), words)


def _flat(
    kind: str, records: Sequence[Any], label: str = "", way: tuple[str, ...] = ()
) -> Iterator[tuple[ShownField, tuple[str, ...]]]:
    """The fields of records and of the records within them, each with the names that lead there."""
    for field in shape(kind, records):
        here, name = (*way, field.name), _joined(label, field.label)
        if field.kind == "record":
            inner = [one for one in (getattr(record, field.name, None) for record in records) if one is not None]
            yield from _flat(field.inner, inner, name, here) if inner else ()
        elif field.kind != "hidden":
            yield ShownField(field.name, name, field.kind, field.inner, field.empty), here


def _joined(outer: str, label: str) -> str:
    return label if not outer or label == outer else f"{outer} {label}"


def _at(record: Any, way: tuple[str, ...]) -> Any:
    for name in way:
        record = work(record) if name == _ALL_OF_WORK else getattr(record, name, None)
    return record


def _is_empty(value: Any) -> bool:
    return value is None or value in ("", (), [], {})


def shape(kind: str, records: Sequence[Any]) -> Sequence[ShownField]:
    """The fields of an answer; of a type that is not known, those that the records have."""
    known = SHAPES.get(kind)
    if known is not None:
        return [ShownField(*field) for field in known]
    found = [record for record in records if isinstance(record, Record)]
    names = dict.fromkeys(name for record in found for name in record)
    labels = {name: label_of(name) for name in names}
    return [
        _guessed(name, label if label == name or label not in names else name.replace("_", " "), found)
        for name, label in labels.items()
    ]


def _guessed(name: str, label: str, records: Sequence[Record]) -> ShownField:
    """A field by its name and the first value that says something."""
    value = next((record[name] for record in records if name in record and record[name] is not None), None)
    kind = kind_of(name) or "text"
    if isinstance(value, Record):
        kind = "record"
    elif isinstance(value, tuple):
        kind = "table" if any(isinstance(one, Record) for one in value) else "words"  # pyright: ignore[reportUnknownVariableType] any JSON value
    elif isinstance(value, bool):
        kind = "flag"
    elif isinstance(value, int | float):
        kind = kind if kind in OF_NUMBERS else "number"
    elif kind in OF_NUMBERS or kind not in IN_TABLES or (kind == "time" and not _is_time(value)):
        kind = "text"
    return ShownField(name, label, kind)


def _is_time(value: Any) -> bool:
    with suppress(TypeError, ValueError):
        return datetime.fromisoformat(value).tzinfo is not None
    return False


def worded(kind: str, value: Any) -> str:
    """A value in words, for kinds that have no form of their own where they are shown."""
    if kind in _WORDS:
        return _WORDS[kind](value)
    listed: list[Any] = [*value] if isinstance(value, list | tuple) else []
    if listed and all(isinstance(one, str) for one in listed):
        return ", ".join(listed)
    if value is None or isinstance(value, dict | list | tuple | bool):
        return json.dumps(_bare(value), ensure_ascii=False)
    return str(value)


def _bare(value: Any) -> Any:
    """JSON without records, whose fields may have the names of a dictionary's methods."""
    if isinstance(value, dict):
        return {name: _bare(value[name]) for name in value}  # pyright: ignore[reportUnknownVariableType] any JSON value
    if isinstance(value, list | tuple):
        return [_bare(one) for one in value]  # pyright: ignore[reportUnknownVariableType] any JSON value
    return value


def _measured(seconds: float) -> str:
    """A span that was measured; tenths matter in a short one."""
    is_short = _LEAST_SECONDS < seconds < _SHORT_SECONDS and seconds != int(seconds)
    return f"{seconds:.1f} s" if is_short else duration(seconds)


_WORDS: Final[dict[str, Callable[[Any], str]]] = {
    "flag": lambda is_so: "yes" if is_so else "no",
    "duration": _measured,
    "number": lambda number: str(round(number, 9)),
    "money": "${:.2f}".format,
    "percent": "{:.0%}".format,
    "size": "{:,} bytes".format,
    "words": lambda texts: ", ".join(worded("text", text) for text in texts),
    "counts": lambda numbers: ", ".join(f"{number} {name}" for name, number in numbers.items() if number) or "none",
}
