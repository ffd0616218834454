"""Values that were made or asked for lately, as many as there is room for."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import Generic, TypeVar

Key = TypeVar("Key", bound=Hashable)
Made = TypeVar("Made")


class Recent(Generic[Key, Made]):
    """Values that were made or asked for lately: as many as there is room for, and at least one. For any thread."""

    def __init__(self, room: int, size: Callable[[Made], int]) -> None:
        self._left = room
        self._size = size
        self._made: OrderedDict[Key, Made] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Key) -> Made | None:
        """The value of a key, if it is still kept."""
        with self._lock:
            made = self._made.get(key)
            if made is not None:
                self._made.move_to_end(key)
            return made

    def put(self, key: Key, made: Made) -> None:
        """Keep a value, and drop those that were asked for longest ago."""
        with self._lock:
            before = self._made.pop(key, None)
            self._left += (0 if before is None else self._size(before)) - self._size(made)
            self._made[key] = made
            while self._left < 0 and len(self._made) > 1:
                self._left += self._size(self._made.popitem(last=False)[1])
