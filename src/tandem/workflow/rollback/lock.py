"""One rollback at a time in a repository, whichever of its working trees it is for."""

from __future__ import annotations

import os
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from tandem import platforms
from tandem.errors import Unavailable

FILE = "rollback.lock"


@contextmanager
def held(folder: Path) -> Generator[IO[bytes]]:
    """Has the lock for as long as the block, or the process, lasts; gives the open file that it hangs on.

    Args:
        folder: Tandem's folder in the common git folder.

    Raises:
        Unavailable: Another rollback has it, or the folder cannot be written to.
    """
    path = folder / FILE
    try:
        folder.mkdir(parents=True, exist_ok=True)
        # Read and write, because Windows locks no file that is only read.
        file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | getattr(os, "O_CLOEXEC", 0), 0o600), "r+b", 0)
    except OSError as error:
        raise Unavailable(f"{path} cannot be opened: {error.strerror}. Nothing was changed.") from error
    with file:
        if not platforms.lock_file(file.fileno()):
            raise Unavailable(
                "Another rollback runs in this repository; nothing was changed. Wait for its end, then run this again.",
                lock=str(path),
            )
        yield file
