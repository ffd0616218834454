"""A stand-in for `systemctl` and `launchctl`: notes the requests, and starts the command in the service's file.

It is run as a program of either name, in a folder in which it keeps its state. It reads the file by other means than
Tandem writes it, and starts the command with nothing but the home folder and what the file says, as the real ones do.
"""

from __future__ import annotations

import os
import plistlib
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

_STATE, _PROGRAM, *_ASKED = sys.argv[1:] if __name__ == "__main__" else ("", "")
_FOLDER = Path(_STATE)
_PROCESS, _ENABLED, _LOADED = (_FOLDER / name for name in ("process", "enabled", "loaded"))


def scripts(folder: Path, *programs: str) -> Path:
    """A folder with these programs, which keep their state beside it."""
    bin_dir = folder / "managers"
    bin_dir.mkdir(parents=True)
    (folder / "state").mkdir()
    for program in programs:
        words = [sys.executable, __file__, str(folder / "state"), program]
        (bin_dir / program).write_text(f'#!/bin/sh\nexec {shlex.join(words)} "$@"\n', "utf-8")
        (bin_dir / program).chmod(0o755)
    return bin_dir


def asked(folder: Path) -> list[str]:
    """The requests that change something, in order; forgets them."""
    notes = folder / "state" / "asked"
    said = notes.read_text("utf-8").splitlines() if notes.exists() else []
    notes.unlink(missing_ok=True)
    looks = ("is-enabled", " show ", "show-environment", " print ", "daemon-reload", "reset-failed")
    return [line for line in said if not any(look in line for look in looks)]


def _unit() -> tuple[list[str], dict[str, str]]:
    """The command and the variables of systemd's unit."""
    unit = Path(os.environ["HOME"], ".config", "systemd", "user", "tandem.service")
    command: list[str] = []
    variables: dict[str, str] = {}
    for line in unit.read_text("utf-8").splitlines():
        key, _, value = line.partition("=")
        words = [word.replace("%%", "%") for word in shlex.split(value)] if key in {"ExecStart", "Environment"} else []
        if key == "ExecStart":
            command = [word.replace("$$", "$") for word in words]
        for word in words if key == "Environment" else ():
            name, _, variables[name] = word.partition("=")
    return command, variables


def _agent(file: str) -> tuple[list[str], dict[str, str]]:
    """The command and the variables of launchd's agent."""
    said = plistlib.loads(Path(file).read_bytes())
    return said["ProgramArguments"], said["EnvironmentVariables"]


def _process() -> int | None:
    """The process that runs; None if it has ended."""
    if not _PROCESS.exists():
        return None
    number = int(_PROCESS.read_text("utf-8"))
    try:
        # Perhaps no parent has reaped it.
        return None if psutil.Process(number).status() == psutil.STATUS_ZOMBIE else number
    except psutil.NoSuchProcess:
        return None


def _start(command: list[str], variables: dict[str, str]) -> None:
    if _process() is None:
        with (_FOLDER / "said").open("ab") as said:
            begun = subprocess.Popen(
                command, env={"HOME": os.environ["HOME"], **variables}, cwd=os.environ["HOME"],
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, start_new_session=True,
            )  # fmt: skip
        _PROCESS.write_text(str(begun.pid), "utf-8")


def _stop() -> None:
    number = _process()
    if number is not None:
        os.kill(number, signal.SIGTERM)
        while _process() is not None:
            time.sleep(0.02)


def _systemctl(*words: str) -> int:
    match words:
        case ("enable", "--now", _):
            _ENABLED.touch()
            _start(*_unit())
        case ("disable", "--now", _):
            _stop()
            _ENABLED.unlink(missing_ok=True)
        case ("restart", _):
            _stop()
            _start(*_unit())
        case ("is-enabled", "--quiet", _):
            return int(not _ENABLED.exists())
        case ("show", "--property", "MainPID", "--value", _):
            sys.stdout.write(f"{_process() or 0}\n")
        case _:
            pass
    return 0


def _launchctl(*words: str) -> int:
    match words:
        case ("print", domain) if domain.count("/") == 1:
            return 0
        case ("print", _):
            if not _LOADED.exists():
                return 113
            number = _process()
            sys.stdout.write(f"\tpid = {number}\n" if number else "\tlast exit code = 0\n")
        case ("bootstrap", _, file):
            if _LOADED.exists():
                return 5
            _LOADED.write_text(file, "utf-8")
            _start(*_agent(file))
        case ("kickstart", _):
            _start(*_agent(_LOADED.read_text("utf-8")))
        case ("bootout", _):
            _stop()
            _LOADED.unlink()
        case _:
            pass
    return 0


def main() -> int:
    """Answer one call."""
    with (_FOLDER / "asked").open("a", encoding="utf-8") as notes:
        notes.write(f"{_PROGRAM} {' '.join(_ASKED)}\n")
    trouble = _FOLDER / f"{_ASKED[-1] if 'enable' in _ASKED else ' '.join(_ASKED)}.fails"
    if trouble.exists():
        sys.stderr.write(trouble.read_text("utf-8"))
        return 1
    return _systemctl(*_ASKED[1:]) if _PROGRAM == "systemctl" else _launchctl(*_ASKED)


if __name__ == "__main__":
    sys.exit(main())
