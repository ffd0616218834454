"""Runs the real client programs against scripted models: `make test-clients`.

    python tools/clients.py [--only codex,claude] [--install] [pytest's own arguments]

The programs are npm packages of pinned versions. They are kept in the user's cache folder (more than a
gigabyte), or in the one that TANDEM_CLIENTS_CACHE names; Node and npm come with `.venv`. Where the system can,
the tests run in a network that has only the loopback, so that nothing of them reaches anybody.
`--only` takes some of the programs; `--install` only brings them.
"""

from __future__ import annotations

import argparse
import fcntl
import hashlib
import json
import os
import shutil
import socket
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import platformdirs

from downloads import NODE, DownloadError, npm

ROOT = Path(__file__).resolve().parent.parent
# The longest first, so that no worker is left alone with it.
_TESTED = ("init", "first_day", "clients", "pool", "gate", "turns", "tasks", "plugins", "doctor", "seats")
TESTS = tuple(f"tests/clients/real_{name}.py" for name in _TESTED)
PACKAGES = {
    "claude": ("@anthropic-ai/claude-code", "2.1.330"),
    "codex": ("@openai/codex", "0.169.0"),
    "gemini": ("@google/gemini-cli", "0.61.0"),
    "opencode": ("opencode-ai", "1.18.33"),
}
# npm runs no scripts of packages here, for good reasons; these two put the program for the platform in its place.
FINISH = {"claude": "install.cjs", "opencode": "postinstall.mjs"}
INSTALL_SECONDS = 1200
WORKERS = 2
ALONE = "--alone"
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 0x1


def main() -> int:
    """Exit status 0 when all tests passed."""
    arguments = sys.argv[1:]
    if arguments[:1] == [ALONE]:
        _raise_loopback()
        return _run_tests(Path(arguments[1]), arguments[2].split(","), arguments[3:])
    options, arguments = _options(arguments)
    try:
        programs = _programs(options.only)
    except DownloadError as error:
        print(f"clients: {error}", file=sys.stderr)
        return 1
    if options.install:
        print(programs)
        return 0
    if _can_be_alone():
        inside = [sys.executable, __file__, ALONE, str(programs), ",".join(options.only), *arguments]
        return subprocess.run([*_ALONE_COMMAND, *inside], cwd=ROOT, check=False).returncode
    print("clients: no network of their own here; they could reach the outside", file=sys.stderr)
    return _run_tests(programs, options.only, arguments)


def _options(arguments: list[str]) -> tuple[argparse.Namespace, list[str]]:
    parser = argparse.ArgumentParser(description="Run the real clients against scripted models.", allow_abbrev=False)
    parser.add_argument("--only", type=_names, default=sorted(PACKAGES), help=f"some of {','.join(PACKAGES)}")
    parser.add_argument("--install", action="store_true", help="only bring the programs, and say where they are")
    return parser.parse_known_args(arguments)


def _names(text: str) -> list[str]:
    names = sorted(set(text.split(",")))
    if unknown := [name for name in names if name not in PACKAGES]:
        raise argparse.ArgumentTypeError(f"there is no client {', '.join(unknown)}")
    return names


def _run_tests(programs: Path, names: list[str], arguments: list[str]) -> int:
    path = os.pathsep.join([str(programs / "node_modules" / ".bin"), str(NODE.parent)])
    # Mostly one program waits for another; and the models are scripts, so that two at once do not disturb each other.
    workers = ["-n", str(WORKERS), "--dist", "worksteal"]
    command = [sys.executable, "-m", "pytest", *workers, "--timeout", "600", *TESTS, *arguments]
    environment = {**os.environ, "TANDEM_CLIENTS_PATH": path, "TANDEM_CLIENTS": ",".join(names)}
    return subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode


def _programs(names: list[str]) -> Path:
    """The folder with the programs; they are installed when they are not there yet."""
    stated = os.environ.get("TANDEM_CLIENTS_CACHE")
    cache = Path(stated) if stated else platformdirs.user_cache_path("tandem") / "clients"
    wanted = dict(PACKAGES[name] for name in names)
    folder = cache.resolve() / hashlib.sha256(json.dumps(wanted, sort_keys=True).encode()).hexdigest()[:16]
    if not folder.exists():
        cache.mkdir(parents=True, exist_ok=True)
        # Complete, or not there: an interrupted installation is not taken for one.
        half = Path(tempfile.mkdtemp(dir=cache))
        try:
            _install(half, names, wanted)
            half.rename(folder)
        finally:
            shutil.rmtree(half, ignore_errors=True)
    return folder


def _install(folder: Path, names: list[str], wanted: dict[str, str]) -> None:
    print(f"clients: installing {', '.join(wanted)} (a minute the first time)", file=sys.stderr, flush=True)
    npm(folder, "install", *(f"{name}@{version}" for name, version in wanted.items()))
    for name in names:
        if name in FINISH:
            where = folder / "node_modules" / PACKAGES[name][0]
            subprocess.run([NODE, FINISH[name]], cwd=where, check=True, timeout=INSTALL_SECONDS)


_ALONE_COMMAND = ("unshare", "--map-root-user", "--net", "--")


def _can_be_alone() -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*_ALONE_COMMAND, "true"], capture_output=True, check=False).returncode == 0


def _raise_loopback() -> None:
    """A new network has a loopback that is switched off."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
        request = struct.pack("16sH14s", b"lo", 0, b"")
        flags = struct.unpack("16sH14s", fcntl.ioctl(any_socket, _SIOCGIFFLAGS, request))[1]
        fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14s", b"lo", flags | _IFF_UP, b""))


if __name__ == "__main__":
    sys.exit(main())
