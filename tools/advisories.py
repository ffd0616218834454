"""Asks the package index for known advisories about the pinned versions, with `pip-audit` in an environment of its own.

    python tools/advisories.py               an answer that could not be had is said, and is no failure
    python tools/advisories.py --required    it is one

Exit status 1 means that a pinned version has an advisory: raise the pin, with `make constraints`.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
SECONDS = 300


def main() -> int:
    """Ask, and print each advisory; the exit status."""
    required = "--required" in sys.argv[1:]
    with tempfile.TemporaryDirectory(prefix="tandem-advisories-") as folder:
        report = _asked(Path(folder))
    if isinstance(report, str):
        print(f"advisories: could not ask: {report}")
        return int(required)
    found, asked, unknown = read(report)
    if found or asked:
        print("\n".join(found) or f"advisories: none for {asked} pinned packages")
    if unknown:
        print(f"advisories: could not ask about {len(unknown)} packages: {', '.join(unknown)}")
    return int(bool(found) or (required and bool(unknown)))


def _asked(folder: Path) -> dict[str, Any] | str:
    """The report of pip-audit, or why there is none."""
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    pins = folder / "pins.txt"
    pins.write_text("\n".join(pinned((ROOT / "constraints.txt").read_text("utf-8"))), "utf-8")
    audit = ("-m", "pip_audit", "--no-deps", "--disable-pip", "--format", "json", "--requirement", str(pins))
    try:
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "pip-audit"], check=True, capture_output=True)
        done = subprocess.run([python, *audit], check=False, capture_output=True, timeout=SECONDS)
        return json.loads(done.stdout)
    except subprocess.CalledProcessError as error:
        return (error.stderr or b"").decode("utf-8", "replace").strip().rpartition("\n")[2]
    except (subprocess.TimeoutExpired, ValueError) as error:
        return f"pip-audit gave no report ({error})"


def pinned(constraints: str) -> list[str]:
    """Every pin without its marker: an advisory counts on each platform."""
    return re.findall(r"(?m)^[A-Za-z0-9._-]+==[^\s;]+", constraints)


def read(report: dict[str, Any]) -> tuple[list[str], int, list[str]]:
    """The advisories, the number of packages that were asked about, and the names of the others."""
    packages = report["dependencies"]
    unknown = [one["name"] for one in packages if "skip_reason" in one]
    found = [
        f"{one['name']} {one['version']}: {advisory['id']}, fixed in {advisory['fix_versions'] or 'no version'}"
        for one in packages
        for advisory in one.get("vulns", ())
    ]
    return found, len(packages) - len(unknown), unknown


if __name__ == "__main__":
    sys.exit(main())
