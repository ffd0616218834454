"""Reading reviews: rounds, texts, discussions and checks, which `writing` writes; and the marks of viewed files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Final

import orjson
from sqlalchemy import (
    ColumnElement,
    Integer,
    Text,
    bindparam,
    delete,
    exists,
    func,
    literal,
    or_,
    select,
    text,
    tuple_,
    union_all,
    update,
)

from tandem.contract.caller import Names
from tandem.contract.request import WORK
from tandem.errors import NotFound
from tandem.reviews import finding_queries, tables
from tandem.reviews.check_rules import SAYS_SOMETHING, UNFINISHED, CheckRun
from tandem.reviews.claim_rules import COUNTER_PATCH, beside, with_lease
from tandem.reviews.finding_rules import Finding
from tandem.reviews.rounds import CounterPatch, Message, Round, Verdict
from tandem.reviews.rules import Review, State
from tandem.store import tables as log_tables
from tandem.store.base import Unit
from tandem.store.statement import Statement, among, aside, equal, in_pieces, insert_if_new, stated

_r = tables.reviews.c
_held = _r.state.in_([State.CLAIMED.value, State.IN_REVIEW.value])

_get = select(tables.reviews).where(_r.id == bindparam("review_id"))
_get_plain = Statement(_get)
_get_locked = Statement(_get.with_for_update())
_renew = Statement(
    update(tables.reviews)
    .where(_r.id == bindparam("key"), _r.claim_generation == bindparam("generation"), _held)
    .values(lease_expires_at=bindparam("new_lease"))
)
_renew_beside = Statement(
    update(tables.reviews).where(_r.id == bindparam("key"), _held).values(leases=bindparam("new_leases"))
)
# As few as there are reviewers at work.
_beside = Statement(select(_r.id, _r.leases).where(_held, _r.leases.is_not(None)))
_expired = Statement(
    select(_r.id)
    .where(_held, (_r.lease_expires_at <= bindparam("now")) | (_r.lease_expires_at > bindparam("latest")))
    .order_by(_r.lease_expires_at)
    .limit(bindparam("limit"))
)
_get_round = Statement(select(tables.rounds).where(*equal(tables.rounds.c, "review_id", "round")))
_rounds = Statement(
    select(tables.rounds).where(tables.rounds.c.review_id == bindparam("review_id")).order_by(tables.rounds.c.round)
)
_SAME = ("category", "proposer_id", "agent_type", "agent_role", *WORK)
"""Beside project and digest, what two proposals of the same content have in common, too."""
_open_of_content = Statement(
    select(tables.reviews)
    .where(
        _r.project == bindparam("project"),
        _r.digest == bindparam("digest"),
        # As conditions only, found by the digest.
        *((_r[name] + "").is_not_distinct_from(bindparam(name, type_=Text)) for name in _SAME),
        _r.state.not_in([State.REJECTED.value, State.CLOSED.value]),
    )
    .order_by(_r.event_seq.desc())
    .limit(1)
)
_owing = Statement(select(tables.reviews).where(among(_r.id), text(tables.OWED)).order_by(_r.id))
REVIEW_COLUMNS: Final = len(_r)
_ROUND_NAMES: Final = tuple(column.name for column in tables.rounds.c)
_child = tables.reviews.alias("children").c
_children = (
    select(_child.id)
    .where(_child.parent_id == bindparam("review_id"))
    .order_by(_child.created_at, _child.id)
    .subquery("child_ids")
)
_diffs, _texts = log_tables.contents.alias("diffs"), log_tables.contents.alias("texts")
_get_with_content = Statement(
    select(
        tables.reviews,
        tables.rounds,
        _diffs.c.body,
        _texts.c.body,
        select(func.aggregate_strings(_children.c.id, " ")).scalar_subquery(),
    )
    .select_from(
        tables.reviews.outerjoin(
            tables.rounds,
            (tables.rounds.c.review_id == _r.id)
            & (tables.rounds.c.round == func.coalesce(bindparam("round", type_=Integer), _r.round)),
        )
        .outerjoin(_diffs, _diffs.c.id == tables.rounds.c.diff_id)
        .outerjoin(_texts, _texts.c.id == tables.rounds.c.description_id)
    )
    .where(_r.id == bindparam("review_id"))
)
_a = tables.approvals.c
_approvals = Statement(
    select(_a.review_id, _a.round)
    .where(*equal(_a, "project", "digest"))
    .order_by(_a.review_id)
    .limit(bindparam("limit"))
)
_get_content = Statement(select(log_tables.contents.c.body).where(log_tables.contents.c.id == bindparam("id")))
_get_submitter = Statement(
    select(tables.rounds.c.author)
    .where(
        tables.rounds.c.review_id == bindparam("review_id"),
        tables.rounds.c.round < bindparam("before"),
        tables.rounds.c.origin != COUNTER_PATCH,
    )
    .order_by(tables.rounds.c.round.desc())
    .limit(1)
)
_later = tables.rounds.alias("later")
_name, _other_name, _name_end = (bindparam(name, type_=Text) for name in ("name", "other_name", "name_end"))


def _is_mine(column: Any) -> ColumnElement[bool]:
    """As `Names.include`."""
    ended = column + _name_end
    return or_(*(func.substr(ended, 1, func.length(name)) == name for name in (_name, _other_name)))


# As `claims.is_own`: what somebody may give no verdict on would only be in their way.
IS_OWN: Final = or_(
    _is_mine(_r.proposer_id),
    exists()
    .where(
        tables.rounds.c.review_id == _r.id,
        tables.rounds.c.origin != COUNTER_PATCH,
        _is_mine(tables.rounds.c.author),
        ~exists()
        .where(
            _later.c.review_id == tables.rounds.c.review_id,
            _later.c.round > tables.rounds.c.round,
            _later.c.origin != COUNTER_PATCH,
        )
        .correlate(tables.rounds),
    )
    .correlate(tables.reviews),
    exists()
    .where(
        tables.rounds.c.review_id == _r.id,
        tables.rounds.c.round == _r.round,
        tables.rounds.c.origin == COUNTER_PATCH,
        _is_mine(tables.rounds.c.author),
        or_(tables.rounds.c.accepted_by.is_(None), _is_mine(tables.rounds.c.accepted_by)),
    )
    .correlate(tables.reviews),
)
"""Whether a review's current content is somebody's own; takes `own_params` besides."""


def own_params(names: Names) -> dict[str, str]:
    """The parameters of `IS_OWN` for somebody who goes by one name or two."""
    return {"name": names.own[0], "other_name": names.own[-1], "name_end": names.end}


def _claimable(*, held: bool) -> tuple[ColumnElement[bool], ...]:
    """What reviews have that may be claimed now: those no one holds; or, with `held`, those that have seats free."""
    return (
        *((_held, _r.seats_free > 0) if held else (_r.state == State.PENDING.value,)),
        _r.attention.is_(None),
        _r.by_checks == 0,
        or_(_r.not_before.is_(None), _r.not_before <= bindparam("now")),
    )


@cache
def _queue_head(*, held: bool, project: bool, category: bool, after: bool, skip_locked: bool) -> Statement:
    """The head of the queue that a reviewer may take; on PostgreSQL perhaps passing over what others hold.

    With `held`, of the reviews that others are at work on, and that have seats free.
    """
    statement = (
        select(tables.reviews)
        .where(*_claimable(held=held), ~IS_OWN)
        .order_by(_r.priority, _r.created_at, _r.id)
        .limit(1)
        .with_for_update(skip_locked=skip_locked)
    )
    if project:
        statement = statement.where(_r.project == bindparam("project"))
    if after:
        place: list[Any] = [bindparam(f"after_{column.name}") for column in (_r.priority, _r.created_at, _r.id)]
        statement = statement.where(tuple_(_r.priority, _r.created_at, _r.id) > tuple_(*place))
    if category:
        # Found by its state, as the pending ones are few and a category may be long.
        statement = statement.where(aside(_r.category) == bindparam("category"))
    return Statement(statement)


@dataclass(frozen=True, slots=True)
class RoundContent:
    """A review and one of its rounds, with the round's texts: all in one question, for a database that is far away.

    Attributes:
        child_ids: The reviews that resubmit this one, oldest first.
        diff: None for a text.
        text: The description, which is the content of a text.
    """

    review: Review
    round: Round
    diff: str | None
    text: str | None
    child_ids: tuple[str, ...]


def find(unit: Unit, review_id: str, *, lock: bool = False) -> Review | None:
    """A review, if there is one; with `lock`, no one else changes it before this transaction ends."""
    return unit.find(Review, _get_locked if lock else _get_plain, review_id=review_id)


def find_same(unit: Unit, review: Review) -> Review | None:
    """The newest open review in which the same agent proposed the same content as the same work."""
    wanted = {name: getattr(review, name) for name in ("project", "digest", *_SAME)}
    return unit.find(Review, _open_of_content, **wanted)


def get(unit: Unit, review_id: str, project: str | None = None, *, lock: bool = False) -> Review:
    """A review; of the project, if one is named.

    Raises:
        NotFound: There is none of that id, or it is another project's.
    """
    found = find(unit, review_id, lock=lock)
    if found is None:
        raise unknown(review_id)
    return _of(project, found)


def _of(project: str | None, found: Review) -> Review:
    if project is not None and found.project != project:
        raise NotFound(f"The project '{project}' has no review '{found.id}'.", review_id=found.id, project=project)
    return found


def unknown(review_id: str) -> NotFound:
    """The error for an id that no review has."""
    return NotFound(f"There is no review '{review_id}'. list_reviews shows what there is.", review_id=review_id)


@dataclass(frozen=True, slots=True)
class Waiting:
    """A review that could be claimed, with the paths that its round changes."""

    review: Review
    paths: frozenset[str]


@cache
def _waiting(*, held: bool) -> Statement:
    return Statement(
        select(tables.reviews, tables.rounds.c.affected_files, tables.rounds.c.path)
        .join(tables.rounds, (tables.rounds.c.review_id == _r.id) & (tables.rounds.c.round == _r.round))
        .where(_r.project == bindparam("project"), *_claimable(held=held))
        .order_by(_r.priority, _r.created_at, _r.id)
        .limit(WAITING)
    )


WAITING: Final = 200
"""Of so many reviews of a project's queue, and of those with seats free, it is asked which reviewers they are for."""


def list_waiting(unit: Unit, project: str, now_us: int) -> list[Waiting]:
    """The first of a project's reviews that could be claimed now: those no one holds, then those with seats free."""
    rows = (row for held in (False, True) for row in unit.all(_waiting(held=held), project=project, now=now_us))
    return [Waiting(Review(*row[:REVIEW_COLUMNS]), _paths(*row[REVIEW_COLUMNS:])) for row in rows]


def get_waiting(unit: Unit, review: Review) -> Waiting:
    """A review with the paths that its round changes."""
    current = get_round(unit, review.id, review.round)
    return Waiting(review, _paths(current.affected_files, current.path))


def _paths(affected_files: str, path: str | None) -> frozenset[str]:
    files: list[dict[str, Any]] = orjson.loads(affected_files)
    named = {one.get(name) for one in files for name in ("path", "old_path")} | {path}
    return frozenset(name for name in named if name)


def find_next(
    unit: Unit,
    *,
    names: Names,
    now_us: int,
    project: str | None,
    category: str | None,
    after: Review | None = None,
    held: bool = False,
) -> Review | None:
    """The head of the queue for a reviewer, locked: highest priority, then oldest, never their own.

    Args:
        unit: The unit of work.
        names: The reviewer's.
        now_us: Microseconds since the epoch.
        project: Of which project; None for any.
        category: Of which category; None for any.
        after: Only reviews behind this one.
        held: Of the reviews that others are at work on, and that have seats free.
    """
    params = {"now": now_us, **own_params(names), **stated(project=project, category=category)}
    if after is not None:
        params |= {f"after_{name}": getattr(after, name) for name in ("priority", "created_at", "id")}
    stated_as = {"project": project is not None, "category": category is not None, "after": after is not None}
    head = partial(_queue_head, held=held, **stated_as)
    found = unit.find(Review, head(skip_locked=True), **params)
    if found is None and unit.dialect == "postgresql":
        # A review that was passed over may be locked only just now: wait for it, before the queue is called empty.
        return unit.find(Review, head(skip_locked=False), **params)
    return found


def renew(unit: Unit, review: Review, generation: int, lease_expires_at: int) -> bool:
    """Extend a lease of a locked review if that generation still holds a claim; whether it does."""
    if any(one.generation == generation for one in beside(review)):
        leases = with_lease(review, generation, lease_expires_at).leases
        return unit.execute(_renew_beside, key=review.id, new_leases=leases) == 1
    return unit.execute(_renew, key=review.id, generation=generation, new_lease=lease_expires_at) == 1


def list_expired(unit: Unit, now_us: int, latest_us: int, limit: int) -> list[str]:
    """Reviews with a lease that has run out, longest overdue first, or ends later than one that is taken now."""
    found = [row[0] for row in unit.all(_expired, now=now_us, latest=latest_us, limit=limit)]
    for review_id, leases in unit.all(_beside):
        if not all(now_us < lease <= latest_us for lease in orjson.loads(leases).values()):
            found.append(review_id)
    return [*dict.fromkeys(found)]


def get_round(unit: Unit, review_id: str, number: int) -> Round:
    """One round of a review.

    Raises:
        NotFound: The review has no such round.
    """
    row = unit.one_or_none(_get_round, review_id=review_id, round=number)
    if row is None:
        raise _no_round(review_id, number)
    return _as_round(row)


def get_content(unit: Unit, review_id: str, project: str | None = None, number: int | None = None) -> RoundContent:
    """A review, of the project if one is named, and a round of it with its texts, by default the current one.

    Raises:
        NotFound: There is no such review (in that project), or round.
    """
    row = unit.one_or_none(_get_with_content, review_id=review_id, round=number)
    if row is None:
        raise unknown(review_id)
    review = _of(project, Review(*row[:REVIEW_COLUMNS]))
    *columns, diff, text, children = row[REVIEW_COLUMNS:]
    if columns[0] is None:
        raise _no_round(review_id, number)
    current = _as_round(columns)
    texts = (_kept(current.diff_id, diff), _kept(current.description_id, text))
    return RoundContent(review, current, *texts, tuple((children or "").split()))


def _as_round(columns: Sequence[Any]) -> Round:
    return Round(**dict(zip(_ROUND_NAMES, columns, strict=True)))


def _no_round(review_id: str, number: int | None) -> NotFound:
    return NotFound(f"The review '{review_id}' has no round {number}.", review_id=review_id, round=number)


def list_rounds(unit: Unit, review_id: str) -> list[Round]:
    """All rounds of a review, oldest first."""
    return [_as_round(row) for row in unit.all(_rounds, review_id=review_id)]


def submitter(unit: Unit, current: Round) -> str:
    """Who sent the content that a round is, or that its accepted counter-patches go back to."""
    if current.origin != COUNTER_PATCH:
        return current.author
    return unit.value(_get_submitter, review_id=current.review_id, before=current.round) or current.author


def authors(unit: Unit, review: Review, current: Round) -> str:
    """Who wrote the content of a review's round, as `Finding.written_by` has them."""
    return orjson.dumps([*dict.fromkeys((review.proposer_id, submitter(unit, current), current.author))]).decode()


def list_approvals(unit: Unit, project: str, digest: str, limit: int) -> list[tuple[str, int]]:
    """The reviews and rounds that approved a digest and still do."""
    return [(row[0], row[1]) for row in unit.all(_approvals, project=project, digest=digest, limit=limit)]


def find_content(unit: Unit, content_id: str | None) -> str | None:
    """A text from the content store; None for no name."""
    return None if content_id is None else _kept(content_id, unit.value(_get_content, id=content_id))


def _kept(content_id: str | None, body: str | None) -> str | None:
    if content_id is not None and body is None:
        raise LookupError(f"the content {content_id} is missing from the store")
    return body


_m = tables.messages.c
_findings = tables.findings.c
_verdicts = tables.verdicts.c
_p = tables.counter_patches.c

_find_message = Statement(select(tables.messages).where(*equal(_m, "id", "review_id")))
_newest_question = Statement(
    select(_m.id)
    .where(*equal(_m, "review_id"), _m.kind == "question", _m.resolved_by.is_(None), _m.id != bindparam("but"))
    .order_by(_m.seq.desc())
    .limit(1)
)
_find_counter_patch = Statement(select(tables.counter_patches).where(*equal(_p, "id", "review_id")))

# Within one event the verdict comes first, then its findings in their order, then its counter-patch.
_VERDICT_POSITION = -1
_COUNTER_PATCH_POSITION = 1_000_000


@cache
def _entries(*, by_round: bool) -> Statement:
    """Kind, id and place of the discussion's entries, in order, from one place on."""

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
        part(literal("message"), _m.id, _m, literal(0)),
        part(literal("finding"), _findings.id, _findings, _findings.position),
        part(literal("verdict"), _verdicts.id, _verdicts, literal(_VERDICT_POSITION)),
        part(literal("counter_patch"), _p.id, _p, literal(_COUNTER_PATCH_POSITION)),
    ).subquery()
    return Statement(select(union).order_by(union.c.seq, union.c.position).limit(bindparam("limit")))


_list_verdicts = Statement(
    select(_verdicts.round, _verdicts.verdict)
    .where(_verdicts.review_id == bindparam("review_id"))
    .order_by(_verdicts.seq)
)
_get_verdict = Statement(select(tables.verdicts).where(_verdicts.id == bindparam("id")))


def list_entries(
    unit: Unit, review_id: str, *, round_number: int | None, after: tuple[int, int], limit: int
) -> list[tuple[str, str, int, int]]:
    """Kind, id, event number and position of the discussion's entries after a place, oldest first."""
    params = {"review_id": review_id, "after_seq": after[0], "after_position": after[1], "limit": limit}
    statement = _entries(by_round=round_number is not None)
    return [(row[0], row[1], row[2], row[3]) for row in unit.all(statement, **params, **stated(round=round_number))]


def find_message(unit: Unit, review_id: str, message_id: str) -> Message | None:
    """A message of a review, if there is one of that id."""
    return unit.find(Message, _find_message, id=message_id, review_id=review_id)


def find_question(unit: Unit, review_id: str, but: str) -> str | None:
    """The newest question from the side that no one has answered, apart from one."""
    return unit.value(_newest_question, review_id=review_id, but=but)


def find_counter_patch(unit: Unit, review_id: str, counter_patch_id: str) -> CounterPatch | None:
    """A counter-patch of a review, if there is one of that id."""
    return unit.find(CounterPatch, _find_counter_patch, id=counter_patch_id, review_id=review_id)


def list_verdicts(unit: Unit, review_id: str) -> list[tuple[int, str]]:
    """Each verdict on a review with its round, oldest first."""
    return [(row[0], row[1]) for row in unit.all(_list_verdicts, review_id=review_id)]


def get_entry(unit: Unit, review_id: str, kind: str, entry_id: str) -> Message | Verdict | CounterPatch | Finding:
    """What `list_entries` names by its kind and id."""
    match kind:
        case "verdict":
            found = unit.find(Verdict, _get_verdict, id=entry_id)
        case "counter_patch":
            found = find_counter_patch(unit, review_id, entry_id)
        case "finding":
            found = finding_queries.get(unit, entry_id)
        case _:
            found = find_message(unit, review_id, entry_id)
    if found is None:
        raise LookupError(f"the {kind} {entry_id} is missing")
    return found


_checks = tables.checks.c
_checks_of_round = Statement(
    select(tables.checks).where(*equal(_checks, "review_id", "round")).order_by(_checks.position, _checks.name)
)
# As the index has it, to the letter.
_unfinished = (
    select(tables.checks).where(text(tables.UNFINISHED_CHECKS)).order_by(_checks.requested_at, _checks.review_id)
)
_all_unfinished = Statement(_unfinished.limit(bindparam("limit")))
_unfinished_of_project = Statement(_unfinished.where(_checks.project == bindparam("project")).limit(bindparam("limit")))
_alike_checks = Statement(
    select(tables.checks)
    .where(
        *equal(_checks, "project", "tree", "name", "command_hash"),
        _checks.status.in_(sorted(SAYS_SOMETHING | UNFINISHED)),
    )
    .order_by(_checks.started_at.desc())
    .limit(20)
)


def list_checks(unit: Unit, review_id: str, number: int) -> tuple[CheckRun, ...]:
    """The checks of a round, in the order of their file."""
    return tuple(unit.list_of(CheckRun, _checks_of_round, review_id=review_id, round=number))


def list_owing(unit: Unit, review_ids: Sequence[str]) -> list[Review]:
    """Those of these reviews that owe one after the fact."""
    return [one for some in in_pieces(review_ids) for one in unit.list_of(Review, _owing, **some)]


def list_unfinished_checks(unit: Unit, project: str | None, limit: int) -> list[CheckRun]:
    """Checks that still have to run, or run now, longest waiting first."""
    if project is None:
        return unit.list_of(CheckRun, _all_unfinished, limit=limit)
    return unit.list_of(CheckRun, _unfinished_of_project, project=project, limit=limit)


def list_alike_checks(unit: Unit, run: CheckRun, tree: str) -> Iterable[CheckRun]:
    """The same check of the same tree, in any round, newest first: those that run or say something."""
    alike = {name: getattr(run, name) for name in ("project", "name", "command_hash")}
    return [one for one in unit.list_of(CheckRun, _alike_checks, tree=tree, **alike) if one[:3] != run[:3]]


_viewed = tables.viewed_files.c
_insert_viewed = insert_if_new(tables.viewed_files)
_delete_viewed = Statement(delete(tables.viewed_files).where(*equal(_viewed, "review_id", "round", "person", "path")))
_list_viewed = Statement(select(_viewed.path).where(*equal(_viewed, "review_id", "round", "person")))


def mark_viewed(unit: Unit, review_id: str, number: int, person: str, path: str, now_us: int) -> None:
    """Mark a file; one that is marked keeps its mark."""
    unit.execute(_insert_viewed, review_id=review_id, round=number, person=person, path=path, viewed_at=now_us)


def unmark_viewed(unit: Unit, review_id: str, number: int, person: str, path: str) -> None:
    """Take a file's mark away, if it has one."""
    unit.execute(_delete_viewed, review_id=review_id, round=number, person=person, path=path)


def list_viewed(unit: Unit, review_id: str, number: int, person: str) -> list[str]:
    """The files that are marked, in the order of their letters' numbers, which is the same on every database."""
    rows = unit.all(_list_viewed, review_id=review_id, round=number, person=person)
    return sorted(str(row[0]) for row in rows)
