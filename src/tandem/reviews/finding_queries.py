"""Reading findings and lessons, which `writing` writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence, Sized
from functools import cache, partial
from typing import Any, Final, Literal

from sqlalchemy import ColumnElement, FromClause, Select, and_, bindparam, case, exists, func, or_, select, text, tuple_

from tandem.errors import NotFound, TooLarge
from tandem.git.changes import Change
from tandem.reviews import finding_rules, tables
from tandem.reviews.finding_rules import OVER, Finding, is_grave
from tandem.store.base import Unit
from tandem.store.statement import Statement, equal, keys_table

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
_c = tables.contested_files.c
_unapproved = (_r.state != "approved") & (_r.outcome.is_(None) | (_r.outcome != "approved"))
_is_open = text(f"findings.{tables.OPEN_FINDINGS}")
_is_left = or_(_is_open, _f.state == "late")
_is_over = _f.state.in_(sorted(OVER))
_is_refused = _r.state.in_(["rejected", "closed"]) & _unapproved
_Which = Literal["elsewhere", "refused"]
_WHICH: Final = {
    # What a proposer alone does, as to close it, settles nothing.
    "elsewhere": (_r.id != bindparam("but"), _is_open & ((_f.source == "person") | _unapproved)),
    "refused": (_is_refused | _is_over, _is_left & _is_refused),
}
"""Which findings count that come again, beside those that are settled, and which of those that are open stand."""


def _standing(which: _Which, source: FromClause, number: Any, same: ColumnElement[bool]) -> Select[Any]:
    """The findings of rounds that come again, each with whether it stands there.

    One stands while it is open; and one that was verified in a later round, of other content, stands again.
    """
    condition, stands = _WHICH[which]
    is_back = (_f.state == "verified") & (_f.settled_round > number) & ~same
    flag = func.max(case((or_(stands, is_back), 1), else_=0)).label("stands")
    return (
        select(tables.findings, flag)
        .select_from(source)
        .join(tables.reviews, _r.id == _f.review_id)
        .where(_f.source != "check", or_(_is_left, _is_over), _f.round <= number, condition)
        .group_by(_f.id)
        .limit(_MOST)
    )


@cache
def _of_content(which: _Which) -> Statement:
    later = tables.rounds.alias("later")
    same = exists().where(
        later.c.review_id == _f.review_id, later.c.round == _f.settled_round, later.c.digest == _round.digest
    )
    source = tables.rounds.join(tables.findings, _f.review_id == _round.review_id)
    found = _standing(which, source, _round.round, same)
    return Statement(found.where(*equal(_r, "project"), *equal(_round, "digest")))


@cache
def _of_files(which: _Which, count: int) -> Statement:
    keys = keys_table(count, "path", "blob_after")
    later = tables.contested_files.alias("later")
    same = exists().where(
        *(later.c[name] == _c[name] for name in ("project", "path", "blob_after", "review_id")),
        later.c.round == _f.settled_round,
    )
    there = and_(_c.project == bindparam("project"), _c.path == keys.c.path, _c.blob_after == keys.c.blob_after)
    # One about the whole change, or about a file that this leaves alone, stands where any part of the change comes.
    of_file = (_f.file == _c.path) | _f.blob.is_(None)
    source = keys.join(tables.contested_files, there).join(tables.findings, and_(_f.review_id == _c.review_id, of_file))
    return Statement(_standing(which, source, _c.round, same))


_any = Statement(select(_f.id).where(_f.project == bindparam("project")).limit(1))


@cache
def _telling(count: int) -> Statement:
    keys = keys_table(count, "telling")
    is_telling = text(f"findings.{tables.TELLING}")
    there = and_(_f.project == bindparam("project"), _f.telling == keys.c.telling, is_telling)
    source = keys.join(tables.findings, there).join(tables.reviews, _r.id == _f.review_id)
    return _again(source, or_(_is_left, _is_over))


def _again(source: FromClause, which: ColumnElement[bool]) -> Statement:
    stands = case((and_(_is_left, _unapproved), 1), else_=0)
    found = select(tables.findings, stands).distinct().select_from(source)
    is_found = (_f.source != "check", which, _f.review_id != bindparam("but"))
    return Statement(found.where(*is_found).limit(bindparam("limit")))


@cache
def _on_paths(count: int) -> Statement:
    keys = keys_table(count, "path")
    there = and_(_c.project == bindparam("project"), _c.path == keys.c.path)
    of_file = and_(_f.review_id == _c.review_id, (_f.file == _c.path) | (_f.file.is_(None)))
    source = keys.join(tables.contested_files, there).join(tables.findings, of_file)
    return _again(source.join(tables.reviews, _r.id == _f.review_id), and_(_is_left, _unapproved))


@cache
def _still_left(count: int) -> Statement:
    keys = keys_table(count, "id")
    source = keys.join(tables.findings, _f.id == keys.c.id).join(tables.reviews, _r.id == _f.review_id)
    return Statement(select(tables.findings).select_from(source).where(_is_left, _unapproved))


BEFORE_ALL: Final = (0, -2)
"""A place, by event and position, before that of any entry of a discussion."""
_MOST: Final = 10_000
"""So many findings of other reviews on one content are read. With more it is refused, as none may be left out."""


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


def find_lesson(unit: Unit, project: str, fingerprint: str | None, severity: str) -> str | None:
    """The lesson that the same finding would repeat, if there is one; a graver one repeats none."""
    found = unit.all(_lesson, project=project, fingerprint=fingerprint) if fingerprint is not None else []
    return next((str(row[0]) for row in found if is_grave(row[1], severity)), None)


def is_doubtful(unit: Unit, one: Finding) -> bool:
    """Whether a finding counts for nothing, and may be right: it is late, or a blocker in a lesson's other words."""
    if one.suppressed_by is None or one.severity != "blocker":
        return one.state == "late"
    said, known = (" ".join(text.split()) for text in (one.claim, get(unit, one.suppressed_by).claim))
    return said.casefold() != known.casefold()


def list_elsewhere(unit: Unit, project: str, digest: str | None, changes: Sequence[Change], but: str) -> list[Finding]:
    """The findings of other reviews that stand on the same content, or a part of it; agents' not where approved."""
    return [one for one, stands in list_same(unit, project, digest, changes, but) if stands]


def has_any(unit: Unit, project: str) -> bool:
    """Whether a project has findings at all."""
    return bool(unit.all(_any, project=project))


def list_same(
    unit: Unit, project: str, digest: str | None, changes: Sequence[Change], but: str
) -> list[tuple[Finding, bool]]:
    """The findings of other reviews on the same content, or a part of it, and whether they stand."""
    return _list(unit, "elsewhere", project, digest, changes, but=but)


def list_again(
    unit: Unit, project: str, keys: Iterable[str], paths: Iterable[str], but: str
) -> list[tuple[Finding, bool]]:
    """The findings of other reviews that have one of some lines as the most telling, or are on some files.

    Oldest first, each with whether it stands: it is not settled, and its review is not approved.

    Raises:
        TooLarge: There are too many.
    """
    limits: dict[str, Any] = {"project": project, "but": but}
    rows = [
        *unit.list_by_keys(_telling, ("telling",), [(one,) for one in keys], _MOST, **limits),
        *unit.list_by_keys(_on_paths, ("path",), [(one,) for one in paths], _MOST, **limits),
    ]
    found = {row[0]: (Finding(*row[:-1]), bool(row[-1])) for some in rows for row in some}
    _ensure_all(found)
    return sorted(found.values(), key=lambda known: (known[0].seq, known[0].position))


def list_still_left(unit: Unit, ids: Iterable[str]) -> list[Finding]:
    """Those of some findings that no one settled, in reviews that are not approved."""
    keys = [(one,) for one in sorted(ids)]
    return [Finding(*row) for some in unit.list_by_keys(_still_left, ("id",), keys) for row in some]


def list_refused(unit: Unit, project: str, digest: str | None, changes: Sequence[Change]) -> list[tuple[Finding, bool]]:
    """The findings on a content or a part of it, and whether they stand: open without approval, or brought back."""
    return _list(unit, "refused", project, digest, changes)


def _list(
    unit: Unit, which: _Which, project: str, digest: str | None, changes: Sequence[Change], **params: str
) -> list[tuple[Finding, bool]]:
    """Oldest first; of one that went on to other reviews the newest, which may have been settled.

    Raises:
        TooLarge: There are too many.
    """
    params |= {"project": project}
    rows = unit.all(_of_content(which), digest=digest, **params) if digest else []
    ends = [(change.path, change.blob_after) for change in changes]
    for some in unit.list_by_keys(partial(_of_files, which), ("path", "blob_after"), ends, None, **params):
        rows += some
    # Of a whole change, one is found by each part of it.
    found = {row[0]: Finding(*row[:-1]) for row in rows}
    _ensure_all(found)
    standing = {row[0] for row in rows if row[-1]}
    known = sorted(found.values(), key=lambda one: (one.seq, one.position))
    newest = {one.identity: one for one in known}
    return [
        (
            one if one.id not in standing or one.state not in OVER else finding_rules.brought_back(one),
            one.id in standing,
        )
        for one in newest.values()
    ]


def _ensure_all(found: Sized) -> None:
    if len(found) >= _MOST:
        raise TooLarge(
            f"{_MOST} findings or more of other reviews are on this content: change it, or propose a smaller part.",
            limit=_MOST,
        )
