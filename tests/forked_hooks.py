"""Hooks of gates that are forked from a process with their imports (`tests/hook_server.py`), not started."""

from __future__ import annotations

import os
import shlex
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace

import pytest

from tandem.setup import githooks
from tests.hook_server import ORDERS

VARIABLE = "FORKED_HOOKS"
"""Names the script that stands for the interpreter, for processes that write hooks."""

# An interpreter is started where a fork would be another thing: at a terminal, and where the streams are no pipes.
_PYTHON = """\
#!/bin/sh
if { true </dev/tty; } 2>/dev/null || [ -f /dev/stdin ] || [ -S /dev/stdin ] || [ -f /dev/stdout ] ||
    [ -S /dev/stdout ] || [ -f /dev/stderr ] || [ -S /dev/stderr ] || ! mkfifo <<folder>>/$$; then
    exec <<python>> "$@"
fi
exec 7>&1 8<&0 9<><<folder>>/$$
echo $$ ><<folder>>/orders
read -r status <&9
exit "$status"
"""


def hook_python() -> str:
    """The Python that the scripts of hooks start now."""
    return os.environ.get(VARIABLE, sys.executable)


@contextmanager
def forked_hooks(folder: Path) -> Generator[None]:
    """Fork the hooks of all gates that are switched on meanwhile, where that is possible."""
    if sys.platform != "linux" or any(name.startswith("COV") for name in os.environ):
        yield
        return
    python = folder / "python"
    values = {"python": shlex.quote(sys.executable), "folder": shlex.quote(str(folder))}
    text = _PYTHON
    for name, value in values.items():
        text = text.replace(f"<<{name}>>", value)
    python.write_text(text, "utf-8")
    python.chmod(0o755)
    os.mkfifo(folder / ORDERS)
    server = Path(__file__).with_name("hook_server.py")
    command = [sys.executable, "-I", "-S", str(server), str(folder), githooks.SOURCE.as_posix()]
    with subprocess.Popen(command, stdin=subprocess.PIPE) as process, pytest.MonkeyPatch.context() as patch:
        patch.setenv(VARIABLE, str(python))
        patch.setattr(githooks, "sys", SimpleNamespace(executable=str(python)))
        yield
        process.communicate()
