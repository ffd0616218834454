"""The PostgreSQL that the tests bring along is real, private, and gone when the tests are gone."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
import psycopg
import pytest

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess
from tests.postgres import PostgresServer

ROOT = Path(__file__).resolve().parents[2]


def answer_of(url: str, statement: bytes) -> object:
    with psycopg.connect(url, connect_timeout=5) as connection:
        row = connection.execute(statement).fetchone()
    assert row is not None
    return row[0]


def test_gives_a_fresh_utf8_database(postgres_url: str) -> None:
    assert answer_of(postgres_url, b"SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'") == 0
    assert answer_of(postgres_url, b"SHOW server_encoding") == "UTF8"


def test_databases_do_not_see_each_other(postgres_server: PostgresServer, postgres_url: str) -> None:
    other = postgres_server.create_database()
    with psycopg.connect(postgres_url) as connection:
        connection.execute("CREATE TABLE marker (n integer)")
    assert answer_of(other, b"SELECT to_regclass('marker') IS NULL") is True
    postgres_server.drop_database(other)
    with pytest.raises(psycopg.OperationalError, match="does not exist"):
        answer_of(other, b"SELECT 1")


def test_the_shared_server_is_fast_and_the_durable_one_durable(postgres_url: str, own_postgres: PostgresServer) -> None:
    assert answer_of(postgres_url, b"SHOW fsync") == "off"
    assert answer_of(own_postgres.url(), b"SHOW fsync") == "on"
    assert answer_of(own_postgres.url(), b"SHOW synchronous_commit") == "on"


def test_a_crash_keeps_what_was_committed_and_the_address(own_postgres: PostgresServer) -> None:
    url = own_postgres.create_database()
    with psycopg.connect(url) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS n")
    own_postgres.crash()
    assert not own_postgres.running
    with pytest.raises(psycopg.OperationalError):
        answer_of(url, b"SELECT 1")
    own_postgres.start()
    assert answer_of(url, b"SELECT n FROM kept") == 7
    own_postgres.stop()
    own_postgres.start()
    assert answer_of(url, b"SELECT n FROM kept") == 7


@pytest.mark.skipif(os.name == "nt", reason="platform: signals are POSIX's")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
def test_is_gone_however_the_tests_end(number: signal.Signals) -> None:
    script = """
        import sys
        from tests.postgres import PostgresServer
        server = PostgresServer()
        server.start()
        print(server._guard.pid, server._folder, flush=True)
        sys.stdin.read()
    """
    owner = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(script)],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with owner:
        assert owner.stdout is not None
        pid, folder = owner.stdout.readline().split(maxsplit=1)
        guard = psutil.Process(int(pid))
        family = [guard, *guard.children(recursive=True)]
        assert len(family) > 2
        owner.send_signal(number)
    _, alive = psutil.wait_procs(family, timeout=60)
    assert alive == []
    assert not Path(folder.strip()).exists()


def test_a_log_is_read_once_no_other_database_keeps_it_back(postgres_server: PostgresServer, tmp_path: Path) -> None:
    own, other = postgres_server.create_database(), postgres_server.create_database()
    with (
        BrokerProcess(tmp_path, database_url=own) as broker,
        Desk(broker.url, "shop") as desk,
        psycopg.connect(other) as connection,
        ThreadPoolExecutor(1) as reader,
    ):
        connection.execute("SELECT pg_current_xact_id()")
        review = desk.put_up()
        assert desk.call("get_audit_log")["data"]["events"] == []
        reading = reader.submit(desk.do, "get_audit_log")
        with pytest.raises(TimeoutError):
            reading.result(0.3)
        connection.commit()
        assert [event["subject"] for event in reading.result(60)["events"]] == [review]
