"""`tandem` that notes each of its steps and is killed once they match a pattern: see `test_rollback_crash.py`.

python -m tests.repository.counting_steps FOLDER WATCHED WATCHED ARGUMENTS…
"""

from __future__ import annotations

import fnmatch
import os
import sys
from pathlib import Path
from typing import Any

STARTS = {"subprocess.Popen", "os.posix_spawn"}
CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}


class Steps:
    """The steps so far, in the folder's file `steps`; `at` has the pattern.

    Attributes:
        folder: The folder of both files.
        watched: Only writes below these paths count.
    """

    def __init__(self, folder: Path, *watched: str) -> None:
        self.folder = folder
        self.watched = watched
        self._is_busy = False
        (folder / "pid").write_text(str(os.getpid()))

    def note(self, event: str, arguments: tuple[Any, ...]) -> None:
        """As `sys.addaudithook` calls it."""
        if self._is_busy or not (
            event in STARTS or event in CHANGES or (event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR))
        ):
            return
        if event not in STARTS and not str(arguments[0]).startswith(self.watched):
            return
        self._is_busy = True
        with (self.folder / "steps").open("a+") as file:
            file.write("g" if event in STARTS else "f")
            file.seek(0)
            steps = file.read()
        at = self.folder / "at"
        if at.exists() and fnmatch.fnmatchcase(steps, at.read_text()):
            at.unlink()
            os.kill(os.getpid(), 9)
        self._is_busy = False


def main() -> None:
    """Watch, and be `tandem`."""
    folder, *watched = sys.argv[1:4]
    del sys.argv[1:4]
    sys.addaudithook(Steps(Path(folder), *watched).note)
    from tandem.cli.program import run  # Its imports are no steps.

    run(sys.argv[1:])


if __name__ == "__main__":
    main()
