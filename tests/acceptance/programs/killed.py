"""`tandem`, killed where it takes the step `KILLED_AT` with a file of a database, or of a copy that is being made."""

from __future__ import annotations

import itertools
import os
import runpy
import signal
import sys
from typing import Any

_STEPS = frozenset({"open", "os.link", "os.remove", "os.rename", "shutil.copyfile", "sqlite3.connect"})
_NAMES = ("tandem.db", "tandem-copy-", ".new")
_steps = itertools.count(1)
_last = int(os.environ["KILLED_AT"])


def _count(event: str, arguments: tuple[Any, ...]) -> None:
    is_step = event in _STEPS and any(name in str(argument) for argument in arguments for name in _NAMES)
    if is_step and next(_steps) == _last:
        os.kill(os.getpid(), signal.SIGKILL)


sys.addaudithook(_count)
runpy.run_module("tandem", run_name="__main__")
