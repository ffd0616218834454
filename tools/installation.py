"""Tries what users install: the folder, the sdist and the wheel, each in an empty environment, and a broker of each.

    python tools/installation.py    needs a package index; half a minute

The packages that Tandem needs are those of `requirements.txt`, with their hashes, as in `docs/guide/install.md`. They
are installed once, and each environment begins as a copy.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def main() -> int:
    """Install and run each of them; 1 if a step failed."""
    with tempfile.TemporaryDirectory(prefix="tandem-installation-") as folder:
        scratch = Path(folder)
        built = scratch / "built"
        try:
            packages = _packages(scratch / "packages")
            first = _try(ROOT, scratch / "folder", packages)
            _run(first, "-m", "hatchling", "build", "-d", str(built), cwd=ROOT)
            for file in (*built.glob("*.tar.gz"), *built.glob("*.whl")):
                _try(file, scratch / file.suffix[1:], packages)
        except subprocess.CalledProcessError as error:
            print(f"installation: failed: {' '.join(map(str, error.cmd))}\n{error.stdout}", file=sys.stderr)
            return 1
    print("installation: the folder, the sdist and the wheel install and run")
    return 0


def _packages(folder: Path) -> Path:
    """The folder of an environment that has pip and the pinned packages, and nothing else."""
    venv.create(folder, with_pip=True)
    _run(_python(folder), "-m", "pip", "install", "--quiet", "--require-hashes", "-r", str(ROOT / "requirements.txt"))
    return _site(folder)


def _python(folder: Path) -> Path:
    return folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")


def _site(folder: Path) -> Path:
    return Path(sysconfig.get_path("purelib", "venv", {"base": str(folder)}))


def _try(source: Path, folder: Path, packages: Path) -> Path:
    """Install it, and have the installed program start a broker, ask it, and end it; the environment's interpreter."""
    venv.create(folder)
    shutil.copytree(packages, _site(folder), dirs_exist_ok=True)
    python = _python(folder)
    _run(python, "-m", "pip", "install", "--quiet", "--no-deps", "--no-build-isolation", str(source))
    _run(python, "-m", "pip", "check")
    data = ("--data-dir", str(folder / "data"))
    for program in ("tandem", "tandem-broker"):
        # pipx and uv find a package's commands by these files.
        _run(python.with_name(program), "--version")
    _run(python, "-m", "tandem", "up", "--background", "--port", "0", *data)
    try:
        _run(python, "-m", "tandem", "status", *data)
        _run(python, "-m", "tandem", "audit", "verify", *data)
    finally:
        _run(python, "-m", "tandem", "down", *data)
    return python


def _run(program: Path, *arguments: str, cwd: Path | None = None) -> None:
    # Away from the checkout, whose source must not stand in for the installed package.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHONPATH", "TANDEM_"))}
    subprocess.run(
        [program, *arguments], cwd=cwd or program.parent, env=kept, check=True, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
