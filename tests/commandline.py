"""A real broker in a process of its own, repositories, and the command line run against them."""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Coroutine, Generator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, TypeVar

import httpx
import pytest
from typer.testing import CliRunner

from tandem.cli import program
from tandem.client import TandemClient
from tests.forked import Started, run_tandem, start_tandem
from tests.recording import executed

T = TypeVar("T")
START_SECONDS = 60
COMMAND_SECONDS = 60
NOBODY = "http://127.0.0.1:9"
"""Where no broker listens: the system never gives this port to a program that asks for any port."""

STDERR = 2

DIFF = """\
diff --git a/a.txt b/a.txt
--- a/a.txt
+++ b/a.txt
@@ -1,2 +1,2 @@
 one
-two
+2
"""
"""A change to what `repository` has."""


@dataclass(frozen=True)
class Ended:
    """A command that has ended."""

    status: int
    stdout: str
    stderr: str

    @property
    def envelope(self) -> dict[str, Any]:
        """Standard output as the one envelope that `--json` prints."""
        return json.loads(self.stdout)

    @property
    def data(self) -> dict[str, Any]:
        """The data of an envelope that must be a success."""
        assert self.envelope["ok"], self.stdout
        return self.envelope["data"]

    @property
    def unwrapped(self) -> str:
        """Standard error on one line: the line breaks there are for people."""
        return " ".join(self.stderr.split())

    @property
    def refusal(self) -> str:
        """The message of a command that must have failed."""
        assert self.status == 1, self
        return self.stderr


def owners_desk(url: str, data_dir: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> Inside:
    """The command line of the person who runs a broker that asks for access tokens, in a project of their own."""
    monkeypatch.setenv("TANDEM_DATA_DIR", str(data_dir))
    root = repository(folder / folder.name)
    monkeypatch.chdir(root)
    found = Inside(url, root)
    assert found.run("project", "add").status == 0
    return found


def git(cwd: Path, *arguments: str) -> str:
    """Run git; its output."""
    return subprocess.run(["git", *arguments], cwd=cwd, check=True, capture_output=True, text=True).stdout


def repository(folder: Path, files: Mapping[str, bytes] | None = None, options: Sequence[str] = ()) -> Path:
    """A repository with one commit on `main`, as `git init` with these options makes it."""
    chosen = {"a.txt": b"one\ntwo\n"} if files is None else files
    return shutil.copytree(_template(tuple(chosen.items()), tuple(options)), folder, symlinks=True)


@cache
def _template(files: tuple[tuple[str, bytes], ...], options: tuple[str, ...]) -> Path:
    """What such repositories are copies of: git is not started for each of hundreds."""
    temporary = Path(mkdtemp(prefix="tandem-template-"))
    atexit.register(shutil.rmtree, temporary, ignore_errors=True)
    folder = temporary / "repository"
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main", *options)
    for name, content in files:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    git(folder, "add", "--all")
    git(folder, "commit", "--quiet", "--allow-empty", "--message", "start")
    return folder


@dataclass
class Shell:
    """A folder to run `tandem` in."""

    url: str
    cwd: Path

    def start(self, *arguments: str, **environment: str) -> Started:
        """Start a command with pipes; it is forked, where that is possible (`tests/forked.py`)."""
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return start_tandem(arguments, self.cwd, {**os.environ, "TANDEM_BROKER": self.url, **environment}, **pipes)

    def run(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Ended:
        """Run a command to its end, forked as in `start`."""
        environment = {**os.environ, "TANDEM_BROKER": self.url, **environment}
        ended = run_tandem(arguments, self.cwd, environment, told=stdin, seconds=COMMAND_SECONDS)
        return Ended(ended.returncode, ended.stdout, ended.stderr)

    def at(self, cwd: Path) -> Shell:
        """The same broker from another folder."""
        return Shell(self.url, cwd)

    def ask(self, call: Callable[[TandemClient], Coroutine[Any, Any, T]], **place: Any) -> T:
        """Ask the broker through the client, as the other side of a review."""

        async def asked() -> T:
            async with TandemClient(self.url, **place) as client:
                return await call(client)

        return asyncio.run(asked())


@dataclass
class Inside:
    """The command line in this process, for commands that need no process of their own."""

    url: str
    cwd: Path

    @property
    def project(self) -> str:
        """The project of the folder, if it is registered under the folder's name."""
        return self.cwd.name

    def run(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Ended:
        """Run a command to its end."""
        environment = {"TANDEM_BROKER": self.url, **environment}
        executed.append(arguments)
        status = 0
        isolation = CliRunner(charset="utf-8").isolation(stdin, environment)
        with isolation as (stdout, stderr, _), pytest.MonkeyPatch.context() as process:
            process.setattr(sys, "argv", ["tandem", *arguments])
            try:
                program.run(list(arguments))
            except SystemExit as ended:
                status = int(ended.code or 0)
            finally:
                sys.stdout.flush()
                sys.stderr.flush()
            said = [stream.getvalue().decode().replace("\r\n", "\n") for stream in (stdout, stderr)]
        return Ended(status, *said)

    def created(self, *options: str) -> str:
        """A new review's id."""
        created = self.run("review", "create", "--intent", "an intent", "--diff", DIFF, *options, "--json")
        return created.data["review_id"]

    def post(self, operation: str, body: dict[str, Any]) -> str:
        """The answer over HTTP, to the byte."""
        return httpx.post(f"{self.url}/api/v1/{operation}", json=body, verify=False).text


class ShellInside(Shell):
    """A shell that runs commands to their end in this process, which costs a third."""

    def run(self, *arguments: str, stdin: bytes = b"", **environment: str) -> Ended:
        """Run a command to its end."""
        with contextlib.chdir(self.cwd):
            return Inside(self.url, self.cwd).run(*arguments, stdin=stdin, **environment)

    def at(self, cwd: Path) -> ShellInside:
        """The same broker from another folder."""
        return ShellInside(self.url, cwd)


def finish(process: Started, stdin: bytes = b"") -> Ended:
    """Wait for a command's end."""
    with process:
        try:
            stdout, stderr = process.communicate(stdin, timeout=COMMAND_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
    return Ended(process.returncode, (stdout or b"").decode(), (stderr or b"").decode())


@contextlib.contextmanager
def running_broker(data_dir: Path, *options: str) -> Generator[str]:
    """A broker of its own; its URL."""
    arguments = ["up", "--port", "0", "--data-dir", str(data_dir), "--json", *options]
    with start_tandem(arguments, data_dir.parent, os.environ, stdout=subprocess.PIPE, stderr=STDERR) as process:
        assert process.stdout is not None
        try:
            yield json.loads(process.stdout.readline())["data"]["url"]
        finally:
            process.terminate()
            process.wait(START_SECONDS)
