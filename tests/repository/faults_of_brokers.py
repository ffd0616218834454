"""Faults of a broker of one's own: of its database, its pool, its port, its projects."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import sqlite3
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.commandline import NOBODY
from tests.repository.faults import Desk, Fault, Plant, write_settings
from tests.repository.gating import new_repository


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


def post_to_nobody(desk: Desk) -> None:
    """A webhook, and an event that it is told of in vain: that there is another one, for a moment."""
    for _ in range(2):
        assert desk.run("webhook", "add", f"{NOBODY}/x").status == 0
    _, second = webhooks(desk)
    assert desk.run("webhook", "remove", second["webhook_id"]).status == 0
    while webhooks(desk)[0]["problem"] is None:
        pass


def webhooks(desk: Desk) -> list[dict[str, Any]]:
    return desk.run("webhook", "list", "--json").data["webhooks"]


def remove_the_webhook(desk: Desk) -> None:
    (left,) = webhooks(desk)
    assert desk.run("webhook", "remove", left["webhook_id"]).status == 0


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
        "a webhook to where nobody listens",
        "webhooks",
        "Events do not arrive at the webhook",
        "tandem webhook remove",
        post_to_nobody,
        remove_the_webhook,
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
