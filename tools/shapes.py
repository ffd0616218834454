"""Reads how people see the fields of every answer, from their types, for `present/shapes.py`."""

from __future__ import annotations

import json
import types
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, Literal, Union, cast, get_args, get_origin, get_type_hints

from pydantic import BaseModel

from tandem.contract.operation import Registry
from tandem.contract.request import Work
from tandem.present.shape import KINDS, OF_NUMBERS, Shown, ShownField, kind_of, label_of

HEAD = """\
SHAPES: dict[str, tuple[tuple[str, ...], ...]] = {
"""
_PLAIN = (str, int, float, bool, types.NoneType, Any, ...)
_OF_TEXTS = frozenset({"block", "copied", "diff", "id", "name", "path", "person", "review", "state", "step", "time"})
"""Kinds of one text."""


def render(registry: Registry) -> str:
    """The table of all answers, and the words of `Work` for those who must not import it.

    Raises:
        ValueError: A declaration would fail in an interface: two of one name or command, or a type that has no JSON.
    """
    found: dict[str, type[Any]] = {}
    commands: dict[tuple[str, str], str] = {}
    for operation in registry:
        if (other := commands.setdefault((operation.noun, operation.verb), operation.name)) != operation.name:
            raise ValueError(f"{operation.name} and {other} have the same command: {operation.noun} {operation.verb}")
        _check(operation.request)
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
        ValueError: A field names a kind that there is not, or that is for another type.
    """
    hints = get_type_hints(answer, include_extras=True)
    for field in fields(answer):
        kind, marks = _unwrapped(hints[field.name])
        told = next((mark for mark in marks if isinstance(mark, Shown)), Shown())
        found, inner = _kind(field.name, kind)
        found = told.kind or found
        if found not in KINDS:
            raise ValueError(f"{answer.__name__}.{field.name}: there is no kind {found!r}")
        if (found in _OF_TEXTS and kind is not str) or (found in OF_NUMBERS and kind not in (int, float)):
            raise ValueError(f"{answer.__name__}.{field.name}: the kind {found!r} is not for {kind}")
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
    if not is_dataclass(kind) or not isinstance(kind, type) or found.get(kind.__name__) is kind:
        return
    if kind.__name__ in found:
        raise ValueError(f"{kind.__module__} and {found[kind.__name__].__module__} both have a {kind.__name__}")
    found[kind.__name__] = kind
    _check(kind)
    hints = get_type_hints(kind, include_extras=True)
    for field in fields(kind):
        _collect(hints[field.name], found)


def _check(kind: type[Any]) -> None:
    """See that every field of a request or an answer has a form in JSON, which all interfaces have alike."""
    hints = get_type_hints(kind, include_extras=True)
    for name in kind.model_fields if issubclass(kind, BaseModel) else [field.name for field in fields(kind)]:
        _check_type(f"{kind.__name__}.{name}", hints[name])


def _check_type(where: str, hint: Any) -> None:
    origin = get_origin(hint)
    if hasattr(hint, "__metadata__"):
        _check_type(where, hint.__origin__)
    elif origin in (Union, types.UnionType, tuple, list, dict, Mapping, Sequence):
        for inner in get_args(hint):
            _check_type(where, inner)
    elif isinstance(hint, type) and issubclass(hint, BaseModel):
        _check(hint)
    elif hint not in (*_PLAIN, dict) and origin is not Literal and not is_dataclass(cast("Any", hint)):
        ways = "text, numbers, Literal, tuple, dict or another dataclass; a time is a text, in ISO 8601"
        raise ValueError(f"{where}: {hint} has no form in JSON that all interfaces share; use {ways}")


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
