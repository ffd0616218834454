"""Another version of git than the machine's: fetched once into the user's cache, unpacked there, never installed.

On Debian it is that of another release, from where the machine's own packages come from, with the C library that it was
built for. Elsewhere `TANDEM_SECOND_GIT` names a program. `python -m tests.repository.routes.second_git` fetches it, and
says where it is.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import platformdirs

from tests.downloads import needing
from tools.downloads import ADVICE

RELEASES = ("trixie", "bookworm")
"""Releases of Debian whose git is recent enough; the first that the machine is not of is taken."""

FETCH_SECONDS = 300
_BINARY = b"\x7fELF"

# Before the tests take the environment away.
_STATED = os.environ.get("TANDEM_SECOND_GIT")
_CACHE = platformdirs.user_cache_path("tandem").resolve() / "git"
_TARGETS = "$(ORIGIN)|$(COMPONENT)|$(CODENAME)|$(ARCHITECTURE)|$(REPO_URI)"


class NoSecondGit(Exception):
    """There is none for this machine; the message says what to do."""


@cache
def second_git() -> Path:
    """The folder with the program `git`, to put first in `PATH`.

    Raises:
        NoSecondGit: The machine is not Debian's, and none was named.
    """
    if _STATED:
        return Path(_STATED).resolve().parent
    if shutil.which("apt-get") is None or not (sources := _sources()):
        raise NoSecondGit("no packages of Debian's here: name another version of git in TANDEM_SECOND_GIT")
    codename, architecture, uri = sources
    release = next(one for one in RELEASES if one != codename)
    folder = _CACHE / f"{release}-{architecture}"
    if not folder.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        # Complete, or not there: as with everything that is fetched.
        half = Path(tempfile.mkdtemp(dir=_CACHE))
        try:
            with needing("the second git", AssertionError):
                _fetch(f"{uri} {release} main", release, half)
            (half / "files").rename(folder)
        except OSError:
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(half, ignore_errors=True)
    return _programs(folder)


def _sources() -> tuple[str, str, str] | None:
    """The release, the architecture and the address of the machine's own packages."""
    listed = _run("apt-get", "indextargets", "--format", _TARGETS, "Created-By: Packages")
    for line in listed.splitlines():
        origin, component, codename, architecture, uri = line.split("|")
        if (origin, component) == ("Debian", "main") and codename in RELEASES:
            return codename, architecture, uri
    return None


def _fetch(source: str, release: str, folder: Path) -> None:
    """Fetch two packages, which apt verifies by the keys of the machine, and unpack them in `files`."""
    for name in ("state/lists/partial", "cache/archives/partial", "files"):
        (folder / name).mkdir(parents=True)
    (folder / "sources.list").write_text(f"deb {source}\n", "utf-8")
    settings = {
        "Dir::Etc::SourceList": folder / "sources.list",
        "Dir::Etc::SourceParts": "-",
        "Dir::State": folder / "state",
        "Dir::State::status": "/var/lib/dpkg/status",
        "Dir::Cache": folder / "cache",
        "Acquire::Languages": "none",
        "Acquire::Retries": 1,
        "Acquire::http::Timeout": 20,
        "Acquire::https::Timeout": 20,
        "APT::Sandbox::User": "root",
    }
    options = [part for name, value in settings.items() for part in ("-o", f"{name}={value}")]
    _run("apt-get", *options, "--quiet", "update")
    _run("apt-get", *options, "--quiet", "download", f"git/{release}", f"libc6/{release}", cwd=folder)
    for package in folder.glob("*.deb"):
        _run("dpkg-deb", "--extract", str(package), str(folder / "files"))


def _programs(folder: Path) -> Path:
    """The folder with a `git` that is started by its own C library, and with all that git starts by name."""
    own = folder / "programs"
    if not own.exists():
        (loader,) = [*folder.glob("usr/lib/*/ld-linux*.so.*"), *folder.glob("lib/*/ld-linux*.so.*")][:1]
        libraries = f"{loader.parent}:/usr/lib/{loader.parent.name}:/lib/{loader.parent.name}"
        half = Path(tempfile.mkdtemp(dir=folder))
        for program in [folder / "usr/bin/git", *(folder / "usr/lib/git-core").glob("git-*")]:
            if not program.is_file() or program.read_bytes()[:4] != _BINARY:
                (half / program.name).symlink_to(program)
                continue
            lines = [
                "#!/bin/sh",
                f"GIT_EXEC_PATH=${{GIT_EXEC_PATH:-{shlex.quote(str(own))}}}",
                "export GIT_EXEC_PATH",
                f'exec {shlex.join([str(loader), "--library-path", libraries, str(program)])} "$@"',
            ]
            (half / program.name).write_text("\n".join([*lines, ""]), "utf-8")
            (half / program.name).chmod(0o755)
        try:
            half.rename(own)
        except OSError:
            shutil.rmtree(half, ignore_errors=True)
    return own


def _run(*command: str, cwd: Path | None = None) -> str:
    done = subprocess.run(command, cwd=cwd, capture_output=True, text=True, check=False, timeout=FETCH_SECONDS)
    assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}{done.stderr}{ADVICE}"
    return done.stdout


if __name__ == "__main__":
    sys.stdout.write(f"{second_git()}\n")
