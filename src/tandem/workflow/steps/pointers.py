"""Which review a step put up last, so that running it again revises or waits instead of starting anew.

`tandem/steps.json` in the common git folder. It is never an approval, only a pointer: whatever stands in it, the
broker is asked.
"""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, cast

from tandem import platforms
from tandem.errors import Unavailable

FILE = "steps.json"
_LOCK = "steps.lock"
_VERSION = 1
_MOST = 500
"""Of the pointers that are kept: the oldest go first."""
_PATIENCE_SECONDS = 10.0
"""Another step holds the lock for milliseconds."""
_LOOK_SECONDS = 0.01


@dataclass(frozen=True, slots=True)
class Pointer:
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


class Pointers:
    """The pointers of a repository. Safe to use from several processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._file = folder / FILE

    def find(self, key: str) -> Pointer | None:
        """What was put up last under a key."""
        return self.all().get(key)

    def all(self) -> dict[str, Pointer]:
        """Every pointer by its key, oldest first; none where the file cannot be read, as nothing hangs on it."""
        try:
            document: Any = json.loads(self._file.read_bytes())
        except (OSError, ValueError):
            return {}
        stated: Any = cast("dict[str, Any]", document).get("pointers") if isinstance(document, dict) else None
        if not isinstance(stated, dict):
            return {}
        read = ((key, _pointer(value)) for key, value in cast("dict[str, Any]", stated).items())
        return {key: pointer for key, pointer in read if pointer is not None}

    def put(self, key: str, pointer: Pointer) -> None:
        """Remember a pointer as the newest.

        Raises:
            Unavailable: The file cannot be written.
        """

        def change(pointers: dict[str, Pointer]) -> None:
            pointers.pop(key, None)
            pointers[key] = pointer

        self._change(change)

    def forget(self, key: str, review_id: str) -> None:
        """Drop a pointer, unless it is another review's by now.

        Raises:
            Unavailable: The file cannot be written.
        """

        def change(pointers: dict[str, Pointer]) -> None:
            if key in pointers and pointers[key].review_id == review_id:
                del pointers[key]

        self._change(change)

    def mark_approved(self, key: str, review_id: str, digest: str | None) -> None:
        """Remember that a review was seen approved, and with which digest where that is known.

        Raises:
            Unavailable: The file cannot be written.
        """

        def change(pointers: dict[str, Pointer]) -> None:
            if key in pointers and pointers[key].review_id == review_id:
                known = pointers[key]
                pointers[key] = replace(known, approved=digest or known.digest)

        self._change(change)

    def _change(self, change: Callable[[dict[str, Pointer]], None]) -> None:
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            with self._turn():
                pointers = self.all()
                change(pointers)
                kept = dict(list(pointers.items())[-_MOST:])
                self._write({"version": _VERSION, "pointers": {key: asdict(one) for key, one in kept.items()}})
        except OSError as error:
            raise Unavailable(
                f"{self._file} cannot be written ({error.strerror or error}); see to the permissions of that folder, "
                "then run the same command again."
            ) from error

    def _write(self, document: dict[str, Any]) -> None:
        temporary = self._file.with_name(f".{FILE}.{secrets.token_hex(8)}")
        try:
            temporary.write_text(json.dumps(document, indent=1) + "\n", "utf-8")
            temporary.replace(self._file)
        finally:
            temporary.unlink(missing_ok=True)

    @contextmanager
    def _turn(self) -> Generator[None]:
        """Only one process at a time changes the file; the lock ends with its process."""
        descriptor = os.open(self._folder / _LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            deadline = time.monotonic() + _PATIENCE_SECONDS
            while not platforms.lock_file(descriptor):
                if time.monotonic() > deadline:
                    raise Unavailable(f"Another step holds {self._folder / _LOCK}; run the same command again.")
                time.sleep(_LOOK_SECONDS)
            yield
        finally:
            os.close(descriptor)


def _pointer(value: Any) -> Pointer | None:
    """One pointer as it was written; null if it is of another form."""
    if not isinstance(value, dict):
        return None
    stated = cast("dict[str, Any]", value)
    known = {field.name: stated[field.name] for field in fields(Pointer) if field.name in stated}
    try:
        pointer = Pointer(**known)
    except TypeError:
        return None
    has_form = isinstance(pointer.review_id, str) and type(pointer.round) is int and isinstance(pointer.digest, str)  # pyright: ignore[reportUnnecessaryIsInstance] read from a file that anybody may have edited
    return pointer if has_form and type(pointer.rounds_before) is int else None
