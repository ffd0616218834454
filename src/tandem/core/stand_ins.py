"""Stand-ins for parts of `typing`, `hashlib` and `contextlib`, which take longer to import than most hooks run."""
# ruff: noqa: ANN001, ANN002, ANN003, ANN201, ANN202, ANN204, D102, D103 - no type checker reads those for `typing`

from __future__ import annotations

import sys
from operator import itemgetter

_LARGE_BYTES = 64 * 1024
"""OpenSSL's hash is several times as fast, and takes longer to load than most commits to judge."""

TYPE_CHECKING = False  # `typing` is one of them
if TYPE_CHECKING:
    from hashlib import sha256 as _sha256
    from typing import NamedTuple, Self, cast
else:
    _sha256 = __import__("_sha2" if sys.version_info >= (3, 12) else "_sha256").sha256

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


__all__ = ["Closing", "NamedTuple", "cast", "hex_digest"]


def hex_digest(data: bytes, algorithm: str = "sha256") -> str:
    """The hash as hexadecimal digits."""
    if algorithm == "sha256" and len(data) < _LARGE_BYTES:
        return _sha256(data).hexdigest()
    # As said above: most hooks and commands hash little.
    import hashlib

    return hashlib.new(algorithm, data, usedforsecurity=False).hexdigest()


class Closing:
    """A base of objects that are closed at the end of a `with`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back all that it holds; twice is safe."""
