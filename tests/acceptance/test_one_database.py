"""One database has one broker, which reports a database that was removed and never creates it again."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import psycopg
import pytest

from tests.acceptance.reviewing import PROPOSAL, Desk
from tests.broker import CALL_SECONDS, BrokerProcess


@pytest.fixture
def own(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker of the test's own, on SQLite."""
    with BrokerProcess(tmp_path / "first") as started:
        yield started


@pytest.fixture
def tmp_path(tmp_path: Path) -> Path:
    (tmp_path / "first").mkdir()
    (tmp_path / "second").mkdir()
    return tmp_path


def database(broker: BrokerProcess) -> Path:
    return broker.data_dir / "tandem.db"


def refused_start(broker: BrokerProcess) -> str:
    """The error of a start that is refused, in one line."""
    ended = broker.run("up", "--port", "0")
    assert ended.returncode == 1
    assert not ended.stdout
    return " ".join(ended.stderr.split())


def _same(path: Path, _: Path) -> Path:
    return path


def _symbolic_link(path: Path, folder: Path) -> Path:
    (folder / "link.db").symlink_to(path)
    return folder / "link.db"


def _linked_folder(path: Path, folder: Path) -> Path:
    (folder / "link").symlink_to(path.parent, target_is_directory=True)
    return folder / "link" / path.name


def test_a_second_broker_on_the_same_file_is_refused_from_whatever_data_folder(own: BrokerProcess, tmp_path: Path):
    path = database(own)
    for name in (_same, _symbolic_link, _linked_folder):
        path = name(database(own), tmp_path / "second")
        told = refused_start(BrokerProcess(tmp_path / "second", database_url=f"sqlite:///{path}"))
        assert f"Another broker (process {own.pid}) has the database {database(own)}" in told
    other = tmp_path / "second" / "other.db"
    os.link(database(own), other)
    told = refused_start(BrokerProcess(tmp_path / "second", database_url=f"sqlite:///{other}"))
    assert "has a second name (a hard link)" in told
    other.unlink()
    with Desk(own.url, "first") as desk:
        assert desk.put_up()
    own.kill()
    # Its broker is gone, and so is the lock.
    key = own.data_dir / "secret.key"
    with BrokerProcess(tmp_path / "second", database_url=f"sqlite:///{path}", secret_key_file=key) as second:
        assert second.health()["log_id"]


def _is_out_of_order(broker: BrokerProcess, review: str, reason: str) -> None:
    """Neither reads nor writes are answered, and everybody is told why."""
    with Desk(broker.url, "first") as desk:
        for operation, sent in (("create_review", PROPOSAL), ("get_review_status", {"review_id": review})):
            refusal = desk.call(operation, **sent)["error"]
            assert (refusal["code"], refusal["retryable"]) == ("UNAVAILABLE", True)
            assert reason in refusal["message"]
    health = httpx.get(f"{broker.url}/healthz", timeout=CALL_SECONDS)
    assert health.status_code == 503
    assert reason in health.json()["error"]["message"]
    status = broker.run("status", "--json")
    assert status.returncode == 3
    assert reason in json.loads(status.stdout)["data"]["trouble"]


def _replace(path: Path) -> None:
    path.unlink()
    path.write_bytes(b"something else")


def _empty(path: Path) -> None:
    os.truncate(path, 0)


def test_a_database_that_is_taken_away_under_the_broker_is_missed_at_once(own: BrokerProcess, tmp_path: Path):
    kept = tmp_path / "kept.db"
    with Desk(own.url, "first") as desk:
        review = desk.put_up()
    harms: tuple[Callable[[Path], None], ...] = (Path.unlink, _replace, _empty)
    for harm in harms:
        if harm is not _empty:
            os.link(database(own), kept)
        harm(database(own))
        _is_out_of_order(own, review, "removed, replaced or emptied under the broker")
        if harm is not _empty:
            kept.replace(database(own))
            with Desk(own.url, "first") as desk:
                assert desk.status(review)["status"] == "pending"
                assert desk.put_up()
            assert own.health()["phase"] == "ready"


def test_what_is_in_a_log_that_was_removed_is_saved_by_an_orderly_stop(own: BrokerProcess):
    with Desk(own.url, "first") as desk:
        review = desk.put_up()
    database(own).with_name("tandem.db-wal").unlink()
    _is_out_of_order(own, review, "tandem.db-wal was removed")
    own.stop()
    own.start()
    with Desk(own.url, "first") as desk:
        assert desk.status(review)["status"] == "pending"


def test_a_start_makes_no_new_database_where_there_was_one(own: BrokerProcess):
    record = own.data_dir / "databases.json"
    with Desk(own.url, "first") as desk:
        review = desk.put_up()
    for harm in (Path.unlink, _empty):
        own.stop()
        whole = database(own).read_bytes()
        harm(database(own))
        before = {path.name for path in own.data_dir.iterdir()}
        told = refused_start(own)
        assert "is gone, or empty" in told
        assert f"delete {record}" in told
        assert {path.name for path in own.data_dir.iterdir()} == before
        database(own).write_bytes(whole)
        own.start()
        with Desk(own.url, "first") as desk:
            assert desk.status(review)["status"] == "pending"
    own.stop()
    database(own).unlink()
    record.unlink()
    own.start()
    with Desk(own.url, "first") as desk:
        desk.refused("NOT_FOUND", "get_review_status", review_id=review)


def test_a_start_does_not_begin_anew_in_a_database_of_a_server_that_was_emptied(tmp_path: Path, postgres_url: str):
    broker = BrokerProcess(tmp_path / "first", database_url=postgres_url)
    broker.start()
    broker.stop()
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("DROP SCHEMA public CASCADE")
        connection.execute("CREATE SCHEMA public")
    for _ in range(2):
        assert "is empty, and there was one" in refused_start(broker)
