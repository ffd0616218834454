"""Which review a step put up last, so that running it again revises or waits instead of starting anew.

`tandem/steps.json` in the common git folder. It is never an approval, only a pointer: whatever stands in it, the
broker is asked.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from pydantic import BaseModel

from tandem.core.atomic_dirs import turn
from tandem.core.files import write_atomically
from tandem.errors import Unavailable

FILE = "steps.json"
_LOCK = "steps.lock"
_VERSION = 1
_MOST = 500
"""Of the pointers that are kept: the oldest go first."""
_PATIENCE_SECONDS = 10.0
"""Another step holds the lock for milliseconds."""


@dataclass(frozen=True, slots=True)
class StepPointer:
    """What a step put up last.

    Attributes:
        review_id: The review.
        round: The round that was made of it.
        digest: Of the content that was put up, as it was computed here.
        base: What a change was made against; null for a text.
        claim: What was said of it: `passed` or `failed`.
        plan_key: The plan it belongs to.
        rounds_before: How many rounds the rejected reviews before it had.
        approved: The digest that was seen approved: its review is closed once that is committed.
        is_optimistic: Whether nobody waited for its verdict.
    """

    review_id: str
    round: int
    digest: str
    base: str | None = None
    claim: str | None = None
    plan_key: str | None = None
    rounds_before: int = 0
    approved: str | None = None
    is_optimistic: bool = False


class _Document(BaseModel):
    version: int = _VERSION
    pointers: dict[str, StepPointer]


class Pointers:
    """The pointers of a repository. Safe to use from several processes; a change raises Unavailable if it cannot be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / FILE

    def find(self, key: str) -> StepPointer | None:
        """What was put up last under a key."""
        return self.all().get(key)

    def all(self) -> dict[str, StepPointer]:
        """Every pointer by its key, oldest first; none where the file cannot be read, as nothing hangs on it."""
        try:
            return _Document.model_validate_json(self._file.read_bytes()).pointers
        except (OSError, ValueError):
            return {}

    def put(self, key: str, pointer: StepPointer) -> None:
        """Remember a pointer as the newest."""
        with self._changing() as pointers:
            pointers.pop(key, None)
            pointers[key] = pointer

    def forget(self, key: str, review_id: str) -> None:
        """Drop a pointer, unless it is another review's by now."""
        with self._changing() as pointers:
            if key in pointers and pointers[key].review_id == review_id:
                del pointers[key]

    def mark_approved(self, key: str, review_id: str, digest: str | None) -> None:
        """Remember that a review was seen approved, and with which digest where that is known."""
        with self._changing() as pointers:
            if key in pointers and pointers[key].review_id == review_id:
                pointers[key] = replace(pointers[key], approved=digest or pointers[key].digest)

    @contextmanager
    def _changing(self) -> Generator[dict[str, StepPointer]]:
        """The pointers, to be changed; one process at a time, for as long as it lives."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with turn(self._folder / _LOCK, _PATIENCE_SECONDS):
                pointers = self.all()
                yield pointers
                kept = _Document(pointers=dict(list(pointers.items())[-_MOST:])).model_dump_json(indent=1)
                write_atomically(self._file, kept.encode() + b"\n", mode=0o644, durable=False)
        except OSError as error:
            raise Unavailable(
                f"{self._file} cannot be written ({error.strerror or error}); see to the permissions of that folder, "
                "then run the same command again."
            ) from error
