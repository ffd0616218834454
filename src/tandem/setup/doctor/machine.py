"""The machine: Python, git, the program itself, and who else works here."""

from __future__ import annotations

import asyncio
import getpass
import os
import platform
import shlex
import shutil
import sys
from pathlib import Path

from tandem.bridge.location import find_data_dir
from tandem.errors import ConfigInvalid, TandemError
from tandem.git.place import unusable
from tandem.git.runner import HOW_TO_INSTALL, Git, ensure_recent
from tandem.settings.config import Ignored, load_settings
from tandem.setup.clients import find_program
from tandem.setup.doctor.finding import DoctorContext, Finding, note, ok, problem
from tandem.setup.service import find_service

_FREE_BYTES = 200_000_000


async def check_programs(here: DoctorContext) -> list[Finding]:
    """Python and git, who commits, and whether hooks, agents and people find `tandem`."""
    found = [ok("python", f"Python {platform.python_version()}"), *await asyncio.to_thread(_git, here)]
    program = await asyncio.to_thread(find_program, here.environment)
    here.has_program = program.is_portable
    if here.has_program:
        return [
            *found,
            ok("program", "tandem is on PATH, for agents too."),
            *(note("program", one) for one in program.notes),
        ]
    why = program.notes[0].partition(",")[0]
    folder = Path(sys.executable).parent
    if shutil.which("tandem", path=str(folder)):
        fix = f'export PATH={shlex.quote(str(folder))}:"$PATH"'
        return [*found, problem("program", f"{why}: neither agents nor you find it.", fix)]
    return [*found, problem("program", f"{why}: neither agents nor you find it.", "install it with pipx or uv tool")]


def _git(here: DoctorContext) -> list[Finding]:
    try:
        found = ok("git", ensure_recent(Git()))
    except TandemError as error:
        here.has_git = False
        message, _, fix = error.message.partition(f" {HOW_TO_INSTALL}")
        return [problem("git", message, HOW_TO_INSTALL.removesuffix("."))]
    if here.place is not None and (trouble := unusable(here.place)) is not None:
        here.has_git = False
        return [found, problem("git", *trouble)]
    if here.place is not None and "dubious ownership" in _said(here, "rev-parse", "--git-dir"):
        here.has_git = False
        top = here.place.top or here.place.git_dir
        fix = f"git config --global --add safe.directory {shlex.quote(top)}"
        return [problem("git", f"{top} belongs to another user, so git refuses to work in it.", fix)]
    if said := _said(here, "var", "GIT_COMMITTER_IDENT"):
        why = said.splitlines()[-1].removeprefix("fatal: ")
        message = f"Git does not know who commits here (user.name, user.email), so each commit fails: {why}."
        fix = "git config --global user.name 'Your Name' && git config --global user.email you@example.com"
        return [found, problem("git", message, fix)]
    return [found]


def _said(here: DoctorContext, *arguments: str) -> str:
    """What git, as the user has it in this folder, says of a failure; nothing if it does what it is told."""
    done = Git().run(arguments, cwd=here.folder, environment={**here.environment, "LC_ALL": "C"}, accept=range(256))
    return done.words if done.status_code else ""


async def check_settings(here: DoctorContext) -> list[Finding]:
    """The settings, those of the project included."""
    try:
        loaded = load_settings(project_root=here.root if here.has_git else None)
    except ConfigInvalid as error:
        here.start_trouble = "settings"
        is_closed = isinstance(error.__cause__, PermissionError) and os.name == "posix"
        closed = f"chmod 600 {shlex.quote(str(error.details.get('origin')))}"
        return [
            problem("settings", error.message, closed if is_closed else "correct that place; see tandem config show")
        ]
    found = [_ignored(one) for one in loaded.ignored]
    return found or [ok("settings", "The settings can be used, and nothing of them is ignored.")]


def _ignored(one: Ignored) -> Finding:
    if one.is_variable:
        return problem("settings", f"{one.origin}: {one.reason}", f"unset {one.origin}")
    return note("settings", f"{one.origin}: {one.key} is ignored: {one.reason}", "tandem trust, if a person wants it")


async def check_service(here: DoctorContext) -> list[Finding]:
    """Whether what login starts is there, if the service is installed."""
    return await asyncio.to_thread(_service, here)


def _service(here: DoctorContext) -> list[Finding]:
    service = find_service(here.home, here.environment)
    if service is None or not service.is_installed:
        return []
    command = service.command()
    if command and Path(command[0]).exists():
        return [ok("service", f"The broker is started at login ({service.file}).")]
    gone = f"starts {command[0]}, which is gone" if command else "cannot be read"
    message = f"{service.file} {gone}: no broker starts at login."
    return [problem("service", message, "tandem service install")]


async def check_data(_: DoctorContext) -> list[Finding]:
    """The data folder: whose it is, and whether there is room."""
    return await asyncio.to_thread(_data, Path(find_data_dir()))


def _data(folder: Path) -> list[Finding]:
    if not folder.exists():
        return [note("data", f"{folder} is made when the broker starts.")]
    found: list[Finding] = []
    free = shutil.disk_usage(folder).free
    if free < _FREE_BYTES:
        found.append(
            problem(
                "data",
                f"Only {free // 1_000_000} MB are free where {folder} is.",
                f"free some space on the disk of {folder}",
            )
        )
    if not os.access(folder, os.W_OK):
        is_own = os.name != "posix" or folder.stat().st_uid == os.geteuid()
        fix = "chmod 700" if is_own else f"sudo chown -R {getpass.getuser()}"
        found.append(problem("data", f"{folder} cannot be written.", f"{fix} {shlex.quote(str(folder))}"))
    found += _permissions(folder)
    return found or [ok("data", f"{folder} is yours alone, with {free // 1_000_000_000} GB free.")]


def _permissions(folder: Path) -> list[Finding]:
    """What others may read of it, where the system has such permissions."""
    if os.name != "posix":
        return []
    found: list[Finding] = []
    for path, mode in ((folder, 0o700), (folder / "secret.key", 0o600)):
        if path.exists() and path.stat().st_mode & 0o077:

            async def close(path: Path = path, mode: int = mode) -> None:
                await asyncio.to_thread(path.chmod, mode)

            found.append(
                problem(
                    "data",
                    f"Others on this machine can get at {path}.",
                    f"chmod {mode:o} {shlex.quote(str(path))}",
                    close,
                )
            )
    return found
