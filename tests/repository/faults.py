"""Faults that people have met, of a machine, a gate and clients: how each is planted, found and mended."""

from __future__ import annotations

import json
import os
import shutil
import socket
import sys
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tandem.setup import trust
from tests.commandline import NOBODY, Ended, Inside
from tests.repository.gating import Gated

DEAD = "#!/bin/sh\nexit 0\n"
FIX = ("doctor", "--fix")


Plant = Callable[["Desk"], Any]
Remedy = tuple[str, ...] | Plant


@dataclass
class Desk:
    """A repository with its gate on, the home and the configuration of whoever works in it, and the broker.

    Attributes:
        variables: What a fault or its remedy puts into the person's environment.
        there: Where the person is, if not in the repository.
        port: What listens in the broker's place.
    """

    gated: Gated
    home: Path
    config: Path
    variables: dict[str, str]
    there: Path | None = None
    port: socket.socket | None = None

    @property
    def root(self) -> Path:
        return self.gated.root

    @property
    def git_dir(self) -> Path:
        return self.root / ".git"

    def run(self, *arguments: str) -> Ended:
        return replace(self.gated, environment=self.gated.environment | self.variables).tandem(
            *arguments, cwd=self.there
        )

    def doctor(self, *options: str) -> dict[str, Any]:
        """What it finds; its exit status says whether there is a problem."""
        ended = self.run("doctor", "--json", *options)
        assert ended.status == int(not ended.data["healthy"]), ended.stdout
        return ended.data

    def apply(self, remedy: Remedy) -> None:
        """Do what a finding says."""
        if callable(remedy):
            remedy(self)
        elif remedy[:2] == ("gate", "on"):
            # At a terminal, where a person is asked about what loosens.
            said = replace(self.gated, environment=self.gated.environment | self.variables).person(*remedy)
            assert said.ok, said.stdout
        else:
            ended = self.run(*remedy)
            assert ended.status == 0, ended.stderr

    def set(self, **variables: str) -> None:
        self.variables.update(variables)

    def unset(self, *names: str) -> None:
        for name in names:
            self.variables.pop(name)

    def edit(self, file: Path, old: str, new: str) -> None:
        text = file.read_text("utf-8")
        assert old in text, text
        file.write_text(text.replace(old, new), "utf-8")


@dataclass(frozen=True)
class Fault:
    """A fault.

    Attributes:
        name: What is wrong.
        check: The check that finds it.
        words: What the finding says.
        fix: What the remedy is called.
        plant: Brings it about.
        remedy: A command of Tandem's, or what a person does whom the finding told to.
        clients: Whether it is planted where clients were set up.
        state: How bad it is.
    """

    name: str
    check: str
    words: str
    fix: str
    plant: Plant
    remedy: Remedy = FIX
    clients: bool = False
    state: str = "problem"


# The machine and its settings.


def without_git(desk: Desk) -> None:
    folder = desk.home / "bin"
    folder.mkdir()
    (folder / "tandem").symlink_to(Path(sys.executable).parent / "tandem")
    desk.set(PATH=str(folder))


def write_settings(text: str) -> Plant:
    return lambda desk: (desk.config / "config.toml").write_text(text, "utf-8")


def remove_settings(desk: Desk) -> None:
    (desk.config / "config.toml").unlink()


def open_to_all(name: str, mode: int) -> Plant:
    return lambda desk: (desk.gated.broker.data_dir / name).chmod(mode)


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


def unregister(desk: Desk) -> None:
    """While it is somewhere else: a project whose gate is on there stays registered."""
    away = desk.root.rename(desk.root.with_name("away"))
    Inside(desk.gated.broker.url, desk.root.parent).run("project", "remove", desk.gated.project, stdin=b"")
    away.rename(desk.root)


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


def delete_and_init(desk: Desk) -> None:
    """What the finding says: delete the entry, and have it written again."""
    delete_server(desk)
    assert desk.run("init", "--yes").status == 0


FAULTS = (
    Fault("no git", "git", "git", "install", without_git, lambda desk: desk.unset("PATH")),
    Fault(
        "a setting of the wrong kind",
        "settings",
        "diff_limit_bytes",
        "correct that place",
        write_settings("diff_limit_bytes = 'much'\n"),
        remove_settings,
    ),
    Fault("a misspelt setting", "settings", "prot", "correct", write_settings("prot = 1\n"), remove_settings),
    Fault("an open data folder", "data", "Others on this machine", "chmod 700", open_to_all("", 0o755)),
    Fault("an open secret", "data", "Others on this machine", "chmod 600", open_to_all("secret.key", 0o644)),
    Fault(
        "a variable that names no broker",
        "broker",
        "No broker answers at http",
        "--broker",
        name_nobody,
        lambda desk: desk.unset("TANDEM_BROKER"),
    ),
    Fault(
        "a project that is not registered",
        "project",
        "whose gate has the hooks here",
        "tandem gate on",
        unregister,
    ),
    Fault(
        "a dead hook of commits",
        "hooks",
        "prepare-commit-msg lets through",
        "tandem gate on",
        kill_hook("prepare-commit-msg"),
    ),
    Fault("a dead hook of pushes", "hooks", "pre-push lets through", "tandem gate on", kill_hook("pre-push")),
    Fault(
        "no hook of branches",
        "gate",
        "reference-transaction",
        "tandem gate on",
        remove(".git/hooks/reference-transaction"),
        ("gate", "on"),
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
        "tandem gate on",
        remove(".git/tandem/gate.json"),
        ("gate", "on"),
    ),
    Fault(
        "a damaged switch of the gate",
        "gate",
        "is not what 'tandem gate on' writes",
        "tandem gate on",
        write(".git/tandem/gate.json", "{"),
        ("gate", "on"),
    ),
    Fault(
        "a gate that is off here alone",
        "gate",
        "The broker has the gate on",
        "tandem gate on",
        change_gate(enabled=False),
        ("gate", "on"),
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
        ("gate", "on"),
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
        clients=True,
    ),
    Fault(
        "a misspelt argument in a client's file",
        "servers",
        "Claude Code gets no tools",
        "delete it there, and run: tandem init",
        misspell('"mcp"', '"mpc"'),
        delete_and_init,
        clients=True,
    ),
    Fault("no server in a client's file", "servers", "has no tools", "tandem init", delete_server, clients=True),
    Fault(
        "a client's file that cannot be read",
        "clients",
        ".mcp.json",
        "tandem init",
        write(".mcp.json", "{"),
        delete_file_and_init,
        clients=True,
    ),
    Fault(
        "a client that is not logged in",
        "login",
        "Claude Code is not logged in",
        "claude auth login",
        log_out,
        lambda desk: (desk.home / "bin" / "login").touch(),
        clients=True,
    ),
    Fault("no instructions", "clients", "CLAUDE.md", "tandem init", remove("CLAUDE.md"), clients=True),
    Fault(
        "a hook of an agent that does nothing",
        "agent hooks",
        "codex lets through",
        "tandem init --gate",
        lambda desk: desk.edit(desk.home / ".codex/hooks.json", "tandem hook agent", "true tandem hook agent"),
        lambda desk: desk.edit(desk.home / ".codex/hooks.json", "true tandem hook agent", "tandem hook agent"),
        clients=True,
    ),
    Fault(
        "no hook of an agent",
        "agent hooks",
        "has no hook of Tandem's for claude",
        "tandem init --gate",
        write(".claude/settings.json", "{}"),
        clients=True,
    ),
)
