"""The demonstration's stage: a scratch repository, a broker of its own, and the command line run in it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import tempfile
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass
from pathlib import Path

from tandem.bridge.scratch import ScratchFolder
from tandem.config import USER_FILE
from tandem.examples import examples
from tandem.git.runner import Git, clean_environment

_START_SECONDS = 60.0
_COMMAND_SECONDS = 60.0
_STOP_SECONDS = 20.0
PROJECT = "parcels"
GATED_WORKFLOW = "writer-editor"
"""The ready example that the stage's broker is configured with; each hand-off is reviewed first."""


class SceneFailed(Exception):
    """A step of the demonstration went otherwise than it must."""


@dataclass(frozen=True, slots=True)
class Finished:
    """A command that has ended.

    Attributes:
        status: Its exit status.
        output: What it printed, both outputs.
    """

    status: int
    output: str


@dataclass(frozen=True, slots=True)
class Stage:
    """Where the demonstration plays.

    Attributes:
        folder: Everything is below it.
        url: The broker.
    """

    folder: Path
    url: str

    @property
    def repository(self) -> Path:
        """The proposer's working tree."""
        return self.folder / PROJECT

    @property
    def desk(self) -> Path:
        """The reviewer's own working tree of the same repository."""
        return self.folder / "desk"

    @property
    def data_dir(self) -> Path:
        """The broker's data."""
        return data_dir(self.folder)

    def endpoint(self, role: str) -> str:
        """The broker's MCP endpoint for a role, with the project."""
        return f"{self.url}/mcp/{role}?project={PROJECT}"

    async def tandem(self, *arguments: str) -> Finished:
        """Run `tandem` in the proposer's working tree."""
        return await _tandem(self.repository, self.folder, *arguments, url=self.url)

    async def git(self, *arguments: str, cwd: Path | None = None) -> str:
        """Run git in the proposer's working tree."""
        return await asyncio.to_thread(_git, cwd or self.repository, *arguments)


def data_dir(folder: Path) -> Path:
    """Where the broker of a stage keeps its data."""
    return folder / "data"


@contextlib.asynccontextmanager
async def stage(*, keep: bool, more: Callable[[Path], str] | None = None) -> AsyncGenerator[Stage, None]:
    """Set up a scratch folder and start a broker in it; both are gone afterwards.

    Args:
        keep: Whether the folder is left for a look.
        more: Given the folder, what else the broker's configuration says.

    Raises:
        SceneFailed: The broker did not start.
    """
    # One that is kept has a name that nobody sweeps.
    scratch = None if keep else ScratchFolder("demo")
    folder = _furnished(tempfile.mkdtemp(prefix="tandem-demo-kept-") if scratch is None else scratch.name)
    try:
        if more is not None:
            with (_config_dir(folder) / USER_FILE).open("a", encoding="utf-8") as file:
                file.write(more(folder))
        async with _broker(folder) as url:
            yield Stage(folder, url)
    finally:
        if scratch is not None:
            scratch.cleanup()


def _furnished(made: str) -> Path:
    folder = Path(made).resolve()
    (folder / PROJECT).mkdir()
    _config_dir(folder).mkdir()
    (_config_dir(folder) / USER_FILE).write_text(examples()[GATED_WORKFLOW], encoding="utf-8")
    return folder


def _config_dir(folder: Path) -> Path:
    return folder / "config"


@contextlib.asynccontextmanager
async def _broker(folder: Path) -> AsyncGenerator[str, None]:
    with (folder / "broker.log").open("wb") as log:
        command = [sys.executable, "-m", "tandem", "up", "--port", "0", "--data-dir", str(data_dir(folder)), "--json"]
        process = await asyncio.create_subprocess_exec(
            *command, stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=log,
            env=_environment(folder), cwd=folder,
        )  # fmt: skip
        try:
            yield await _announced_url(process, folder)
        finally:
            await _end(process)


async def _announced_url(process: asyncio.subprocess.Process, folder: Path) -> str:
    """What the broker prints once it answers."""
    assert process.stdout is not None  # noqa: S101 - for the type: it was asked for
    try:
        line = await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)
        return str(json.loads(line)["data"]["url"])
    except (TimeoutError, ValueError, KeyError) as error:
        said = (folder / "broker.log").read_text(encoding="utf-8", errors="replace")
        raise SceneFailed(f"the broker did not start:\n{said[-2000:]}") from error


async def _end(process: asyncio.subprocess.Process) -> None:
    with contextlib.suppress(ProcessLookupError):
        process.terminate()
    try:
        await asyncio.wait_for(process.wait(), _STOP_SECONDS)
    except TimeoutError:
        process.kill()
        await process.wait()


async def _tandem(cwd: Path, folder: Path, *arguments: str, url: str | None = None) -> Finished:
    environment = _environment(folder) | ({"TANDEM_BROKER": url} if url else {})
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "tandem", *arguments, cwd=cwd, env=environment, stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    try:
        output, _ = await asyncio.wait_for(process.communicate(), _COMMAND_SECONDS)
    except TimeoutError as error:
        process.kill()
        await process.wait()
        raise SceneFailed(f"tandem {' '.join(arguments)} has not ended for {_COMMAND_SECONDS:.0f} s") from error
    return Finished(process.returncode or 0, output.decode(errors="replace").strip())


def _environment(folder: Path) -> dict[str, str]:
    """The process's environment without settings of the person's own broker."""
    kept = {name: value for name, value in os.environ.items() if not name.upper().startswith("TANDEM_")}
    return {**kept, "TANDEM_CONFIG_DIR": str(_config_dir(folder)), "PYTHONUTF8": "1", "COLUMNS": "110"}


def _git(cwd: Path, *arguments: str) -> str:
    identity = ["-c", "user.name=Demo", "-c", "user.email=demo@example.invalid", "-c", "commit.gpgSign=false"]
    settings = [*identity, "-c", "core.autocrlf=false", "-c", "init.defaultBranch=main"]
    output = Git().run([*settings, *arguments], cwd=cwd, environment=clean_environment({}, isolated=True))
    return output.stdout.decode(errors="replace")
