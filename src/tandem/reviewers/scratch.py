"""What one run of a program is given: its limits, and a private folder that is gone when the run is over."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from pathlib import Path, PurePosixPath

from tandem.bridge.scratch import remove_tree
from tandem.reviewers import DESK_FOLDER, GIVEN_FOLDER, HOME_FOLDER, TEMPORARY_FOLDER, Limits, RunContext
from tandem.reviewers.job import Job
from tandem.reviewers.verdicts import SCHEMA

_PRIVATE = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_BINARY", 0)


def lay_out(scratch: Path, files: Mapping[str, bytes]) -> None:
    """Makes the folders that a run needs and writes its files, all for the user alone.

    Args:
        scratch: A folder that exists and that nobody else can look into.
        files: Contents by path below `scratch`, with `/` between the parts.

    Raises:
        ValueError: A path that leads out of `scratch`.
        OSError: The disk does not take it, or a file is there already.
    """
    for name in (HOME_FOLDER, DESK_FOLDER, GIVEN_FOLDER, TEMPORARY_FOLDER):
        (scratch / name).mkdir(mode=0o700, exist_ok=True)
    for name, content in files.items():
        path = _below(scratch, name)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # Private from the first byte on: it may be a login.
        with os.fdopen(os.open(path, _PRIVATE, 0o600), "wb") as file:
            file.write(content)


def _below(scratch: Path, name: str) -> Path:
    pure = PurePosixPath(name)
    if pure.is_absolute() or ".." in pure.parts or not pure.parts:
        raise ValueError(f"{name!r} is not a path below the scratch folder")
    return scratch.joinpath(*pure.parts)


def context_of(job: Job, folder: Path) -> RunContext:
    """What one run of a job's program, in a folder of its own."""
    return RunContext(
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
        # What stays is the supervisor's to remove.
        remove_tree(str(folder))
