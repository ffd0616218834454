"""Tests that need a download: where it fails, one test fails and says why, the others are not run.

All workers of a run share a note about each failed download, so that none tries again.
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_RUN = os.environ.get("PYTEST_XDIST_TESTRUNUID") or f"{os.getpid()}-{time.time_ns()}"


class Missing(Exception):
    """Something is not there, and cannot be fetched.

    Attributes:
        what: The name of the missing thing.
    """

    def __init__(self, what: str, why: object) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what

    @property
    def note(self) -> Path:
        """A file that is there once a test has failed for this."""
        return Path(tempfile.gettempdir(), f"tandem-missing-{_RUN}-{self.what.replace(' ', '-')}")


@contextmanager
def needing(what: str, *errors: type[Exception]) -> Generator[None]:
    """Around what brings something that tests need; nothing is tried where it failed before.

    Raises:
        Missing: One of the errors, or an earlier one.
    """
    if Missing(what, "").note.exists():
        raise Missing(what, "it failed for an earlier test")
    try:
        yield
    except errors as error:
        raise Missing(what, error) from error


def is_first(missing: Missing) -> bool:
    """Whether no test of this run has failed for the same thing; from now on one has."""
    try:
        missing.note.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True
