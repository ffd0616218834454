"""The PostgreSQL that the tests bring along is real, private, and gone when the tests are gone."""

from __future__ import annotations

import os
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


@pytest.mark.skipif(os.name == "nt", reason="platform: signals are POSIX's")
def test_is_gone_however_the_tests_end() -> None:
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
        owner.kill()
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
