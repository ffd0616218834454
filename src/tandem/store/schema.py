"""The schema that a database has, and the one that it has to have.

A fresh database gets its tables from the same definitions that the statements use; an older one is taken
forward by the migrations, the only case in which Alembic is imported; a newer one, or somebody else's, is
refused before anything in it is touched.
"""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from sqlalchemy import (
    Column,
    Dialect,
    MetaData,
    PrimaryKeyConstraint,
    StaticPool,
    String,
    Table,
    create_engine,
    create_mock_engine,
    insert,
)
from sqlalchemy.exc import DBAPIError
from sqlalchemy.schema import CreateTable

from tandem.errors import ConfigInvalid, Unavailable
from tandem.store.statement import POSTGRESQL, SQLITE

if TYPE_CHECKING:
    import sqlite3

    import psycopg
    from alembic.config import Config

VERSION_TABLE: Final = "alembic_version"

# As Alembic itself would make it: it goes on with this table at the first upgrade.
_versions: Final = Table(
    VERSION_TABLE,
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name=f"{VERSION_TABLE}_pkc"),
)
_GET_VERSION: Final = "SELECT version_num FROM alembic_version"
_SCHEMA_LOCK: Final = 0x74616E64656D  # Any number, as long as it is the same on every node.


@dataclass(frozen=True, slots=True)
class SchemaDialect:
    """How a database is asked for what the schema's code needs."""

    url: str
    tables: str
    begin: tuple[str, ...]


SQLITE_WORDS: Final = SchemaDialect(
    url="sqlite://",
    tables="SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'",
    begin=("BEGIN IMMEDIATE",),
)
POSTGRESQL_WORDS: Final = SchemaDialect(
    url="postgresql+psycopg://",
    tables="SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()",
    # Several nodes may start at once: one does it, the others wait for its end and find it done.
    begin=("BEGIN", f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})"),
)


@dataclass(frozen=True, slots=True)
class Schema:
    """The tables, and the way to them from every earlier version."""

    metadata: MetaData
    revisions: tuple[str, ...]
    """Every version, oldest first; the last one is what the tables say."""
    scripts: Path
    """The folder with Alembic's `env.py` and `versions`."""
    changes: bool = True
    """Whether a database of another version is brought to this one; otherwise it is refused."""
    statements: tuple[str, ...] = ()
    """What makes the tables of an earlier version on SQLite; else `metadata` says what they are."""

    @property
    def version(self) -> str:
        """The version that a database has to have."""
        return self.revisions[-1]

    def former(self, version: str, statements: tuple[str, ...]) -> Schema:
        """The schema as it was in an earlier version, as that one's `ddl` for SQLite said."""
        return replace(self, revisions=self.revisions[: self.revisions.index(version) + 1], statements=statements)

    def prepare_sqlite(self, connection: sqlite3.Connection) -> None:
        """Bring the database to this schema; the connection is in autocommit mode.

        Raises:
            ConfigInvalid: The database is newer, or is not Tandem's.
            sqlite3.Error: The database cannot be read or written.
        """
        # A table that is altered is made anew, and nothing may cascade from the old one meanwhile.
        connection.execute("PRAGMA foreign_keys = OFF")
        self._prepare(connection, SQLITE, SQLITE_WORDS)

    def prepare_postgres(self, connection: psycopg.Connection[Any]) -> None:
        """Bring the database to this schema; the connection is in autocommit mode.

        Raises:
            ConfigInvalid: The database is newer, or is not Tandem's.
            psycopg.Error: The database cannot be read or written.
        """
        self._prepare(connection, POSTGRESQL, POSTGRESQL_WORDS)

    def ddl(self, dialect: Dialect) -> list[str]:
        """The statements that make every table and index, in order."""
        statements: list[str] = []

        def collect(element: Any, *_args: Any, **_kwargs: Any) -> None:
            statements.append(str(element.compile(dialect=dialect)))

        self.metadata.create_all(create_mock_engine(f"{dialect.name}+{dialect.driver}://", collect), checkfirst=False)
        return statements

    def _prepare(self, connection: Any, dialect: Dialect, words: SchemaDialect) -> None:
        version = self._version(connection, words)
        if version == self.version:
            return
        if not self.changes:
            raise ConfigInvalid(
                f"the database has schema {version or 'none'}, this Tandem reads {self.version}; start its broker once"
                " to bring it up to date",
                setting="database_url",
                actual=version,
                expected=self.version,
            )
        if version is not None:
            self._upgrade(connection, words)
            return
        with _transaction(connection, words):
            # Another process may have been faster, and have made it between the look and the lock.
            if self._version(connection, words) is None:
                self._create(connection, dialect)

    def _version(self, connection: Any, words: SchemaDialect) -> str | None:
        """The version that the database has, or None when it is fresh.

        Raises:
            ConfigInvalid: It is of no version that is known here, or it is not Tandem's.
        """
        tables = {str(name) for (name,) in connection.execute(words.tables)}
        if VERSION_TABLE not in tables:
            # A PostgreSQL schema may be shared with others, a file may not.
            if {"events", "log_head"} <= tables:
                raise Unavailable(
                    f"the table {VERSION_TABLE} is missing from the database; restore a copy", damaged=True
                )
            foreign = tables if words is SQLITE_WORDS else tables & set(self.metadata.tables)
            if foreign:
                raise ConfigInvalid(
                    f"the database has tables that Tandem did not make ({', '.join(sorted(foreign)[:3])});"
                    " name another database",
                    setting="database_url",
                )
            return None
        versions = [str(version) for (version,) in connection.execute(_GET_VERSION)]
        if len(versions) != 1 or versions[0] not in self.revisions:
            raise ConfigInvalid(
                f"the database was made by a newer Tandem (schema {', '.join(versions) or 'unknown'}, this one knows"
                f" up to {self.version}); run that Tandem, or name another database",
                setting="database_url",
                newer=True,
                actual=versions,
                expected=self.version,
            )
        return versions[0]

    def _create(self, connection: Any, dialect: Dialect) -> None:
        version = insert(_versions).values(version_num=self.version)
        for statement in (
            *(self.statements or self.ddl(dialect)),
            str(CreateTable(_versions).compile(dialect=dialect)),
            str(version.compile(dialect=dialect, compile_kwargs={"literal_binds": True})),
        ):
            # With parameters, if only none: SQLAlchemy doubled every per cent sign for the driver.
            connection.execute(statement, ())

    def _upgrade(self, raw: Any, words: SchemaDialect) -> None:
        # Imported for this case only: Alembic takes longer than the rest of a start.
        from alembic import command

        with migrating(self, words, raw) as config, _transaction(raw, words):
            try:
                command.upgrade(config, self.version)
            except DBAPIError as exc:
                # As the rest of the engine knows it: the driver's own.
                raise exc.orig or exc from exc
            if words is SQLITE_WORDS and (broken := raw.execute("PRAGMA foreign_key_check").fetchall()):
                raise ConfigInvalid(
                    f"the upgrade to schema {self.version} would leave {len(broken)} rows without what they refer to;"
                    " nothing was changed; restore a copy, and report this",
                    setting="database_url",
                )


@contextmanager
def migrating(schema: Schema, words: SchemaDialect, raw: Any) -> Generator[Config]:
    """What Alembic's commands need to work on an open connection of the driver's, which stays open."""
    from alembic.config import Config

    engine = create_engine(words.url, creator=lambda: raw, poolclass=StaticPool)
    config = Config()
    config.set_main_option("script_location", str(schema.scripts).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.set_main_option("file_template", "%%(rev)s")
    # Connecting ends with a rollback of SQLAlchemy's: a transaction of the caller's can only begin after it.
    # Alembic would commit each step, but leaves a transaction alone that it finds begun.
    with engine.connect() as connection, connection.begin():
        config.attributes.update(connection=connection, metadata=schema.metadata)
        yield config


@contextmanager
def _transaction(connection: Any, words: SchemaDialect) -> Generator[None]:
    """Alone with the schema: everything that is done here, or nothing."""
    for statement in words.begin:
        connection.execute(statement)
    try:
        yield
    except BaseException:
        connection.execute("ROLLBACK")
        raise
    connection.execute("COMMIT")
