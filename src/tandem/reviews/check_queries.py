"""Reading the checks of rounds; they are written with the event that explains them."""

from __future__ import annotations

from collections.abc import Iterable

from sqlalchemy import bindparam, select, text

from tandem.reviews import tables
from tandem.reviews.check_rules import SAYS_SOMETHING, UNFINISHED, CheckRun
from tandem.store.base import Unit
from tandem.store.statement import Statement

_c = tables.checks.c
_of_round = Statement(
    select(tables.checks)
    .where(_c.review_id == bindparam("review_id"), _c.round == bindparam("round"))
    .order_by(_c.position, _c.name)
)
# As the index has it, to the letter.
_unfinished = select(tables.checks).where(text(tables.UNFINISHED_CHECKS)).order_by(_c.requested_at, _c.review_id)
_all_unfinished = Statement(_unfinished.limit(bindparam("limit")))
_unfinished_of_project = Statement(_unfinished.where(_c.project == bindparam("project")).limit(bindparam("limit")))
_alike = Statement(
    select(tables.checks)
    .where(
        _c.project == bindparam("project"),
        _c.tree == bindparam("tree"),
        _c.name == bindparam("name"),
        _c.command_hash == bindparam("command_hash"),
        _c.status.in_(sorted(SAYS_SOMETHING | UNFINISHED)),
    )
    .order_by(_c.started_at.desc())
    .limit(20)
)


def list_of_round(unit: Unit, review_id: str, number: int) -> tuple[CheckRun, ...]:
    """The checks of a round, in the order of their file."""
    return tuple(CheckRun(*row) for row in unit.all(_of_round, review_id=review_id, round=number))


def list_unfinished(unit: Unit, project: str | None, limit: int) -> list[CheckRun]:
    """What is still to be run, or runs, longest waiting first."""
    if project is None:
        return [CheckRun(*row) for row in unit.all(_all_unfinished, limit=limit)]
    return [CheckRun(*row) for row in unit.all(_unfinished_of_project, project=project, limit=limit)]


def list_alike(unit: Unit, run: CheckRun, tree: str) -> Iterable[CheckRun]:
    """The same check of the same tree, in whatever round, newest first: those that run or say something."""
    rows = unit.all(_alike, project=run.project, tree=tree, name=run.name, command_hash=run.command_hash)
    return [one for one in (CheckRun(*row) for row in rows) if one[:3] != run[:3]]
