"""Faults that people have met, of a machine, a gate, clients and brokers: see `faults.txt`."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from string import Template
from typing import Any

import pytest

from tandem.setup import trust
from tests.acceptance.staffed import until
from tests.broker import BrokerProcess
from tests.commandline import NOBODY, Ended, finish
from tests.forked import start_tandem
from tests.forked_hooks import hook_python
from tests.repository import gating, without_rights
from tests.repository.gating import Gated
from tests.repository.routes.tables import rows

IDENTITY = "[user]\n\tname = A\n\temail = a@example.invalid\n"
RESTORE = "tandem down; tandem data restore --replace COPY && tandem up --background"
RUN_SECONDS = 120
_BIN = Path(sys.executable).parent
_ELSEWHERE = os.pathsep.join(one for one in os.environ["PATH"].split(os.pathsep) if Path(one) != _BIN)


@dataclass
class Desk:
    """A repository with its gate on, the home and the configuration of the person who works in it, and the broker.

    Attributes:
        variables: Additions of a fault or its remedy to the person's environment.
        there: Where the person is, if not in the repository.
        is_common: Whether file permissions bind the person (not root).
        port: The socket that listens in the broker's place.
        found: Doctor's last report.
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
    def problems(self) -> list[dict[str, Any]]:
        """The problems that doctor found last."""
        return [one for one in self.found["findings"] if one["state"] == "problem"]

    def run(self, *arguments: str) -> Ended:
        return replace(self.gated, environment=self.gated.environment | self.variables).tandem(
            *arguments, cwd=self.there
        )

    def doctor(self) -> dict[str, Any]:
        """Its findings; its exit status says whether there is a problem."""
        if self.is_common and os.geteuid() == 0:
            pipes = dict.fromkeys(("stdout", "stderr"), subprocess.PIPE)
            where = (self.there or self.root, self.environment())
            ended = finish(start_tandem(("doctor", "--json"), *where, **pipes, module=without_rights.__name__))
        else:
            ended = self.run("doctor", "--json")
        self.found = ended.data
        assert ended.status == int(not self.found["healthy"]), ended.stdout
        return self.found

    def obey(self, fix: str) -> None:
        """Type a fix into a shell, which keeps its changes of the environment."""
        if fix.endswith("tandem gate on"):
            # At a terminal, where a person must confirm changes that loosen the gate.
            said = replace(self.gated, environment=self.gated.environment | self.variables).person("gate", "on")
            assert said.ok, said.stdout
            return
        after = self.home / "environment"
        done = self.shell(f"{fix}\nstatus=$?; env -0 > '{after}'; exit $status")
        assert done.returncode == 0, (fix, done.stdout, done.stderr)
        left = dict(line.split("=", 1) for line in after.read_text("utf-8").split("\0") if line)
        self.variables = {name: left[name] for name in self.variables if name in left}

    def environment(self, **more: str) -> dict[str, str]:
        """The environment of commands that the person starts."""
        data_dir = {"TANDEM_DATA_DIR": str(self.gated.broker.data_dir)}
        return {**os.environ, **data_dir, **self.gated.environment, **self.variables, **more}

    def shell(self, script: str, **more: str) -> subprocess.CompletedProcess[str]:
        """Run a script as the person does, without a terminal."""
        return subprocess.run(
            ["sh", "-c", script],
            cwd=self.there or self.root,
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=RUN_SECONDS,
        )

    @contextmanager
    def undisturbed(self) -> Generator[None]:
        """Any changes meanwhile end: the person is then as they are now."""
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

    @property
    def broker(self) -> BrokerProcess:
        return self.gated.broker

    @property
    def places(self) -> dict[str, str]:
        """The variables of steps."""
        folders = {"DATA": self.broker.data_dir, "CONFIG": self.config, "HOME": self.home, "BIN": _BIN}
        words = {"PYTHON": sys.executable, "URL": self.broker.url, "NO_BROKER": NOBODY, "ELSEWHERE": _ELSEWHERE}
        words["HOOK_PYTHON"] = hook_python()
        return {name: str(value) for name, value in folders.items()} | words

    def expanded(self, text: str) -> str:
        return Template(text).safe_substitute(os.environ | self.places)

    def take(self, steps: Sequence[str]) -> None:
        """Takes the steps of a table."""
        for step in steps:
            word, _, rest = step.partition(" ")
            match word:
                case "set":
                    name, _, value = rest.partition("=")
                    self.set(**{name: self.expanded(value)})
                case "unset":
                    self.variables.pop(rest)
                case "there":
                    self.there = Path(self.expanded(rest))
                case "common":
                    self.is_common = True
                case "stop" | "kill" | "start":
                    getattr(self.broker, word)()
                case "restart":
                    self.take(["tandem down", "stop", "start"])
                case "tandem":
                    assert self.run(*shlex.split(rest)).status == 0, step
                case "call":
                    name, _, argument = rest.partition(" ")
                    CALLED[name](self, argument)
                case _:
                    done = self.shell(step, **self.places)
                    assert done.returncode == 0, (step, done.stderr)

    def folders(self) -> list[Path]:
        data_dir = self.gated.broker.data_dir
        return [data_dir, data_dir / "secret.key", self.home / ".gitconfig"]

    def set(self, **variables: str) -> None:
        self.variables.update(variables)


@dataclass(frozen=True)
class Fault:
    """A fault, as its table has it: how it is brought about, found and repaired."""

    name: str
    check: str
    words: str
    fix: str
    plant: tuple[str, ...]
    remedy: tuple[str, ...]
    is_variation: bool


def faults() -> dict[str, list[Fault]]:
    """Those of the table, by section."""
    found: dict[str, list[Fault]] = {}
    for row in list(rows("../faults.txt")):
        finding, fix, *steps = row.steps
        check, _, words = finding.partition(":")
        at = steps.index("remedy") if "remedy" in steps else len(steps)
        plant, remedy = tuple(steps[:at]), tuple(steps[at + 1 :])
        fix = fix.replace("$RESTORE", RESTORE)
        found.setdefault(row.section, []).append(
            Fault(row.name, check, words.strip(), fix, plant, remedy, row.is_variation)
        )
    return found


# Functions for `call`.


def switch_off_at_the_broker(desk: Desk, _: str) -> None:
    desk.gated.loosen(enabled=False)


def trust_all(desk: Desk, _: str) -> None:
    trust.add(desk.config, trust.Project.at(str(desk.root), desk.config).candidates())


def delete_server(desk: Desk, _: str) -> None:
    file = desk.root / ".mcp.json"
    content = json.loads(file.read_text("utf-8"))
    content["mcpServers"].clear()
    file.write_text(json.dumps(content), "utf-8")


def new_repository(desk: Desk, name: str) -> None:
    desk.there = gating.new_repository(desk.home / name)


def give_a_copy_away(desk: Desk, _: str) -> None:
    if os.geteuid() != 0:
        pytest.skip("platform: only root can give files away")
    shutil.rmtree(desk.home / "theirs", ignore_errors=True)
    desk.there = shutil.copytree(desk.root, desk.home / "theirs")
    assert desk.run("project", "add").status == 0
    for path in (desk.there, *desk.there.rglob("*")):
        os.chown(path, 12_345, 12_345, follow_symlinks=False)


def work_in_a_clone(desk: Desk, _: str) -> None:
    (found,) = desk.problems
    desk.obey(found["fix"].partition(": ")[2].replace("FOLDER", f"{desk.home}/mine"))
    desk.there = desk.home / "mine"


def take_the_port(desk: Desk, _: str) -> None:
    desk.broker.stop()
    desk.port = socket.create_server(("127.0.0.1", desk.broker.port))
    desk.set(TANDEM_PORT=str(desk.broker.port))


def suspend(desk: Desk, _: str) -> None:
    os.kill(desk.broker.pid, signal.SIGSTOP)


def execute(desk: Desk, statement: str) -> None:
    with contextlib.closing(sqlite3.connect(desk.broker.data_dir / "tandem.db", isolation_level=None)) as connection:
        connection.execute(statement)


def damage(desk: Desk, _: str) -> None:
    file = desk.broker.data_dir / "tandem.db"
    content = bytearray(file.read_bytes())
    content[4096 : len(content) - 4096] = bytes(len(content) - 8192)
    file.write_bytes(content)


def keep_a_copy(desk: Desk, _: str) -> None:
    """Of the database, which is that copy again if another fault has kept it."""
    kept = desk.home / "backup.db"
    if kept.exists():
        _put_back(desk, kept)
    else:
        shutil.copy(desk.broker.data_dir / "tandem.db", kept)


def restore_the_copy(desk: Desk, _: str) -> None:
    assert desk.run("down").status == 0
    desk.broker.stop()
    _put_back(desk, desk.home / "backup.db")
    desk.broker.start()


def _put_back(desk: Desk, kept: Path) -> None:
    for name in ("tandem.db-wal", "tandem.db-shm"):
        (desk.broker.data_dir / name).unlink(missing_ok=True)
    shutil.copy(kept, desk.broker.data_dir / "tandem.db")


def see_the_change(desk: Desk, _: str) -> None:
    """Until the broker has read its settings again."""
    until(lambda: desk.broker.health()["settings_changed"], "the settings are read again")


def pool(desk: Desk, command: str) -> None:
    lines = ["[reviewer_pool]", "enabled = true", 'provider = "custom"', f"command = {desk.expanded(command)}"]
    (desk.config / "config.toml").write_text("\n".join(lines) + "\n", "utf-8")


def revoke_the_token(desk: Desk, _: str) -> None:
    (token,) = desk.run("token", "list", "--json").data["tokens"]
    assert desk.run("token", "revoke", token["token_id"]).status == 0


def webhooks(desk: Desk) -> list[dict[str, Any]]:
    return desk.run("webhook", "list", "--json").data["webhooks"]


def tell_a_webhook_in_vain(desk: Desk, _: str) -> None:
    """A webhook, and an event that it is told of in vain: that there is another one, for a moment."""
    for _one in range(2):
        assert desk.run("webhook", "add", f"{NOBODY}/x").status == 0
    second = webhooks(desk)[1]
    assert desk.run("webhook", "remove", second["webhook_id"]).status == 0
    until(lambda: webhooks(desk)[0]["problem"], "the webhook was told in vain")


def remove_the_webhook(desk: Desk, _: str) -> None:
    (left,) = webhooks(desk)
    assert desk.run("webhook", "remove", left["webhook_id"]).status == 0


CALLED: dict[str, Callable[[Desk, str], None]] = {
    one.__name__: one
    for one in (
        switch_off_at_the_broker, trust_all, delete_server, new_repository, give_a_copy_away, work_in_a_clone,
        take_the_port, suspend, execute, damage, keep_a_copy, restore_the_copy, pool, see_the_change, revoke_the_token,
        tell_a_webhook_in_vain, remove_the_webhook,
    )
}  # fmt: skip
