"""`NamedTuple` for modules that every commit imports: `typing` alone takes as long as their work.

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import NamedTuple
else:
    from tandem.hooks.tuples import NamedTuple
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any


class _Named(type):
    """Makes a tuple with named places of a class with annotations."""

    def __new__(cls, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> _Named:
        if not bases:
            return super().__new__(cls, name, (tuple,), {**namespace, "__slots__": ()})
        fields = tuple(namespace["__annotations__"])
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        places = {field: property(_getter(at)) for at, field in enumerate(fields)}
        members = {**namespace, **places, "_fields": fields, "_defaults": defaults, "__slots__": ()}
        return super().__new__(cls, name, bases, members)


def _getter(at: int) -> Callable[[Any], Any]:
    def get(values: Any) -> Any:
        return values[at]

    return get


class NamedTuple(metaclass=_Named):
    """A tuple whose places have names, as that of `typing` is."""

    _fields: tuple[str, ...] = ()
    _defaults: dict[str, Any] = {}  # noqa: RUF012 - a class of its own for each kind, and never changed

    def __new__(cls, *values: Any, **named: Any) -> Any:
        """The values by their places or their names.

        Raises:
            TypeError: One is missing, given twice or unknown.
        """
        given = dict(zip(cls._fields, values, strict=False))
        if len(values) > len(cls._fields) or given.keys() & named.keys() or named.keys() - set(cls._fields):
            raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}")
        found = {**cls._defaults, **given, **named}
        missing = [field for field in cls._fields if field not in found]
        if missing:
            raise TypeError(f"{cls.__name__} lacks {', '.join(missing)}")
        return tuple.__new__(cls, [found[field] for field in cls._fields])  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType, reportArgumentType] a tuple by its metaclass

    def _replace(self, **named: Any) -> Any:
        """The same with other values at some places."""
        return type(self)(**{**self._asdict(), **named})

    def _asdict(self) -> dict[str, Any]:
        """The values by their names."""
        return {field: getattr(self, field) for field in self._fields}

    def __repr__(self) -> str:
        stated = ", ".join(f"{field}={getattr(self, field)!r}" for field in self._fields)
        return f"{type(self).__name__}({stated})"
