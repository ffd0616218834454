"""The private folder of one run: made before the program starts, gone when the run is over."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path, PurePosixPath

from tandem.reviewers import DESK_FOLDER, GIVEN_FOLDER, HOME_FOLDER, TEMPORARY_FOLDER

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
