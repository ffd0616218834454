"""The programs that this process of tests has started or run."""

from __future__ import annotations

import os
import sys
from typing import Any, cast

executed: list[tuple[str, ...]] = []
"""The arguments of every `tandem`."""
started: list[tuple[str, ...]] = []
"""The words of every other program, its name first."""


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "subprocess.Popen":
        words: Any = arguments[1]
        words = [words] if isinstance(words, str | bytes | os.PathLike) else words
        started.append(tuple(map(os.fsdecode, cast("list[str]", words))))


# What tests run by any means; such a hook stays for as long as the process.
sys.addaudithook(_note)
