"""Programs inside a distribution of WSL, started and ended from Windows.

`wsl.exe` gives the words behind `--` to the distribution's shell, but those behind `--exec` straight
to the program: so `--exec` it is, as nothing here may go through a shell. Windows cannot reach the
processes inside. Ours run in a session of their own there, with a token in their environment: by that they
are found and ended, and nothing else of the distribution is.
"""

from __future__ import annotations

import subprocess
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

from tandem.errors import ConfigInvalid
from tandem.pool.reviewers import RUN_VARIABLE, Invocation

_SHARED_ROOTS = ("\\\\wsl.localhost\\", "\\\\wsl$\\")
_COLUMNS = "pid=,ppid=,sid=,args="
_COMMAND_SECONDS = 15.0

_BY_ARGUMENT = ("HOME", "TMPDIR")
"""WSL sets these by itself, so that it does not take them from Windows."""

_OF_WINDOWS = ("PATH", "SYSTEMROOT", "SYSTEMDRIVE", "WINDIR", "USERPROFILE", "LOCALAPPDATA", "APPDATA", "TEMP", "TMP")
"""What `wsl.exe` itself needs."""


@dataclass(frozen=True, slots=True)
class _Row:
    pid: int
    parent: int
    session: int
    words: str
    """Its arguments, and then its environment."""


def inside(path: str, distro: str) -> str:
    """A folder of the distribution, named as Windows names it, as it is called inside.

    Raises:
        ConfigInvalid: It is not in the distribution. Paths are never translated.
    """
    if path.startswith("/"):
        return path
    for root in _SHARED_ROOTS:
        start = f"{root}{distro}\\"
        if path.lower().startswith(start.lower()):
            return "/" + path[len(start) :].replace("\\", "/")
    raise ConfigInvalid(
        f"The reviewer's scratch folder {path!r} is not in the WSL distribution {distro!r}; put it below"
        f" {_SHARED_ROOTS[0]}{distro}\\.",
        setting="wsl_distro",
    )


def from_windows(path: str, distro: str) -> str:
    """A path inside the distribution, as Windows calls it."""
    return f"{_SHARED_ROOTS[0]}{distro}" + path.replace("/", "\\")


def wrapped(
    invocation: Invocation, distro: str, token: str, windows: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """The arguments and the environment of the `wsl.exe` that runs an invocation inside.

    Args:
        invocation: The program to run, in the words of the distribution.
        distro: The distribution.
        token: What its processes are found by; letters and digits.
        windows: The environment on the side of Windows.
    """
    inner = invocation.environment
    # Keys go by the environment, where other users cannot read them.
    shared = {name: value for name, value in inner.items() if name not in {*_BY_ARGUMENT, "PATH"}}
    stated = [f"{name}={inner[name]}" for name in _BY_ARGUMENT if name in inner]
    argv = ["wsl", "-d", distro, "--cd", invocation.folder, "--exec", "setsid", "--fork", "--wait"]
    argv += ["env", f"{RUN_VARIABLE}={token}", *stated, *invocation.argv]
    kept = {name: value for name, value in windows.items() if name.upper() in _OF_WINDOWS}
    return argv, {**kept, **shared, "WSLENV": ":".join(f"{name}/u" for name in shared), "WSL_UTF8": "1"}


def signal_all(distro: str, token: str, name: str, environment: Mapping[str, str]) -> None:
    """Sends a signal (`TERM`, `KILL`) to every process of one run inside; those that have ended are skipped.

    Args:
        distro: The distribution.
        token: The run's.
        name: The signal's.
        environment: As given for the run.
    """
    listed = _ask(distro, ["ps", "axeww", "-o", _COLUMNS], environment)
    if numbers := targets(_rows(listed), token):
        _ask(distro, ["kill", "-s", name, "--", *map(str, numbers)], environment)


def targets(rows: Iterable[_Row], token: str) -> list[int]:
    """Whom to signal: each session's process group (as a negative number), then everybody in it or below it."""
    table = list(rows)
    marker = f"{RUN_VARIABLE}={token}"
    family = {row.pid for row in table if marker in row.words.split()}
    grown = 0
    while grown != len(family):
        grown = len(family)
        family |= {row.pid for row in table if row.parent in family}
    # A session is ours when its leader is; `setsid` itself stands in that of WSL.
    groups = {row.session for row in table if row.pid in family and row.session in family}
    return [*(-group for group in sorted(groups)), *sorted(family)]


def _rows(listed: str) -> Iterable[_Row]:
    for line in listed.splitlines():
        parts = line.split(None, 3)
        if len(parts) > 3 and all(part.isdigit() for part in parts[:3]):  # noqa: PLR2004 - the columns asked for
            yield _Row(int(parts[0]), int(parts[1]), int(parts[2]), parts[3])


def _ask(distro: str, command: list[str], environment: Mapping[str, str]) -> str:
    # No distribution any more, or none that answers: then there is nothing to end either.
    with suppress(OSError, subprocess.TimeoutExpired):
        done = subprocess.run(
            ["wsl", "-d", distro, "--exec", *command],
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_COMMAND_SECONDS,
            check=False,
        )
        return done.stdout.decode("utf-8", "replace")
    return ""
