"""Reading the log."""

from __future__ import annotations

from functools import cache
from typing import Any

from sqlalchemy import bindparam, select, text, update

from tandem.store import tables
from tandem.store.base import Unit
from tandem.store.event import FOREVER, GENESIS, Event, Head, key_check, place_before
from tandem.store.statement import Statement, insert_if_new, stated

_e = tables.events.c
_head = Statement(select(tables.log_head).where(tables.log_head.c.id == 1))
_newest_of = Statement(
    select(_e.seq)
    .where(_e.project == bindparam("project"), _e.seq <= bindparam("until"))
    .order_by(_e.seq.desc())
    .limit(1)
)
_ends = Statement(
    select(
        select(_e.seq).order_by(_e.seq.desc()).limit(1).scalar_subquery(),
        select(_e.seq).where(_e.seq <= bindparam("settled")).order_by(_e.seq.desc()).limit(1).scalar_subquery(),
    )
)
_subject_of = Statement(select(_e.subject).where(_e.seq == bindparam("seq")))
_find_settled = Statement(
    text(
        # Transactions of other databases write nothing here. Whose end came between the two looks is taken for ours.
        "SELECT min(running) FROM (SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS running"
        " UNION ALL SELECT x::text::bigint FROM pg_snapshot_xip(pg_current_snapshot()) AS x WHERE NOT EXISTS"
        " (SELECT FROM pg_stat_activity WHERE datname <> current_database()"
        " AND backend_xid::text::bigint = x::text::bigint % 4294967296)) AS here"
    )
)
_find_hash = Statement(select(_e.hash).where(_e.seq == bindparam("seq")))
_INDEXED = ("project", "subject")
SCAN_LIMIT = 5_000
"""Events that one page looks through at most where a filter has no index."""


@cache
def _noting(names: tuple[str, ...]) -> Statement:
    head = tables.log_head
    return Statement(update(head).where(head.c.id == 1).values({name: bindparam(f"new_{name}") for name in names}))


@cache
def _page(filters: tuple[str, ...], *, newest_first: bool) -> Statement:
    statement = select(tables.events).where(*(_e[name] == bindparam(name) for name in filters))
    statement = statement.where(_e.seq > bindparam("after"), _e.seq <= bindparam("until")).limit(bindparam("limit"))
    return Statement(statement.order_by(_e.seq.desc() if newest_first else _e.seq))


@cache
def _scan_end(filters: tuple[str, ...], *, newest_first: bool) -> Statement:
    """The number at which a scan of so many events ends; on an index alone."""
    statement = select(_e.seq).where(*(_e[name] == bindparam(name) for name in filters))
    statement = statement.where(_e.seq > bindparam("after")).offset(SCAN_LIMIT - 1).limit(1)
    return Statement(statement.order_by(_e.seq.desc() if newest_first else _e.seq))


_begin = insert_if_new(tables.log_head)


def begin(unit: Unit, log_id: str) -> None:
    """Give a fresh database its log, whose hashes are keyed from the first event on; one that has one keeps it."""
    unit.execute(
        _begin,
        id=1,
        log_id=log_id,
        seq=0,
        checkpoint_seq=0,
        event_hash=GENESIS,
        keyed_from=1,
        key_check=key_check(unit.seal, log_id, 1),
        epochs="",
        auth="",
    )


def note(unit: Unit, **values: Any) -> None:
    """Change columns of `log_head`, each to its new value."""
    unit.execute(_noting(tuple(values)), **{f"new_{name}": value for name, value in values.items()})


def begin_epoch(unit: Unit, name: str) -> None:
    """Tell what happens from here on from what happened to another copy of the log, of which this one has no events."""
    newest, _ = head(unit)
    note(unit, epochs=f"{read_head(unit).epochs} {newest}:{name}".strip())


def keep_auth(unit: Unit, stated: str | None) -> str:
    """How callers are let in from now on: as is stated, else as the last start let them in; empty if none said it."""
    if stated is not None:
        note(unit, auth=stated)
    return stated or read_head(unit).auth


def find_id(unit: Unit) -> str | None:
    """Which log this is; None in a fresh database."""
    found = unit.find(Head, _head)
    return None if found is None else found.log_id


def head(unit: Unit) -> tuple[int, int]:
    """The number of the newest event, and of the newest one behind which none can come in; 0 if there is none."""
    [(newest, settled)] = unit.all(_ends, settled=unit.settled)
    return newest or 0, settled or 0


def find_settled(unit: Unit) -> int:
    """`Unit.settled`, found by a slower query that leaves out transactions in other databases of the server."""
    if unit.dialect != "postgresql":
        return FOREVER
    return max(unit.settled, place_before(read_head(unit).seq, unit.value(_find_settled)))


def correct_numbers(unit: Unit) -> bool:
    """Have the next numbers come after all that there are, as in a copy they would not; whether it is one."""
    newest, _ = head(unit)
    following = unit.take_seq()
    base = read_head(unit).seq
    needed = newest if following is None else base + newest - following + 1
    if needed > base:
        note(unit, seq=needed)
    return needed > base


def find_subject(unit: Unit, seq: int) -> str | None:
    """What an event is about, by its number."""
    return unit.value(_subject_of, seq=seq)


def read_head(unit: Unit) -> Head:
    """All that is noted of the log beside its events."""
    found = unit.find(Head, _head)
    if found is None:
        raise LookupError("the log has no head; the database was not made by Tandem")
    return found


def find_hash(unit: Unit, seq: int) -> str | None:
    """The hash of an event by its number."""
    return unit.value(_find_hash, seq=seq)


def newest_of(unit: Unit, project: str) -> int:
    """The number of a project's newest event that is settled; 0 if it has none."""
    return unit.value(_newest_of, project=project, until=unit.settled) or 0


def lock(unit: Unit) -> None:
    """Block all other writers until this transaction ends: for decisions on rows that do not exist yet."""
    unit.be_alone()


def list_after(unit: Unit, after: int, limit: int, *, until: int = FOREVER, **filters: str | None) -> list[Event]:
    """Events after a number, oldest first; filters are `project`, `subject`, `kind`, `actor`."""
    return list_scanned(unit, after, limit, until=until, **filters)[0]


def list_scanned(
    unit: Unit, after: int, limit: int, *, until: int = FOREVER, **filters: str | None
) -> tuple[list[Event], int | None]:
    """As `list_after`, and the number at which a filtered scan stopped early; None when it reached the end."""
    params = stated(**filters)
    end = _find_scan_end(unit, params, after=after, newest_first=False)
    statement = _page(tuple(params), newest_first=False)
    if end is not None and end >= until:
        end = None
    return unit.list_of(Event, statement, after=after, until=until if end is None else end, limit=limit, **params), end


def list_newest(unit: Unit, limit: int, *, until: int = FOREVER, **filters: str | None) -> list[Event]:
    """The newest events, oldest first; where a filter has no index, of the newest `SCAN_LIMIT` ones."""
    params = stated(**filters)
    end = _find_scan_end(unit, params, after=0, newest_first=True)
    statement = _page(tuple(params), newest_first=True)
    return unit.list_of(Event, statement, after=end - 1 if end else 0, until=until, limit=limit, **params)[::-1]


def _find_scan_end(unit: Unit, params: dict[str, Any], *, after: int, newest_first: bool) -> int | None:
    if all(name in _INDEXED for name in params):
        return None
    indexed = {name: params[name] for name in _INDEXED if name in params}
    return unit.value(_scan_end(tuple(indexed), newest_first=newest_first), after=after, **indexed)
