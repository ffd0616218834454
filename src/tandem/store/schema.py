"""The schema that a database has, and the one that it has to have.

A fresh database gets its tables from the same definitions that the statements use. The migrations take an older
one forward, the only case in which Alembic is imported. Refused before anything in it changes: a database of another
program, one from before the first migration, and a newer one that does not say that this version can work with it.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
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
_PATIENCE_SECONDS: Final = 5.0
"""How long others have to hang up, or to wait for us, before a migration that they could not work with is refused."""
_LOOK_SECONDS: Final = 0.05
_OTHERS: Final = (
    "SELECT count(*), pg_stat_clear_snapshot() FROM pg_stat_activity WHERE datname = current_database()"
    " AND application_name = current_setting('application_name') AND pid <> pg_backend_pid()"
    # Those that wait here are as new as we are, or find the newer schema next.
    " AND pid NOT IN (SELECT pid FROM pg_locks WHERE locktype = 'advisory' AND NOT granted)"
)
_GET_NOTE: Final = f"SELECT obj_description('{VERSION_TABLE}'::regclass, 'pg_class')"
_NOTE: Final = "Brokers work with it from this schema on: "


@dataclass(frozen=True, slots=True)
class SchemaDialect:
    """How a database is asked for what the schema's code needs."""

    dialect: Dialect
    url: str
    tables: str
    begin: tuple[str, ...]
    is_shared: bool = False
    """Whether several brokers may have it at a time, which then may be of several versions."""


SQLITE_WORDS: Final = SchemaDialect(
    dialect=SQLITE,
    url="sqlite://",
    tables="SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT LIKE 'sqlite~_%' ESCAPE '~'",
    # Altering a table recreates it, and nothing may cascade from the old one meanwhile.
    begin=("PRAGMA foreign_keys = OFF", "BEGIN IMMEDIATE"),
)
POSTGRESQL_WORDS: Final = SchemaDialect(
    dialect=POSTGRESQL,
    url="postgresql+psycopg://",
    tables="SELECT tablename FROM pg_catalog.pg_tables WHERE schemaname = current_schema()",
    # Several nodes may start at once: one does it, the others wait for its end and find it done.
    begin=("BEGIN", f"SELECT pg_advisory_xact_lock({_SCHEMA_LOCK})"),
    is_shared=True,
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
    statements: tuple[str, ...] | None = None
    """The DDL of an earlier version's tables on SQLite, empty for its migrations; None: `metadata` has them."""
    additive: frozenset[str] = frozenset()
    """The versions with whose database a broker of the one before them can work."""

    @property
    def version(self) -> str:
        """The version that a database has to have."""
        return self.revisions[-1]

    @property
    def serves_from(self) -> str:
        """The oldest version whose brokers can work with a database of this one."""
        return next(version for version in reversed(self.revisions) if version not in self.additive)

    def former(self, version: str, statements: tuple[str, ...] = ()) -> Schema:
        """The schema as it was in an earlier version, as that one's `ddl` for SQLite said, or by its migrations."""
        return replace(self, revisions=self.revisions[: self.revisions.index(version) + 1], statements=statements)

    def ddl(self, dialect: Dialect) -> tuple[str, ...]:
        """The statements that make every table and index, in order."""
        return _ddl(self.metadata, dialect)

    def prepare(self, connection: Any, words: SchemaDialect) -> None:
        """Bring the database of a driver's connection in autocommit mode to this schema.

        Raises:
            ConfigInvalid: The database is newer, or is not Tandem's.
            sqlite3.Error: The database cannot be read or written.
            psycopg.Error: Likewise.
        """
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
        if version is not None or self.statements == ():
            self._upgrade(connection, words)
            return
        with _transaction(connection, words):
            # Another process may have been faster, and have made it between the look and the lock.
            if self._version(connection, words) is None:
                self._create(connection, words.dialect)
                self._leave_note(connection, words)

    def _version(self, connection: Any, words: SchemaDialect) -> str | None:
        """The version that the database has, or None when it is fresh; ours for a newer one that we can work with.

        Raises:
            ConfigInvalid: No known version made it.
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
        if len(versions) == 1 and versions[0] in self.revisions:
            return versions[0]
        if len(versions) == 1 and versions[0] < self.revisions[0]:
            raise ConfigInvalid(
                f"the database was made by an older Tandem (schema {versions[0]}, this one knows {self.revisions[0]}"
                " and later); run 'tandem data export FILE' with the version that made it, then 'tandem data import"
                " FILE' with this one, on PostgreSQL into an empty database",
                setting="database_url",
                actual=versions,
                expected=self.version,
            )
        if len(versions) == 1 and self._can_serve(connection, words):
            return self.version
        raise ConfigInvalid(
            f"the database was made by a newer Tandem (schema {', '.join(versions) or 'unknown'}, this one knows"
            f" up to {self.version}); run that Tandem, or name another database",
            setting="database_url",
            newer=True,
            actual=versions,
            expected=self.version,
        )

    def _can_serve(self, connection: Any, words: SchemaDialect) -> bool:
        """Whether a broker of a newer version left a note that brokers of this one can work with its database."""
        if not (words.is_shared and self.changes):
            return False
        ((note,),) = connection.execute(_GET_NOTE).fetchall()
        return note is not None and str(note).removeprefix(_NOTE) in self.revisions

    def _leave_note(self, connection: Any, words: SchemaDialect) -> None:
        """Say on the database whose brokers can work with it: no table is needed that older versions would not know."""
        if words.is_shared:
            note = "NULL" if self.serves_from == self.version else f"'{_NOTE}{self.serves_from}'"
            connection.execute(f"COMMENT ON TABLE {VERSION_TABLE} IS {note}")

    def _await_others(self, connection: Any, words: SchemaDialect, version: str) -> None:
        """Wait until no broker is connected that could not go on after the upgrade.

        Raises:
            ConfigInvalid: One still is.
        """
        if not words.is_shared or self.revisions.index(version) >= self.revisions.index(self.serves_from):
            return
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while (others := connection.execute(_OTHERS).fetchone()[0]) and time.monotonic() < deadline:
            time.sleep(_LOOK_SECONDS)
        if others:
            raise ConfigInvalid(
                f"the upgrade from schema {version} to {self.version} is none that older brokers could go on with, and"
                f" {others} connections of theirs are open; stop all brokers of this database, then start this one",
                setting="database_url",
                actual=version,
                expected=self.version,
            )

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
            version = self._version(raw, words)
            if version == self.version:
                return  # another process was faster
            if version is not None:
                self._await_others(raw, words, version)
            try:
                command.upgrade(config, self.version)
            except DBAPIError as exc:
                # As the rest of the engine knows it: the driver's own.
                raise exc.orig or exc from exc
            self._leave_note(raw, words)
            if words is SQLITE_WORDS and (broken := raw.execute("PRAGMA foreign_key_check").fetchall()):
                raise ConfigInvalid(
                    f"the upgrade to schema {self.version} would leave {len(broken)} rows with broken references;"
                    " nothing was changed; restore a copy, and report this",
                    setting="database_url",
                )


@cache
def _ddl(metadata: MetaData, dialect: Dialect) -> tuple[str, ...]:
    statements: list[str] = []

    def collect(element: Any, *_args: Any, **_kwargs: Any) -> None:
        statements.append(str(element.compile(dialect=dialect)))

    metadata.create_all(create_mock_engine(f"{dialect.name}+{dialect.driver}://", collect), checkfirst=False)
    return tuple(statements)


@contextmanager
def migrating(schema: Schema, words: SchemaDialect, raw: Any) -> Generator[Config]:
    """What Alembic's commands need to work on an open connection of the driver's, which stays open."""
    from alembic.config import Config  # as in `_upgrade`

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
