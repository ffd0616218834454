"""Makes `.venv`, with everything that developing, testing and running Tandem needs.

    python3 tools/setup.py            keep the environment that is there, if it fits; else make one
    python3 tools/setup.py --running  only what running needs: a tenth of the download
    python3.12 tools/setup.py --exact  the environment must be made by this very Python

A stamp inside the environment names its sources, so that a second run costs nothing. The
file is kept readable for old interpreters, because saying "too old" clearly is part of its work.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".tandem-setup"
OLDEST = (3, 11)
CANDIDATES = ("python3.14", "python3.13", "python3.12", "python3.11", "python3", "python")
BUILD_BACKEND = ("hatchling", "editables")
EVERYTHING, RUNNING = ".[dev]", "."
GIT_RUNNER = ROOT / "src/tandem/git/runner.py"
_WINDOWS = os.name == "nt"
# How pip tells that no index answered, with any error after it.
_UNREACHABLE = re.compile(
    r"(\w+ConnectionError|ConnectTimeoutError|ReadTimeoutError|NameResolutionError|ProxyError|SSL\w*Error)"
)
_IMPATIENT = {"PIP_RETRIES": "2", "PIP_TIMEOUT": "10"}
_NETWORK_HELP = {
    "SSL": "Name the certificate of your CA or proxy with PIP_CERT",
    "Pro": "Correct HTTPS_PROXY",
}


def main() -> int:
    """Brings the environment up to date; exit status 0 when it is."""
    parser = argparse.ArgumentParser(description="Make .venv for developing Tandem.")
    parser.add_argument("--exact", action="store_true", help="rebuild unless .venv was made by this Python")
    parser.add_argument("--running", action="store_true", help="leave out what only development needs")
    asked = parser.parse_args()
    wanted = RUNNING if asked.running else EVERYTHING
    if sys.version_info < OLDEST:
        return _try_newer_python(exact=asked.exact)
    if fault := _git_fault():
        return _refuse(fault)
    there = _content(exact=asked.exact)
    if there in {wanted, EVERYTHING}:
        return 0
    return _build(wanted, is_started=there is not None)


def _git_fault() -> str | None:
    """The fault of this machine's git; the oldest that will do is written where Tandem runs it."""
    found = re.search(r"OLDEST_GIT = \((\d+), (\d+)\)", GIT_RUNNER.read_text("utf-8"))
    oldest = tuple(map(int, found.groups())) if found else ()
    how = f"Install git {'.'.join(map(str, oldest))} or newer (Debian: apt install git; macOS: xcode-select --install)."
    try:
        said = subprocess.run(["git", "version"], capture_output=True, text=True, check=True).stdout.strip()
    except (OSError, subprocess.CalledProcessError):
        return f"git is missing. {how}"
    numbers = re.search(r"(\d+)\.(\d+)", said)
    is_recent = numbers is not None and tuple(map(int, numbers.groups())) >= oldest
    return None if is_recent else f"git is too old ({said}). {how}"


def _refuse(message: str) -> int:
    print(f"setup: {message}", file=sys.stderr)
    return 1


def _try_newer_python(*, exact: bool) -> int:
    """Hands over to a newer Python on PATH, unless this one was asked for by name."""
    wanted = ".".join(map(str, OLDEST))
    have = ".".join(map(str, sys.version_info[:3]))
    for name in () if exact else CANDIDATES:
        path = shutil.which(name)
        if path is not None and _version(Path(path)) >= OLDEST:
            return subprocess.run([path, str(Path(__file__).resolve()), *sys.argv[1:]], check=False).returncode
    return _refuse(
        f"Python {wanted} or newer is needed, this is {have}. Name another one: make PYTHON=python{wanted} …"
    )


def _version(python: Path) -> tuple[int, ...]:
    """The version of an interpreter, (0,) when it does not run."""
    script = "import sys; print(*sys.version_info[:2])"
    try:
        answer = subprocess.run([str(python), "-c", script], capture_output=True, text=True, check=True)
    except (OSError, subprocess.CalledProcessError):
        return (0,)
    return tuple(int(part) for part in answer.stdout.split())


def environment_python() -> Path:
    """The interpreter inside `.venv`."""
    return VENV / ("Scripts/python.exe" if _WINDOWS else "bin/python")


def _fingerprint() -> str:
    """Of all that the environment's content follows from."""
    digest = hashlib.sha256()
    for name in ("pyproject.toml", "constraints.txt", "tools/distribution.py"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


class Stamp(NamedTuple):
    """What the environment was made from: its pins, its place (scripts name it), its Python, and its content."""

    fingerprint: str
    folder: str
    made_by: str
    content: str


def _stamp() -> Stamp | None:
    lines = STAMP.read_text("utf-8").splitlines() if STAMP.exists() else []
    return Stamp(*lines) if len(lines) == len(Stamp._fields) else None


def _content(*, exact: bool) -> str | None:
    """The content of the environment: `EVERYTHING` or `RUNNING`; None if there is none that fits."""
    stamp = _stamp()
    if stamp is None or not environment_python().exists():
        return None
    fits = stamp.fingerprint == _fingerprint() and stamp.folder == str(ROOT)
    return stamp.content if fits and (not exact or stamp.made_by == _identity()) else None


def _identity() -> str:
    """Which Python this is, the one beneath a virtual environment included."""
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{version} {Path(sys.base_prefix).resolve()}"


def _build(wanted: str, *, is_started: bool) -> int:
    """A new environment, as what an older one was made from must not stay behind in it and seem to be needed.

    One that has what running needs gets the rest added.
    """
    if not _has_ensurepip():
        version = ".".join(map(str, sys.version_info[:2]))
        return _refuse(
            f"this Python cannot make virtual environments: ensurepip is missing. "
            f"Debian and Ubuntu: apt install python3-venv (or python{version}-venv); then try again."
        )
    stamp = _stamp() if is_started else None
    try:
        if stamp is None:
            _say(f"making .venv with Python {'.'.join(map(str, sys.version_info[:3]))}")
            _run(sys.executable, "-m", "venv", "--clear", str(VENV))
        _install(wanted)
    except subprocess.CalledProcessError as error:
        return _refuse(_why(error))
    made_by = _identity() if stamp is None else stamp.made_by
    STAMP.write_text("\n".join(Stamp(_fingerprint(), str(ROOT), made_by, wanted)) + "\n", "utf-8")
    return 0


def _why(error: subprocess.CalledProcessError) -> str:
    """One line if no package index can be reached; else what the command said."""
    said = error.stderr or ""
    if unreachable := _UNREACHABLE.search(said):
        how = _NETWORK_HELP.get(unreachable[1][:3], "Connect, set HTTPS_PROXY, or correct pip's index")
        return f"offline: pip reaches no package index ({unreachable[1]}). {how}, and try again."
    print(said, file=sys.stderr)
    return f"{' '.join(map(str, error.cmd))} failed with exit status {error.returncode}; see above."


def _has_ensurepip() -> bool:
    """Debian leaves it to a package of its own; without it an environment has no pip."""
    try:
        return importlib.util.find_spec("ensurepip.__main__") is not None
    except ModuleNotFoundError:
        return False


def _install(wanted: str) -> None:
    """Everything pinned, then Tandem itself, editable, built by the pinned backend."""
    _say("installing the pinned dependencies (a minute the first time)")
    pip = [str(environment_python()), "-m", "pip", "--disable-pip-version-check", "--require-virtualenv"]
    install = [*pip, "install", "--quiet", "--constraint", "constraints.txt"]
    _run(*install, *BUILD_BACKEND)
    _run(*install, "--no-build-isolation", "--editable", wanted)


def _run(*command: str) -> None:
    # An environment that happens to be active must not decide where packages go.
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONHOME", "PYTHONPATH"}}
    environment = {**_IMPATIENT, **environment}
    subprocess.run(command, cwd=ROOT, env=environment, check=True, stderr=subprocess.PIPE, text=True)


def _say(message: str) -> None:
    print(f"setup: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
