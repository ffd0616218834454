"""Behaviour of a database file alone: its permissions, its log, its neighbours."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest
from sqlalchemy import text

from tandem.errors import ConfigInvalid
from tandem.store.base import Store
from tandem.store.engine import make_store
from tandem.store.sqlite import check_version
from tandem.store.statement import Statement
from tests.store.notes import SCHEMA, WAIT_SECONDS, add, ids, present

if TYPE_CHECKING:
    from collections.abc import Generator

    from tandem.store.base import Unit

posix_only = pytest.mark.skipif(os.name == "nt", reason="platform: Windows has other permissions")


@contextmanager
def opened(url: str, durability: Literal["full", "normal"] = "full") -> Generator[Store]:
    store = make_store(url, schema=SCHEMA, durability=durability)
    store.open_blocking()
    yield store
    store.close_blocking()


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@posix_only
def test_the_folder_and_every_file_in_it_are_for_this_user_only(sqlite_url: str, path: Path) -> None:
    with opened(sqlite_url) as store:
        store.write_blocking(add("a"))
        assert mode(path.parent) == 0o700
        files = {file.name: mode(file) for file in path.parent.iterdir()}
    assert files == dict.fromkeys(("tandem.db", "tandem.db-wal", "tandem.db-shm", "tandem.db.lock"), 0o600)


@posix_only
def test_a_file_that_others_could_read_is_closed_to_them_and_a_given_folder_is_left_as_it_is(
    sqlite_url: str, path: Path
) -> None:
    path.parent.mkdir(mode=0o755)
    path.parent.chmod(0o755)
    path.touch(0o644)
    with opened(sqlite_url):
        pass
    assert (mode(path.parent), mode(path)) == (0o755, 0o600)


@pytest.mark.parametrize(("durability", "synchronous"), [("full", 2), ("normal", 1)])
def test_the_writer_waits_for_the_disk_as_told(
    sqlite_url: str, durability: Literal["full", "normal"], synchronous: int
) -> None:
    pragma = Statement(text("PRAGMA synchronous"))
    with opened(sqlite_url, durability) as store:
        assert store.write_blocking(lambda unit: unit.value(pragma)) == synchronous


def test_the_log_starts_over_though_readers_always_overlap(
    sqlite_url: str, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    limit = 200_000
    monkeypatch.setattr("tandem.store.sqlite.WAL_LIMIT_BYTES", limit)
    monkeypatch.setattr("tandem.store.sqlite._COMMITS_BETWEEN_LOOKS", 4)
    looked, go_on = threading.Event(), threading.Event()

    def look(unit: Unit) -> int:
        seen = len(ids(unit))
        looked.set()
        assert go_on.wait(WAIT_SECONDS)
        return seen

    log = path.with_name(path.name + "-wal")
    with opened(sqlite_url) as store:
        reader = threading.Thread(target=store.read_blocking, args=(look,))
        reader.start()
        assert looked.wait(WAIT_SECONDS)
        for number in range(50):
            store.write_blocking(add(f"{number:03}", body="x" * 8000))
        assert log.stat().st_size > limit, "the reader needs the log's content"
        go_on.set()
        reader.join(WAIT_SECONDS)
        for number in range(50, 58):
            store.write_blocking(add(f"{number:03}"))
        assert log.stat().st_size <= limit
        assert len(present(store)) == 58


def test_a_reader_is_not_held_up_by_a_unit_that_writes(sqlite_url: str) -> None:
    def writes(unit: Unit) -> list[str]:
        add("a")(unit)
        asked.set()
        assert answered.wait(WAIT_SECONDS)
        return ids(unit)

    asked, answered = threading.Event(), threading.Event()
    with opened(sqlite_url) as store:
        writer = threading.Thread(target=store.write_blocking, args=(writes,))
        writer.start()
        assert asked.wait(WAIT_SECONDS)
        assert present(store) == []
        answered.set()
        writer.join(WAIT_SECONDS)
        assert present(store) == ["a"]


def test_an_interpreter_with_an_old_sqlite_is_refused() -> None:
    check_version((3, 35, 0))
    with pytest.raises(ConfigInvalid, match=r"SQLite 3\.34\.1, and 3\.35 or newer"):
        check_version((3, 34, 1))


@pytest.mark.parametrize("url", ["sqlite:///", "sqlite:///:memory:", "sqlite://", "mysql://localhost/x", "tandem.db"])
def test_a_url_that_names_no_database_is_refused(url: str) -> None:
    with pytest.raises(ConfigInvalid, match="sqlite:///path or postgresql://"):
        make_store(url, schema=SCHEMA)
