"""The end of a `with` for objects that are closed; `contextlib` would take longer to import than most hooks run."""

from __future__ import annotations

TYPE_CHECKING = False  # as in `errors`
if TYPE_CHECKING:
    from typing import Self


class Closing:
    """A base of those objects."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Give back all that it holds; twice is safe."""
