"""A bar for commands that know how much there is to do."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeElapsedColumn

_QUIET_SECONDS = 1.0


@contextmanager
def progress_bar() -> Generator[Callable[[str, int, int], None]]:
    """A bar on a terminal's standard error, for what takes over a second.

    Yields what is told, from any thread, what is being done, how much of it is done, and how much there is.
    """
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), TaskProgressColumn(), TimeElapsedColumn())
    bar = Progress(*columns, console=Console(stderr=True), transient=True)
    task = bar.add_task("", total=None)
    began = time.monotonic()

    def told(doing: str, done: int, total: int) -> None:
        if sys.stderr.isatty() and not bar.live.is_started and time.monotonic() - began > _QUIET_SECONDS:
            bar.start()
        bar.update(task, description=doing, completed=done, total=total)

    try:
        yield told
    finally:
        bar.stop()
