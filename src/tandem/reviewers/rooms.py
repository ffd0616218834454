"""The room of one run, as a reviewer's job has it: its folder, what it sees, and its limits."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from tandem.reviewers import Limits, Room
from tandem.reviewers.answer_schema import SCHEMA
from tandem.reviewers.job import Job


def room_of(job: Job, folder: Path) -> Room:
    """The room for one run of a job's program, in a folder of its own."""
    return Room(
        workspace=job.workspace,
        scratch=str(folder),
        model=job.model,
        effort=job.effort,
        schema=SCHEMA,
        environment=dict(os.environ),
        reviewer_id=job.reviewer_id,
        wsl_distro=job.wsl_distro,
    )


def limits_of(job: Job, total_seconds: float) -> Limits:
    """What one run of a job's program may take."""
    return Limits(
        start_seconds=job.start_seconds,
        total_seconds=total_seconds,
        silence_seconds=job.silence_seconds,
        output_bytes=job.output_bytes,
        grace_seconds=job.grace_seconds,
    )


@contextmanager
def folder_for_run(parent: str) -> Generator[Path]:
    """A private folder for one run; gone afterwards, whatever the program made of it.

    Raises:
        OSError: It cannot be made.
    """
    folder = Path(tempfile.mkdtemp(prefix="run-", dir=parent))
    try:
        yield folder
    finally:
        _clear_away(folder)


def _clear_away(folder: Path) -> None:
    """Removes a folder, also with what was made read-only in it. What stays is the supervisor's to remove."""
    shutil.rmtree(folder, ignore_errors=True)
    if folder.exists():
        for path, inner, _ in os.walk(folder):
            # Before the walk goes there: what cannot be listed cannot be emptied.
            for name in (os.curdir, *inner):
                below = Path(path, name)
                with suppress(OSError):
                    if not below.is_symlink():
                        below.chmod(0o700)
        shutil.rmtree(folder, ignore_errors=True)
