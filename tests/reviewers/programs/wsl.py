#!/usr/bin/env python3
"""Stands in for `wsl.exe`: its caller cannot reach the processes that it starts, as on Windows.

It understands `wsl -d DISTRO [--cd FOLDER] --exec PROGRAM ARGUMENT …`, passes on the variables that WSLENV
names and no others, and notes its own arguments in `wsl-notes.jsonl` beside it.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path


def main() -> int:
    arguments = sys.argv[1:]
    with Path(__file__).with_name("wsl-notes.jsonl").open("a", encoding="utf-8") as notes:
        notes.write(json.dumps(arguments) + "\n")
    exec_at = arguments.index("--exec")
    folder = arguments[arguments.index("--cd") + 1] if "--cd" in arguments[:exec_at] else "/"
    command = arguments[exec_at + 1 :]
    shared = [name.removesuffix("/u") for name in os.environ.get("WSLENV", "").split(":") if name]
    environment = {"PATH": os.defpath, "HOME": "/", **{name: os.environ[name] for name in shared}}
    status, told = os.pipe()
    if os.fork() == 0:
        os.setsid()
        run_inside(command, folder, environment, told)
    os.close(told)
    # Nothing comes when all of them were killed.
    return int(os.read(status, 10) or b"1")


def run_inside(command: list[str], folder: str, environment: dict[str, str], told: int) -> None:
    """Never returns."""
    inner = os.fork()
    if inner == 0:
        os.chdir(folder)
        os.execvpe(command[0], command, environment)
    code = os.waitstatus_to_exitcode(os.waitpid(inner, 0)[1])
    os.write(told, str(code if code >= 0 else 128 - code).encode())
    os._exit(0)


sys.exit(main())
