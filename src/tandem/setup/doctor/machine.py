"""The machine: Python, git, the program itself, and who else works here."""

from __future__ import annotations

import asyncio
import os
import platform
import shutil
from pathlib import Path

from tandem.bridge.location import find_data_dir
from tandem.errors import ConfigInvalid, TandemError
from tandem.git.runner import Git, ensure_recent
from tandem.settings.config import load_settings
from tandem.setup.clients import find_program
from tandem.setup.doctor.finding import DoctorContext, Finding, note, ok, problem
from tandem.setup.service import find_service

_FREE_BYTES = 200_000_000


async def check_programs(_: DoctorContext) -> list[Finding]:
    """Python and git, and whether agents find `tandem`."""
    found = [ok("python", f"Python {platform.python_version()}"), await asyncio.to_thread(_git)]
    program = await asyncio.to_thread(find_program, os.environ)
    if program.is_portable:
        found.append(ok("program", "tandem is on PATH, for agents too."))
    else:
        found += [note("program", line) for line in program.notes]
    return found


def _git() -> Finding:
    try:
        return ok("git", ensure_recent(Git()))
    except TandemError as error:
        return problem("git", error.message, "install it, and call tandem doctor again")


async def check_settings(here: DoctorContext) -> list[Finding]:
    """The settings, those of the project included."""
    try:
        loaded = load_settings(project_root=here.root)
    except ConfigInvalid as error:
        return [problem("settings", error.message, "correct that place; tandem config show says what counts")]
    ignored = [
        note("settings", f"{one.origin}: {one.key} is ignored: {one.reason}", "tandem trust, if a person wants it")
        for one in loaded.ignored
    ]
    return ignored or [ok("settings", "The settings can be used, and nothing of them is ignored.")]


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
    return [problem("service", message, "tandem service install, or tandem service remove")]


async def check_data(_: DoctorContext) -> list[Finding]:
    """The data folder: whose it is, and whether there is room."""
    return await asyncio.to_thread(_data, Path(find_data_dir()))


def _data(folder: Path) -> list[Finding]:
    if not folder.exists():
        return [note("data", f"{folder} is made when the broker starts.")]
    found: list[Finding] = []
    free = shutil.disk_usage(folder).free
    if free < _FREE_BYTES:
        found.append(problem("data", f"Only {free // 1_000_000} MB are free where {folder} is.", "make room there"))
    if not os.access(folder, os.W_OK):
        found.append(
            problem("data", f"{folder} cannot be written by this user.", f"make it yours, e.g. chown it: {folder}")
        )
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
                problem("data", f"Others on this machine can get at {path}.", f"chmod {mode:o} '{path}'", close)
            )
    return found
