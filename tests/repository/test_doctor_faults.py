"""Faults that people have met: `tandem doctor` finds each, names its remedy, and finds all well once that was applied.

All faults share a broker and two repositories, which are put back file by file after each.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sqlite3
import sys
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tandem.setup import trust
from tests.broker import BrokerProcess
from tests.commandline import Ended
from tests.repository.gating import Gated, gate_on, new_repository

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

    def apply(self, remedy: Remedy) -> dict[str, Any]:
        """Do what a finding says; what the doctor finds after it."""
        if remedy == FIX:
            return self.doctor("--fix")
        if callable(remedy):
            remedy(self)
        else:
            ended = self.run(*remedy)
            assert ended.status == 0, ended.stderr
        return self.doctor()

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


def told(found: dict[str, Any], fault: Fault) -> list[dict[str, Any]]:
    """The findings of a fault."""
    return [
        one
        for one in found["findings"]
        if one["check"] == fault.check and one["state"] == fault.state and fault.words in one["message"]
    ]


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
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        desk.set(TANDEM_BROKER=f"http://127.0.0.1:{free.getsockname()[1]}")


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
        "not registered",
        "tandem project add",
        lambda desk: desk.run("project", "remove", desk.gated.project),
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
        ("gate", "on", "--yes"),
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
        ("gate", "on", "--yes"),
    ),
    Fault(
        "a damaged switch of the gate",
        "gate",
        "is not what 'tandem gate on' writes",
        "tandem gate on",
        write(".git/tandem/gate.json", "{"),
        ("gate", "on", "--yes"),
    ),
    Fault(
        "a gate that is off here alone",
        "gate",
        "The broker has the gate on",
        "tandem gate on",
        change_gate(enabled=False),
        ("gate", "on", "--yes"),
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
        ("gate", "on", "--yes"),
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


# What is wrong with a broker of one's own: with its database, its pool, its program.


def database(desk: Desk) -> Path:
    return desk.gated.broker.data_dir / "tandem.db"


def in_place_of_it(change: Callable[[Path], Any]) -> Plant:
    """The broker is stopped, a copy is made, and the database is changed."""

    def plant(desk: Desk) -> None:
        desk.gated.broker.stop()
        shutil.copy(database(desk), desk.home / "backup.db")
        change(database(desk))

    return plant


def revoke_the_token(desk: Desk) -> None:
    (token,) = desk.run("token", "list", "--json").data["tokens"]
    assert desk.run("token", "revoke", token["token_id"]).status == 0


def move_a_repository(desk: Desk) -> None:
    desk.there = new_repository(desk.home / "before")
    assert desk.run("project", "add").status == 0
    desk.there = desk.there.rename(desk.home / "after")


def copy_it(desk: Desk) -> None:
    desk.there = shutil.copytree(desk.root, desk.home / "copy")


def take_the_port(desk: Desk) -> None:
    desk.gated.broker.stop()
    desk.port = socket.create_server(("127.0.0.1", desk.gated.broker.port))
    desk.set(TANDEM_PORT=str(desk.gated.broker.port))


def give_the_port_back(desk: Desk) -> None:
    assert desk.port is not None
    desk.port.close()
    desk.gated.broker.start()


def execute(*statements: str) -> Callable[[Path], Any]:
    def change(file: Path) -> None:
        with contextlib.closing(sqlite3.connect(file, isolation_level=None)) as connection:
            for statement in statements:
                connection.execute(statement)

    return change


def damage(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[4096 : len(content) - 4096] = bytes(len(content) - 8192)
    file.write_bytes(content)


def restore_the_copy(desk: Desk) -> None:
    assert desk.run("down").status == 0
    desk.gated.broker.stop()
    for name in ("tandem.db-wal", "tandem.db-shm"):
        database(desk).with_name(name).unlink(missing_ok=True)
    shutil.copy(desk.home / "backup.db", database(desk))
    desk.gated.broker.start()


def start_again(desk: Desk) -> None:
    assert desk.run("down").status == 0
    desk.gated.broker.stop()
    desk.gated.broker.start()


def pool(**settings: object) -> Plant:
    """A pool, written into the settings before the broker is started with it."""
    lines = ["[reviewer_pool]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
    return write_settings("\n".join(lines) + "\n")


def all_of(*plants: Plant) -> Plant:
    return lambda desk: [one(desk) for one in plants]


REVIEWER = [sys.executable, "-c", "print()"]


def put_the_program_there(desk: Desk) -> None:
    """On doctor's own PATH it is already; the broker is started where it is found."""
    pool(enabled=True, provider="custom", command=[str(desk.home / "bin" / "only-here")])(desk)
    start_again(desk)


def only_on_our_path(desk: Desk) -> None:
    folder = desk.home / "bin"
    folder.mkdir()
    (folder / "only-here").symlink_to(sys.executable)
    pool(enabled=True, provider="custom", command=["only-here"])(desk)
    start_again(desk)
    desk.set(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")


OF_BROKERS = (
    Fault(
        "no broker",
        "broker",
        "No broker runs on",
        "tandem up --background",
        lambda desk: desk.gated.broker.stop(),
        lambda desk: desk.gated.broker.start(),
    ),
    Fault(
        "a repository that was moved",
        "project",
        "was moved here from",
        "tandem project move",
        move_a_repository,
        ("project", "move"),
    ),
    Fault("a copy of a repository", "project", "is a copy of", "tandem project add", copy_it, ("project", "add")),
    Fault(
        "a port that somebody else has",
        "broker",
        "somebody else has its port",
        "tandem up --background --port 0",
        take_the_port,
        give_the_port_back,
    ),
    Fault(
        "valid access tokens, and a broker that asks for none",
        "access",
        "trusts everybody",
        "tandem token revoke",
        lambda desk: desk.run("token", "create", "someone", "--role", "operator"),
        revoke_the_token,
    ),
    Fault(
        "a tampered database",
        "database",
        "changed",
        "put a copy that verifies in its place",
        in_place_of_it(execute("UPDATE events SET actor = 'somebody else' WHERE seq = 2")),
        restore_the_copy,
    ),
    Fault(
        "a damaged database",
        "database",
        "damaged",
        "put a copy that verifies in its place",
        in_place_of_it(damage),
        restore_the_copy,
    ),
    Fault(
        "a database of a newer Tandem",
        "database",
        "made by a newer Tandem",
        "upgrade Tandem",
        in_place_of_it(execute("UPDATE alembic_version SET version_num = '9999_later'")),
        restore_the_copy,
    ),
    Fault(
        "no database",
        "database",
        "there was one",
        "put a copy that verifies in its place",
        in_place_of_it(Path.unlink),
        restore_the_copy,
    ),
    Fault(
        "a setting that was changed since the start",
        "settings",
        "claim_timeout_seconds",
        "tandem down, then tandem up",
        write_settings("claim_timeout_seconds = 77\n"),
        start_again,
    ),
    Fault(
        "a pool that was changed since the start",
        "settings",
        "reviewer_pool.max_pool_size",
        "tandem down, then tandem up",
        all_of(
            pool(enabled=True, provider="custom", command=REVIEWER),
            start_again,
            pool(enabled=True, provider="custom", command=REVIEWER, max_pool_size=2),
        ),
        start_again,
    ),
    Fault(
        "a pool's program that is on our PATH and not on the broker's",
        "reviewers",
        "does not find the reviewers' program 'only-here' on its own PATH",
        "with its whole path",
        only_on_our_path,
        put_the_program_there,
    ),
    Fault(
        "a paused pool",
        "reviewers",
        "is paused",
        "tandem reviewers resume",
        all_of(
            pool(enabled=True, provider="custom", command=REVIEWER),
            start_again,
            lambda desk: desk.run("reviewers", "pause"),
        ),
        ("reviewers", "resume"),
    ),
)


@contextmanager
def put_back(*folders: Path, keep: Path) -> Generator[None]:
    """Whatever happens in these folders, they are afterwards as they are now."""
    keep.mkdir()
    for number, folder in enumerate(folders):
        shutil.copytree(folder, keep / str(number), symlinks=True)
    try:
        yield
    finally:
        for number, folder in enumerate(folders):
            shutil.rmtree(folder)
            shutil.copytree(keep / str(number), folder, symlinks=True)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory, clean_environment: Path) -> Iterator[Path]:
    """The folder of them all, with the user's configuration folder for everything that runs meanwhile."""
    folder = tmp_path_factory.mktemp("doctor")
    (folder / "config").mkdir()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("TANDEM_CONFIG_DIR", str(folder / "config"))
        yield folder


def desk_in(place: Path, broker: BrokerProcess, name: str) -> Desk:
    home = place / f"home-{name}"
    for folder in (".claude", ".codex"):
        (home / folder).mkdir(parents=True)
    (home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.invalid\n", "utf-8")
    gated = gate_on(broker, new_repository(place / name))
    environment = {"HOME": str(home), "USERPROFILE": str(home), "TANDEM_DATA_DIR": str(broker.data_dir)}
    return Desk(replace(gated, environment=environment), home, place / "config", {})


@pytest.fixture(scope="module")
def broker(place: Path) -> Iterator[BrokerProcess]:
    (place / "broker").mkdir()
    with BrokerProcess(place / "broker") as started:
        yield started


@pytest.fixture(scope="module")
def plain_desk(place: Path, broker: BrokerProcess) -> Desk:
    """A repository with nothing but the gate."""
    return desk_in(place, broker, "plain")


@pytest.fixture(scope="module")
def full_desk(place: Path, broker: BrokerProcess) -> Desk:
    """A repository in which clients were set up, too."""
    desk = desk_in(place, broker, "full")
    assert desk.run("init", "--gate", "--yes").status == 0
    found = desk.doctor()
    assert found["healthy"], found
    return desk


@pytest.fixture(scope="module")
def own_desk(place: Path) -> Iterator[Desk]:
    """A registered repository and a broker that may be stopped, without a gate."""
    (place / "own-broker").mkdir()
    with BrokerProcess(place / "own-broker") as started:
        home, root = place / "home-own", new_repository(place / "own")
        home.mkdir()
        variables = {"HOME": str(home), "TANDEM_DATA_DIR": str(started.data_dir), "TANDEM_BROKER": ""}
        desk = Desk(Gated(started, root, "own", variables), home, place / "config", {})
        assert desk.run("project", "add").status == 0
        yield desk
        desk.run("down")


@pytest.mark.parametrize("fault", [*FAULTS, *OF_BROKERS], ids=lambda fault: fault.name)
def test_p2_a_fault_is_found_with_the_remedy_that_mends_it(
    fault: Fault, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    name = "own_desk" if fault in OF_BROKERS else "full_desk" if fault.clients else "plain_desk"
    desk: Desk = request.getfixturevalue(name)
    with put_back(desk.root, desk.home, desk.config, keep=tmp_path / "kept"):
        fault.plant(desk)
        findings = told(desk.doctor(), fault)
        assert len(findings) == 1, findings
        assert fault.fix in findings[0]["fix"]
        after = desk.apply(fault.remedy)
        assert [one for one in after["findings"] if one["state"] == "problem"] == []
    desk.variables.clear()
    desk.there = None
