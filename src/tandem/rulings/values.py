"""`NamedTuple`, `cast` and hashes for modules that every hook imports: `typing` takes a third of a hook's start."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ANN204, D102, D103 - no type checker reads this stand-in for `typing`

from __future__ import annotations

from operator import itemgetter

TYPE_CHECKING = False  # this module stands in for `typing`
if TYPE_CHECKING:
    from typing import NamedTuple, cast
else:

    class _Fields(type):
        """Makes the annotated names of a class properties of its items; the standard library compiles code for that."""

        def __new__(mcs, name, bases, members):
            fields = tuple(members.get("__annotations__", ()))
            defaults = {field: members[field] for field in fields if field in members}
            getters = {field: property(itemgetter(at)) for at, field in enumerate(fields)}
            known = {"__slots__": (), "_fields": fields, "_field_defaults": defaults}
            return super().__new__(mcs, name, bases, {**members, **known, **getters})

    class NamedTuple(tuple, metaclass=_Fields):
        """A record whose annotated fields are its values, in their order."""

        __slots__ = ()

        def __new__(cls, *values, **named):
            given = {**cls._field_defaults, **dict(zip(cls._fields, values, strict=False)), **named}
            if len(values) > len(cls._fields) or given.keys() != set(cls._fields):
                raise TypeError(f"{cls.__name__} takes {', '.join(cls._fields)}")
            return tuple.__new__(cls, map(given.__getitem__, cls._fields))

        def _replace(self, **named):
            return type(self)(**{**dict(zip(self._fields, self, strict=True)), **named})

        def _asdict(self):
            return dict(zip(self._fields, self, strict=True))

        def __repr__(self):
            stated = (f"{field}={value!r}" for field, value in self._asdict().items())
            return f"{type(self).__name__}({', '.join(stated)})"

    def cast(_kind, value):
        return value


__all__ = ["NamedTuple", "cast"]
