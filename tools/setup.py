"""Makes `.venv`, with everything that developing, testing and running Tandem needs.

    python3 tools/setup.py            keep the environment that is there, if it fits; else make one
    python3.12 tools/setup.py --exact  the environment must be made by this very Python

A stamp inside the environment says what it was made from, so that a second run costs nothing. The
file is kept readable for old interpreters, because saying "too old" clearly is part of its work.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).resolve().parent.parent
VENV = ROOT / ".venv"
STAMP = VENV / ".tandem-setup"
OLDEST = (3, 11)
CANDIDATES = ("python3.13", "python3.12", "python3.11", "python3.14", "python3", "python")
BUILD_BACKEND = ("hatchling", "editables")
_WINDOWS = os.name == "nt"


def main() -> int:
    """Brings the environment up to date; exit status 0 when it is."""
    parser = argparse.ArgumentParser(description="Make .venv for developing Tandem.")
    parser.add_argument("--exact", action="store_true", help="rebuild unless .venv was made by this Python")
    exact = parser.parse_args().exact
    if sys.version_info < OLDEST:
        return _try_newer_python(exact=exact)
    if shutil.which("git") is None:
        return _refuse("git is missing. Install it (Debian: apt install git; macOS: xcode-select --install).")
    if _is_current(exact=exact):
        return 0
    return _build()


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
            return subprocess.run([path, str(Path(__file__).resolve())], check=False).returncode
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
    for name in ("pyproject.toml", "constraints.txt"):
        digest.update((ROOT / name).read_bytes())
    return digest.hexdigest()


class Stamp(NamedTuple):
    """What the environment was made from: its contents, its place (scripts name it) and its Python."""

    fingerprint: str
    folder: str
    made_by: str


def _stamp() -> Stamp | None:
    lines = STAMP.read_text("utf-8").splitlines() if STAMP.exists() else []
    return Stamp(*lines) if len(lines) == len(Stamp._fields) else None


def _is_current(*, exact: bool) -> bool:
    stamp = _stamp()
    if stamp is None or not environment_python().exists():
        return False
    fits = stamp.fingerprint == _fingerprint() and stamp.folder == str(ROOT)
    return fits and (not exact or stamp.made_by == _identity())


def _identity() -> str:
    """Which Python this is, the one beneath a virtual environment included."""
    version = ".".join(map(str, sys.version_info[:3]))
    return f"{version} {Path(sys.base_prefix).resolve()}"


def _build() -> int:
    """A new environment each time: what an older one was made from must not stay behind in it and seem to be needed."""
    if not _has_ensurepip():
        version = ".".join(map(str, sys.version_info[:2]))
        return _refuse(
            f"this Python cannot make virtual environments: ensurepip is missing. "
            f"Debian and Ubuntu: apt install python3-venv (or python{version}-venv); then try again."
        )
    try:
        _say(f"making .venv with Python {'.'.join(map(str, sys.version_info[:3]))}")
        _run(sys.executable, "-m", "venv", "--clear", str(VENV))
        _install()
    except subprocess.CalledProcessError as error:
        return _refuse(f"{' '.join(map(str, error.cmd))} failed with exit status {error.returncode}; see above.")
    STAMP.write_text("\n".join(Stamp(_fingerprint(), str(ROOT), _identity())) + "\n", "utf-8")
    return 0


def _has_ensurepip() -> bool:
    """Debian leaves it to a package of its own; without it an environment has no pip."""
    try:
        return importlib.util.find_spec("ensurepip.__main__") is not None
    except ModuleNotFoundError:
        return False


def _install() -> None:
    """Everything pinned, then Tandem itself, editable, built by the pinned backend."""
    _say("installing the pinned dependencies (a minute the first time)")
    pip = [str(environment_python()), "-m", "pip", "--disable-pip-version-check", "--require-virtualenv"]
    install = [*pip, "install", "--quiet", "--constraint", "constraints.txt"]
    _run(*install, *BUILD_BACKEND)
    _run(*install, "--no-build-isolation", "--editable", ".[dev]")


def _run(*command: str) -> None:
    # An environment that happens to be active must not decide where packages go.
    environment = {key: value for key, value in os.environ.items() if key not in {"PYTHONHOME", "PYTHONPATH"}}
    subprocess.run(command, cwd=ROOT, env=environment, check=True)


def _say(message: str) -> None:
    print(f"setup: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
