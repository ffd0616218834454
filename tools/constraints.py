"""Keeps `constraints.txt`: one `name==version` for every package that any platform installs; and the files with hashes.

    python tools/constraints.py --check   installed and pinned packages agree (run by `make test`)
    python tools/constraints.py --write   pin the installed packages; pins of other platforms stay
    python tools/constraints.py --hash    write the pins of those who only use Tandem, with the hashes of their files

`requirements.txt` is what the guides have people install: Tandem's own dependencies and what builds it, for all
platforms; `requirements-extras.txt` what PostgreSQL, the terminal screen and traces need in addition. The hashes come
from the package index, by `uv`, which is installed into an environment of its own for that.

Markers are kept line by line: a package that is not for every platform carries one.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import venv
from importlib.metadata import distributions
from pathlib import Path

FILE = Path(__file__).resolve().parent.parent / "constraints.txt"
HASHED = FILE.with_name("requirements.txt")
HASHED_EXTRAS = FILE.with_name("requirements-extras.txt")
HASHED_HEADER = """\
# Every package that Tandem needs to run and to be built, with the hashes of its files: for `pip --require-hashes`.
# Written by `make constraints`, from `constraints.txt`.
"""
EXTRAS_HEADER = """\
# What PostgreSQL, the terminal screen and traces need beside requirements.txt, with hashes: for `pip --require-hashes`.
# Written by `make constraints`, from `constraints.txt`.
"""
EXTRAS = ("postgres", "screen", "traces")
HEADER = """\
# Every package that Tandem and its development install, at the version that is tested.
# Written by `make constraints`; a marker says that a package is not for every platform.
"""
# Ours, and what `python -m venv` puts there by itself.
NOT_PINNED = {"tandem-broker", "pip", "setuptools", "wheel"}
_HASHED = re.compile(r"(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)")
_LINE = re.compile(r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;]+)(?:\s*;\s*(?P<marker>.+))?$")


def main() -> int:
    """Exit status 0 when the file is right, or was written."""
    parser = argparse.ArgumentParser(description="Check or write constraints.txt.")
    mode = parser.add_mutually_exclusive_group(required=True)
    mode.add_argument("--check", action="store_true")
    mode.add_argument("--write", action="store_true")
    mode.add_argument("--hash", action="store_true")
    asked = parser.parse_args()
    if asked.write:
        FILE.write_text(render(installed(), pinned()), "utf-8")
        return 0
    if asked.hash:
        base, extras = compiled()
        HASHED.write_text(HASHED_HEADER + base, "utf-8")
        HASHED_EXTRAS.write_text(EXTRAS_HEADER + extras, "utf-8")
        return 0
    faults = differences(installed(), pinned(), FILE.read_text("utf-8"))
    for file in (HASHED, HASHED_EXTRAS):
        faults += stale(pinned(), file.name, file.read_text("utf-8") if file.exists() else "")
    for fault in faults:
        print(f"constraints.txt: {fault}", file=sys.stderr)
    return 1 if faults else 0


def installed() -> dict[str, str]:
    """Version by normalised name, of this environment."""
    found = {normalised(one.metadata["Name"]): one.version for one in distributions()}
    return {name: version for name, version in found.items() if name not in NOT_PINNED}


def pinned() -> dict[str, tuple[str, str | None]]:
    """Version and marker by normalised name, of the file."""
    matches = (_LINE.match(line) for line in FILE.read_text("utf-8").splitlines()) if FILE.exists() else ()
    return {normalised(match["name"]): (match["version"], match["marker"]) for match in matches if match}


def normalised(name: str) -> str:
    """The one spelling of a package's name that comparisons use."""
    return re.sub(r"[-_.]+", "-", name).lower()


def differences(have: dict[str, str], pins: dict[str, tuple[str, str | None]], text: str) -> list[str]:
    """One sentence for everything that does not agree, with what to do."""
    faults = [f"`{line}` is not of the form name==version" for line in text.splitlines() if not _is_well_formed(line)]
    for name, version in sorted(have.items()):
        pin = pins.get(name)
        if pin is None:
            faults.append(f"{name} {version} is installed and not pinned; run `make constraints`")
        elif pin[0] != version:
            faults.append(f"{name} {version} is installed, {pin[0]} is pinned; run `make setup` or `make constraints`")
    for name, (version, marker) in sorted(pins.items()):
        if name not in have and marker is None:
            faults.append(f"{name}=={version} is pinned and nothing installs it; remove the line or give it a marker")
    return faults


def hashed(text: str) -> dict[str, tuple[str, int]]:
    """Version and number of hashes by normalised name, of a text with hashes."""
    matches = ((match, block.count("--hash=sha256:")) for match, block in _blocks(text))
    return {normalised(match["name"]): (match["version"], count) for match, count in matches}


def _blocks(text: str) -> list[tuple[re.Match[str], str]]:
    """Each package of a text with hashes, with all its lines."""
    blocks = re.split(r"(?m)^(?=[A-Za-z0-9])", text)
    return [(match, block) for block in blocks if (match := _HASHED.match(block))]


def stale(pins: dict[str, tuple[str, str | None]], name_of_file: str, text: str) -> list[str]:
    """One sentence for each package whose hashes are not those of its pin."""
    found = hashed(text)
    faults = [] if found else [f"{name_of_file} has no hashes; run `make constraints`"]
    for name, (version, count) in sorted(found.items()):
        pin = pins.get(name, ("nothing", None))[0]
        if pin != version or not count:
            faults.append(
                f"{name}: {name_of_file} has {count} hashes of {version}, {pin} is pinned; run `make constraints`"
            )
    return faults


def compiled() -> tuple[str, str]:
    """The pins of what Tandem needs, and of what its extras add, with hashes, as `uv` finds them; takes the network."""
    with tempfile.TemporaryDirectory() as folder:
        venv.create(folder, with_pip=True)
        binaries = Path(folder, "Scripts" if sys.platform == "win32" else "bin")
        subprocess.run([binaries / "python", "-m", "pip", "install", "--quiet", "uv"], check=True)
        base = _compiled_by(binaries / "uv", ())
        whole = _compiled_by(binaries / "uv", EXTRAS)
    return "".join(base.values()), "".join(block for name, block in whole.items() if name not in base)


def _compiled_by(uv: Path, extras: tuple[str, ...]) -> dict[str, str]:
    """The lines of each package by its normalised name."""
    how = ["--constraints", FILE, "--universal", "--generate-hashes", "--no-header", "--no-annotate", "--quiet"]
    done = subprocess.run(
        [uv, "pip", "compile", FILE.with_name("pyproject.toml"), "-", *how, *(f"--extra={extra}" for extra in extras)],
        input="hatchling\n",
        capture_output=True,
        text=True,
        check=True,
    )
    # Not what only platforms need that have no pin because Tandem does not run there.
    pins = pinned()
    blocks = ((normalised(match["name"]), block) for match, block in _blocks(done.stdout))
    return {name: block for name, block in blocks if name in pins}


def _is_well_formed(line: str) -> bool:
    return not line.strip() or line.startswith("#") or _LINE.match(line) is not None


def render(have: dict[str, str], pins: dict[str, tuple[str, str | None]]) -> str:
    """The whole file: the installed packages, and the pins for other platforms."""
    elsewhere = {name: version for name, (version, marker) in pins.items() if marker and name not in have}
    lines: list[str] = []
    for name, version in sorted({**have, **elsewhere}.items()):
        marker = pins[name][1] if name in pins else None
        lines.append(f"{name}=={version}" + (f" ; {marker}" if marker else ""))
    return HEADER + "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.exit(main())
