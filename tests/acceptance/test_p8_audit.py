"""P8: replaying the log rebuilds the state, and every change to either of them behind the broker's back shows."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self, TypeVar

import psycopg
import pytest

from tandem.store.event import GENESIS, Event, Seal, unkeyed
from tandem.store.log import chain
from tests.acceptance.gating import Branch
from tests.acceptance.reviewing import Desk, edited
from tests.acceptance.tables import table
from tests.broker import BrokerProcess, database_of, fresh_project
from tests.databases import ON_BOTH_DATABASES
from tests.git.sandbox import Sandbox
from tests.postgres import PostgresServer

pytestmark = ON_BOTH_DATABASES

ON_SQLITE = pytest.mark.parametrize("original", ["sqlite"], indirect=True)
"""For what the database has no part in: rows are read and hashed alike, wherever they are stored."""

DATABASE_FILE = "tandem.db"


@dataclass
class Archive:
    """A broker that has stopped, and the database it left behind."""

    broker: BrokerProcess
    database: str
    review: str = ""

    @classmethod
    def left_by(cls, broker: BrokerProcess, settings: dict[str, object], review: str = "") -> Self:
        """The archive that a broker with these settings has left behind."""
        return cls(broker, str(settings.get("database_url") or broker.data_dir / DATABASE_FILE), review)

    @contextmanager
    def _run(self, statement: str) -> Generator[Any]:
        if self.database.startswith("postgresql"):
            with psycopg.connect(self.database, autocommit=True) as server:
                # As somebody who tampers would do, too.
                server.execute("SET session_replication_role = replica")
                yield server.execute(statement.encode())
            return
        with closing(sqlite3.connect(self.database, isolation_level=None)) as file:
            yield file.execute(statement)

    def change(self, statement: str) -> int:
        """Do something to the database behind the broker's back; how many rows it touched."""
        with self._run(statement) as done:
            return done.rowcount

    def change_all(self, statements: list[str]) -> None:
        """Do all of that to SQLite, over one connection."""
        with closing(sqlite3.connect(self.database)) as file, file:
            for statement in statements:
                file.execute(statement)

    def all(self, statement: str) -> list[tuple[Any, ...]]:
        """Rows of the database."""
        with self._run(statement) as found:
            return found.fetchall()

    def row(self, statement: str) -> tuple[Any, ...]:
        """The first of them."""
        return self.all(statement)[0]

    @property
    def settings(self) -> dict[str, object]:
        """What another broker needs to use the same database."""
        return {"database_url": self.database} if self.database.startswith("postgresql") else {}

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
    desk.accept(full, given["counter_patch_id"])
    desk.approve(full)
    desk.do("close_review", review_id=full)
    withdrawn = desk.put_up_claimed(path="docs/plan.md", description="# A plan\n")
    desk.revise(withdrawn, path="docs/plan.md", description="# A better plan\n")
    desk.do("close_review", review_id=withdrawn)
    rejected = desk.put_up()
    desk.decide(rejected, "rejected")
    released = desk.put_up(parent_id=rejected)
    desk.do("release_claim", review_id=released, claim_generation=desk.claim(released))
    desk.put_up_approved(path="docs/report.md", description="It works.\n")
    return full


def gated_history(desk: Desk, repo: Sandbox) -> None:
    """A history that leaves every row of a gate behind."""
    desk.register(repo.root)
    branch = Branch(desk, repo)
    desk.loosen(enabled=False, reason="A pause.")
    desk.do("set_gate", enabled=True, accepted=["1" * 40], folder="/home/ann/shop/.git")
    change = {"path": "a.txt", "mode_after": "100644", "blob_after": "1" * 40}
    desk.override(changes=[change], reason="The shop is down.", override_id="ov-1")
    kept, _ = branch.optimistic("kept.txt", "kept\n")
    commit, review = branch.optimistic("a.txt", "one\n")
    branch.record(branch.commit("b.txt", "two\n"), unreviewed=True)
    branch.decide(review, "rejected")
    _, against = branch.optimistic("c.txt", "three\n")
    branch.decide(against, "changes_requested")
    desk.do(
        "record_rollback",
        review_id=review,
        branch="feature",
        head_before=repo.head(),
        head_after="2" * 40,
        reverted=[{"commit": commit, "reverted_by": "3" * 40}],
        carried=[{"commit": kept, "becomes": "2" * 40}],
    )


Left = TypeVar("Left", bound=Archive)


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def original(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory, repo_template: Path
) -> Iterator[Archive]:
    """A history that is all well, made once for each database, and no broker running on it."""
    folder = tmp_path_factory.mktemp("original")
    with ExitStack() as stack:
        settings = database_of(request, stack)
        broker = BrokerProcess(folder, **settings)
        with broker, Desk(broker.url, fresh_project()) as desk, Desk(broker.url, "shop/with a slash") as gated:
            desk.register(shutil.copytree(repo_template, folder / "repository"))
            review = whole_history(desk)
            gated_history(gated, Sandbox(Path(shutil.copytree(repo_template, folder / "gated"))))
        yield Archive.left_by(broker, settings, review)


@pytest.fixture
def archive(request: pytest.FixtureRequest, original: Archive, tmp_path: Path) -> Iterator[Archive]:
    """A copy of that history, to be spoilt."""
    with copy_of(original, tmp_path, request) as copy:
        yield copy


@contextmanager
def copy_of(original: Left, folder: Path, request: pytest.FixtureRequest) -> Generator[Left]:
    """The history in another place, with what its broker knows of it."""
    settings: dict[str, object] = {}
    with ExitStack() as stack:
        if original.database.startswith("postgresql"):
            server: PostgresServer = request.getfixturevalue("postgres_server")
            settings["database_url"] = server.copy_database(original.database)
            stack.callback(server.drop_database, str(settings["database_url"]))
        broker = BrokerProcess(folder, **settings)
        shutil.copytree(original.broker.data_dir, broker.data_dir)
        yield original.left_by(broker, settings, original.review)


def test_p8_replaying_the_log_rebuilds_the_state(archive: Archive):
    report = archive.audit()
    assert report["problems"] == []
    # Two projects, eight reviews, a gate, an override, four commits and the log's own checkpoints.
    assert report["subjects"] == 17
    assert report["events"] > 20


@ON_SQLITE
def test_p8_an_audit_beside_a_running_broker_is_as_good(archive: Archive):
    archive.broker.start()
    try:
        assert archive.audit()["intact"]
    finally:
        archive.broker.stop()


THIRD = "(SELECT seq FROM events ORDER BY seq LIMIT 1 OFFSET 2)"
"""The number of an event; they need not follow one another."""

FORGERIES: dict[str, dict[str, str]] = table("forgeries")


def test_p8_damage_of_every_kind_is_named_with_what_to_do(original: Archive, tmp_path: Path, request: Any):
    """No damage ends the audit itself: it reports the damage, and exits with 1."""
    on_postgresql = original.database.startswith("postgresql")
    silent: list[str] = []
    for number, (damage, statement) in enumerate(FORGERIES["postgresql" if on_postgresql else "sqlite"].items()):
        with copy_of(original, tmp_path / str(number), request) as archive:
            archive.change(statement)
            ended = archive.broker.audited(as_json=False)
            if (ended.status, ended.stdout.count("not intact")) != (1, 1) or "problem " not in ended.stdout:
                silent.append(f"{damage}: {ended.stdout} {ended.stderr}")
            assert "Traceback" not in ended.stderr
            assert "restore a copy" in ended.stdout
    assert silent == []


@ON_SQLITE
def test_p8_a_file_that_is_damaged_is_named(original: Archive, tmp_path: Path, request: Any):
    whole = Path(original.database).read_bytes()
    pages = len(whole) // 4096
    middle = pages // 2 * 4096
    for number, content in enumerate((b"Dear friend, " * 1000, whole[:middle], whole[:middle] + b"\xff" * 8192)):
        with copy_of(original, tmp_path / str(number), request) as archive:
            Path(archive.database).write_bytes(content)
            assert archive.problems()


def forged_event(archive: Archive, seal: Seal, **changed: object) -> None:
    """Append an event as the broker would, with a right number, chain and hash, and nothing that it did."""
    newest = Event(*archive.row("SELECT * FROM events ORDER BY seq DESC LIMIT 1"))
    drafted = newest._replace(seq=newest.seq + 1, delta="{}", data="{}", previous=GENESIS, **changed)
    values = ", ".join("NULL" if value is None else f"'{value}'" for value in drafted.sealed(seal))
    archive.change(f"INSERT INTO events VALUES ({values})")
    archive.change("UPDATE log_head SET seq = seq + 1")


@ON_SQLITE
def test_p8_an_event_that_does_not_say_what_it_did_is_detected(archive: Archive):
    """Forged by somebody who has only the database, and by somebody who has the secret as well."""
    override = {"project": "x", "subject": "override:x/ov-1", "actor": "a person", "kind": "gate_overridden"}
    forged_event(archive, unkeyed, **override, old=None, new="overridden")
    forged_event(archive, archive.broker.seal, **{**override, "subject": "override:x/ov-2"}, old=None, new="overridden")
    closed = archive.row("SELECT * FROM events WHERE kind = 'review_closed' ORDER BY seq DESC LIMIT 1")[3]
    forged_event(archive, archive.broker.seal, subject=closed, kind="verdict_submitted", old="closed", new="approved")
    problems = archive.problems()
    assert "gate_overridden of override:x/ov-1) was changed: its hash does not fit" in problems
    assert "gate_overridden of override:x/ov-2) cannot be replayed" in problems
    assert f"verdict_submitted of {closed}) cannot be replayed" in problems


def rewritten(archive: Archive) -> None:
    """Change a decision, and every hash to go with it, as far as that takes no secret."""
    events = [Event(*row) for row in archive.all("SELECT * FROM events ORDER BY seq")]
    newest: dict[str, str] = {}
    written: list[Event] = []
    statements: list[str] = []
    for event in events:
        said = event._replace(data=event.data.replace("Better words", "Worse words"))
        if event.kind == "checkpoint":
            facts = json.loads(event.data)
            covered = [each for each in written if facts["first"] <= each.seq <= facts["last"]]
            said = event._replace(data=json.dumps({**facts, "chain": chain(covered)}))
        said = said._replace(previous=newest.get(event.subject, GENESIS)).sealed(unkeyed)
        newest[event.subject] = said.hash
        written.append(said)
        data = said.data.replace("'", "''")
        hashes = f"previous = '{said.previous}', hash = '{said.hash}'"
        statements.append(f"UPDATE events SET data = '{data}', {hashes} WHERE seq = {said.seq}")
        statements += [
            f"UPDATE {name} SET event_hash = '{said.hash}' WHERE event_hash = '{event.hash}'"
            for name in ("reviews", "projects", "log_head", "gates", "overrides", "commits")
        ]
    archive.change_all(statements)


@ON_SQLITE
def test_p8_who_has_only_the_database_cannot_rewrite_the_log(archive: Archive):
    rewritten(archive)
    assert "its hash does not fit" in archive.problems()
    # Nor call all of it the log of another secret key.
    archive.change("UPDATE log_head SET keyed_from = 0, key_check = ''")
    assert "the database was replaced" in archive.problems()
    archive.change("UPDATE log_head SET keyed_from = (SELECT max(seq) FROM events)")
    assert "no event vouches for those before" in archive.problems()
    archive.change("UPDATE log_head SET keyed_from = 0, key_check = ''")
    assert "the database is an older copy, or somebody replaced it" in archive.broker.run("up").stderr


@ON_SQLITE
def test_p8_a_log_that_was_taken_back_whole_is_detected_and_stays_on_record(
    archive: Archive, tmp_path: Path, repo_template: Path
):
    """An older copy of the database is right in itself: only the broker knows that there was more."""
    older = Path(archive.database).read_bytes()
    with archive.broker as broker, Desk(broker.url, fresh_project()) as desk:
        desk.register(shutil.copytree(repo_template, tmp_path / "repository"))
    Path(archive.database).write_bytes(older)
    assert "this is an older copy of the database" in archive.problems()
    archive.broker.start()
    archive.broker.stop()
    report = archive.audit()
    assert report["intact"]
    assert "a copy was restored, or the log was cut off" in "\n".join(report["notes"])


@ON_SQLITE
def test_p8_a_broker_with_another_secret_is_refused_and_a_lost_one_is_replaced_on_record(archive: Archive):
    folder = archive.broker.data_dir
    other = BrokerProcess(folder.parent, secret_key_file=folder / "other.key", **archive.settings)
    refused = other.run("up", "--json")
    assert refused.returncode != 0
    assert "copy the file secret.key of the first one" in refused.stdout + refused.stderr
    # Without the secret, everything is checked but the hashes; with another one, nothing passes.
    absent = BrokerProcess(folder.parent, secret_key_file=folder / "absent.key", **archive.settings)
    report = absent.audited().data
    assert report["intact"]
    assert "the hashes were not checked" in "\n".join(report["notes"])
    assert "not made with this secret key" in "\n".join(other.audited().data["problems"])
    # What the guide says to do when it is lost.
    archive.change("UPDATE log_head SET keyed_from = 0, key_check = ''")
    (folder / "databases.json").unlink(missing_ok=True)
    other.start()
    other.stop()
    report = other.audited().data
    assert report["problems"] == []
    assert "hashes of another secret key" in "\n".join(report["notes"])
    archive.change(f"UPDATE events SET actor = 'somebody' WHERE seq = {THIRD}")
    assert "were changed" in "\n".join(other.audited().data["problems"])
    archive.change("UPDATE log_head SET keyed_from = (SELECT max(seq) + 1 FROM events)")
    assert "no event vouches for those before" in "\n".join(other.audited().data["problems"])


def test_p8_checkpoints_are_written_though_somebody_says_that_they_are(
    archive: Archive, tmp_path: Path, repo_template: Path
):
    archive.change("UPDATE log_head SET checkpoint_seq = 100000")
    assert "log_head says that checkpoints cover" in archive.problems()
    before = archive.row("SELECT count(*) FROM events WHERE kind = 'checkpoint'")[0]
    with archive.broker as broker, Desk(broker.url, fresh_project()) as desk:
        desk.register(shutil.copytree(repo_template, tmp_path / "repository"))
    assert archive.row("SELECT count(*) FROM events WHERE kind = 'checkpoint'")[0] > before
    assert archive.audit()["intact"]


@ON_SQLITE
def test_p8_what_was_done_behind_the_brokers_back_is_detected(original: Archive, tmp_path: Path, request: Any):
    for number, (forgery, statement) in enumerate(FORGERIES["rows"].items()):
        with copy_of(original, tmp_path / str(number), request) as archive:
            assert archive.change(statement) > 0, f"{forgery} has nothing to forge"
            assert archive.problems(), forgery


def test_p8_a_review_that_vanished_with_all_its_traces_is_missed(archive: Archive):
    """No dangling row, no event: only the checkpoint can tell, and the numbers where they have no gaps."""
    review = archive.review
    for name in ("approved_paths", "approvals", "messages", "counter_patches", "verdicts", "rounds"):
        archive.change(f"DELETE FROM {name} WHERE review_id = '{review}'")
    archive.change(f"DELETE FROM events WHERE subject = '{review}'")
    archive.change(f"DELETE FROM reviews WHERE id = '{review}'")
    problems = archive.problems()
    assert "are missing" in problems or archive.database.startswith("postgresql")
    assert "checkpoint" in problems
