"""Faults that people have met, of a machine, a gate and clients: how each is planted, found and mended."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import socket
import subprocess
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import FunctionType
from typing import Any, Literal

from tandem.setup import trust
from tests.commandline import NOBODY, Ended
from tests.repository.gating import Gated

DEAD = "#!/bin/sh\nexit 0\n"
IDENTITY = "[user]\n\tname = A\n\temail = a@example.invalid\n"
RUN_SECONDS = 120
_DROP_BOUND = 24
_PAST_PERMISSIONS = (1, 2)
"""`prctl`'s number for it, and the two rights by which root needs no permission."""

Plant = Callable[["Desk"], Any]


@dataclass
class Desk:
    """A repository with its gate on, the home and the configuration of whoever works in it, and the broker.

    Attributes:
        variables: What a fault or its remedy puts into the person's environment.
        there: Where the person is, if not in the repository.
        is_common: Whether the person is none whom files let do everything.
        port: What listens in the broker's place.
        found: What doctor said last.
    """

    gated: Gated
    home: Path
    config: Path
    variables: dict[str, str]
    there: Path | None = None
    is_common: bool = False
    port: socket.socket | None = None
    found: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def root(self) -> Path:
        return self.gated.root

    @property
    def git_dir(self) -> Path:
        return self.root / ".git"

    @property
    def problems(self) -> list[dict[str, Any]]:
        """The problems that doctor found last."""
        return [one for one in self.found["findings"] if one["state"] == "problem"]

    def run(self, *arguments: str) -> Ended:
        return replace(self.gated, environment=self.gated.environment | self.variables).tandem(
            *arguments, cwd=self.there
        )

    def doctor(self) -> dict[str, Any]:
        """What it finds; its exit status says whether there is a problem."""
        if self.is_common and os.geteuid() == 0:
            done = self.shell(f"{sys.executable} -P -m tandem doctor --json", before=give_up_rights)
            ended = Ended(done.returncode, done.stdout, done.stderr)
        else:
            ended = self.run("doctor", "--json")
        self.found = ended.data
        assert ended.status == int(not self.found["healthy"]), ended.stdout
        return self.found

    def obey(self, fix: str) -> None:
        """Type a fix into a shell, which keeps what it does to the environment."""
        if fix.endswith("tandem gate on"):
            # At a terminal, where a person is asked about what loosens.
            said = replace(self.gated, environment=self.gated.environment | self.variables).person("gate", "on")
            assert said.ok, said.stdout
            return
        after = self.home / "environment"
        done = self.shell(f"{fix}\nstatus=$?; env -0 > '{after}'; exit $status")
        assert done.returncode == 0, (fix, done.stdout, done.stderr)
        left = dict(line.split("=", 1) for line in after.read_text("utf-8").split("\0") if line)
        self.variables = {name: left[name] for name in self.variables if name in left}

    def shell(self, script: str, before: Callable[[], None] | None = None) -> subprocess.CompletedProcess[str]:
        """Run a script as the person does, without a terminal."""
        data_dir = {"TANDEM_DATA_DIR": str(self.gated.broker.data_dir)}
        return subprocess.run(
            ["sh", "-c", script],
            cwd=self.there or self.root,
            env={**os.environ, **data_dir, **self.gated.environment, **self.variables},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_SECONDS,
            preexec_fn=before,
        )

    @contextmanager
    def undisturbed(self) -> Generator[None]:
        """Whatever happens meanwhile, the person is then as they are now."""
        modes = [(path, path.stat().st_mode) for path in self.folders() if path.exists()]
        try:
            yield
        finally:
            self.variables.clear()
            self.there, self.is_common = None, False
            if self.port is not None:
                self.port.close()
            for path, mode in modes:
                if path.exists():
                    path.chmod(mode)

    def folders(self) -> list[Path]:
        data_dir = self.gated.broker.data_dir
        return [data_dir, data_dir / "secret.key", self.home / ".gitconfig"]

    def set(self, **variables: str) -> None:
        self.variables.update(variables)

    def unset(self, *names: str) -> None:
        for name in names:
            self.variables.pop(name)

    def edit(self, file: Path, old: str, new: str) -> None:
        text = file.read_text("utf-8")
        assert old in text, text
        file.write_text(text.replace(old, new), "utf-8")


def give_up_rights() -> None:
    """Have the next program of root's need permissions as everybody does."""
    system = ctypes.CDLL(None)
    for right in _PAST_PERMISSIONS:
        system.prctl(_DROP_BOUND, right, 0, 0, 0)


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: What is wrong.
        check: The check that finds it.
        words: What the finding says.
        fix: What the fix says.
        plant: Brings it about.
        remedy: What a person does who reads the fix; None where that is a command.
        desk: Where it is planted: a repository with a gate, one with clients too, or one with a broker of its own.
    """

    name: str
    check: str
    words: str
    fix: str
    plant: Plant
    remedy: Plant | None = None
    desk: Literal["plain", "full", "own"] = "plain"


FAULTS: list[Fault] = []
"""Of a machine, a gate and clients."""


def fault(
    check: str, words: str, fix: str, *, remedy: Plant | None = None, desk: Literal["plain", "full"] = "plain"
) -> Callable[[FunctionType], FunctionType]:
    """Declare what brings a fault about, which is called as the fault is."""

    def declare(plant: FunctionType) -> FunctionType:
        FAULTS.append(Fault(named(plant), check, words, fix, plant, remedy, desk))
        return plant

    return declare


def named(plant: FunctionType) -> str:
    """What a fault is called, by the function that plants it."""
    return plant.__name__.replace("_", " ")


# The machine and its settings.


@fault("git", "git", "Install git", remedy=lambda desk: desk.unset("PATH"))
def no_git(desk: Desk) -> None:
    folder = desk.home / "bin"
    folder.mkdir()
    (folder / "tandem").symlink_to(Path(sys.executable).parent / "tandem")
    desk.set(PATH=str(folder))


@fault("program", "tandem is not on PATH: neither agents nor you find it", "export PATH=", desk="full")
def a_path_without_tandem(desk: Desk) -> None:
    """A path that has everything but the folder of `tandem`."""
    ours = Path(sys.executable).parent
    desk.set(PATH=os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if Path(one) != ours))


@fault("git", "too old (git version 2.30.2)", "Install git", remedy=lambda desk: desk.unset("PATH"))
def old_git(desk: Desk) -> None:
    """A git that is as old as it says, by its own word."""
    folder, real = desk.home / "bin", shutil.which("git")
    folder.mkdir()
    program = folder / "git"
    program.write_text(f'#!/bin/sh\n[ "$1" = version ] && echo git version 2.30.2 || exec {real} "$@"\n', "utf-8")
    program.chmod(0o755)
    desk.set(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")


@fault("settings", "config.toml cannot be read: Permission denied", "chmod 600")
def settings_that_cannot_be_read(desk: Desk) -> None:
    write_settings("port = 0\n")(desk)
    (desk.config / "config.toml").chmod(0)
    desk.is_common = True


def write_settings(text: str) -> Plant:
    return lambda desk: (desk.config / "config.toml").write_text(text, "utf-8")


def set_variable(name: str, value: str) -> Plant:
    return lambda desk: desk.set(**{name: value})


def forget_identity(desk: Desk) -> None:
    (desk.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n", "utf-8")


def remove_settings(desk: Desk) -> None:
    (desk.config / "config.toml").unlink()


def open_to_all(name: str, mode: int) -> Plant:
    return lambda desk: (desk.gated.broker.data_dir / name).chmod(mode)


@fault("git", ".gitconfig, which it cannot read", "chmod 600")
def a_git_configuration_that_cannot_be_read(desk: Desk) -> None:
    (desk.home / ".gitconfig").chmod(0)
    desk.is_common = True


# The broker.


@fault("broker", "from TANDEM_BROKER: [Errno 111] Connection refused.", "unset TANDEM_BROKER")
def a_variable_that_names_no_broker(desk: Desk) -> None:
    desk.set(TANDEM_BROKER=NOBODY)


# The project and the gate.


def kill_hook(name: str) -> Plant:
    return lambda desk: (desk.git_dir / "hooks" / name).write_text(DEAD, "utf-8")


def set_another_hooks_path(desk: Desk) -> None:
    desk.gated.git("config", "core.hooksPath", ".elsewhere")


def switch_off_at_the_broker(desk: Desk) -> None:
    desk.gated.loosen(enabled=False)


def change_gate(**facts: Any) -> Plant:
    def plant(desk: Desk) -> None:
        file = desk.git_dir / "tandem" / "gate.json"
        file.write_text(json.dumps({**json.loads(file.read_text("utf-8")), **facts}), "utf-8")

    return plant


def write(name: str, text: str) -> Plant:
    def plant(desk: Desk) -> None:
        file = desk.root / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, "utf-8")

    return plant


def remove(name: str) -> Plant:
    return lambda desk: (desk.root / name).unlink()


@fault(
    "gate", "it has no proof", "delete", remedy=lambda desk: shutil.rmtree(desk.git_dir / "tandem" / "undeliverable")
)
def a_record_that_the_broker_has_refused(desk: Desk) -> None:
    folder = desk.git_dir / "tandem" / "undeliverable"
    folder.mkdir()
    (folder / "1.json").write_text("{}", "utf-8")
    (folder / "1.txt").write_text("it has no proof", "utf-8")


CHECK = "[[check]]\nname = 'x'\ncommand = ['true']\n"


def trust_all(desk: Desk) -> None:
    trust.add(desk.config, trust.Project.at(str(desk.root), desk.config).candidates())


# The clients.


@fault(
    "login",
    "Claude Code is not logged in",
    "claude auth login",
    remedy=lambda desk: (desk.home / "bin" / "login").touch(),
    desk="full",
)
def a_client_that_is_not_logged_in(desk: Desk) -> None:
    """A stub of Claude Code that says what the real one says."""
    folder = desk.home / "bin"
    folder.mkdir()
    program = folder / "claude"
    program.write_text(
        f"#!/bin/sh\nif [ -e {folder}/login ]; then exit 0; fi\necho '{{\"loggedIn\": false}}'\n", "utf-8"
    )
    program.chmod(0o755)
    desk.set(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")


def misspell(old: str, new: str) -> Plant:
    return lambda desk: desk.edit(desk.root / ".mcp.json", old, new)


def delete_server(desk: Desk) -> None:
    file = desk.root / ".mcp.json"
    content = json.loads(file.read_text("utf-8"))
    content["mcpServers"].clear()
    file.write_text(json.dumps(content), "utf-8")


def spoil(name: str, *, heals: bool = False) -> Plant:
    """Make nonsense of a file, or do what the finding then says."""

    def plant(desk: Desk) -> None:
        file = next(path for path in (desk.root / name, desk.home / name) if path.exists())
        if not heals:
            file.write_text("{,", "utf-8")
            return
        file.unlink()
        assert desk.run("init", "--yes").status == 0

    return plant


def delete_and_init(desk: Desk) -> None:
    """What the finding says: delete the entry, and have it written again."""
    delete_server(desk)
    assert desk.run("init", "--yes").status == 0


@fault("hooks", "/gone/bin/python", "tandem gate on")
def a_hook_whose_python_is_gone(desk: Desk) -> None:
    """The environment that the hooks' Python was in was removed."""
    for hook in (desk.git_dir / "hooks").iterdir():
        hook.write_text(hook.read_text("utf-8").replace(sys.executable, "/gone/bin/python"), "utf-8")


FAULTS.extend(
    [
        *(
            Fault(name, "settings", words, "correct", plant, remove_settings)
            for name, words, plant in (
                ("a mistake in the syntax of the settings", "is not valid TOML", write_settings("port = \n")),
                ("a setting of the wrong kind", "diff_limit_bytes", write_settings("diff_limit_bytes = 'much'\n")),
                ("a misspelt setting", "prot", write_settings("prot = 1\n")),
            )
        ),
        *(
            Fault(name, "settings", words, f"unset {variable}", set_variable(variable, value))
            for name, variable, value, words in (
                ("a misspelt variable", "TANDEM_PROT", "1", "there is no such variable. Did you mean TANDEM_PORT?"),
                ("a variable of the wrong kind", "TANDEM_PORT", "high", "TANDEM_PORT"),
            )
        ),
        *(
            Fault(name, "git", words, fix, plant)
            for name, words, fix, plant in (
                ("no home", "HOME is not set", "export HOME=", set_variable("HOME", "")),
                ("no identity for commits", "user.email", "git config --global user.name", forget_identity),
            )
        ),
        *(
            Fault(name, "data", "Others on this machine", fix, open_to_all(file, mode))
            for name, fix, file, mode in (
                ("an open data folder", "chmod 700", "", 0o755),
                ("an open secret", "chmod 600", "secret.key", 0o644),
            )
        ),
        *(
            Fault(name, "gate", words, "tandem gate on", plant)
            for name, words, plant in (
                (
                    "a dead hook of commits",
                    "these hooks of the gate: prepare-commit-msg",
                    kill_hook("prepare-commit-msg"),
                ),
                ("a dead hook of pushes", "these hooks of the gate: pre-push", kill_hook("pre-push")),
                ("no hook of branches", "reference-transaction", remove(".git/hooks/reference-transaction")),
                ("another folder of hooks", "core.hooksPath", set_another_hooks_path),
                ("no switch of the gate", "is missing", remove(".git/tandem/gate.json")),
                (
                    "a damaged switch of the gate",
                    "is not what 'tandem gate on' writes",
                    write(".git/tandem/gate.json", "{"),
                ),
                ("a gate that is off here alone", "The broker has the gate on", change_gate(enabled=False)),
                ("a gate that is off at the broker alone", "The broker has the gate off", switch_off_at_the_broker),
                ("a gate for another branch than is on record", "branches", change_gate(branches=["elsewhere"])),
            )
        ),
        *(
            Fault(name, check, words, f"correct {file}", write(file, text), remove(file))
            for name, check, words, file, text in (
                ("settings of GSD that cannot be read", "planning", "config.json", ".planning/config.json", "{"),
                (
                    "checks that cannot be read",
                    "checks",
                    "check.0.command",
                    ".tandem/checks.toml",
                    "[[check]]\nname = 'x'\n",
                ),
            )
        ),
        Fault(
            "checks that nobody trusts",
            "checks",
            "not trusted",
            "tandem trust",
            write(".tandem/checks.toml", CHECK),
            trust_all,
        ),
        *(
            Fault(name, "servers", words, "delete it there, and run: tandem init", plant, delete_and_init, desk="full")
            for name, words, plant in (
                (
                    "a misspelt command in a client's file",
                    "tandme is not on PATH",
                    misspell('"command": "tandem"', '"command": "tandme"'),
                ),
                ("a misspelt argument in a client's file", "Claude Code gets no tools", misspell('"mcp"', '"mpc"')),
            )
        ),
        *(
            Fault(
                f"{file} that cannot be read",
                "clients",
                file,
                "delete the file and run: tandem init",
                spoil(file),
                spoil(file, heals=True),
                desk="full",
            )
            for file in (".claude/settings.json", ".codex/hooks.json", ".mcp.json")
        ),
        *(
            Fault(name, "clients", file, "tandem init", plant, desk="full")
            for name, file, plant in (
                ("no server in a client's file", ".mcp.json", delete_server),
                ("no instructions", "CLAUDE.md", remove("CLAUDE.md")),
                ("no hook of an agent", ".claude/settings.json", write(".claude/settings.json", "{}")),
            )
        ),
        Fault(
            "a hook of an agent that does nothing",
            "agent hooks",
            "codex lets through",
            "tandem init --gate",
            lambda desk: desk.edit(desk.home / ".codex/hooks.json", "tandem hook agent", "true tandem hook agent"),
            lambda desk: desk.edit(desk.home / ".codex/hooks.json", "true tandem hook agent", "tandem hook agent"),
            desk="full",
        ),
    ]
)
