"""Reading findings and lessons, which `writing` writes."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Final

from sqlalchemy import ColumnElement, and_, bindparam, select, text, tuple_

from tandem.errors import NotFound
from tandem.git.changes import Change
from tandem.reviews import tables
from tandem.reviews.finding_rules import Finding, is_grave
from tandem.reviews.rules import Review
from tandem.store.base import Unit
from tandem.store.keys import keys_table, list_by_keys
from tandem.store.statement import Statement, equal

_f = tables.findings.c

_get = Statement(select(tables.findings).where(_f.id == bindparam("id")))
_of_review = Statement(
    select(tables.findings).where(_f.review_id == bindparam("review_id")).order_by(_f.seq, _f.position)
)
_after = tuple_(_f.seq, _f.position) > tuple_(bindparam("after_seq"), bindparam("after_position"))
_of_project: Final = {
    # As the indexes have it, to the letter.
    condition: Statement(
        select(tables.findings)
        .where(_f.project == bindparam("project"), text(condition), _after)
        .order_by(_f.seq, _f.position)
        .limit(bindparam("limit"))
    )
    for condition in ("true", tables.OPEN_FINDINGS, tables.LESSONS)
}
_lesson = Statement(
    select(_f.id, _f.severity)
    .where(*equal(_f, "project", "fingerprint"), text(tables.LESSONS))
    .order_by(_f.seq, _f.position)
    .limit(100)
)
_r, _round = tables.reviews.c, tables.rounds.c
_unapproved = (_r.state != "approved") & (_r.outcome.is_(None) | (_r.outcome != "approved"))
# What a proposer alone does, as to close it, settles nothing.
_counting = (_r.id != bindparam("but"), (_f.source == "person") | ((_f.source == "agent") & _unapproved))
_refused_ones = (_r.state.in_(["rejected", "closed"]), _unapproved)
_of_content = (
    # A review may have gone on to other content since they were written.
    tables.rounds.join(tables.findings, (_f.review_id == _round.review_id) & (_f.round == _round.round)).join(
        tables.reviews, _r.id == _f.review_id
    )
)
_is_open_of_content = (*equal(_r, "project"), *equal(_round, "digest"), text(f"findings.{tables.OPEN_FINDINGS}"))
_elsewhere = Statement(
    select(tables.findings)
    .select_from(_of_content)
    .where(*_is_open_of_content, *_counting)
    # The gravest first, as the words happen to have it.
    .order_by(_f.severity, _f.seq, _f.position)
    .limit(100)
)
_refused = Statement(
    select(_r.id, _r.event_seq)
    .distinct()
    .select_from(_of_content)
    .where(*_is_open_of_content, *_refused_ones)
    .order_by(_r.event_seq.desc())
    .limit(100)
)


def _on_files(count: int, *conditions: ColumnElement[bool]) -> Statement:
    keys = keys_table(count, "file", "blob")
    same = and_(_f.file == keys.c.file, _f.blob == keys.c.blob, _f.project == bindparam("project"))
    return Statement(
        select(tables.findings)
        .select_from(keys)
        .join(tables.findings, same)
        .join(tables.reviews, _r.id == _f.review_id)
        .where(text(f"findings.{tables.OPEN_FINDINGS}"), *conditions)
        .order_by(_f.severity, _f.seq, _f.position)
        .limit(bindparam("limit"))
    )


@cache
def _elsewhere_on_files(count: int) -> Statement:
    return _on_files(count, *_counting)


@cache
def _refused_on_files(count: int) -> Statement:
    return _on_files(count, *_refused_ones)


BEFORE_ALL: Final = (0, -2)
_FEW: Final = 100
"""So many findings of other reviews are enough."""


def list_of_review(unit: Unit, review_id: str) -> list[Finding]:
    """All findings of a review, oldest first."""
    return unit.list_of(Finding, _of_review, review_id=review_id)


def get(unit: Unit, finding_id: str) -> Finding:
    """A finding.

    Raises:
        NotFound: There is none of that id.
    """
    found = unit.find(Finding, _get, id=finding_id)
    if found is None:
        raise unknown(finding_id)
    return found


def unknown(finding_id: str, review_id: str | None = None) -> NotFound:
    """That there is no such finding (in that review)."""
    where = f"The review '{review_id}' has" if review_id else "There is"
    return NotFound(
        f"{where} no finding '{finding_id}'; list_findings has them.", finding_id=finding_id, review_id=review_id
    )


def list_of_project(unit: Unit, project: str, *, is_open: bool, after: tuple[int, int], limit: int) -> list[Finding]:
    """A project's findings after a place, oldest first; those that no one settled, or all."""
    return _page(unit, tables.OPEN_FINDINGS if is_open else "true", project, after, limit)


def list_lessons(unit: Unit, project: str, *, after: tuple[int, int], limit: int) -> list[Finding]:
    """A project's lessons after a place, oldest first."""
    return _page(unit, tables.LESSONS, project, after, limit)


def _page(unit: Unit, condition: str, project: str, after: tuple[int, int], limit: int) -> list[Finding]:
    place = {"after_seq": after[0], "after_position": after[1]}
    return unit.list_of(Finding, _of_project[condition], project=project, **place, limit=limit)


def find_lesson(unit: Unit, project: str, fingerprint: str, severity: str) -> str | None:
    """The lesson that the same finding would repeat, if there is one; a graver one repeats none."""
    found = unit.all(_lesson, project=project, fingerprint=fingerprint)
    return next((str(row[0]) for row in found if is_grave(row[1], severity)), None)


def list_elsewhere(unit: Unit, review: Review, changes: Iterable[Change]) -> list[Finding]:
    """The open findings on the same content in other reviews, or on a file of it; agents' not from approved ones."""
    params = {"project": review.project, "but": review.id}
    same = unit.list_of(Finding, _elsewhere, digest=review.digest, **params) if review.digest else []
    return [*same, *_found_on(unit, _elsewhere_on_files, changes, **params)]


def list_refused(unit: Unit, project: str, changes: Iterable[Change]) -> list[Finding]:
    """The open findings on files of a content, in reviews that ended without approval; oldest first."""
    found = _found_on(unit, _refused_on_files, changes, project=project)
    return sorted(found, key=lambda one: (one.seq, one.position))


def _found_on(
    unit: Unit, made: Callable[[int], Statement], changes: Iterable[Change], **params: str
) -> Iterator[Finding]:
    ends = [(change.path, change.blob_after) for change in changes]
    for rows in list_by_keys(unit, made, ("file", "blob"), ends, _FEW, **params):
        yield from (Finding(*row) for row in rows)


def refused_before(unit: Unit, project: str, parent_id: str | None, digest: str | None) -> list[str]:
    """The newest reviews without approval that a review goes on from: its parent, and those of the same content."""
    same = unit.all(_refused, project=project, digest=digest) if digest else []
    return list(dict.fromkeys([*([parent_id] if parent_id else []), *(str(row[0]) for row in same)]))
