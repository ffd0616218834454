"""Brokers of two versions on one database: the newer one migrates it while the older one serves, or not at all."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest

import tandem
from tandem.schema import TANDEM
from tests.acceptance.reviewing import REVIEWER, Desk
from tests.acceptance.test_idempotency import WRITES
from tests.broker import STOP_SECONDS, BrokerProcess, fresh_project

NEXT = "9999_from_the_future"
MIGRATION = f"""
import sqlalchemy as sa
from alembic import op

revision = "{NEXT}"
down_revision = "{TANDEM.version}"


def upgrade() -> None:
    op.add_column("reviews", sa.Column("from_the_future", sa.Text()))
    op.create_table("futures", sa.Column("id", sa.Integer(), primary_key=True))
"""


KEY_FIELD = "    idempotency_key: IdempotencyKey = None\n"
ADDED_FIELDS = '    from_the_future: bool = False\n    named_in_the_future: str = "something"\n'


class NewerBroker(BrokerProcess):
    """A broker of this code with one migration more, whose writes have fields more."""

    def __init__(self, folder: Path, package: Path, **settings: object) -> None:
        super().__init__(folder, **settings)
        self._package = package

    @property
    def environment(self) -> dict[str, str]:
        return {**super().environment, "PYTHONPATH": str(self._package)}

    def _started(self, stdout: int, stderr: int, *arguments: str) -> subprocess.Popen[bytes]:
        # A fork would have the modules of this version.
        return subprocess.Popen(
            self.command(*arguments), cwd=self.folder, env=self.environment, stdout=stdout, stderr=stderr
        )

    def called(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """A command of that version, run to its end."""
        command = self.command(*arguments)
        return subprocess.run(
            command,
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=STOP_SECONDS,
            check=False,
        )


@pytest.fixture
def old(tmp_path: Path, postgres_url: str) -> Iterator[BrokerProcess]:
    """A broker of this version."""
    folder = tmp_path / "old"
    folder.mkdir()
    with BrokerProcess(folder, database_url=postgres_url) as broker:
        yield broker


@pytest.fixture
def newer(tmp_path: Path, postgres_url: str) -> Callable[..., NewerBroker]:
    """Makes a broker of the next version, which older ones can go on beside or not."""

    def make(*, is_additive: bool) -> NewerBroker:
        package = tmp_path / "newer"
        shutil.copytree(Path(tandem.__file__).parent, package / "tandem")
        migrations = package / "tandem/store/migrations"
        (migrations / f"versions/{NEXT}.py").write_text(MIGRATION)
        requests = package / "tandem/contract/request.py"
        requests.write_text(requests.read_text().replace(KEY_FIELD, KEY_FIELD + ADDED_FIELDS))
        added = f"\nREVISIONS = (*REVISIONS, {NEXT!r})\n" + (f"ADDITIVE = frozenset({{{NEXT!r}}})\n" * is_additive)
        with (migrations / "__init__.py").open("a") as module:
            module.write(added)
        folder = tmp_path / "home"
        folder.mkdir()
        return NewerBroker(folder, package, database_url=postgres_url)

    return make


def version_of(url: str) -> str:
    with psycopg.connect(url) as connection:
        row = connection.execute("SELECT version_num FROM alembic_version").fetchone()
    assert row is not None
    return str(row[0])


def test_p4_an_older_broker_goes_on_and_starts_again_beside_a_newer_one_that_has_migrated(
    old: BrokerProcess, postgres_url: str, newer: Callable[..., NewerBroker]
) -> None:
    project = fresh_project()
    with Desk(old.url, project) as here, newer(is_additive=True) as new, Desk(new.url, project) as there:
        assert version_of(postgres_url) == NEXT
        for one, other in ((here, there), (there, here)):
            review = one.put_up()
            generation = other.do("claim_review", review_id=review, reviewer_id=REVIEWER)["claim_generation"]
            one.do("submit_verdict", review_id=review, verdict="approved", claim_generation=generation)
            assert other.do("close_review", review_id=review)["outcome"] == "approved"
            assert here.everything(review) == there.everything(review)
        one_effect_of_each_key(old, new)
        old.stop()
        old.start()
        with Desk(old.url, project) as again:
            review = again.put_up()
            assert there.status(review)["status"] == "pending"
    # Without the newer one's additions to the schema, the older one's audit can read the rows of both.
    with psycopg.connect(postgres_url) as connection:
        connection.execute("ALTER TABLE reviews DROP COLUMN from_the_future")
        connection.execute("DROP TABLE futures")
        connection.execute("UPDATE alembic_version SET version_num = %s", (TANDEM.version,))
    verified = old.audited()
    assert verified.status == 0, verified.stdout


def test_a_migration_that_older_brokers_cannot_go_on_with_waits_until_none_is_connected(
    old: BrokerProcess, postgres_url: str, newer: Callable[..., NewerBroker]
) -> None:
    new = newer(is_additive=False)
    with Desk(old.url, fresh_project()) as here:
        refused = new.called("up", "--port", "0")
        assert refused.returncode != 0
        assert "stop all brokers of this database" in refused.stderr
        assert version_of(postgres_url) == TANDEM.version
        here.put_up()
    old.stop()
    with new:
        assert version_of(postgres_url) == NEXT
        refused = old.run("up", "--port", "0")
        assert refused.returncode != 0
        assert "made by a newer Tandem" in refused.stderr


def one_effect_of_each_key(old: BrokerProcess, new: BrokerProcess) -> None:
    """P4: a key has one effect and one answer at brokers of either version."""
    for write, prepare in WRITES.items():
        project = fresh_project()
        with Desk(old.url, project) as here, Desk(new.url, project) as there:
            for number, (first, second) in enumerate([(here, there), (there, here)]):
                operation, arguments = prepare(first)
                arguments = {**arguments, "idempotency_key": f"key-{number}"}
                answer = first.do(operation, **arguments)
                events = first.do("get_audit_log", limit=200)["events"]
                assert second.do(operation, **dict(reversed(arguments.items()))) == answer, write
                assert second.do("get_audit_log", limit=200)["events"] == events
