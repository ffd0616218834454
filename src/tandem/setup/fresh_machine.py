"""What a fresh machine lacks for commits and agents' commands: each problem with the line that fixes it."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from tandem.git.runner import Git

_SHELL_SECONDS: Final = 5.0
_PROFILES: Final = {"zsh": (".zprofile",), "bash": (".bash_profile", ".bash_login", ".profile")}
"""The files of which a login shell reads the first that is there."""


def identity_problem(folder: Path, environment: Mapping[str, str]) -> tuple[str, str] | None:
    """Why git does not know who commits in a folder, and the fix; None if it does."""
    said = complaint(folder, environment, "var", "GIT_COMMITTER_IDENT")
    if not said:
        return None
    why = said.splitlines()[-1].removeprefix("fatal: ")
    return (
        f"Git does not know who commits here (user.name, user.email), so each commit fails: {why}.",
        "git config --global user.name 'Your Name' && git config --global user.email you@example.com",
    )


def complaint(folder: Path, environment: Mapping[str, str], *arguments: str) -> str:
    """Git's error message, with the settings that the user has in a folder; empty if git succeeds."""
    done = Git().run(arguments, cwd=folder, environment={**environment, "LC_ALL": "C"}, accept=range(256))
    return done.words if done.status_code else ""


def missing_program(environment: Mapping[str, str]) -> str | None:
    """What a shell here lacks to run the commands that Tandem names; None if it finds `tandem`."""
    if shutil.which("tandem", path=environment.get("PATH")):
        return None
    folder = Path(sys.executable).parent
    line = export_line(folder) if shutil.which("tandem", path=str(folder)) else "install it with pipx"
    return f"tandem is not on PATH: {line}"


def export_line(folder: Path) -> str:
    """Has this shell find the programs of a folder."""
    return f'export PATH={shlex.quote(str(folder))}:"$PATH"'


def unseen_in_login_shells(program: str, environment: Mapping[str, str]) -> str | None:
    """The line that has login shells find a program, such as those that Codex runs commands in; None if they do.

    Args:
        program: Its path.
        environment: The user's variables.
    """
    shell, home = environment.get("SHELL", ""), Path(environment.get("HOME", "~"))
    names = _PROFILES.get(Path(shell).name)
    if os.name != "posix" or names is None:
        return None
    asked = [shell, "-l", "-c", f"command -v {Path(program).name}"]
    try:
        done = run_program(asked, _SHELL_SECONDS, env=environment)
    except (OSError, subprocess.SubprocessError):
        return None
    if done.returncode == 0:
        return None
    profile = next((name for name in names if (home / name).exists()), names[-1])
    return f"echo {shlex.quote(export_line(Path(program).parent))} >> ~/{profile}"


def run_program(
    command: Sequence[str],
    seconds: float,
    *,
    cwd: Path | None = None,
    env: Mapping[str, str] | None = None,
    told: bytes = b"",
) -> subprocess.CompletedProcess[bytes]:
    """Run a program to its end; its output is in the answer.

    Args:
        command: The program and its arguments.
        seconds: How long it may take.
        cwd: Where it runs; None for here.
        env: Its variables; None for ours.
        told: Its standard input.

    Raises:
        OSError: It cannot be started.
        SubprocessError: It does not end.
    """
    return subprocess.run(command, cwd=cwd, env=env, input=told, capture_output=True, check=False, timeout=seconds)
