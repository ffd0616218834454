"""Reading messages, verdicts and counter-patches; writing goes through the ledger."""

from __future__ import annotations

from typing import Any

from sqlalchemy import bindparam, literal, select, tuple_, union_all
from sqlalchemy.sql.elements import ColumnElement

from tandem.reviews import tables
from tandem.reviews.discussion_rules import Message, Verdict
from tandem.reviews.rounds import CounterPatch
from tandem.store.base import Unit
from tandem.store.statement import Statement

_m = tables.messages.c
_v = tables.verdicts.c
_p = tables.counter_patches.c

_find_message = Statement(
    select(tables.messages).where(_m.id == bindparam("id"), _m.review_id == bindparam("review_id"))
)
_find_counter_patch = Statement(
    select(tables.counter_patches).where(_p.id == bindparam("id"), _p.review_id == bindparam("review_id"))
)

# Within one event the verdict comes first, then its comments in their order, then its counter-patch.
_VERDICT_POSITION = -1
_COUNTER_PATCH_POSITION = 1_000_000


def _entries(*, by_round: bool) -> Statement:
    """Kind, id and place of what was said, in order, from one place on."""

    def part(kind: ColumnElement[Any], identity: Any, columns: Any, position: Any) -> Any:
        statement = select(
            kind.label("kind"), identity.label("id"), columns.seq.label("seq"), position.label("position")
        ).where(columns.review_id == bindparam("review_id"))
        # Each part is cut before the union, so that a page costs a page, however long the discussion.
        place = tuple_(columns.seq, position)
        statement = statement.where(place > tuple_(bindparam("after_seq"), bindparam("after_position")))
        if by_round:
            statement = statement.where(columns.round == bindparam("round"))
        return select(statement.order_by(columns.seq, position).limit(bindparam("limit")).subquery())

    union = union_all(
        part(literal("message"), _m.id, _m, _m.position),
        part(literal("verdict"), _v.id, _v, literal(_VERDICT_POSITION)),
        part(literal("counter_patch"), _p.id, _p, literal(_COUNTER_PATCH_POSITION)),
    ).subquery()
    return Statement(select(union).order_by(union.c.seq, union.c.position).limit(bindparam("limit")))


_list = {flag: _entries(by_round=flag) for flag in (False, True)}
_list_verdicts = Statement(select(_v.round, _v.verdict).where(_v.review_id == bindparam("review_id")).order_by(_v.seq))
_get_verdict = Statement(select(tables.verdicts).where(_v.id == bindparam("id")))


def list_entries(
    unit: Unit, review_id: str, *, round_number: int | None, after: tuple[int, int], limit: int
) -> list[tuple[str, str, int, int]]:
    """Kind, id, event number and position of what was said after a place, oldest first."""
    params: dict[str, Any] = {
        "review_id": review_id,
        "after_seq": after[0],
        "after_position": after[1],
        "limit": limit,
    }
    if round_number is not None:
        params["round"] = round_number
    return [(row[0], row[1], row[2], row[3]) for row in unit.all(_list[round_number is not None], **params)]


def find_message(unit: Unit, review_id: str, message_id: str) -> Message | None:
    """A message or line comment of a review, if there is one of that id."""
    row = unit.one_or_none(_find_message, id=message_id, review_id=review_id)
    return Message(*row) if row else None


def find_counter_patch(unit: Unit, review_id: str, counter_patch_id: str) -> CounterPatch | None:
    """A counter-patch of a review, if there is one of that id."""
    row = unit.one_or_none(_find_counter_patch, id=counter_patch_id, review_id=review_id)
    return CounterPatch(*row) if row else None


def list_verdicts(unit: Unit, review_id: str) -> list[tuple[int, str]]:
    """Each verdict on a review with its round, oldest first."""
    return [(row[0], row[1]) for row in unit.all(_list_verdicts, review_id=review_id)]


def get_entry(unit: Unit, review_id: str, kind: str, entry_id: str) -> Message | Verdict | CounterPatch:
    """What `list_entries` names by its kind and id."""
    match kind:
        case "verdict":
            row = unit.one_or_none(_get_verdict, id=entry_id)
            found = Verdict(*row) if row else None
        case "counter_patch":
            found = find_counter_patch(unit, review_id, entry_id)
        case _:
            found = find_message(unit, review_id, entry_id)
    if found is None:
        raise LookupError(f"the {kind} {entry_id} is missing")
    return found
