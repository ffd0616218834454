"""What starts the broker at login: a unit of systemd's user manager, or an agent of launchd."""

from __future__ import annotations

import json
import os
import plistlib
import re
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from xml.parsers.expat import ExpatError

from tandem.core import platforms
from tandem.core.files import remove_if_empty, write_atomically
from tandem.errors import ConfigInvalid, Unavailable
from tandem.settings.config import CONFIG_DIR_VARIABLE, user_file
from tandem.settings.instance import Running
from tandem.setup.background import START_SECONDS, await_ready

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from tandem.settings.config import LoadedSettings

_GONE_SECONDS: Final = 600.0
"""The longest that launchd is waited for, which ends the broker earlier than that."""
_LOOK_SECONDS: Final = 0.1
_ELSEWHERE: Final = (
    "Have your system run 'tandem up --background' at login in another way, such as a task of the Windows Task"
    " Scheduler or your desktop's list of programs to start."
)
_CARRIED: Final = ("PATH", "XDG_CONFIG_HOME", "XDG_STATE_HOME")
"""Variables of the shell that the broker needs to find programs and its folders."""


@dataclass(frozen=True, slots=True)
class BrokerStart:
    """How the service starts the broker.

    Attributes:
        command: The program and its arguments.
        environment: The variables that the broker does not get from the login.
        log: The file for its output before its own log begins, where the system has no journal.
        stop_seconds: How long an orderly stop may take.
    """

    command: list[str]
    environment: dict[str, str]
    log: Path
    stop_seconds: int


def broker_start(loaded: LoadedSettings, environment: Mapping[str, str], stop_seconds: float) -> BrokerStart:
    """How this installation of Tandem starts the broker with the settings of the shell it is called in.

    Args:
        loaded: The settings.
        environment: The shell's variables.
        stop_seconds: How long an orderly stop may take.
    """
    folder = loaded.settings.data_dir
    # -P: else Python would import modules that stand in the folder it is started in.
    command = [sys.executable, "-P", "-m", "tandem", "up", "--unless-running"]
    if loaded.origins["data_dir"].startswith(("--", "TANDEM_")):
        command += ["--data-dir", str(folder)]
    carried = {name: environment[name] for name in _CARRIED if environment.get(name)}
    if environment.get(CONFIG_DIR_VARIABLE):
        carried[CONFIG_DIR_VARIABLE] = str(user_file().parent.absolute())
    return BrokerStart(command, carried, folder / "logs" / "start.log", round(stop_seconds) + 5)


class _ServiceManager:
    """The broker's service of this user, whether or not it is installed.

    Attributes:
        manager: The program that runs it.
        program: The command that controls the manager.
        home: The user's home folder.
        file: The file that describes it.
        journal: The command that shows what the service said.
    """

    manager: str
    journal: str

    def __init__(self, program: str, home: Path, file: Path) -> None:
        self.program = program
        self.home = home
        self.file = file

    @property
    def is_installed(self) -> bool:
        """Whether its file is there."""
        return self.file.is_file()

    def ask(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run the manager's program.

        Raises:
            Unavailable: It cannot be started.
        """
        command = [self.program, *arguments]
        try:
            # No limit of ours: it waits for the broker's orderly stop, which has one that its file says.
            return subprocess.run(
                command, capture_output=True, text=True, errors="replace", check=False, stdin=subprocess.DEVNULL
            )
        except OSError as error:
            raise Unavailable(f"{' '.join(command)} failed: {error}.") from error

    def order(self, *arguments: str) -> None:
        """Run the manager's program, which has to succeed.

        Raises:
            Unavailable: It does not.
        """
        done = self.ask(*arguments)
        if done.returncode:
            said = done.stderr.strip() or done.stdout.strip() or f"exit status {done.returncode}"
            raise Unavailable(f"{' '.join([Path(self.program).name, *arguments])} failed: {said}")


class Systemd(_ServiceManager):
    """A unit of systemd's user manager."""

    UNIT = "tandem.service"
    manager = "systemd"
    journal = f"journalctl --user --unit {UNIT}"

    def __init__(self, program: str, home: Path, environment: Mapping[str, str]) -> None:
        stated = Path(environment.get("XDG_CONFIG_HOME", ""))
        config = stated if stated.is_absolute() else home / ".config"
        super().__init__(program, home, config / "systemd" / "user" / self.UNIT)

    def refuse_unusable(self) -> None:
        """Insist on a user manager that answers.

        Raises:
            ConfigInvalid: It does not.
        """
        done = self.ask("--user", "show-environment")
        if done.returncode:
            raise ConfigInvalid(
                f"systemd's user manager does not answer here: {done.stderr.strip()}. Log in as this user, not by su or"
                f" sudo, and call again. Where there is none: {_ELSEWHERE}",
                setting="service",
            )

    def content(self, start: BrokerStart) -> bytes:
        """The unit."""
        # A dollar is a variable in commands, but not in Environment=; nor in the program's path, though in its name.
        first, *others = (_quoted(word, dollars="$$") for word in start.command)
        program = f"@{_quoted(start.command[0])} {first}" if "$" in first else first
        lines = [
            "# Written by 'tandem service install'; 'tandem service remove' deletes it.",
            "[Unit]",
            "Description=Tandem: the broker by which agents and people review changes",
            "StartLimitIntervalSec=300",
            "StartLimitBurst=10",
            "",
            "[Service]",
            f"ExecStart={' '.join([program, *others])}",
            *(f"Environment={_quoted(f'{name}={value}')}" for name, value in start.environment.items()),
            "Restart=on-failure",
            "RestartSec=2",
            # The broker ends its reviewers itself, once they have finished their current work.
            "KillMode=mixed",
            f"TimeoutStopSec={start.stop_seconds}",
            "",
            "[Install]",
            "WantedBy=default.target",
        ]
        return os.fsencode("\n".join(lines) + "\n")

    def command(self) -> list[str]:
        """The words of `ExecStart=`; none if the file cannot be read."""
        try:
            said = self.file.read_text("utf-8")
            line = next(line for line in said.splitlines() if line.startswith("ExecStart="))
            # All words are quoted by `content`.
            words = re.findall(r'@?"(?:[^"\\]|\\.)*"', line)
            found = [json.loads(word.lstrip("@")).replace("%%", "%") for word in words]
        except (OSError, ValueError, StopIteration):
            return []
        if words and words[0].startswith("@"):
            del found[1]
        return [word.replace("$$", "$") for word in found]

    def is_enabled(self) -> bool:
        """Whether the unit is wanted by login."""
        return self.ask("--user", "is-enabled", "--quiet", self.UNIT).returncode == 0

    def process(self) -> int | None:
        """The unit's main process; None if it does not run."""
        said = self.ask("--user", "show", "--property", "MainPID", "--value", self.UNIT).stdout.strip()
        return int(said) or None if said.isdecimal() else None

    def enable(self, *, changed: bool) -> None:
        """Enable and start the unit; restart it if it has changed.

        Raises:
            Unavailable: systemd refuses.
        """
        self.order("--user", "daemon-reload")
        is_old = changed and self.process() is not None
        self.order("--user", "enable", "--now", self.UNIT)
        if is_old:
            self.order("--user", "restart", self.UNIT)

    def disable(self) -> None:
        """Stop the unit, and disable it; steps that are done already do no harm."""
        self.ask("--user", "disable", "--now", self.UNIT)
        # A manager that does not answer has not removed it.
        link = self.file.parent / "default.target.wants" / self.UNIT
        link.unlink(missing_ok=True)
        remove_if_empty(link.parent)

    def forget(self) -> None:
        """Load the units again, and forget how this one ended."""
        self.ask("--user", "daemon-reload")
        self.ask("--user", "reset-failed", self.UNIT)


def _quoted(word: str, *, dollars: str = "$") -> str:
    """A word as systemd reads it: its escapes are those of JSON, its variables `%` and, in commands, `$`."""
    return json.dumps(word.replace("%", "%%").replace("$", dollars), ensure_ascii=False)


class Launchd(_ServiceManager):
    """An agent of launchd, in the domain of the user's desktop."""

    LABEL = "io.github.tandem-broker.tandem"
    manager = "launchd"

    def __init__(self, program: str, home: Path) -> None:
        super().__init__(program, home, home / "Library" / "LaunchAgents" / f"{self.LABEL}.plist")
        self._domain = f"gui/{os.getuid()}"
        self._target = f"{self._domain}/{self.LABEL}"
        self.journal = f"launchctl print {self._target}"

    def refuse_unusable(self) -> None:
        """Insist on this user's desktop.

        Raises:
            ConfigInvalid: launchd has none.
        """
        done = self.ask("print", self._domain)
        if done.returncode:
            raise ConfigInvalid(
                f"launchd has no desktop of this user: {done.stderr.strip()}. Log in at the screen, and call again."
                f" Otherwise: {_ELSEWHERE}",
                setting="service",
            )

    def content(self, start: BrokerStart) -> bytes:
        """The property list."""
        stated: dict[str, Any] = {
            "Label": self.LABEL,
            "ProgramArguments": start.command,
            "EnvironmentVariables": start.environment,
            "RunAtLoad": True,
            "KeepAlive": {"SuccessfulExit": False},
            "StandardOutPath": "/dev/null",
            "StandardErrorPath": str(start.log),
            "ExitTimeOut": start.stop_seconds,
        }
        return plistlib.dumps(stated)

    def command(self) -> list[str]:
        """The words of `ProgramArguments`; none if the file cannot be read."""
        try:
            said: dict[str, Any] = plistlib.loads(self.file.read_bytes())
            return [str(word) for word in said.get("ProgramArguments", [])]
        except (OSError, ValueError, ExpatError, plistlib.InvalidFileException):
            return []

    def is_enabled(self) -> bool:
        """Whether launchd has the agent."""
        # What launchd has loaded it starts at login, too, as the file stands in the folder that it looks into.
        return self._loaded() is not None

    def process(self) -> int | None:
        """The agent's process; None if it does not run."""
        found = re.search(r"^\s*pid = (\d+)$", self._loaded() or "", re.MULTILINE)
        return int(found[1]) if found is not None else None

    def enable(self, *, changed: bool) -> None:
        """Load the agent, which starts it.

        Raises:
            Unavailable: launchd refuses.
        """
        if self._loaded() is not None:
            if not changed:
                self.order("kickstart", self._target)
                return
            self._unload()
        self.order("enable", self._target)
        self.order("bootstrap", self._domain, str(self.file))

    def disable(self) -> None:
        """Stop the agent, and have launchd no longer know it."""
        if self._loaded() is not None:
            self._unload()

    def forget(self) -> None:
        """Nothing: launchd forgets an agent when it unloads it."""

    def _loaded(self) -> str | None:
        """What launchd says of the agent; None if it does not have it."""
        done = self.ask("print", self._target)
        return None if done.returncode else done.stdout

    def _unload(self) -> None:
        self.ask("bootout", self._target)
        # It returns before the agent is gone, and until then launchd takes no other.
        deadline = time.monotonic() + _GONE_SECONDS
        while self._loaded() is not None and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)


LoginService = Systemd | Launchd
"""The broker's service of this user, whether or not it is installed."""


def find_service(home: Path, environment: Mapping[str, str]) -> LoginService | None:
    """The service as this system has it; None if it has neither manager.

    Args:
        home: The user's home folder.
        environment: The shell's variables.
    """
    path = environment.get("PATH")
    if (program := shutil.which("launchctl", path=path)) is not None:
        return Launchd(program, home)
    if (program := shutil.which("systemctl", path=path)) is not None:
        return Systemd(program, home, environment)
    return None


def required_service(home: Path, environment: Mapping[str, str]) -> LoginService:
    """As `find_service`.

    Raises:
        ConfigInvalid: The system has neither manager.
    """
    found = find_service(home, environment)
    if found is None:
        raise ConfigInvalid(
            "The service needs systemd (Linux) or launchd (macOS), and neither systemctl nor launchctl is on PATH."
            f" {_ELSEWHERE}",
            setting="service",
        )
    return found


def install(service: LoginService, start: BrokerStart) -> bool:
    """Install the service, or bring the one that is installed up to date; whether its file has changed.

    Raises:
        ConfigInvalid: The system has no manager to run it, or its file cannot be written.
        Unavailable: The manager refuses it; all is as it was.
    """
    service.refuse_unusable()
    before = service.file.read_bytes() if service.is_installed else None
    content = service.content(start)
    try:
        service.file.parent.mkdir(parents=True, exist_ok=True)
        for folder in (start.log.parent.parent, start.log.parent):
            platforms.make_private(str(folder))
        write_atomically(service.file, content)
    except OSError as error:
        raise ConfigInvalid(f"{error.filename} cannot be written: {error.strerror}.", setting="service") from error
    try:
        service.enable(changed=content != before)
    except Unavailable:
        if before is None:
            remove(service)
        else:
            write_atomically(service.file, before)
            service.forget()
        raise
    return content != before


def remove(service: LoginService) -> bool:
    """Stop the service and leave nothing of it; false if it was not there."""
    was_installed = service.is_installed
    service.disable()
    service.file.unlink(missing_ok=True)
    with suppress(OSError):
        for folder in service.file.parents:
            if service.home.is_relative_to(folder):
                break
            folder.rmdir()  # only if it is empty
    if was_installed:
        service.forget()
    return was_installed


async def wait_until_ready(service: LoginService, data_dir: Path, waiting: Callable[[float], None]) -> Running:
    """The broker that the service has started, once it is ready.

    Args:
        service: What starts it.
        data_dir: Its data folder.
        waiting: As `await_ready` has it.

    Raises:
        Unavailable: It does not answer.
    """
    running = await await_ready(data_dir, waiting)
    if running is None:
        raise Unavailable(
            f"The service is installed, but its broker has not answered for {START_SECONDS:.0f} s. See why: tandem"
            f" logs; {service.journal}"
        )
    return running
