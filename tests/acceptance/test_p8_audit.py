"""P8: replaying the log rebuilds the state, and whatever was done to either of them behind the broker's back shows."""

from __future__ import annotations

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.acceptance.reviewing import Desk, edited
from tests.broker import BrokerProcess, fresh_project
from tests.postgres import PostgresServer

DATABASE_FILE = "tandem.db"


@dataclass
class Archive:
    """A broker that has stopped, and the database it left behind."""

    broker: BrokerProcess
    database: str
    review: str

    def change(self, statement: str) -> int:
        """Do something to the database behind the broker's back; how many rows it touched."""
        if self.database.startswith("postgresql"):
            with psycopg.connect(self.database, autocommit=True) as server:
                # What somebody who tampers would do too.
                server.execute("SET session_replication_role = replica")
                return server.execute(statement.encode()).rowcount
        with closing(sqlite3.connect(self.database, isolation_level=None)) as file:
            return file.execute(statement).rowcount

    def audit(self) -> dict[str, Any]:
        """What `tandem audit verify` says; its exit status says the same."""
        ended = self.broker.audited()
        report = ended.data
        assert ended.status == (0 if report["intact"] else 1), ended.stderr
        assert report["intact"] == (not report["problems"])
        return report

    def problems(self) -> str:
        """Everything that the audit complains of."""
        return "\n".join(self.audit()["problems"])


def whole_history(desk: Desk) -> str:
    """Reviews that between them leave every kind of row behind; the id of the fullest."""
    full = desk.put_up(diff=edited(), description="Better words.", metadata={"why": ["so"]})
    generation = desk.claim(full)
    asked = desk.say(full, "reviewer", "Why?", claim_generation=generation)
    desk.say(full, "proposer", "Because.", resolves=asked["message_id"])
    given = desk.verdict(
        full,
        "changes_requested",
        generation,
        counter_patch=edited(text="best"),
        comments=[{"file": "a.txt", "line": 2, "body": "Here."}],
    )
    desk.do("accept_counter_patch", review_id=full, counter_patch_id=given["counter_patch_id"])
    desk.approve(full)
    desk.do("close_review", review_id=full)
    withdrawn = desk.put_up(path="docs/plan.md", description="# A plan\n")
    desk.claim(withdrawn)
    desk.revise(withdrawn, path="docs/plan.md", description="# A better plan\n")
    desk.do("close_review", review_id=withdrawn)
    rejected = desk.put_up()
    desk.verdict(rejected, "rejected", desk.claim(rejected))
    released = desk.put_up(parent_id=rejected)
    desk.do("release_claim", review_id=released, claim_generation=desk.claim(released))
    open_text = desk.put_up(path="docs/report.md", description="It works.\n")
    desk.approve(open_text)
    return full


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def original(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, repo_template: Path
) -> Iterator[Archive]:
    """A history that is all well, made once for each database, and no broker running on it."""
    folder = tmp_path_factory.mktemp("original")
    with ExitStack() as stack:
        settings: dict[str, object] = {}
        if request.param == "postgresql":
            server: PostgresServer = request.getfixturevalue("postgres_server")
            settings["database_url"] = server.create_database()
            stack.callback(server.drop_database, str(settings["database_url"]))
        broker = BrokerProcess(folder, **settings)
        with broker, Desk(broker.url, fresh_project()) as desk:
            desk.register(shutil.copytree(repo_template, folder / "repository"))
            review = whole_history(desk)
        yield Archive(broker, str(settings.get("database_url") or broker.data_dir / DATABASE_FILE), review)


@pytest.fixture
def archive(request: pytest.FixtureRequest, original: Archive, tmp_path: Path) -> Iterator[Archive]:
    """A copy of that history, to be spoilt."""
    if original.database.startswith("postgresql"):
        server: PostgresServer = request.getfixturevalue("postgres_server")
        url = server.copy_database(original.database)
        yield Archive(BrokerProcess(tmp_path, database_url=url), url, original.review)
        server.drop_database(url)
    else:
        broker = BrokerProcess(tmp_path)
        shutil.copytree(original.broker.data_dir, broker.data_dir)
        yield Archive(broker, str(broker.data_dir / DATABASE_FILE), original.review)


def test_p8_replaying_the_log_rebuilds_the_state(archive: Archive):
    report = archive.audit()
    assert report["problems"] == []
    # The project, five reviews and the log's own checkpoints.
    assert report["subjects"] == 7
    assert report["events"] > 20


def test_p8_an_audit_beside_a_running_broker_is_as_good(archive: Archive):
    archive.broker.start()
    try:
        assert archive.audit()["intact"]
    finally:
        archive.broker.stop()


FORGERIES = {
    "an event's words": "UPDATE events SET data = replace(data, 'Better words', 'Other words'), actor = 'somebody'"
    " WHERE kind = 'review_claimed'",
    "an event's state": "UPDATE events SET new = 'approved' WHERE kind = 'verdict_submitted' AND new = 'rejected'",
    "an event's rows": "UPDATE events SET delta = replace(delta, 'rejected', 'approved') WHERE new = 'rejected'",
    "an event gone": "DELETE FROM events WHERE kind = 'message_sent'",
    "a whole review's events gone": "DELETE FROM events"
    " WHERE subject IN (SELECT id FROM reviews WHERE state = 'rejected')",
    "the log's end cut off": "DELETE FROM events WHERE seq > 12",
    "an event put in": "INSERT INTO events SELECT seq + 1000, at, project, subject, actor, 'verdict_submitted', old,"
    " 'approved', data, delta, previous, hash FROM events WHERE kind = 'review_closed'",
    "events swapped": "UPDATE events SET seq = -seq WHERE seq IN (3, 4)",
    "a review's state": "UPDATE reviews SET state = 'approved' WHERE state = 'rejected'",
    "an approval": "UPDATE reviews SET approved_round = 1 WHERE state = 'rejected'",
    "a digest in the gate": "UPDATE approvals SET digest = 'x' || digest",
    "a path in the gate": "UPDATE approved_paths SET blob_after = replace(blob_after, 'a', 'b')",
    "a path of the gate gone": "DELETE FROM approved_paths",
    "a verdict's reason": "UPDATE verdicts SET reason = 'It is fine.'",
    "a message's words": "UPDATE messages SET body = 'I agree.' WHERE kind = 'message'",
    "a line comment gone": "DELETE FROM messages WHERE kind = 'comment'",
    "a counter-patch's fate": "UPDATE counter_patches SET status = 'pending'",
    "a round's digest": "UPDATE rounds SET digest = 'abc' WHERE round = 2",
    "a diff's bytes": "UPDATE contents SET body = replace(body, 'best', 'worst')",
    "a counter": "UPDATE counters SET count = count + 1 WHERE metric = 'approved'",
    "a project's folder": "UPDATE projects SET root = '/elsewhere'",
    "a project without events": "INSERT INTO projects"
    " SELECT 'invented', root, registered_at, event_seq, event_hash FROM projects",
}


@pytest.mark.parametrize("forgery", FORGERIES)
def test_p8_what_was_done_behind_the_brokers_back_is_detected(archive: Archive, forgery: str):
    assert archive.change(FORGERIES[forgery]) > 0, "the forgery has nothing to forge"
    assert archive.problems()


def test_p8_a_review_that_vanished_with_all_its_traces_is_missed(archive: Archive):
    """No dangling row, no event: only the numbers and the checkpoint can tell."""
    review = archive.review
    for table in ("approved_paths", "approvals", "messages", "counter_patches", "verdicts", "rounds"):
        archive.change(f"DELETE FROM {table} WHERE review_id = '{review}'")
    archive.change(f"DELETE FROM events WHERE subject = '{review}'")
    archive.change(f"DELETE FROM reviews WHERE id = '{review}'")
    problems = archive.problems()
    assert "are missing" in problems
    assert "checkpoint" in problems
