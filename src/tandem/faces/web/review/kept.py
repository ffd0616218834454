"""HTML that was made before, as much of it as fits."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Hashable
from threading import Lock
from typing import Generic, TypeVar

from markupsafe import Markup

K = TypeVar("K", bound=Hashable)


class Kept(Generic[K]):
    """What was made and asked for lately, by what it was made from; for any thread."""

    def __init__(self, most_characters: int) -> None:
        self._most = most_characters
        self._length = 0
        self._made: OrderedDict[K, Markup] = OrderedDict()
        self._lock = Lock()

    def get(self, key: K) -> Markup | None:
        """What was made from this, if it is still there."""
        with self._lock:
            made = self._made.get(key)
            if made is not None:
                self._made.move_to_end(key)
            return made

    def put(self, key: K, made: Markup) -> None:
        """Keep it, and let go of what was not asked for the longest."""
        with self._lock:
            before = self._made.pop(key, None)
            self._length += len(made) - (0 if before is None else len(before))
            self._made[key] = made
            while self._length > self._most and self._made:
                _, oldest = self._made.popitem(last=False)
                self._length -= len(oldest)
