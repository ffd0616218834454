"""The machine: Python, git, the program itself, and who else works here."""

from __future__ import annotations

import asyncio
import getpass
import os
import platform
import shlex
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from tandem.bridge.location import find_data_dir
from tandem.errors import ConfigInvalid, TandemError
from tandem.git.place import unusable
from tandem.git.runner import HOW_TO_INSTALL, Git, ensure_recent
from tandem.pool.reviewers.prompt import load_template
from tandem.settings.config import Ignored, Settings, load_settings
from tandem.settings.instance import LAST_RUN_FILE, LOCK_FILE, RUNTIME_FILE, LastRun, refuse_foreign_host
from tandem.settings.pool import AUTO
from tandem.setup.clients import find_program
from tandem.setup.finding import DoctorContext, Finding, note, ok, problem
from tandem.setup.fresh_machine import complaint, export_line, identity_problem
from tandem.setup.service import find_service

_FREE_BYTES = 200_000_000
_READ, _WRITE = os.R_OK, os.R_OK | os.W_OK
_NEEDED: Final = (
    # What the broker needs in its data folder: name, mode, access, whether it is a folder.
    ("", 700, _WRITE | os.X_OK, True),
    ("tandem.db", 600, _WRITE, False),
    ("tandem.db.lock", 600, _WRITE, False),
    ("secret.key", 600, _READ, False),
    ("databases.json", 600, _READ, False),
    (LAST_RUN_FILE, 600, _READ, False),
    (RUNTIME_FILE, 600, _READ, False),
    (LOCK_FILE, 600, _WRITE, False),
    ("logs", 700, _WRITE | os.X_OK, True),
)


async def check_programs(here: DoctorContext) -> list[Finding]:
    """Python and git, who commits, and whether hooks, agents and people find `tandem`."""
    found = [ok("python", f"Python {platform.python_version()}"), *await asyncio.to_thread(_git, here)]
    program = await asyncio.to_thread(find_program, here.environment)
    here.has_program, here.program_notes = program.is_portable, program.notes
    if here.has_program:
        return [
            *found,
            ok("program", "tandem is on PATH, for agents too."),
            *(note("program", one) for one in program.notes),
        ]
    why = program.notes[0].partition(",")[0]
    folder = Path(sys.executable).parent
    if shutil.which("tandem", path=str(folder)):
        return [*found, problem("program", f"{why}: neither agents nor you find it.", export_line(folder))]
    return [*found, problem("program", f"{why}: neither agents nor you find it.", "install it with pipx or uv tool")]


def _git(here: DoctorContext) -> list[Finding]:
    try:
        found = ok("git", ensure_recent(Git()))
    except TandemError as error:
        here.obstacle = "git cannot be used here"
        message, _, fix = error.message.partition(f" {HOW_TO_INSTALL}")
        return [problem("git", message, HOW_TO_INSTALL.removesuffix("."))]
    if here.place is not None and (trouble := unusable(here.place)) is not None:
        here.obstacle = "git cannot work in it"
        return [found, problem("git", *trouble)]
    if here.place is not None and "dubious ownership" in complaint(
        here.folder, here.environment, "rev-parse", "--git-dir"
    ):
        here.is_foreign, here.obstacle = True, "git refuses to work in it"
        top = here.place.top or here.place.git_dir
        fix = f"git config --global --add safe.directory {shlex.quote(top)}"
        return [problem("git", f"{top} belongs to another user, so git refuses to work in it.", fix)]
    return [found, *_identity(here)]


def _identity(here: DoctorContext) -> list[Finding]:
    """Whether git knows who commits here, if not why not."""
    if os.name == "posix" and not here.environment.get("HOME"):
        message = "HOME is not set, so git and agents find none of your settings."
        return [problem("git", message, f"export HOME={shlex.quote(str(here.home))}")]
    if closed := _unread(here):
        message = f"Git passes over {closed}, which it cannot read: it does not know who commits here."
        return [problem("git", message, f"chmod 600 {shlex.quote(str(closed))}")]
    found = identity_problem(here.folder, here.environment)
    return [problem("git", *found)] if found else []


def _unread(here: DoctorContext) -> Path | None:
    """The first configuration of this user that git would read, if it could."""
    named = here.environment.get("GIT_CONFIG_GLOBAL")
    usual = Path(here.environment.get("XDG_CONFIG_HOME") or here.home / ".config", "git", "config")
    files = [Path(named)] if named else [here.home / ".gitconfig", usual]
    return next((file for file in files if file.exists() and not os.access(file, os.R_OK)), None)


async def check_settings(here: DoctorContext) -> list[Finding]:
    """The settings, those of the project included."""
    try:
        loaded = load_settings(project_root=None if here.obstacle else here.root)
        last_run = Path(find_data_dir(), LAST_RUN_FILE)
        load_settings(last_run=(last_run, LastRun.of(last_run.parent).options))
    except ConfigInvalid as error:
        here.start_trouble = "settings"
        origin = str(error.details.get("origin"))
        if isinstance(error.__cause__, PermissionError) and os.name == "posix":
            fix = f"chmod 600 {shlex.quote(origin)}"
        elif origin in here.environment:
            fix = f"unset {origin}"
        else:
            # Its settings are those of a start; the next one that is told them remembers them again.
            fix = f"rm {shlex.quote(origin)}" if Path(origin).name == LAST_RUN_FILE else "correct that place"
        return [problem("settings", error.message, fix)]
    found = [_ignored(one) for one in loaded.ignored]
    found += [problem("settings", why, "correct that setting") for why in _unusable(loaded.settings)]
    return found or [ok("settings", "The settings can be used, and nothing of them is ignored.")]


def _unusable(settings: Settings) -> Iterator[str]:
    """Why a start, or a reviewer, would refuse what the settings name."""
    program, pool = settings.git_executable, settings.reviewer_pool
    if program != "git" and shutil.which(program) is None:
        yield f"git_executable is {program!r}, which is no program."
    template, folder = pool.prompt_template_path, pool.workspace_path
    for refuse in (lambda: refuse_foreign_host(settings), lambda: pool.enabled and load_template(template)):
        try:
            refuse()
        except ConfigInvalid as error:
            yield error.message
    if pool.enabled and folder != AUTO and not Path(folder).is_dir():
        yield f"workspace_path is {folder!r}, which is no folder."


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


async def check_data(here: DoctorContext) -> list[Finding]:
    """The data folder: whose it is, and whether there is room."""
    folder = Path(find_data_dir())
    closed = await asyncio.to_thread(_closed, folder)
    if closed:
        here.start_trouble = "data folder"
    return [*closed, *await asyncio.to_thread(_data, folder, is_sound=not closed)]


def _closed(folder: Path) -> list[Finding]:
    """The first thing that the broker needs and this user cannot use."""
    for name, mode, access, is_folder in _NEEDED:
        path = folder / name
        if not path.exists():
            continue
        where = shlex.quote(str(path))
        if path.is_dir() is not is_folder:
            kind = ("a folder", "a file")
            said = f"{path} is {kind[is_folder]}, and has to be {kind[not is_folder]}: no broker starts."
            return [problem("data", said, f"mv {where} {shlex.quote(f'{path}.aside')}")]
        if not os.access(path, access):
            is_own = os.name != "posix" or path.stat().st_uid == os.geteuid()
            fix = f"chmod {mode}" if is_own else f"sudo chown -R {getpass.getuser()}"
            verb = "written" if access & os.W_OK else "read"
            return [problem("data", f"{path} cannot be {verb}.", f"{fix} {where}")]
    return []


def _data(folder: Path, *, is_sound: bool) -> list[Finding]:
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
    found += _permissions(folder)
    if found or not is_sound:
        return found
    return [ok("data", f"{folder} is yours alone, with {free // 1_000_000_000} GB free.")]


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
