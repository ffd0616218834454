"""Statements: written once in SQLAlchemy Core, compiled once a dialect, run as plain strings.

SQLAlchemy is the language in which a statement is written for both databases; it takes no part in
running it. What the compilation turned into parameters although it is constant (`state == "pending"`,
`LIMIT 1`) stays with the compiled text; what the caller gives are exactly the `bindparam()`s.
"""

from __future__ import annotations

from functools import cached_property
from operator import itemgetter
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from sqlalchemy import ColumnElement, Dialect, Integer, Table, Text, bindparam, column, values
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.dialects.postgresql.psycopg import PGDialect_psycopg
from sqlalchemy.dialects.sqlite.pysqlite import SQLiteDialect_pysqlite

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import LiteralString

    from sqlalchemy import ClauseElement, Executable
    from sqlalchemy.sql.base import ReadOnlyColumnCollection
    from sqlalchemy.sql.compiler import SQLCompiler

# Neither of them imports a driver: they are only asked for text.
SQLITE: Dialect = SQLiteDialect_pysqlite(paramstyle="qmark")
POSTGRESQL: Dialect = PGDialect_psycopg(paramstyle="numeric_dollar")


class Compiled(NamedTuple):
    """A statement's text in one dialect, and how to bind its parameters."""

    sql: LiteralString
    constants: dict[str, Any]
    names: frozenset[str]
    """The parameters that every call must give."""
    in_order: Callable[[dict[str, Any]], tuple[Any, ...]]
    """Picks parameters and constants in the order of their places in the text."""

    def bind(self, given: dict[str, Any]) -> tuple[Any, ...]:
        """The constants and what a call gave, in the order of the places: the driver need not look up each name.

        Raises:
            TypeError: A parameter is missing, or there is none of that name.
        """
        try:
            picked = self.in_order(self.constants | given if self.constants else given)
        except KeyError:
            raise TypeError(self._complaint(given)) from None
        # None is missing: to count them is enough, and quicker than to compare the names.
        if len(given) != len(self.names):
            raise TypeError(self._complaint(given))
        return picked

    def _complaint(self, given: Mapping[str, Any]) -> str:
        missing = sorted(self.names - given.keys())
        unknown = sorted(given.keys() - self.names)
        return f"missing parameters {missing}, unknown parameters {unknown} for: {self.sql}"


class Statement:
    """A SQLAlchemy Core expression, compiled at its first use on a dialect and never again.

    Every `bindparam()` without a value is a parameter of each call; `in_()` takes constant lists only,
    because the text is fixed.
    """

    def __init__(self, clause: Executable) -> None:
        self._clause = clause
        self.is_question: bool = clause.is_select
        """Whether it changes no row, though it may lock some."""

    @cached_property
    def sqlite(self) -> Compiled:
        """The text for SQLite."""
        return _compile(self._clause, SQLITE)

    @cached_property
    def postgresql(self) -> Compiled:
        """The text for PostgreSQL."""
        return _compile(self._clause, POSTGRESQL)

    @cached_property
    def touching_one(self) -> LiteralString:
        """The text for PostgreSQL of a change that fails unless it touches a row."""
        # The error keeps the commit from coming about that is on its way behind it; see `RUN_AGAIN`.
        return f"WITH touched AS ({self.postgresql.sql} RETURNING 1) SELECT 1 / count(*) FROM touched"  # noqa: S608 - a text of ours


def aside(column: Any) -> Any:
    """The column as a condition or order only: keeps the planner off its index, for one that leaves fewer rows."""
    return column + ("" if column.type.python_type is str else 0)


def equal(columns: ReadOnlyColumnCollection[str, Any], *names: str) -> tuple[ColumnElement[bool], ...]:
    """Conditions that these columns have the values of the parameters of their names."""
    return tuple(columns[name] == bindparam(name) for name in names)


def stated(**params: Any) -> dict[str, Any]:
    """The parameters that are not None, of a statement that has a condition for each."""
    return {name: value for name, value in params.items() if value is not None}


_AT_ONCE = 50
_ids = [f"id{number}" for number in range(_AT_ONCE)]


def among(column: Any) -> ColumnElement[bool]:
    """The condition that a column has one of the values that `in_pieces` gives as parameters."""
    return column.in_([bindparam(name) for name in _ids])


def in_pieces(values: Sequence[str]) -> Iterator[dict[str, str]]:
    """The parameters of `among` for a statement that is run once for each piece of many values."""
    for start in range(0, len(values), _AT_ONCE):
        some = values[start : start + _AT_ONCE]
        # The statement has a fixed number of parameters: those that are left name one again.
        yield dict(zip(_ids, [*some, *[some[0]] * (_AT_ONCE - len(some))], strict=True))


def keys_table(count: int, *names: str) -> Any:
    """So many keys as a table, for `Unit.list_by_keys`: statements that find the rows of each by an index."""
    types = {"round": Integer}
    columns = [column(name, types.get(name, Text)) for name in names]
    rows = [tuple(bindparam(f"{one.name}_{number}", type_=one.type) for one in columns) for number in range(count)]
    return values(*columns, name="wanted").data(rows).cte("wanted")


def insert_if_new(table: Table) -> Statement:
    """Inserts a row, unless there is one of its key."""
    # PostgreSQL's construct: the compiler for SQLite takes it too, but not the other way round.
    return Statement(insert(table).on_conflict_do_nothing())


def upsert(table: Table) -> Statement:
    """Writes a row as it is now, whether there is one of its key or not."""
    new = insert(table)
    kept = {one.name: new.excluded[one.name] for one in table.c if not one.primary_key}
    return Statement(new.on_conflict_do_update(index_elements=[*table.primary_key], set_=kept))


def _compile(clause: Executable, dialect: Dialect) -> Compiled:
    compiled = cast("SQLCompiler", cast("ClauseElement", clause).compile(dialect=dialect))
    required = {str(name): bind for name, bind in compiled.binds.items() if bind.required}
    lists = sorted(name for name, bind in required.items() if bind.expanding)
    if lists:
        raise TypeError(f"a statement of fixed text takes no list as a parameter: {lists}")
    state = compiled.construct_expanded_state(dict.fromkeys(required))
    # Keys of SQLAlchemy are a subclass of str that is slower to look up, and that orjson refuses.
    bound = {str(name): value for name, value in cast("dict[str, Any]", state.parameters).items()}
    constants = {name: value for name, value in bound.items() if name not in required}
    # Drivers ask for text that no input has gone into, and that is what a compiled statement is.
    in_order = _picker([str(name) for name in state.positiontup or ()])
    return Compiled(cast("LiteralString", state.statement), constants, frozenset(required), in_order)


def _picker(names: list[str]) -> Callable[[dict[str, Any]], tuple[Any, ...]]:
    """Several values of a dictionary as a tuple; `itemgetter` answers with one alone as it is."""
    if len(names) > 1:
        return itemgetter(*names)
    if not names:
        return lambda _values: ()
    (name,) = names
    return lambda values: (values[name],)
