"""The portable form of a database: lines of JSON, which no kind of database is needed to read.

    {"tandem": …, "schema": …, "made_at": …, "log_id": …, "database": …, "rows": …, "ddl": […]}
    {"table": "contents", "columns": ["id", "body"]}
    ["…", "…"]                  one line for each row
    …
    {"rows": …, "sha256": …}    over everything before this line

Tables follow those that they refer to. A backup is compressed with gzip, an export is not; both are read alike.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import zlib
from collections.abc import Callable, Generator, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any, BinaryIO, Final, cast

import orjson

from tandem.errors import InvalidInput, Unavailable
from tandem.store.base import Row

Progress = Callable[[int, int], None]
"""Called with how many rows are done, and how many there are."""

_GZIP: Final = b"\x1f\x8b"
_LEVEL: Final = 4
_STEP: Final = 500
_LONGEST_LINE: Final = 2**27
"""Bytes of a line: eight times the default limit of a request. Longer lines are not read, so that a file cannot inflate
without bound, and therefore not written."""
_MALFORMED: Final = (EOFError, gzip.BadGzipFile, zlib.error, ValueError, TypeError, KeyError, AttributeError)
"""What reading something that is no whole copy can end with."""


@dataclass(frozen=True, slots=True)
class Header:
    """What a copy says of itself.

    Attributes:
        tandem: The version that made it.
        schema: The schema of its tables.
        made_at: When, in ISO 8601.
        log_id: Which log it has.
        database: `sqlite` or `postgresql`.
        rows: How many rows it has.
        ddl: The statements that make its tables on SQLite, for a later version that has others.
    """

    tandem: str
    schema: str
    made_at: str
    log_id: str
    database: str
    rows: int
    ddl: tuple[str, ...] = field(repr=False)


def write(
    stream: BinaryIO,
    header: Header,
    tables: Iterable[tuple[str, tuple[str, ...], Iterable[Row]]],
    progress: Progress,
    *,
    compress: bool,
) -> None:
    """Write a copy.

    Raises:
        OSError: The stream does not take it.
        Unavailable: The database has values that no Tandem wrote, or longer ones than a copy takes.
    """
    if compress:
        # Without a time or a name: the same content makes the same file.
        with gzip.GzipFile("", "wb", _LEVEL, stream, mtime=0) as packed:
            write(cast("BinaryIO", packed), header, tables, progress, compress=False)
        return
    digest, done = hashlib.sha256(), 0

    def put(line: object) -> None:
        encoded = orjson.dumps(line, option=orjson.OPT_APPEND_NEWLINE)
        if len(encoded) > _LONGEST_LINE:
            raise Unavailable(
                f"A row is longer than {_LONGEST_LINE} bytes, which no copy takes; use the database's own backup."
            )
        digest.update(encoded)
        stream.write(encoded)

    put(asdict(header))
    for name, columns, rows in tables:
        put({"table": name, "columns": columns})
        for row in rows:
            try:
                put(row)
            except TypeError as exc:
                raise Unavailable(
                    f"A row of the table {name} is not one that Tandem wrote ({exc}): the database is damaged."
                    " See what 'tandem audit verify' says of it.",
                    damaged=True,
                ) from exc
            done += 1
            if done % _STEP == 0:
                progress(done, header.rows)
    stream.write(orjson.dumps({"rows": done, "sha256": digest.hexdigest()}, option=orjson.OPT_APPEND_NEWLINE))
    progress(done, header.rows)


class Reader:
    """Reads a copy once, and refuses one that is not whole.

    Attributes:
        header: The copy's header.
    """

    def __init__(self, stream: io.BufferedReader, name: str) -> None:
        """Read the header.

        Args:
            stream: From its beginning.
            name: How errors call it.

        Raises:
            InvalidInput: It is no copy.
            Unavailable: It cannot be read.
        """
        self._name = name
        self._stream = gzip.GzipFile(fileobj=stream) if stream.peek(2)[:2] == _GZIP else stream
        self._digest = hashlib.sha256()
        with self._refusing("is no copy of a database of Tandem's"):
            said = cast("dict[str, Any]", self._next())
            self.header = Header(ddl=tuple(map(_creating, said.pop("ddl"))), **said)

    def rows(self, progress: Progress) -> Iterator[tuple[str, tuple[str, ...], Row]]:
        """Every row behind its table and that table's columns, in an order in which they can be written.

        Raises:
            InvalidInput: It is cut off, or was changed; known at the end only.
        """
        name, columns, done = "", (), 0
        with self._refusing("is cut off, or was changed"):
            while True:
                line = self._next()
                if isinstance(line, dict):
                    if "sha256" in line:
                        break
                    name, columns = str(line["table"]), tuple(map(str, line["columns"]))
                    continue
                if len(line) != len(columns):
                    raise ValueError(name)
                yield name, columns, tuple(line)
                done += 1
                if done % _STEP == 0:
                    progress(done, self.header.rows)
            if line != {"rows": done, "sha256": self._digest.hexdigest()} or self._stream.read(1):
                raise ValueError(line)
        progress(done, done)

    def _next(self) -> dict[str, Any] | list[Any]:
        raw = self._stream.readline(_LONGEST_LINE)
        if not raw.endswith(b"\n"):
            raise EOFError
        line: dict[str, Any] | list[Any] = orjson.loads(raw)
        if not (isinstance(line, dict) and "sha256" in line):
            self._digest.update(raw)
        return line

    @contextmanager
    def _refusing(self, what: str) -> Generator[None]:
        try:
            yield
        except _MALFORMED as exc:
            raise InvalidInput(
                f"{self._name} {what}. Nothing of it was taken; use another copy.", field="file", file=self._name
            ) from exc
        except OSError as exc:
            raise Unavailable(f"{self._name} cannot be read: {exc.strerror or exc}.", file=self._name) from exc


def _creating(statement: str) -> str:
    """A statement that makes a table or an index, and does nothing else.

    Raises:
        ValueError: It is another one.
    """
    if not statement.strip().startswith(("CREATE TABLE ", "CREATE INDEX ", "CREATE UNIQUE INDEX ")):
        raise ValueError(statement)
    return statement
