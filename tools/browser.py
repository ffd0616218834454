"""Finds a Chromium that tests can drive, and brings one where there is none: `tools/check.py` runs this.

    python tools/browser.py           print its path; install it first, if there is none
    python tools/browser.py --find    print its path, or say what to install

The browser is the one that TANDEM_BROWSER names, else one of the machine, else Playwright's own. Where there is
none, Debian's package manager is asked (as root, or with sudo that asks no password), and then Playwright.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

# The browser without its own windows comes first: it shows pages alike and takes half of the processor time.
NAMES = (
    "chromium-headless-shell",
    "chrome-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
    "msedge",
)
MACOS = ("Chromium", "Google Chrome", "Microsoft Edge")
WINDOWS = (r"Google\Chrome\Application\chrome.exe", r"Microsoft\Edge\Application\msedge.exe")
# A browser without any font draws boxes, which no picture and no check of contrast is worth.
PACKAGES = ("chromium-headless-shell", "fonts-dejavu-core")
LISTS = Path("/var/lib/apt/lists")
PROBE_SECONDS = 60
INSTALL_SECONDS = 900
LOCK_SECONDS = 300
# Where nothing answers apt and Playwright go on for minutes.
IMPATIENT = [f"--option=Acquire::{name}" for name in ("Retries=1", "http::Timeout=20", "https::Timeout=20")]
PLAYWRIGHT = {"PLAYWRIGHT_DOWNLOAD_CONNECTION_TIMEOUT": "10000"}
ADVICE = (
    "There is no Chromium that the tests of the pages can drive. Install Chromium, Google Chrome or Microsoft Edge "
    "(Debian: apt install chromium-headless-shell fonts-dejavu-core; macOS: brew install --cask chromium), or name "
    "the program with TANDEM_BROWSER. If it could not be fetched: behind a proxy set HTTPS_PROXY, and where that has a "
    "certificate of its own, add its CA's to the system's store."
)


class BrowserError(RuntimeError):
    """There is no browser, or the named one does not run; the message says what to do."""


def main() -> int:
    """Exit status 0 when there is a browser."""
    parser = argparse.ArgumentParser(description="Find or bring a Chromium for the tests of the pages.")
    parser.add_argument("--find", action="store_true", help="install nothing")
    try:
        print(find() if parser.parse_args().find else bring())
    except BrowserError as error:
        print(f"browser: {error}", file=sys.stderr)
        return 1
    return 0


def find() -> Path:
    """The browser of this machine.

    Raises:
        BrowserError: There is none, or the one that TANDEM_BROWSER names does not run.
    """
    named = os.environ.get("TANDEM_BROWSER")
    if named:
        path = shutil.which(named)
        if path is None or not _runs(Path(path)):
            raise BrowserError(f"TANDEM_BROWSER={named} is no browser that runs. Correct it, or leave it out.")
        return Path(path)
    for path in _candidates():
        if _runs(path):
            return path
    raise BrowserError(ADVICE)


def bring() -> Path:
    """The browser of this machine, installed if need be.

    Raises:
        BrowserError: There is none, and none can be installed.
    """
    if os.environ.get("TANDEM_BROWSER"):
        return find()
    for step in (None, _install_by_apt, _install_by_playwright):
        if step is not None:
            step()
        try:
            return find()
        except BrowserError:
            continue
    raise BrowserError(ADVICE)


def _candidates() -> Iterator[Path]:
    for name in NAMES:
        path = shutil.which(name)
        # A snap sees neither the folders nor the pipes that a test gives to its browser.
        if path is not None and Path(path).resolve().name != "snap":
            yield Path(path)
    if sys.platform == "darwin":
        for folder in (Path("/Applications"), Path.home() / "Applications"):
            yield from (folder / f"{name}.app" / "Contents" / "MacOS" / name for name in MACOS)
    if sys.platform == "win32":
        roots = [
            os.environ[name] for name in ("PROGRAMFILES", "PROGRAMFILES(X86)", "LOCALAPPDATA") if name in os.environ
        ]
        yield from (Path(root) / name for root in roots for name in WINDOWS)
    own = _of_playwright()
    if own is not None:
        yield own


@functools.cache
def _of_playwright() -> Path | None:
    """Where Playwright would have its own; asked of the package, for only that knows which version it wants."""
    script = "from playwright.sync_api import sync_playwright as p\nwith p() as q: print(q.chromium.executable_path)"
    try:
        asked = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True, timeout=PROBE_SECONDS
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return Path(asked.stdout.strip())


@functools.cache
def _runs(path: Path) -> bool:
    """Whether it is a program; a stand-in that only tells what to install is none."""
    if not path.is_file():
        return False
    if sys.platform == "win32":
        return True  # It would open a window instead of telling its version.
    try:
        asked = subprocess.run([str(path), "--version"], capture_output=True, check=False, timeout=PROBE_SECONDS)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return asked.returncode == 0


def _install_by_apt() -> None:
    apt = shutil.which("apt-get")
    before = _as_root()
    if apt is None or before is None:
        return
    _say(f"installing {' and '.join(PACKAGES)} with apt-get (a minute or two, the first time)")
    command = [*before, "env", "DEBIAN_FRONTEND=noninteractive", apt, "--quiet", "--quiet"]
    command += ["--option", f"DPkg::Lock::Timeout={LOCK_SECONDS}", *IMPATIENT]
    install = [*command, "install", "--yes", "--no-install-recommends", *PACKAGES]
    # A fresh machine has no lists, and old ones name packages that are gone.
    if any(LISTS.glob("*_Packages*")) and _do(install):
        return
    if _do([*command, "update"]):
        _do(install)


def _install_by_playwright() -> None:
    _say("installing Playwright's own Chromium")
    # With its packages of the system, where that can be installed.
    whole = ["--with-deps"] if shutil.which("apt-get") and _as_root() is not None else []
    _do([sys.executable, "-m", "playwright", "install", *whole, "chromium"])


def _as_root() -> list[str] | None:
    """What a command begins with that root has to run; None where we may not."""
    if sys.platform == "win32":
        return None
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo is None:
        return None
    asked = subprocess.run([sudo, "-n", "true"], capture_output=True, check=False, timeout=PROBE_SECONDS)
    return [sudo, "-n"] if asked.returncode == 0 else None


def _do(command: list[str]) -> bool:
    """Run it; whether it succeeded. Its errors are shown, its progress is not."""
    _runs.cache_clear()
    try:
        done = subprocess.run(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            env={**PLAYWRIGHT, **os.environ},
            check=False,
            timeout=INSTALL_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        _say(str(error))
        return False
    return done.returncode == 0


def _say(message: str) -> None:
    print(f"browser: {message}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    sys.exit(main())
