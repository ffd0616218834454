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


# The machine and its settings.


def without_git(desk: Desk) -> None:
    folder = desk.home / "bin"
    folder.mkdir()
    (folder / "tandem").symlink_to(Path(sys.executable).parent / "tandem")
    desk.set(PATH=str(folder))


def without_program(desk: Desk) -> None:
    """A path that has everything but the folder of `tandem`."""
    ours = Path(sys.executable).parent
    desk.set(PATH=os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if Path(one) != ours))


def with_old_git(desk: Desk) -> None:
    """A git that is as old as it says, by its own word."""
    folder, real = desk.home / "bin", shutil.which("git")
    folder.mkdir()
    program = folder / "git"
    program.write_text(f'#!/bin/sh\n[ "$1" = version ] && echo git version 2.30.2 || exec {real} "$@"\n', "utf-8")
    program.chmod(0o755)
    desk.set(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")


def write_unreadable_settings(desk: Desk) -> None:
    write_settings("port = 0\n")(desk)
    (desk.config / "config.toml").chmod(0)
    desk.is_common = True


def write_settings(text: str) -> Plant:
    return lambda desk: (desk.config / "config.toml").write_text(text, "utf-8")


def remove_settings(desk: Desk) -> None:
    (desk.config / "config.toml").unlink()


def open_to_all(name: str, mode: int) -> Plant:
    return lambda desk: (desk.gated.broker.data_dir / name).chmod(mode)


def close_git_configuration(desk: Desk) -> None:
    (desk.home / ".gitconfig").chmod(0)
    desk.is_common = True


# The broker.


def name_nobody(desk: Desk) -> None:
    desk.set(TANDEM_BROKER=NOBODY)


# The project and the gate.


def kill_hook(name: str) -> Plant:
    return lambda desk: (desk.git_dir / "hooks" / name).write_text(DEAD, "utf-8")


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


def refuse_a_record(desk: Desk) -> None:
    folder = desk.git_dir / "tandem" / "undeliverable"
    folder.mkdir()
    (folder / "1.json").write_text("{}", "utf-8")
    (folder / "1.txt").write_text("it has no proof", "utf-8")


CHECK = "[[check]]\nname = 'x'\ncommand = ['true']\n"


def trust_all(desk: Desk) -> None:
    trust.add(desk.config, trust.Project.at(str(desk.root), desk.config).candidates())


# The clients.


def log_out(desk: Desk) -> None:
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


def delete_file_and_init(desk: Desk) -> None:
    (desk.root / ".mcp.json").unlink()
    assert desk.run("init", "--yes").status == 0


def spoil(name: str, *, of_home: bool, heals: bool = False) -> Plant:
    """Make nonsense of a file, or do what the finding then says."""

    def plant(desk: Desk) -> None:
        file = (desk.home if of_home else desk.root) / name
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


def without_python(desk: Desk) -> None:
    """The environment that the hooks' Python was in was removed."""
    for hook in (desk.git_dir / "hooks").iterdir():
        hook.write_text(hook.read_text("utf-8").replace(sys.executable, "/gone/bin/python"), "utf-8")


FAULTS = (
    Fault(
        "old git", "git", "too old (git version 2.30.2)", "Install git", with_old_git, lambda desk: desk.unset("PATH")
    ),
    Fault(
        "settings that cannot be read",
        "settings",
        "config.toml cannot be read: Permission denied",
        "chmod 600",
        write_unreadable_settings,
    ),
    Fault(
        "a mistake in the syntax of the settings",
        "settings",
        "is not valid TOML",
        "correct",
        write_settings("port = \n"),
        remove_settings,
    ),
    Fault(
        "a misspelt variable",
        "settings",
        "TANDEM_PROT: there is no such variable. Did you mean TANDEM_PORT?",
        "unset TANDEM_PROT",
        lambda desk: desk.set(TANDEM_PROT="1"),
    ),
    Fault("a hook whose Python is gone", "hooks", "/gone/bin/python", "tandem gate on", without_python),
    Fault(
        "no identity for commits",
        "git",
        "user.email",
        "git config --global user.name",
        lambda desk: (desk.home / ".gitconfig").write_text("[user]\n\tuseConfigOnly = true\n", "utf-8"),
    ),
    Fault(
        "a path without tandem",
        "program",
        "tandem is not on PATH: neither agents nor you find it",
        "export PATH=",
        without_program,
        desk="full",
    ),
    Fault("no git", "git", "git", "Install git", without_git, lambda desk: desk.unset("PATH")),
    Fault(
        "a setting of the wrong kind",
        "settings",
        "diff_limit_bytes",
        "correct that place",
        write_settings("diff_limit_bytes = 'much'\n"),
        remove_settings,
    ),
    Fault(
        "a variable of the wrong kind",
        "settings",
        "TANDEM_PORT",
        "unset TANDEM_PORT",
        lambda desk: desk.set(TANDEM_PORT="high"),
    ),
    Fault(
        "a git configuration that cannot be read",
        "git",
        ".gitconfig, which it cannot read",
        "chmod 600",
        close_git_configuration,
    ),
    Fault("no home", "git", "HOME is not set", "export HOME=", lambda desk: desk.set(HOME="")),
    Fault("a misspelt setting", "settings", "prot", "correct", write_settings("prot = 1\n"), remove_settings),
    Fault("an open data folder", "data", "Others on this machine", "chmod 700", open_to_all("", 0o755)),
    Fault("an open secret", "data", "Others on this machine", "chmod 600", open_to_all("secret.key", 0o644)),
    Fault(
        "a variable that names no broker",
        "broker",
        "from TANDEM_BROKER: [Errno 111] Connection refused.",
        "unset TANDEM_BROKER",
        name_nobody,
    ),
    Fault(
        "a dead hook of commits",
        "gate",
        "Git does not start these hooks of the gate: prepare-commit-msg",
        "tandem gate on",
        kill_hook("prepare-commit-msg"),
    ),
    Fault(
        "a dead hook of pushes", "gate", "these hooks of the gate: pre-push", "tandem gate on", kill_hook("pre-push")
    ),
    Fault(
        "no hook of branches",
        "gate",
        "reference-transaction",
        "tandem gate on",
        remove(".git/hooks/reference-transaction"),
    ),
    Fault(
        "another folder of hooks",
        "gate",
        "core.hooksPath",
        "tandem gate on",
        lambda desk: desk.gated.git("config", "core.hooksPath", ".elsewhere"),
    ),
    Fault(
        "no switch of the gate",
        "gate",
        "is missing",
        "at a terminal, a person runs: tandem gate on",
        remove(".git/tandem/gate.json"),
    ),
    Fault(
        "a damaged switch of the gate",
        "gate",
        "is not what 'tandem gate on' writes",
        "tandem gate on",
        write(".git/tandem/gate.json", "{"),
    ),
    Fault(
        "a gate that is off here alone",
        "gate",
        "The broker has the gate on",
        "tandem gate on",
        change_gate(enabled=False),
    ),
    Fault(
        "a gate that is off at the broker alone",
        "gate",
        "The broker has the gate off",
        "tandem gate on",
        lambda desk: desk.gated.loosen(enabled=False),
    ),
    Fault(
        "a gate for another branch than is on record",
        "gate",
        "branches",
        "tandem gate on",
        change_gate(branches=["elsewhere"]),
    ),
    Fault(
        "a record that the broker has refused",
        "gate",
        "it has no proof",
        "delete",
        refuse_a_record,
        lambda desk: shutil.rmtree(desk.git_dir / "tandem" / "undeliverable"),
    ),
    Fault(
        "settings of GSD that cannot be read",
        "planning",
        "config.json",
        "correct .planning/config.json",
        write(".planning/config.json", "{"),
        remove(".planning/config.json"),
    ),
    Fault(
        "checks that cannot be read",
        "checks",
        "check.0.command",
        "correct .tandem/checks.toml",
        write(".tandem/checks.toml", "[[check]]\nname = 'x'\n"),
        remove(".tandem/checks.toml"),
    ),
    Fault(
        "checks that nobody trusts",
        "checks",
        "not trusted",
        "tandem trust",
        write(".tandem/checks.toml", CHECK),
        trust_all,
    ),
    Fault(
        "a misspelt command in a client's file",
        "servers",
        "tandme is not on PATH",
        "delete it there, and run: tandem init",
        misspell('"command": "tandem"', '"command": "tandme"'),
        delete_and_init,
        desk="full",
    ),
    Fault(
        "a misspelt argument in a client's file",
        "servers",
        "Claude Code gets no tools",
        "delete it there, and run: tandem init",
        misspell('"mcp"', '"mpc"'),
        delete_and_init,
        desk="full",
    ),
    *(
        Fault(
            f"an agent's hooks that cannot be read, {'of the home' if of_home else 'of the project'}",
            "clients",
            name,
            "delete the file and run: tandem init",
            spoil(name, of_home=of_home),
            spoil(name, of_home=of_home, heals=True),
            desk="full",
        )
        for name, of_home in ((".claude/settings.json", False), (".codex/hooks.json", True))
    ),
    Fault("no server in a client's file", "clients", ".mcp.json", "tandem init", delete_server, desk="full"),
    Fault(
        "a client's file that cannot be read",
        "clients",
        ".mcp.json",
        "tandem init",
        write(".mcp.json", "{"),
        delete_file_and_init,
        desk="full",
    ),
    Fault(
        "a client that is not logged in",
        "login",
        "Claude Code is not logged in",
        "claude auth login",
        log_out,
        lambda desk: (desk.home / "bin" / "login").touch(),
        desk="full",
    ),
    Fault("no instructions", "clients", "CLAUDE.md", "tandem init", remove("CLAUDE.md"), desk="full"),
    Fault(
        "a hook of an agent that does nothing",
        "agent hooks",
        "codex lets through",
        "tandem init --gate",
        lambda desk: desk.edit(desk.home / ".codex/hooks.json", "tandem hook agent", "true tandem hook agent"),
        lambda desk: desk.edit(desk.home / ".codex/hooks.json", "true tandem hook agent", "tandem hook agent"),
        desk="full",
    ),
    Fault(
        "no hook of an agent",
        "clients",
        ".claude/settings.json",
        "tandem init",
        write(".claude/settings.json", "{}"),
        desk="full",
    ),
)
