"""Files that people have marked as viewed. No event tells of it: nothing about a review depends on it."""

from __future__ import annotations

from sqlalchemy import bindparam, delete, select

from tandem.reviews.tables import viewed_files
from tandem.store.base import Unit
from tandem.store.statement import Statement, insert_if_new

_v = viewed_files.c
_insert = insert_if_new(viewed_files)
_delete = Statement(
    delete(viewed_files).where(
        _v.review_id == bindparam("key_review"),
        _v.round == bindparam("key_round"),
        _v.person == bindparam("key_person"),
        _v.path == bindparam("key_path"),
    )
)
_list = Statement(
    select(_v.path).where(
        _v.review_id == bindparam("review_id"), _v.round == bindparam("round"), _v.person == bindparam("person")
    )
)


def add(unit: Unit, review_id: str, number: int, person: str, path: str, now_us: int) -> None:
    """Mark a file; one that is marked keeps its mark."""
    unit.execute(_insert, review_id=review_id, round=number, person=person, path=path, viewed_at=now_us)


def remove(unit: Unit, review_id: str, number: int, person: str, path: str) -> None:
    """Take a file's mark away, if it has one."""
    unit.execute(_delete, key_review=review_id, key_round=number, key_person=person, key_path=path)


def list_paths(unit: Unit, review_id: str, number: int, person: str) -> list[str]:
    """The files that are marked, in the order of their letters' numbers, which is the same on every database."""
    rows = unit.all(_list, review_id=review_id, round=number, person=person)
    return sorted(str(row[0]) for row in rows)
