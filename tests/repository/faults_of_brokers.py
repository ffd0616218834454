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
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.commandline import NOBODY
from tests.repository.faults import Desk, Fault, Plant, open_to_all, write_settings
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


def delete_its_folder(desk: Desk) -> None:
    """While it is suspended: else it ends before anybody looks."""
    suspend(desk)
    shutil.rmtree(desk.gated.broker.data_dir)


def suspend(desk: Desk) -> None:
    os.kill(desk.gated.broker.pid, signal.SIGSTOP)


def run_another_version(desk: Desk) -> None:
    """One whose package says another version than ours."""
    desk.gated.broker.stop()
    facts = desk.home / "newer" / "tandem_broker-99.0.dist-info"
    facts.mkdir(parents=True)
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: tandem-broker\nVersion: 99.0\n", "utf-8")
    desk.obey(f"PYTHONPATH='{facts.parent}' {sys.executable} -m tandem up --background")


def delete_the_key(desk: Desk) -> None:
    desk.gated.broker.secret_key.rename(desk.home / "secret.key")


def start_with_another_key(desk: Desk) -> None:
    """A copy of the database was put in place, and its key was not."""
    desk.gated.broker.stop()
    delete_the_key(desk)
    assert desk.run("up", "--background").status != 0


def put_the_key_back(desk: Desk) -> None:
    shutil.copy(desk.home / "secret.key", desk.gated.broker.secret_key)


def write_into_broker_json(text: str) -> Plant:
    def plant(desk: Desk) -> None:
        desk.gated.broker.kill()
        (desk.gated.broker.data_dir / "broker.json").write_text(text, "utf-8")

    return plant


def ask_for_tokens(desk: Desk) -> None:
    """Where a gate is on, too, which needs the broker."""
    assert desk.run("gate", "on").status == 0
    desk.gated.broker.stop()
    (desk.config / "config.toml").write_text("auth = 'token'\n", "utf-8")
    desk.gated.broker.start()
    desk.set(TANDEM_TOKEN="tdm_0000000000000000_wrong")


def close_the_folder(desk: Desk) -> None:
    desk.gated.broker.data_dir.chmod(0o500)
    desk.is_common = True


def give_away(desk: Desk) -> None:
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


def take_its_place(desk: Desk) -> None:
    """Of a repository that was deleted."""
    desk.there = new_repository(desk.home / "first")
    assert desk.run("gate", "on").status == 0
    desk.there = new_repository(desk.home / "second")
    assert desk.run("project", "add").status == 0
    shutil.rmtree(desk.home / "first")
    desk.there = desk.there.rename(desk.home / "first")


def correct_the_program(desk: Desk) -> None:
    """In the settings, while the broker goes on with the old ones."""
    pool(enabled=True, provider="custom", command=["not-there"])(desk)
    start_again(desk)
    pool(enabled=True, provider="custom", command=REVIEWER)(desk)


def give_away_with_its_gate(desk: Desk) -> None:
    """Which asks their broker; git was told to work there all the same."""
    give_away(desk)
    theirs = desk.home / "their-data"
    theirs.mkdir(mode=0o700)
    os.chown(theirs, 12_345, 12_345)
    folder = (desk.there or desk.root) / ".git" / "tandem"
    folder.mkdir(exist_ok=True)
    gate = {"enabled": True, "broker": None, "data_dir": str(theirs), "usual_url": desk.gated.broker.url}
    (folder / "gate.json").write_text(json.dumps(gate), "utf-8")
    desk.obey(f"git config --global --add safe.directory {desk.there}")
    desk.is_common = True


def work_in_a_clone(desk: Desk) -> None:
    (found,) = desk.problems
    desk.obey(found["fix"].partition(": ")[2].replace("FOLDER", f"{desk.home}/mine"))
    desk.there = desk.home / "mine"


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


OF_BROKERS = (
    *(
        Fault(name, "broker", "No broker runs on", "tandem up --background", plant, desk="own")
        for name, plant in (
            ("no broker", stop),
            ("a broker that was killed", kill),
        )
    ),
    *(
        Fault(
            name,
            "database",
            words,
            "tandem down; tandem data restore --replace COPY && tandem up --background",
            plant,
            restore_the_copy,
            desk="own",
        )
        for name, words, plant in (
            ("an empty database", "there was one", in_place_of_it(empty)),
            ("a database that was moved away under its broker", "there was one", move_it_away),
            ("no database", "there was one", in_place_of_it(Path.unlink)),
            ("a tampered database", "changed", in_place_of_it(execute("UPDATE events SET actor = 'x' WHERE seq = 2"))),
            ("a damaged database", "damaged", in_place_of_it(damage)),
        )
    ),
    *(
        Fault(
            f"a last run with a {name} that cannot be used",
            "settings",
            f"last_run.json: {name}: ",
            "rm ",
            write_when_stopped("last_run.json", json.dumps({"port": 0, "options": {name: value}})),
            desk="own",
        )
        for name, value in (("host", ""), ("database_url", "nowhere"))
    ),
    *(
        Fault(f"{name} of the wrong kind", "data", f"{name} is a ", "mv ", make_of_wrong_kind(name), desk="own")
        for name in ("broker.json", "logs", "tandem.db.lock")
    ),
    *(
        Fault(
            f"{name} that cannot be read",
            "data",
            f"{name} cannot be ",
            "chmod 600",
            close_file(name, 0, runs=False),
            desk="own",
        )
        for name in ("databases.json", "tandem.db.lock")
    ),
    Fault(
        "a record of the databases that is damaged",
        "database",
        "databases.json cannot be read",
        "mv ",
        write_when_stopped("databases.json", "{"),
        desk="own",
    ),
    *(
        Fault(
            f"an owner's key that was {what}",
            "broker",
            "is your broker, and cannot prove it",
            "tandem down && tandem up --background",
            plant,
            desk="own",
        )
        for what, plant in (
            ("opened", open_to_all("owner.key", 0o644)),
            ("deleted", delete_owners_key),
        )
    ),
    *(
        Fault(
            f"{name} with mode {mode:o}, and {'a' if runs else 'no'} broker that runs",
            "data",
            f"{name} cannot be",
            "chmod 600",
            close_file(name, mode, runs=runs),
            desk="own",
        )
        for name, mode in (("secret.key", 0), ("tandem.db", 0o400))
        for runs in (True, False)
    ),
    Fault(
        "a data folder that cannot be written, and no broker",
        "data",
        "cannot be written",
        "chmod 700",
        close_file("", 0o500, runs=False),
        desk="own",
    ),
    Fault(
        "a repository in the place of another one",
        "project",
        "was moved here from",
        "tandem project remove first && tandem project move",
        take_its_place,
        desk="own",
    ),
    Fault(
        "a pool whose program was corrected, and no restart",
        "settings",
        "reviewer_pool.command",
        "tandem down && tandem up --background",
        correct_the_program,
        desk="own",
    ),
    Fault(
        "a project that is not registered",
        "project",
        "not registered",
        "tandem project add",
        lambda desk: desk.run("project", "remove", "own"),
        desk="own",
    ),
    Fault(
        "a repository that was moved",
        "project",
        "was moved here from",
        "tandem project move",
        move_a_repository,
        desk="own",
    ),
    Fault("a copy of a repository", "project", "is a copy of", "tandem project add", copy_it, desk="own"),
    Fault(
        "a port that somebody else has",
        "broker",
        "is taken",
        "tandem up --background --port 0",
        take_the_port,
        desk="own",
    ),
    Fault(
        "valid access tokens, and a broker that asks for none",
        "access",
        "trusts everybody",
        "tandem token revoke",
        lambda desk: desk.run("token", "create", "someone", "--role", "operator"),
        revoke_the_token,
        desk="own",
    ),
    Fault(
        "a webhook to where nobody listens",
        "webhooks",
        "Events do not arrive at the webhook",
        "tandem webhook remove",
        post_to_nobody,
        remove_the_webhook,
        desk="own",
    ),
    Fault(
        "a database of a newer Tandem",
        "database",
        "made by a newer Tandem",
        "upgrade Tandem",
        in_place_of_it(execute("UPDATE alembic_version SET version_num = '9999_later'")),
        restore_the_copy,
        desk="own",
    ),
    Fault(
        "a setting that was changed since the start",
        "settings",
        "claim_timeout_seconds",
        "tandem down && tandem up --background",
        write_settings("claim_timeout_seconds = 77\n"),
        desk="own",
    ),
    Fault(
        "a pool that was changed since the start",
        "settings",
        "reviewer_pool.max_pool_size",
        "tandem down && tandem up --background",
        all_of(
            pool(enabled=True, provider="custom", command=REVIEWER),
            start_again,
            pool(enabled=True, provider="custom", command=REVIEWER, max_pool_size=2),
        ),
        desk="own",
    ),
    Fault(
        "a pool's program that is on our PATH and not on the broker's",
        "reviewers",
        "does not find the reviewers' program 'only-here' on its own PATH",
        "with its whole path",
        only_on_our_path,
        put_the_program_there,
        desk="own",
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
        desk="own",
    ),
    Fault(
        "a broker of another version",
        "version",
        "The broker is version 99.0",
        "tandem down && tandem up --background",
        run_another_version,
        desk="own",
    ),
    Fault(
        "a data folder that was deleted under a running broker",
        "broker",
        "does not answer (its data folder is gone)",
        "tandem down && tandem up --background",
        delete_its_folder,
        desk="own",
    ),
    Fault(
        "a broker that hangs",
        "broker",
        "does not answer (it hangs)",
        "tandem down && tandem up --background",
        suspend,
        desk="own",
    ),
    Fault(
        "a data folder that cannot be written",
        "data",
        "cannot be written",
        "chmod 700",
        close_the_folder,
        desk="own",
    ),
    Fault(
        "no secret key",
        "secret",
        "secret.key is gone",
        "put its copy back",
        delete_the_key,
        put_the_key_back,
        desk="own",
    ),
    Fault(
        "a database without its key",
        "secret",
        "another secret key",
        "put the key of that database",
        start_with_another_key,
        put_the_key_back,
        desk="own",
    ),
    *(
        Fault(
            f"a broker.json with {text}",
            "broker",
            "No broker runs on",
            "tandem up --background",
            write_into_broker_json(text),
            desk="own",
        )
        for text in (
            "garbage",
            '{"url": "garbage"}',
            '{"url": "http://127.0.0.1:9", "pid": -1, "started_us": 0, "version": "1", "instance_id": "x"}',
        )
    ),
    Fault(
        "a token that the broker does not take",
        "access",
        "takes none from here",
        "unset TANDEM_TOKEN",
        ask_for_tokens,
        desk="own",
    ),
    Fault(
        "a repository of another user",
        "git",
        "belongs to another user",
        "git config --global --add safe.directory",
        give_away,
        desk="own",
    ),
    Fault(
        "a repository of another user whose gate asks their broker",
        "broker",
        "asks the broker of user 12345",
        "work in a clone of your own: git config",
        give_away_with_its_gate,
        work_in_a_clone,
        desk="own",
    ),
    Fault(
        "a pool whose program is missing",
        "reviewers",
        "does not find the reviewers' program 'not-there'",
        "install it",
        all_of(pool(enabled=True, provider="custom", command=["not-there"]), start_again),
        all_of(pool(enabled=True, provider="custom", command=REVIEWER), start_again),
        desk="own",
    ),
)
