"""A log on a PostgreSQL that several databases share is read once it is complete."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psycopg
import pytest

from tests.acceptance.reviewing import Desk
from tests.broker import BrokerProcess
from tests.postgres import PostgresServer


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
