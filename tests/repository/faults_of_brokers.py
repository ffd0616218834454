"""Faults of a broker of one's own: of its database, its pool, its port, its projects."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import socket
import sqlite3
import sys
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from types import FunctionType
from typing import Any

import pytest

from tests.commandline import NOBODY
from tests.repository.faults import Desk, Fault, Plant, named, open_to_all, write_settings
from tests.repository.gating import new_repository

RESTART = "tandem down && tandem up --background"
RESTORE = "tandem down; tandem data restore --replace COPY && tandem up --background"
OF_NO_PROCESS = '{"url": "http://127.0.0.1:9", "pid": -1, "started_us": 0, "version": "1", "instance_id": "x"}'
OF_BROKERS: list[Fault] = []
own = partial(Fault, desk="own")


def own_fault(
    check: str, words: str, fix: str, *, remedy: Plant | None = None
) -> Callable[[FunctionType], FunctionType]:
    """Declare what brings a fault about, which is called as the fault is."""

    def declare(plant: FunctionType) -> FunctionType:
        OF_BROKERS.append(own(named(plant), check, words, fix, plant, remedy))
        return plant

    return declare


def database(desk: Desk) -> Path:
    return desk.gated.broker.data_dir / "tandem.db"


def in_place_of_it(change: Callable[[Path], Any]) -> Plant:
    """The broker is stopped, a copy is made, and the database is changed."""

    def plant(desk: Desk) -> None:
        desk.gated.broker.stop()
        shutil.copy(database(desk), desk.home / "backup.db")
        change(database(desk))

    return plant


def work_in_a_clone(desk: Desk) -> None:
    (found,) = desk.problems
    desk.obey(found["fix"].partition(": ")[2].replace("FOLDER", f"{desk.home}/mine"))
    desk.there = desk.home / "mine"


def put_the_key_back(desk: Desk) -> None:
    shutil.copy(desk.home / "secret.key", desk.gated.broker.secret_key)


def remove_the_webhook(desk: Desk) -> None:
    (left,) = webhooks(desk)
    assert desk.run("webhook", "remove", left["webhook_id"]).status == 0


def webhooks(desk: Desk) -> list[dict[str, Any]]:
    return desk.run("webhook", "list", "--json").data["webhooks"]


def revoke_the_token(desk: Desk) -> None:
    (token,) = desk.run("token", "list", "--json").data["tokens"]
    assert desk.run("token", "revoke", token["token_id"]).status == 0


@own_fault("project", "was moved here from", "tandem project move")
def a_repository_that_was_moved(desk: Desk) -> None:
    desk.there = new_repository(desk.home / "before")
    assert desk.run("project", "add").status == 0
    desk.there = desk.there.rename(desk.home / "after")


@own_fault("project", "is a copy of", "tandem project add")
def a_copy_of_a_repository(desk: Desk) -> None:
    desk.there = shutil.copytree(desk.root, desk.home / "copy")


@own_fault("broker", "is taken", "tandem up --background --port 0")
def a_port_that_somebody_else_has(desk: Desk) -> None:
    desk.gated.broker.stop()
    desk.port = socket.create_server(("127.0.0.1", desk.gated.broker.port))
    desk.set(TANDEM_PORT=str(desk.gated.broker.port))


@own_fault("broker", "does not answer (its data folder is gone)", RESTART)
def a_data_folder_that_was_deleted_under_a_running_broker(desk: Desk) -> None:
    """While it is suspended: else it ends before anybody looks."""
    a_broker_that_hangs(desk)
    shutil.rmtree(desk.gated.broker.data_dir)


@own_fault("broker", "does not answer (it hangs)", RESTART)
def a_broker_that_hangs(desk: Desk) -> None:
    os.kill(desk.gated.broker.pid, signal.SIGSTOP)


@own_fault("version", "The broker is version 99.0", RESTART)
def a_broker_of_another_version(desk: Desk) -> None:
    """One whose package says another version than ours."""
    desk.gated.broker.stop()
    facts = desk.home / "newer" / "tandem_broker-99.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tandem-broker\nVersion: 99.0\n", "utf-8")
    desk.obey(f"PYTHONPATH='{facts.parent}' {sys.executable} -m tandem up --background")


@own_fault("secret", "secret.key is gone", "put its copy back", remedy=put_the_key_back)
def no_secret_key(desk: Desk) -> None:
    desk.gated.broker.secret_key.rename(desk.home / "secret.key")


@own_fault("secret", "another secret key", "put the key of that database", remedy=put_the_key_back)
def a_database_without_its_key(desk: Desk) -> None:
    """A copy of the database was put in place, and its key was not."""
    desk.gated.broker.stop()
    no_secret_key(desk)
    assert desk.run("up", "--background").status != 0


def write_into_broker_json(text: str) -> Plant:
    def plant(desk: Desk) -> None:
        desk.gated.broker.kill()
        (desk.gated.broker.data_dir / "broker.json").write_text(text, "utf-8")

    return plant


@own_fault("access", "takes none from here", "unset TANDEM_TOKEN")
def a_token_that_the_broker_does_not_take(desk: Desk) -> None:
    """Where a gate is on, too, which needs the broker."""
    assert desk.run("gate", "on").status == 0
    desk.gated.broker.stop()
    (desk.config / "config.toml").write_text("auth = 'token'\n", "utf-8")
    desk.gated.broker.start()
    desk.set(TANDEM_TOKEN="tdm_0000000000000000_wrong")


@own_fault("git", "belongs to another user", "git config --global --add safe.directory")
def a_repository_of_another_user(desk: Desk) -> None:
    """To a user whom this machine need not have."""
    if os.geteuid() != 0:
        pytest.skip("platform: only root can give files away")
    desk.there = shutil.copytree(desk.root, desk.home / "theirs")
    assert desk.run("project", "add").status == 0
    for path in (desk.there, *desk.there.rglob("*")):
        os.chown(path, 12_345, 12_345, follow_symlinks=False)


def move_it_away(desk: Desk) -> None:
    """Under the broker, after a copy was made."""
    in_place_of_it(Path.stat)(desk)
    desk.gated.broker.start()
    database(desk).rename(desk.home / "away.db")


def stop(desk: Desk) -> None:
    desk.gated.broker.stop()


def kill(desk: Desk) -> None:
    desk.gated.broker.kill()


def delete_owners_key(desk: Desk) -> None:
    (desk.gated.broker.data_dir / "owner.key").unlink()


def empty(file: Path) -> None:
    file.write_bytes(b"")


def close_file(name: str, mode: int, *, runs: bool = True) -> Plant:
    def plant(desk: Desk) -> None:
        if not runs:
            desk.gated.broker.stop()
        (desk.gated.broker.data_dir / name).chmod(mode)
        desk.is_common = True

    return plant


@own_fault("project", "was moved here from", "tandem project remove first && tandem project move")
def a_repository_in_the_place_of_another_one(desk: Desk) -> None:
    """Of a repository that was deleted."""
    desk.there = new_repository(desk.home / "first")
    assert desk.run("gate", "on").status == 0
    desk.there = new_repository(desk.home / "second")
    assert desk.run("project", "add").status == 0
    shutil.rmtree(desk.home / "first")
    desk.there = desk.there.rename(desk.home / "first")


@own_fault("broker", "asks the broker of user 12345", "work in a clone of your own: git config", remedy=work_in_a_clone)
def a_repository_of_another_user_whose_gate_asks_their_broker(desk: Desk) -> None:
    """Which asks their broker; git was told to work there all the same."""
    a_repository_of_another_user(desk)
    theirs = desk.home / "their-data"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 12_345, 12_345)
    folder = (desk.there or desk.root) / ".git" / "tandem"
    folder.mkdir(exist_ok=True)
    gate = {"enabled": True, "broker": None, "data_dir": str(theirs), "usual_url": desk.gated.broker.url}
    (folder / "gate.json").write_text(json.dumps(gate), "utf-8")
    desk.obey(f"git config --global --add safe.directory {desk.there}")
    desk.is_common = True


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
    assert desk.run("up", "--background").status == 0


def start_again(desk: Desk) -> None:
    assert desk.run("down").status == 0
    desk.gated.broker.stop()
    desk.gated.broker.start()


def pool(command: Sequence[str], **settings: object) -> Plant:
    """A pool of one's own program, written into the settings before the broker is started with it."""
    stated = {"enabled": True, "provider": "custom", "command": command, **settings}
    lines = ["[reviewer_pool]", *(f"{key} = {json.dumps(value)}" for key, value in stated.items())]
    return write_settings("\n".join(lines) + "\n")


def start_with_pool(command: Sequence[str]) -> Plant:
    return all_of(pool(command), start_again)


def all_of(*plants: Plant) -> Plant:
    return lambda desk: [one(desk) for one in plants]


@own_fault("webhooks", "Events do not arrive at the webhook", "tandem webhook remove", remedy=remove_the_webhook)
def a_webhook_to_where_nobody_listens(desk: Desk) -> None:
    """A webhook, and an event that it is told of in vain: that there is another one, for a moment."""
    for _ in range(2):
        assert desk.run("webhook", "add", f"{NOBODY}/x").status == 0
    _, second = webhooks(desk)
    assert desk.run("webhook", "remove", second["webhook_id"]).status == 0
    while webhooks(desk)[0]["problem"] is None:
        pass


REVIEWER = [sys.executable, "-c", "print()"]


def put_the_program_there(desk: Desk) -> None:
    """On doctor's own PATH it is already; the broker is started where it is found."""
    start_with_pool([str(desk.home / "bin" / "only-here")])(desk)


def only_on_our_path(desk: Desk) -> None:
    folder = desk.home / "bin"
    folder.mkdir()
    (folder / "only-here").symlink_to(sys.executable)
    start_with_pool(["only-here"])(desk)
    desk.set(PATH=f"{folder}{os.pathsep}{os.environ['PATH']}")


def make_of_wrong_kind(name: str) -> Plant:
    """A folder where the broker keeps a file, or a file where it keeps a folder."""

    def plant(desk: Desk) -> None:
        desk.gated.broker.stop()
        path = desk.gated.broker.data_dir / name
        if path.is_dir():
            shutil.rmtree(path)
            path.touch()
        else:
            path.unlink(missing_ok=True)
            path.mkdir()

    return plant


def write_when_stopped(name: str, text: str) -> Plant:
    def plant(desk: Desk) -> None:
        desk.gated.broker.stop()
        (desk.gated.broker.data_dir / name).write_text(text, "utf-8")

    return plant


OF_BROKERS.extend(
    [
        *(
            own(name, "broker", "No broker runs on", "tandem up --background", plant)
            for name, plant in (
                ("no broker", stop),
                ("a broker that was killed", kill),
                ("a broker.json with garbage", write_into_broker_json("garbage")),
                ("a broker.json with a garbled URL", write_into_broker_json('{"url": "garbage"}')),
                ("a broker.json of no process", write_into_broker_json(OF_NO_PROCESS)),
            )
        ),
        *(
            own(name, "database", words, RESTORE, plant, restore_the_copy)
            for name, words, plant in (
                ("an empty database", "there was one", in_place_of_it(empty)),
                ("a database that was moved away under its broker", "there was one", move_it_away),
                ("no database", "there was one", in_place_of_it(Path.unlink)),
                (
                    "a tampered database",
                    "changed",
                    in_place_of_it(execute("UPDATE events SET actor = 'x' WHERE seq = 2")),
                ),
                ("a damaged database", "damaged", in_place_of_it(damage)),
            )
        ),
        own(
            "a database of a newer Tandem",
            "database",
            "made by a newer Tandem",
            "upgrade Tandem",
            in_place_of_it(execute("UPDATE alembic_version SET version_num = '9999_later'")),
            restore_the_copy,
        ),
        *(
            own(
                f"a last run with a {name} that cannot be used",
                "settings",
                f"last_run.json: {name}: ",
                "rm ",
                write_when_stopped("last_run.json", json.dumps({"port": 0, "options": {name: value}})),
            )
            for name, value in (("host", ""), ("database_url", "nowhere"))
        ),
        *(
            own(f"{name} of the wrong kind", "data", f"{name} is a ", "mv ", make_of_wrong_kind(name))
            for name in ("broker.json", "logs", "tandem.db.lock")
        ),
        own(
            "a record of the databases that is damaged",
            "database",
            "databases.json cannot be read",
            "mv ",
            write_when_stopped("databases.json", "{"),
        ),
        *(
            own(f"an owner's key that was {what}", "broker", "is your broker, and cannot prove it", RESTART, plant)
            for what, plant in (("opened", open_to_all("owner.key", 0o644)), ("deleted", delete_owners_key))
        ),
        *(
            own(
                f"{name or 'a data folder'} with mode {mode:o}, and {'a' if runs else 'no'} broker that runs",
                "data",
                f"{name} cannot be ",
                fix,
                close_file(name, mode, runs=runs),
            )
            for name, mode, fix, runs in (
                ("databases.json", 0, "chmod 600", False),
                ("tandem.db.lock", 0, "chmod 600", False),
                ("secret.key", 0, "chmod 600", True),
                ("secret.key", 0, "chmod 600", False),
                ("tandem.db", 0o400, "chmod 600", True),
                ("tandem.db", 0o400, "chmod 600", False),
                ("", 0o500, "chmod 700", True),
                ("", 0o500, "chmod 700", False),
            )
        ),
        *(
            own(name, "settings", words, RESTART, plant)
            for name, words, plant in (
                ("a setting that was changed", "claim_timeout_seconds", write_settings("claim_timeout_seconds = 77\n")),
                (
                    "a pool that was changed",
                    "reviewer_pool.max_pool_size",
                    all_of(start_with_pool(REVIEWER), pool(REVIEWER, max_pool_size=2)),
                ),
                (
                    "a pool whose program was corrected",
                    "reviewer_pool.command",
                    all_of(start_with_pool(["not-there"]), pool(REVIEWER)),
                ),
            )
        ),
        own(
            "a project that is not registered",
            "project",
            "not registered",
            "tandem project add",
            lambda desk: desk.run("project", "remove", "own"),
        ),
        own(
            "valid access tokens, and a broker that asks for none",
            "access",
            "trusts everybody",
            "tandem token revoke",
            lambda desk: desk.run("token", "create", "someone", "--role", "operator"),
            revoke_the_token,
        ),
        own(
            "a pool's program that is on our PATH and not on the broker's",
            "reviewers",
            "does not find the reviewers' program 'only-here' on its own PATH",
            "with its whole path",
            only_on_our_path,
            put_the_program_there,
        ),
        own(
            "a paused pool",
            "reviewers",
            "is paused",
            "tandem reviewers resume",
            all_of(start_with_pool(REVIEWER), lambda desk: desk.run("reviewers", "pause")),
        ),
        own(
            "a pool whose program is missing",
            "reviewers",
            "does not find the reviewers' program 'not-there'",
            "install it",
            start_with_pool(["not-there"]),
            start_with_pool(REVIEWER),
        ),
    ]
)
