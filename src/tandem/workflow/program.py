"""How others call Tandem: `tandem` where PATH has it, else the interpreter that runs now."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

_ANSWER_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Program:
    """How Tandem is called.

    Attributes:
        words: The program and its first arguments.
        notes: What a person has to know about it.
    """

    words: tuple[str, ...]
    notes: tuple[str, ...] = ()

    @property
    def is_portable(self) -> bool:
        """Whether the words hold on other machines too, so that they may stand in a file that a team shares."""
        return self.words == ("tandem",)


def find_program(environment: Mapping[str, str]) -> Program:
    """`tandem` if PATH has it and it is ours, on Windows as well; else this interpreter with `-m tandem`.

    Args:
        environment: The user's variables.
    """
    found = shutil.which("tandem", path=environment.get("PATH"))
    if found is not None and _is_ours(found):
        virtual = environment.get("VIRTUAL_ENV")
        if virtual and Path(found).is_relative_to(virtual):
            note = f"tandem is on PATH only while the virtual environment {virtual} is active: start the agents from"
            return Program(("tandem",), (f"{note} there, or install tandem for the user too (pipx or uv tool).",))
        return Program(("tandem",))
    why = "tandem is not on PATH" if found is None else f"the tandem on PATH ({found}) is another program"
    note = (
        f"{why}, so the files name this machine's {sys.executable}. Before you share them: install tandem so that it is"
        " on PATH (pipx or uv tool), and run 'tandem init' again."
    )
    # -P, else Python would import modules that stand in the repository that it is started in.
    return Program((sys.executable, "-P", "-m", "tandem"), (note,))


def _is_ours(found: str) -> bool:
    if Path(found).parent == Path(sys.executable).parent:
        return True
    try:
        said = subprocess.run(
            [found, "--version"], capture_output=True, stdin=subprocess.DEVNULL, check=False, timeout=_ANSWER_SECONDS
        ).stdout
    except (OSError, subprocess.SubprocessError):
        return False
    return said.startswith(b"tandem ")
