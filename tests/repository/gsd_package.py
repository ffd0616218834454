"""The stock GSD package: fetched once from npm into the user's cache, and installed by its own installer.

The versions of a run are `DEFAULT`; `TANDEM_GSD_VERSIONS=all`, or some with commas between, takes others.
`TANDEM_GSD_CACHE` names another folder for the packages.
"""

from __future__ import annotations

import hashlib
import io
import os
import re
import shutil
import subprocess
import tarfile
import tempfile
from pathlib import Path

import platformdirs

from tests.downloads import needing
from tools.downloads import NODE, DownloadError, npm

PACKAGE = "get-shit-done-cc"
DIGESTS = {
    "1.20.5": "211c97298d3eb6fd2f787324cf3a16800ca17763e5a1b447dfd6967e80bb2094",
    "1.28.0": "3591cbc808b2cb6a8035b9b879550a1e13403702811c08ab8962cf8e4ac5d0cf",
    "1.32.0": "bc37f2b7aabdebfe7321bcc42d7925c307f44dd66ef247bb94f333f352546b4c",
    "1.37.1": "9b225c4f7ec39733064c459e92309e2158b1445eb35c3f821286ccbc9e1f0cde",
    "1.42.3": "ced3fa71842c857cb5320b847227eb50246481004e365e20fe8edaf2d2a2a52f",
}
"""Of the packages: the tests run only packages that a person has inspected."""

DEFAULT = ("1.28.0", "1.42.3")
NEWEST = "1.42.3"
INSTALL_SECONDS = 120

# Before the tests clear the environment: the cache belongs to the person who runs them.
_ENVIRONMENT = dict(os.environ)
_CACHE = Path(_ENVIRONMENT.get("TANDEM_GSD_CACHE") or platformdirs.user_cache_path("tandem") / "gsd").resolve()
_STAMP = re.compile(rb"\d{4}-\d\d-\d\dT[\d:.]+Z")


def versions() -> list[str]:
    """The versions of this run, the oldest first."""
    stated = _ENVIRONMENT.get("TANDEM_GSD_VERSIONS", "")
    chosen = set(DIGESTS) if stated == "all" else set(filter(None, stated.split(","))) or set(DEFAULT)
    assert chosen <= set(DIGESTS), f"there are {', '.join(DIGESTS)}"
    return sorted(chosen, key=lambda version: [int(part) for part in version.split(".")])


def package(version: str) -> Path:
    """The folder of the unpacked package; it is fetched when it is not there yet."""
    folder = _CACHE / version
    if not folder.exists():
        _CACHE.mkdir(parents=True, exist_ok=True)
        # Complete, or not there: an interrupted download is not taken for one, nor another process's half.
        half = Path(tempfile.mkdtemp(dir=_CACHE))
        try:
            _fetch(version, half)
            (half / "package").rename(folder)
        except OSError:
            if not folder.exists():
                raise
        finally:
            shutil.rmtree(half, ignore_errors=True)
    return folder


def _fetch(version: str, folder: Path) -> None:
    with needing("npm", DownloadError):
        npm(folder, "pack", f"{PACKAGE}@{version}", npm_config_cache=str(folder / "npm"))
    content = (folder / f"{PACKAGE}-{version}.tgz").read_bytes()
    assert hashlib.sha256(content).hexdigest() == DIGESTS[version]
    with tarfile.open(fileobj=io.BytesIO(content)) as archive:
        # By name: `extractall(filter=…)` came with Python 3.11.4.
        archive.extraction_filter = getattr(tarfile, "data_filter", None)
        archive.extractall(folder)


def install(version: str, client: str, scope: str, home: Path) -> str:
    """Run GSD's installer for a client, in a user's home folder or the project in it; returns its output."""
    installer = package(version) / "bin" / "install.js"
    where = "--global" if scope == "user" else "--local"
    return node(installer, f"--{client}", where, home=home, cwd=home / "project")


def tools(folder: Path, *arguments: str, home: Path, cwd: Path, **environment: str) -> str:
    """Run GSD's own tool of an installation; returns its output."""
    program = folder / "get-shit-done" / "bin" / "gsd-tools.cjs"
    return node(program, *arguments, home=home, cwd=cwd, **environment)


def node(program: Path, *arguments: str, home: Path, cwd: Path, **environment: str) -> str:
    """Run a program of Node's that finds nothing else: no npm, no settings, no terminal."""
    done = subprocess.run(
        [NODE, program, *arguments],
        cwd=cwd,
        env={"PATH": "", "HOME": str(home), "USERPROFILE": str(home), "TMPDIR": str(home), **environment},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        check=False,
        text=True,
        timeout=INSTALL_SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def files(folder: Path) -> dict[str, tuple[bytes, int]]:
    """Content and mode of every file below a folder."""
    return {
        path.relative_to(folder).as_posix(): (path.read_bytes(), path.stat().st_mode)
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def timeless(found: dict[str, tuple[bytes, int]]) -> dict[str, tuple[bytes, int]]:
    """Files of two installations, made comparable: without times, and without GSD's diary of its own runs."""
    return {
        name: (_STAMP.sub(b"", content), mode)
        for name, (content, mode) in found.items()
        if "gsd-migration-journal/" not in name and not name.endswith("gsd-install-state.json")
    }
