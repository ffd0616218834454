"""The command line: a command is carried out without Typer where it is written as most are.

To import Typer, which explains mistakes, helps and completes, takes longer than most commands.
"""

from __future__ import annotations

import io
import os
import sys

from tandem.cli import execution
from tandem.cli.declared import Misused
from tandem.cli.terminal import show_refusal
from tandem.errors import NotFound
from tandem.git.place import deleted_folder

TYPE_CHECKING = False  # as in `declared`
if TYPE_CHECKING:
    from types import ModuleType

COMPLETION_VARIABLE = "_TANDEM_COMPLETE"
"""Set where the shell asks what to offer."""
_ENDED_BY_CTRL_C = 130


def run(arguments: list[str]) -> None:
    """Run a command; ends the process with its exit status."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            # A pipe is read by programs, which expect UTF-8 as --json is; a terminal knows what it can show.
            stream.reconfigure(encoding=None if stream.isatty() else "utf-8", errors="replace")
    as_json = "--json" in arguments
    if (deleted := deleted_folder()) is not None:
        sys.exit(show_refusal(NotFound(deleted[0].removeprefix("NOT_FOUND: ")), as_json=as_json))
    found = None if COMPLETION_VARIABLE in os.environ else execution.read(arguments)
    if found is None:
        _typer().app(arguments, prog_name="tandem")
        return
    try:
        sys.exit(execution.carry_out(*found))
    except Misused as error:
        sys.exit(_typer().show_misuse(found[0], error, as_json=as_json))
    except KeyboardInterrupt:
        sys.exit(_ENDED_BY_CTRL_C)
    except BrokenPipeError:
        # Nobody reads on: what is still to be written goes nowhere.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)


def _typer() -> ModuleType:
    from tandem.cli import main  # takes longer to import than most commands

    return main
