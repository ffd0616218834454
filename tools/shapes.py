"""Reads how people see the fields of every answer, from their types, for `present/shapes.py`."""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from tandem.contract.operation import Registry
from tandem.contract.work import Work
from tandem.present.shape import KINDS, OF_NUMBERS, Shown, ShownField, kind_of, label_of

HEAD = """\
SHAPES: dict[str, tuple[tuple[str, ...], ...]] = {
"""


def render(registry: Registry) -> str:
    """The table of all answers, and the words of `Work` for those who must not import it."""
    found: dict[str, type[Any]] = {}
    for operation in registry:
        _collect(operation.answer, found)
    _collect(Work, found)
    lines = [f'    "{name}": {_tuple(map(_line, shape(kind)))},\n' for name, kind in sorted(found.items())]
    described = [(field.name, field.label, _description(field.name)) for field in shape(Work)]
    words = [f"    ({', '.join(map(json.dumps, texts))}),\n" for texts in described]
    text = f"{HEAD}{''.join(lines)}}}\n\nWORK: tuple[tuple[str, str, str], ...] = (\n{''.join(words)})\n"
    return text + '"""Each field of `Work`: its name, its label and its description."""\n'


def shape(answer: type[Any]) -> Iterator[ShownField]:
    """How people see each field of an answer.

    Raises:
        ValueError: A field names a kind that there is not.
    """
    hints = get_type_hints(answer, include_extras=True)
    for field in fields(answer):
        kind, marks = _unwrapped(hints[field.name])
        told = next((mark for mark in marks if isinstance(mark, Shown)), Shown())
        found, inner = _kind(field.name, kind)
        found = told.kind or found
        if found not in KINDS:
            raise ValueError(f"{answer.__name__}.{field.name}: there is no kind {found!r}")
        yield ShownField(field.name, told.label or label_of(field.name), found, inner, told.empty)


def _kind(name: str, kind: Any) -> tuple[str, str]:
    """The kind that a field has by its name and type, and the type of its records."""
    origin, by_name = get_origin(kind), kind_of(name)
    found, inner = by_name or "text", ""
    if is_dataclass(kind):
        found, inner = "record", _name(kind)
    elif origin in (tuple, list) and by_name != "files":
        element = _unwrapped(get_args(kind)[0])[0]
        found, inner = ("table", _name(element)) if is_dataclass(element) else ("words", "")
    elif origin in (dict, Mapping) or kind is dict:
        found = "counts" if get_args(kind)[1:] == (int,) else "json"
    elif kind is bool and by_name != "hidden":
        found = "flag"
    elif kind in (int, float):
        found = found if found in OF_NUMBERS else "count" if kind is int else "number"
    elif kind is str and found in OF_NUMBERS:
        found = "text"
    return found, inner


def _name(kind: Any) -> str:
    return kind.__name__


def _unwrapped(hint: Any) -> tuple[Any, list[Any]]:
    """A type without `Annotated` and None, and its marks."""
    marks: list[Any] = []
    while True:
        if hasattr(hint, "__metadata__"):
            marks += hint.__metadata__
            hint = hint.__origin__
        elif get_origin(hint) in (Union, types.UnionType):
            rest = [one for one in get_args(hint) if one is not types.NoneType]
            if len(rest) != 1:
                return rest[0], marks
            hint = rest[0]
        elif get_origin(hint) is Literal:
            return str, marks
        else:
            return hint, marks


def _collect(kind: Any, found: dict[str, type[Any]]) -> None:
    """Every answer within a type."""
    kind, _ = _unwrapped(kind)
    for inner in get_args(kind):
        _collect(inner, found)
    if is_dataclass(kind) and isinstance(kind, type) and kind.__name__ not in found:
        found[kind.__name__] = kind
        hints = get_type_hints(kind, include_extras=True)
        for field in fields(kind):
            _collect(hints[field.name], found)


def _line(field: ShownField) -> str:
    facts = [field.name, field.label, field.kind, field.inner, field.empty]
    while not facts[-1]:
        facts.pop()
    return _tuple(map(json.dumps, facts))


def _tuple(texts: Iterable[str]) -> str:
    found = list(texts)
    return f"({', '.join(found)}{',' if len(found) == 1 else ''})"


def _description(name: str) -> str:
    _, marks = _unwrapped(get_type_hints(Work, include_extras=True)[name])
    return next(one.description for one in marks if getattr(one, "description", None))
