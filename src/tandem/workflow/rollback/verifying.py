"""Running the user's verify command on what a rollback would publish."""

from __future__ import annotations

import os
import subprocess
import tempfile
import threading
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tandem.config import PREFIX, load_settings, user_file
from tandem.errors import ConfigInvalid, InvalidTransition
from tandem.git.runner import TimeLimit, end
from tandem.hooks.planning import project_root

VERIFY_SECONDS = 1800.0
_LOOK_SECONDS = 0.2
_SHOWN_BYTES = 4_000


@dataclass(frozen=True, slots=True)
class VerifyCommand:
    """The command that has to pass on what a rollback would leave.

    Attributes:
        argv: The program and its arguments; never a shell's text.
        origin: Which configuration says so.
    """

    argv: tuple[str, ...]
    origin: str


def verify_command(root: Path) -> VerifyCommand | None:
    """The setting `verify_command`, from the user's configuration or a project's file that a person trusted.

    Raises:
        ConfigInvalid: The configuration cannot be read, or it is the environment that says so.
    """
    loaded = load_settings(project_root=Path(project_root(str(root))))
    origin = loaded.origins["verify_command"]
    if origin.startswith(PREFIX):
        raise ConfigInvalid(
            f"{origin} is set, but whoever runs a command sets its environment: the verify command counts only from"
            f" your own configuration, {user_file()}. Unset it and run this again.",
            setting="verify_command",
            origin=origin,
        )
    argv = loaded.settings.verify_command
    return VerifyCommand(argv, origin) if argv else None


def verify(command: VerifyCommand, folder: Path, stop: threading.Event, limit_seconds: float = VERIFY_SECONDS) -> None:
    """Runs the command in a worktree; all that it started is ended when its time is up, or when it is to stop.

    Args:
        command: What to run.
        folder: The worktree.
        stop: Is set when nobody waits for it any more.
        limit_seconds: How long it may take.

    Raises:
        ConfigInvalid: It cannot be started.
        InvalidTransition: It failed, or took too long.
    """
    # What steers git would lead it out of the worktree.
    environment = {name: value for name, value in os.environ.items() if not name.upper().startswith("GIT_")}
    with tempfile.TemporaryFile() as output:
        try:
            process = subprocess.Popen(
                command.argv,
                cwd=folder,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        except (OSError, ValueError) as error:
            raise ConfigInvalid(
                f"{command.origin}: verify_command cannot be started ({error}); nothing was changed.",
                setting="verify_command",
                origin=command.origin,
            ) from error
        with process, TimeLimit(process, limit_seconds) as limit:
            status_code = _wait(process, stop)
        if status_code == 0 and not limit.passed:
            return
        said = _tail(output.fileno())
    how = f"did not end within {limit_seconds:g} s" if limit.passed else f"failed with exit status {status_code}"
    raise InvalidTransition(
        f"The verify command {how} on what the rollback would leave; nothing was changed. Its last words:\n{said}\n"
        "Look with --dry-run at what would stay, mend what depends on it, and run this again.",
        verify_command=list(command.argv),
        status_code=status_code,
        output=said,
    )


def _wait(process: subprocess.Popen[bytes], stop: threading.Event) -> int:
    while True:
        with suppress(subprocess.TimeoutExpired):
            return process.wait(_LOOK_SECONDS)
        if stop.is_set():
            end(process)


def _tail(descriptor: int) -> str:
    size = os.fstat(descriptor).st_size
    os.lseek(descriptor, max(0, size - _SHOWN_BYTES), os.SEEK_SET)
    return os.read(descriptor, _SHOWN_BYTES).decode("utf-8", "replace").strip()
