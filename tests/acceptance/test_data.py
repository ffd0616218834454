"""Copies of the database: taken beside a running broker, whole or refused, and the same on either kind of database."""

from __future__ import annotations

import gzip
import hashlib
import itertools
import json
import os
import shutil
import signal
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.acceptance.reviewing import Desk
from tests.acceptance.test_p8_audit import whole_history
from tests.broker import BrokerProcess, StartBroker, fresh_project
from tests.commandline import Ended, Inside
from tests.forked import start_tandem
from tests.modes import VARIATION

WAIT_SECONDS = 60
MORE_THAN_A_PAGE = 70
"""Reviews whose events are more than a copy reads from a table at once."""
COPIES = Path(__file__).with_name("copies")
_LOG = "SELECT * FROM events ORDER BY seq"


@dataclass
class Place:
    """A data folder, with a database in it or on a server; no broker need run there."""

    broker: BrokerProcess
    url: str | None = None

    @property
    def settings(self) -> dict[str, str]:
        return {} if self.url is None else {"TANDEM_DATABASE_URL": self.url}

    def run(self, *arguments: str, stdin: bytes = b"") -> Ended:
        """`tandem data …` here."""
        where = ("--data-dir", str(self.broker.data_dir))
        key = {"TANDEM_SECRET_KEY_FILE": str(self.broker.secret_key)}
        return Inside("", self.broker.folder).run("data", *arguments, *where, stdin=stdin, **self.settings, **key)

    def done(self, *arguments: str) -> dict[str, Any]:
        ended = self.run(*arguments, "--json")
        assert ended.status == 0, ended
        return ended.data

    def refused(self, code: str, *arguments: str, stdin: bytes = b"") -> str:
        """A refused command, which must change nothing here; the message of its refusal."""
        before = self.content()
        error = self.run(*arguments, "--json", stdin=stdin).envelope["error"]
        assert (error["code"], self.content()) == (code, before), error
        return error["message"]

    def content(self) -> Any:
        """The content of the data folder: names of files, and the log."""
        folder = self.broker.data_dir
        names = sorted(path.name for path in folder.iterdir()) if folder.exists() else []
        return [name for name in names if not name.endswith((".lock", "-wal", "-shm"))], self.log()

    def log(self) -> list[tuple[Any, ...]]:
        """Every event."""
        if self.url is not None:
            with psycopg.connect(self.url) as server:
                is_there = server.execute("SELECT to_regclass('events')").fetchone()
                return server.execute(_LOG).fetchall() if is_there and is_there[0] else []
        path = self.broker.data_dir / "tandem.db"
        if not path.exists():
            return []
        with closing(sqlite3.connect(path)) as file:
            return file.execute(_LOG).fetchall()


def place_in(folder: Path, like: BrokerProcess, url: str | None = None) -> Place:
    """Another data folder, with the secret of a broker."""
    folder.mkdir(exist_ok=True)
    broker = BrokerProcess(folder, secret_key_file=like.secret_key, **({} if url is None else {"database_url": url}))
    return Place(broker, url)


@pytest.fixture(scope="module")
def history(tmp_path_factory: pytest.TempPathFactory, repo_template: Path) -> Place:
    """A database with every kind of row, that no broker runs on."""
    folder = tmp_path_factory.mktemp("history")
    broker = BrokerProcess(folder)
    with broker, Desk(broker.url, fresh_project()) as desk:
        desk.register(shutil.copytree(repo_template, folder / "repository"))
        whole_history(desk)
    return Place(broker)


@pytest.fixture(scope="module")
def backup(history: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A backup of it."""
    file = tmp_path_factory.mktemp("backup") / "backup"
    history.done("backup", str(file))
    return file


@pytest.fixture
def elsewhere(history: Place, tmp_path: Path) -> Place:
    """An empty folder for the same broker."""
    return place_in(tmp_path / "elsewhere", history.broker)


@contextmanager
def writing(desk: Desk) -> Generator[list[str]]:
    """Writes one review after the other while it is left; those that were acknowledged."""
    reviews: list[str] = []
    some, enough = threading.Event(), threading.Event()

    def write() -> None:
        while not enough.is_set():
            reviews.append(desk.put_up())
            desk.approve(reviews[-1])
            if len(reviews) > MORE_THAN_A_PAGE:
                some.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        assert some.wait(WAIT_SECONDS)
        yield reviews
    finally:
        enough.set()
        writer.join()


@pytest.mark.both_databases
def test_p3_a_backup_taken_amid_writes_verifies_and_a_broker_goes_on_from_it(
    start_broker: StartBroker, database_settings: dict[str, object], tmp_path: Path
):
    broker = start_broker(**database_settings)
    file = tmp_path / "backup"
    with Desk(broker.url, fresh_project()) as desk, writing(desk) as reviews:
        acknowledged = list(reviews)
        ended = broker.run("data", "backup", str(file), "--json")
    assert ended.returncode == 0, ended
    assert json.loads(ended.stdout)["data"]["verified"] is True
    assert len(reviews) > len(acknowledged)
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    restored = place_in(tmp_path / "restored", broker)
    restored.done("restore", str(file))
    with restored.broker, Desk(restored.broker.url, desk.project) as other:
        assert all(other.status(review)["status"] == "approved" for review in acknowledged)
        other.approve(other.put_up())
    assert restored.broker.audited().data["problems"] == []


def test_p8_a_copy_to_the_other_database_and_back_has_the_same_log(
    history: Place, elsewhere: Place, postgres_url: str, tmp_path: Path
):
    history.done("copy", postgres_url)
    on_server = place_in(tmp_path / "server", history.broker, postgres_url)
    assert on_server.log() == history.log()
    with on_server.broker, Desk(on_server.broker.url, fresh_project()) as desk:
        review = desk.put_up(description="Written on PostgreSQL.")
    assert on_server.broker.audited().data["problems"] == []
    on_server.done("copy", f"sqlite:///{elsewhere.broker.data_dir}/tandem.db")
    assert elsewhere.log() == on_server.log()
    with elsewhere.broker, Desk(elsewhere.broker.url, desk.project) as back:
        assert elsewhere.broker.audited().data["problems"] == [], "the numbers of PostgreSQL have gaps"
        back.approve(review)
    assert elsewhere.broker.audited().data["problems"] == []


def test_an_export_goes_through_a_pipe(history: Place, elsewhere: Place):
    exported = history.run("export")
    assert exported.status == 0
    assert elsewhere.run("import", stdin=exported.stdout.encode()).status == 0
    assert elsewhere.log() == history.log()


def whole(backup: Path) -> list[bytes]:
    return gzip.decompress(backup.read_bytes()).splitlines(keepends=True)


def signed(lines: list[bytes]) -> bytes:
    """An export of these lines, with the end that fits them."""
    content = b"".join(lines)
    rows = sum(line.startswith(b"[") for line in lines)
    return content + json.dumps({"rows": rows, "sha256": hashlib.sha256(content).hexdigest()}).encode() + b"\n"


def _changed(lines: list[bytes]) -> list[bytes]:
    at = next(number for number, line in enumerate(lines) if b'"review_created"' in line)
    return [*lines[:at], lines[at].replace(b'"review_created"', b'"review_revised"', 1), *lines[at + 1 :]]


def _newer(lines: list[bytes]) -> list[bytes]:
    return [json.dumps({**json.loads(lines[0]), "schema": "9999_later"}).encode() + b"\n", *lines[1:]]


NEWER = "of a newer Tandem"
SPOILT: dict[str, tuple[str, Callable[[Path], bytes]]] = {
    "cut off": ("cut off", lambda file: file.read_bytes()[:-20]),
    "cut off, not compressed": ("cut off", lambda file: b"".join(whole(file)[:-1])),
    "something behind it": ("changed", lambda file: b"".join([*whole(file), b"[]\n"])),
    "a bit flipped": ("changed", lambda file: (raw := file.read_bytes())[:-100] + bytes([raw[-100] ^ 1]) + raw[-99:]),
    "an event changed": ("changed", lambda file: b"".join(_changed(whole(file)))),
    "an event changed, and the digest": ("does not verify", lambda file: signed(_changed(whole(file)[:-1]))),
    "an event removed, and the digest": (
        "",
        lambda file: signed([line for line in whole(file)[:-1] if b'"review_closed"' not in line]),
    ),
    NEWER: ("newer", lambda file: signed(_newer(whole(file)[:-1]))),
    "another file": ("no copy", lambda _file: b"Dear diary\n"),
    "an empty file": ("no copy", lambda _file: b""),
    "a SQLite database": ("no copy", lambda _file: b"SQLite format 3\x00" + bytes(100)),
}


@pytest.mark.parametrize("kind", SPOILT)
def test_p8_a_copy_that_is_not_whole_is_refused(backup: Path, elsewhere: Place, tmp_path: Path, kind: str):
    reason, spoil = SPOILT[kind]
    spoilt = tmp_path / "spoilt"
    spoilt.write_bytes(spoil(backup))
    message = elsewhere.refused("CONFIG_INVALID" if kind == NEWER else "INVALID_INPUT", "restore", str(spoilt))
    assert reason in message
    assert elsewhere.log() == []


@VARIATION
@pytest.mark.skipif(sys.platform == "win32", reason="platform: tells no process's largest memory")
def test_a_line_that_inflates_to_more_than_any_copy_has_costs_little_memory(elsewhere: Place, tmp_path: Path):
    """Each member of the file is 10 kB, and 10 MB without compression; two gigabytes cost four."""
    bomb = tmp_path / "bomb.gz"
    begun = gzip.compress(b'{"tandem": "')
    bomb.write_bytes(begun + 40 * gzip.compress(b" " * 10_000_000, 9))
    assert bomb.stat().st_size < 1_000_000
    command = [
        sys.executable,
        "-m",
        "tandem",
        "data",
        "restore",
        str(bomb),
        "--data-dir",
        str(elsewhere.broker.data_dir),
    ]
    with subprocess.Popen(command, stderr=subprocess.PIPE) as process:
        assert process.stderr is not None
        said = process.stderr.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    assert (process.returncode, b"is no copy" in said) == (1, True)
    assert used.ru_maxrss * (1 if sys.platform == "darwin" else 1024) < 600_000_000


@pytest.mark.parametrize("schema", ["0032_objections", "0037_claims_beside"])
def test_a_copy_of_an_older_version_is_imported(tmp_path: Path, schema: str):
    # From before the first schema and of the version before it; without their keys all but the hashes is checked.
    place = Place(BrokerProcess(tmp_path))
    done = place.done("import", str(COPIES / f"{schema}.jsonl"))
    assert done["schema"] == schema
    report = place.broker.audited().data
    assert (report["problems"], report["events"]) == ([], done["events"])


def test_what_is_there_is_never_overwritten(backup: Path, history: Place, elsewhere: Place):
    before = backup.read_bytes()
    assert "not overwritten" in history.refused("INVALID_INPUT", "backup", str(backup))
    assert backup.read_bytes() == before
    elsewhere.done("restore", str(backup))
    assert "not overwritten" in elsewhere.refused("CONFIG_INVALID", "restore", str(backup))
    assert "not overwritten" in elsewhere.refused(
        "CONFIG_INVALID", "copy", f"sqlite:///{history.broker.data_dir}/tandem.db"
    )
    aside = elsewhere.done("restore", str(backup), "--replace")["set_aside"]
    with closing(sqlite3.connect(aside)) as former:
        assert former.execute(_LOG).fetchall() == history.log()


def test_a_database_that_a_broker_has_is_not_replaced(start_broker: StartBroker, backup: Path, postgres_url: str):
    broker = start_broker()
    with Desk(broker.url, fresh_project()) as desk:
        review = desk.put_up()
        assert "process" in Place(broker).refused("UNAVAILABLE", "restore", str(backup), "--replace")
        assert desk.status(review)["status"] == "pending"
    on_server = Place(start_broker(database_url=postgres_url), postgres_url)
    assert "not overwritten" in on_server.refused("CONFIG_INVALID", "restore", str(backup), "--replace")


def test_a_database_that_a_program_reads_is_not_replaced_and_a_damaged_one_is_set_aside_as_it_is(
    backup: Path, elsewhere: Place
):
    elsewhere.done("restore", str(backup))
    path = elsewhere.broker.data_dir / "tandem.db"
    with closing(sqlite3.connect(path)) as reader:
        reader.execute("SELECT count(*) FROM events").fetchone()
        assert "open" in elsewhere.refused("UNAVAILABLE", "restore", str(backup), "--replace")
    path.write_bytes(damaged := path.read_bytes()[:9000])
    aside = Path(elsewhere.done("restore", str(backup), "--replace")["set_aside"])
    assert aside.read_bytes() == damaged
    with elsewhere.broker:
        pass
    assert elsewhere.broker.audited().data["problems"] == []


def test_another_log_takes_the_place_of_the_one_before_only_when_told(backup: Path, history: Place, tmp_path: Path):
    broker = BrokerProcess(tmp_path / "another", secret_key_file=history.broker.secret_key)
    broker.folder.mkdir()
    with broker:
        pass
    place = Place(broker)
    (broker.data_dir / "tandem.db").unlink()
    assert "another log" in place.refused("CONFIG_INVALID", "restore", str(backup))
    place.done("restore", str(backup), "--replace")
    with broker:
        pass
    assert broker.audited().data["problems"] == []


def test_what_does_not_exist_is_not_found(elsewhere: Place, tmp_path: Path):
    elsewhere.refused("NOT_FOUND", "backup", str(tmp_path / "new"))
    elsewhere.refused("NOT_FOUND", "restore", str(tmp_path / "none"))
    elsewhere.refused("UNAVAILABLE", "restore", str(tmp_path))


@pytest.fixture(scope="module")
def large(backup: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy that takes long enough to restore to be killed in the middle; its contents are filler."""
    lines = whole(backup)[:-1]
    at = next(number for number, line in enumerate(lines) if line.startswith(b'{"table":"contents"'))
    bodies = [f"{number} {'x' * 4000}" for number in range(10_000)]
    rows = [json.dumps([hashlib.sha256(body.encode()).hexdigest(), body]).encode() + b"\n" for body in bodies]
    header = json.loads(lines[0])
    header["rows"] += len(rows)
    file = tmp_path_factory.mktemp("large") / "large"
    file.write_bytes(signed([json.dumps(header).encode() + b"\n", *lines[1 : at + 1], *rows, *lines[at + 1 :]]))
    return file


# On PostgreSQL it is one transaction.
@pytest.mark.parametrize("kind", ["sqlite", pytest.param("postgresql", marks=VARIATION)])
def test_a_restore_that_is_killed_leaves_no_half_database(
    history: Place, backup: Path, large: Path, tmp_path: Path, kind: str, request: pytest.FixtureRequest
):
    url = request.getfixturevalue("postgres_url") if kind == "postgresql" else None
    place = place_in(tmp_path / "place", history.broker, url)
    arguments = ["data", "restore", str(large), "--no-verify", "--data-dir", str(place.broker.data_dir)]
    with start_tandem(arguments, tmp_path, place.broker.environment, stdout=subprocess.PIPE, stderr=2) as restoring:
        deadline = time.monotonic() + WAIT_SECONDS
        while not _is_half_way(place):
            assert restoring.poll() is None, "it ended before it was looked at"
            assert time.monotonic() < deadline
            time.sleep(0.001)
        restoring.kill()
        restoring.wait(WAIT_SECONDS)
    assert place.log() == []
    place.done("restore", str(backup))
    assert list(place.broker.data_dir.glob("tandem-copy-*")) == []
    with place.broker, Desk(place.broker.url, fresh_project()) as desk:
        desk.put_up()
    assert place.broker.audited().data["problems"] == []


def _killed(arguments: list[str], folder: Path, environment: dict[str, str]) -> int:
    """The exit status of a command that is killed at some step, if it takes so many."""
    module, pipe = "tests.acceptance.programs.killed", subprocess.PIPE
    with start_tandem(arguments, folder, environment, module=module, stdout=pipe, stderr=pipe) as ended:
        return ended.wait(WAIT_SECONDS)


@pytest.mark.parametrize("kind", ["backup", "backup --no-verify", "export"])
def test_what_a_killed_backup_leaves_is_removed_by_the_next(history: Place, tmp_path: Path, kind: str):
    folder = tmp_path / "backups"
    folder.mkdir()
    arguments = ["data", *kind.split(), str(folder / "copy"), "--data-dir", str(history.broker.data_dir)]
    environment = {**history.broker.environment, "KILLED_AT": str(len(kind.split()) + 2)}
    assert _killed(arguments, tmp_path, environment) == -signal.SIGKILL
    assert list(folder.iterdir()) != []
    history.done(*kind.split(), str(folder / "copy"))
    assert list(folder.iterdir()) == [folder / "copy"]


@pytest.fixture(scope="module")
def left(history: Place, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data folder as a broker leaves it that is killed, with events that only the log has."""
    broker = BrokerProcess(tmp_path_factory.mktemp("left"), secret_key_file=history.broker.secret_key)
    with broker, Desk(broker.url, fresh_project()) as desk:
        for _ in range(5):
            desk.put_up()
        broker.kill()
    assert (broker.data_dir / "tandem.db-wal").stat().st_size > 0
    return broker.data_dir


def test_p3_a_replacement_that_is_killed_leaves_the_one_database_or_the_other(
    left: Path, backup: Path, history: Place, tmp_path: Path
):
    former = _events(shutil.copytree(left, tmp_path / "former"))
    restored = history.log()
    found: list[bool] = []
    for number in itertools.count(1):
        place = place_in(tmp_path / f"killed-{number}", history.broker)
        shutil.copytree(left, place.broker.data_dir)
        arguments = ["data", "restore", str(backup), "--replace", "--data-dir", str(place.broker.data_dir)]
        environment = {**place.broker.environment, "KILLED_AT": str(number)}
        was_killed = _killed(arguments, tmp_path, environment) != 0
        log = _events(place.broker.data_dir)
        assert log in (former, restored), f"killed at step {number}"
        found.append(log == restored)
        if found.count(found[-1]) == 1:
            with place.broker:
                pass
            assert place.broker.audited().data["problems"] == []
        # The former one is nowhere lost, either.
        asides = list(place.broker.data_dir.glob("tandem.db.replaced-*[0-9]"))
        assert found[-1] <= (len(asides) == 1)
        if not was_killed:
            break
    assert found == sorted(found)
    assert (found[0], found[-1], len(found) > 5) == (False, True, True)


def _events(data_dir: Path) -> list[tuple[Any, ...]]:
    """Every event of a database that is whole."""
    with closing(sqlite3.connect(data_dir / "tandem.db")) as file:
        assert file.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return file.execute(_LOG).fetchall()


def _is_half_way(place: Place) -> bool:
    """Whether a restore has begun to write, and not yet committed."""
    if place.url is None:
        logs = place.broker.data_dir.glob("tandem-copy-*/tandem.db-wal")
        return any(log.stat().st_size > 1_000_000 for log in logs)
    with psycopg.connect(place.url) as server:
        found = server.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND backend_xid IS NOT NULL"
            " AND query LIKE 'INSERT INTO contents%'"
        ).fetchone()
        return found is not None and found[0] > 0
