"""The data of an answer, read by attribute as its type has them, without the type being built."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `text`
if TYPE_CHECKING:
    from typing import Any


class Record(dict[str, "Any"]):
    """A JSON object whose fields are attributes; None for one that it lacks, as types share renderers.

    Objects in it are records, too, and lists are tuples.
    """

    __slots__ = ()

    def __getattribute__(self, name: str) -> Any:
        # Before the methods of a dictionary: an answer may call a field `keys`.
        if super().__contains__(name):
            return super().__getitem__(name)
        try:
            return super().__getattribute__(name)
        except AttributeError:
            if name.startswith("_"):
                raise
            return None


def record(value: Any) -> Any:
    """JSON values with their objects as records."""
    if isinstance(value, dict):
        return Record((name, record(value[name])) for name in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType] any JSON value
    if isinstance(value, list):
        return tuple(record(inner) for inner in value)  # pyright: ignore[reportUnknownVariableType] any JSON value
    return value
