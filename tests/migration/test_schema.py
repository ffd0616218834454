"""The way from any earlier database to the current tables, and none from a later one."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psycopg
import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Column, Connection, MetaData, Table, Text, bindparam, insert, select

from tandem.errors import ConfigInvalid, Unavailable
from tandem.schema import TANDEM
from tandem.store.base import Store
from tandem.store.engine import make_store
from tandem.store.schema import POSTGRESQL_WORDS, SQLITE_WORDS, Schema, SchemaDialect, migrating
from tandem.store.statement import SQLITE, Statement

if TYPE_CHECKING:
    from collections.abc import Callable

    from tandem.store.base import Unit

KINDS = ["sqlite", "postgresql"]

# ------------------------------------------------------------------------- the migrations and the tables


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "tandem.db"


@pytest.fixture(params=KINDS)
def url(request: pytest.FixtureRequest, path: Path) -> str:
    """A fresh database, of each kind in turn."""
    if request.param == "sqlite":
        return f"sqlite:///{path}"
    answer: str = request.getfixturevalue("postgres_url")
    return answer


def connected(url: str) -> tuple[Any, SchemaDialect]:
    """A connection of the driver's in autocommit mode, and how to speak to it."""
    if url.startswith("sqlite:///"):
        file = Path(url.removeprefix("sqlite:///"))
        file.parent.mkdir(exist_ok=True)
        return sqlite3.connect(file, isolation_level=None), SQLITE_WORDS
    return psycopg.connect(url, autocommit=True), POSTGRESQL_WORDS


def migrated(url: str, schema: Schema = TANDEM) -> None:
    """Take a database through every migration, as one of the first version would be."""
    raw, words = connected(url)
    with closing(raw), migrating(schema, words, raw) as config:
        command.upgrade(config, "head")


def opened(url: str, schema: Schema = TANDEM) -> Store:
    store = make_store(url, schema=schema, readers=1)
    store.open_blocking()
    return store


def differences(url: str, schema: Schema = TANDEM) -> list[Any]:
    """What Alembic would have to change to get from the database to the tables."""
    raw, words = connected(url)
    with closing(raw), migrating(schema, words, raw) as config:
        connection: Connection = config.attributes["connection"]
        options = {"compare_type": True, "compare_server_default": True}
        return compare_metadata(MigrationContext.configure(connection, opts=options), schema.metadata)


def described(url: str) -> list[tuple[Any, ...]]:
    """Every column, key and index as the database itself describes them."""
    raw, words = connected(url)
    with closing(raw):
        if words is SQLITE_WORDS:
            tables = [name for (name,) in raw.execute(words.tables)]
            found: list[tuple[Any, ...]] = []
            for table in tables:
                # The first numbers only say in which order columns and keys were declared.
                found += [(table, *row[1:]) for row in raw.execute(f"PRAGMA table_xinfo({table})")]
                found += [(table, *row[1:]) for row in raw.execute(f"PRAGMA foreign_key_list({table})")]
            indexes = raw.execute("SELECT name, sql FROM sqlite_master WHERE type = 'index' AND sql IS NOT NULL")
            found += [(name, " ".join(sql.split())) for name, sql in indexes]
            return sorted(found, key=repr)
        columns = raw.execute(
            "SELECT table_name, column_name, data_type, is_nullable, column_default"
            " FROM information_schema.columns WHERE table_schema = current_schema()"
        ).fetchall()
        indexes = raw.execute("SELECT indexname, indexdef FROM pg_indexes WHERE schemaname = current_schema()")
        constraints = raw.execute(
            "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid) FROM pg_constraint"
            " WHERE connamespace = current_schema()::regnamespace"
        )
        # Whose comment says which brokers may work with it, which a broker's start writes.
        comments = raw.execute(
            "SELECT objoid::regclass::text, objsubid, description FROM pg_description"
            " JOIN pg_class ON pg_class.oid = objoid"
            " WHERE relnamespace = current_schema()::regnamespace AND relname <> 'alembic_version'"
        )
        return sorted([*columns, *indexes, *constraints, *comments], key=repr)


def test_the_migrations_lead_to_the_tables(url: str) -> None:
    migrated(url)
    assert differences(url) == []


def test_the_listed_revisions_are_the_scripts_in_their_order() -> None:
    raw, words = connected("sqlite:///:memory:")
    with closing(raw), migrating(TANDEM, words, raw) as config:
        chain = [script.revision for script in ScriptDirectory.from_config(config).walk_revisions()]
    assert tuple(reversed(chain)) == TANDEM.revisions


# ------------------------------------------------------------------------------------------- upgrades

SECOND = """
import sqlalchemy as sa
from alembic import op

revision = "0002_colour"
down_revision = "0001_first"


def upgrade():
    with op.batch_alter_table("things") as table:
        table.add_column(sa.Column("colour", sa.Text(), nullable=False, server_default="grey"))
        # SQLite cannot do this to a table in place: Alembic recreates it.
        table.alter_column("note", existing_type=sa.Text(), nullable=False)
    {further}
"""
FIRST = """
import sqlalchemy as sa
from alembic import op

revision = "0001_first"
down_revision = None


def upgrade():
    op.create_table("things", sa.Column("name", sa.Text(), primary_key=True), sa.Column("note", sa.Text()))
    op.create_table("log_head", sa.Column("id", sa.Integer()), sa.Column("seq", sa.BigInteger()))
    op.create_table("parts", sa.Column("thing", sa.Text(), sa.ForeignKey("things.name", ondelete="CASCADE")))
"""


def first_schema(scripts: Path) -> Schema:
    metadata = MetaData()
    Table("things", metadata, Column("name", Text, primary_key=True), Column("note", Text))
    Table("parts", metadata, Column("thing", Text))
    (scripts / "versions").mkdir(parents=True)
    shutil.copy(TANDEM.scripts / "env.py", scripts)
    (scripts / "versions" / "first.py").write_text(FIRST, "utf-8")
    return Schema(metadata, ("0001_first",), scripts)


def second_schema(first: Schema, further: str = "") -> Schema:
    metadata = MetaData()
    Table("things", metadata, Column("name", Text, primary_key=True), Column("note", Text), Column("colour", Text))
    Table("parts", metadata, Column("thing", Text))
    (first.scripts / "versions" / "second.py").write_text(SECOND.format(further=further), "utf-8")
    return Schema(metadata, ("0001_first", "0002_colour"), first.scripts)


def rows(store: Store, table: Table) -> list[tuple[Any, ...]]:
    statement = Statement(select(table))
    return store.read_blocking(lambda unit: unit.all(statement))


def with_rows(url: str, schema: Schema) -> None:
    """A database of the first version that is in use: a thing and its part."""
    migrated(url, schema)
    store = opened(url, schema)
    thing = Statement(insert(schema.metadata.tables["things"]).values(name=bindparam("name"), note="oak"))
    part = Statement(insert(schema.metadata.tables["parts"]).values(thing=bindparam("name")))

    def unit(unit: Unit) -> None:
        unit.execute(thing, name="chair")
        unit.execute(part, name="chair")

    store.write_blocking(unit)
    store.close_blocking()


def test_an_older_database_is_taken_forward_with_everything_in_it(url: str, tmp_path: Path) -> None:
    # The folder's name has what configuration files and URLs take for something else.
    first = first_schema(tmp_path / "100 % %(here)s")
    with_rows(url, first)
    second = second_schema(first)
    store = opened(url, second)
    assert rows(store, second.metadata.tables["things"]) == [("chair", "oak", "grey")]
    assert rows(store, second.metadata.tables["parts"]) == [("chair",)], "nothing cascades from a recreated table"
    store.close_blocking()
    opened(url, second).close_blocking()


def test_the_tables_that_a_copy_describes_are_made_and_taken_forward(path: Path, tmp_path: Path) -> None:
    url, first = f"sqlite:///{path}", first_schema(tmp_path / "scripts")
    second = second_schema(first)
    store = opened(url, second.former("0001_first", first.ddl(SQLITE)))
    chair = Statement(insert(first.metadata.tables["things"]).values(name="chair", note="oak"))
    store.write_blocking(lambda unit: unit.execute(chair))
    store.close_blocking()
    store = opened(url, second)
    assert rows(store, second.metadata.tables["things"]) == [("chair", "oak", "grey")]
    store.close_blocking()


@pytest.mark.parametrize(
    "further",
    [
        pytest.param("raise LookupError('half way')", id="raises"),
        pytest.param("op.execute('SELECT nothing FROM nowhere')", id="fails in the database"),
    ],
)
def test_an_upgrade_that_fails_half_way_changes_nothing(url: str, tmp_path: Path, further: str) -> None:
    first = first_schema(tmp_path / "scripts")
    with_rows(url, first)
    before = described(url)
    second = second_schema(first, further)
    with pytest.raises((LookupError, Unavailable)):
        opened(url, second)
    assert described(url) == before
    store = opened(url, first)
    assert rows(store, first.metadata.tables["things"]) == [("chair", "oak")]
    store.close_blocking()


def test_an_upgrade_that_would_break_a_reference_is_refused_and_changes_nothing(path: Path, tmp_path: Path) -> None:
    url = f"sqlite:///{path}"
    first = first_schema(tmp_path / "scripts")
    with_rows(url, first)
    before = described(url)
    with pytest.raises(ConfigInvalid, match="nothing was changed"):
        opened(url, second_schema(first, "op.execute('DELETE FROM things')"))
    assert described(url) == before


# ------------------------------------------------------------------------------------------- refusals


def with_version(url: str, version: str) -> None:
    opened(url).close_blocking()
    raw, _ = connected(url)
    with closing(raw):
        raw.execute(f"UPDATE alembic_version SET version_num = '{version}'")
        if not url.startswith("sqlite"):
            # A migration records again which brokers can work with the database: here, only those of that version.
            raw.execute("COMMENT ON TABLE alembic_version IS NULL")


@pytest.mark.parametrize(
    ("version", "reason"),
    [
        ("9999_from_the_future", r"newer Tandem.*9999_from_the_future"),
        ("0036_profiles", r"older Tandem \(schema 0036.*data export FILE.*data import FILE"),
    ],
)
def test_a_database_of_another_version_is_refused_with_what_to_do(url: str, version: str, reason: str) -> None:
    with_version(url, version)
    before = described(url)
    with pytest.raises(ConfigInvalid, match=reason) as caught:
        opened(url)
    assert caught.value.details["actual"] == [version]
    assert described(url) == before


def test_a_newer_file_is_refused_before_a_byte_of_it_changes(path: Path) -> None:
    with_version(f"sqlite:///{path}", "9999_from_the_future")
    before = hashlib.sha256(path.read_bytes()).hexdigest()
    with pytest.raises(ConfigInvalid):
        opened(f"sqlite:///{path}")
    assert hashlib.sha256(path.read_bytes()).hexdigest() == before
    assert {file.name for file in path.parent.iterdir()} == {path.name, f"{path.name}.lock"}


def with_recipes(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("CREATE TABLE recipes (name TEXT)")
        connection.commit()


def with_a_letter(path: Path) -> None:
    path.write_text("a letter to a friend, and a long one: " * 100, "utf-8")


@pytest.mark.parametrize(
    ("made", "error", "reason"),
    [(with_recipes, ConfigInvalid, "tables that Tandem did not make"), (with_a_letter, Unavailable, "not a database")],
)
def test_somebody_elses_file_is_refused_before_a_byte_of_it_changes(
    path: Path, made: Callable[[Path], None], error: type[Exception], reason: str
) -> None:
    path.parent.mkdir()
    made(path)
    before = path.read_bytes()
    with pytest.raises(error, match=reason):
        opened(f"sqlite:///{path}")
    assert path.read_bytes() == before


def test_a_postgresql_schema_may_be_shared_but_not_its_table_names(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE recipes (name text)")
    opened(postgres_url).close_blocking()


def test_a_postgresql_table_of_somebody_elses_is_left_alone(postgres_url: str) -> None:
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute("CREATE TABLE reviews (stars integer)")
    before = described(postgres_url)
    with pytest.raises(ConfigInvalid, match=r"did not make \(reviews\)"):
        opened(postgres_url)
    assert described(postgres_url) == before


# --------------------------------------------------------------------------------------------- start


def loaded(code: str) -> set[str]:
    """The modules of a fresh interpreter after some code."""
    script = f"import sys\n{code}\nprint(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True, timeout=60)
    return set(done.stdout.split())


def test_a_fresh_or_current_file_starts_without_alembic_and_without_the_other_databases_driver(path: Path) -> None:
    code = (
        "from tandem.schema import TANDEM; from tandem.store.engine import make_store\n"
        f"store = make_store(schema=TANDEM, url={f'sqlite:///{path}'!r}); store.open_blocking(); store.close_blocking()"
    )
    for _ in ("fresh", "current"):
        assert {"alembic", "psycopg"}.isdisjoint(loaded(code))


def test_nodes_that_start_at_once_on_an_empty_server_all_open(postgres_url: str) -> None:
    nodes = [make_store(postgres_url, schema=TANDEM, readers=1) for _ in range(4)]
    with ThreadPoolExecutor(len(nodes)) as starting:
        for opening in [starting.submit(node.open_blocking) for node in nodes]:
            opening.result(60)
    for node in nodes:
        node.close_blocking()
    assert differences(postgres_url) == []
