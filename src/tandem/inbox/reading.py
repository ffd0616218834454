"""The inbox: the reviews that wait for a person or for others, and problems.

Every open page reads it again on every event, so it looks at open reviews and at nothing else.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

from tandem.contract.caller import Caller, Names
from tandem.core.clock import MICROSECONDS, isoformat
from tandem.cycles import queries as cycles
from tandem.gate import queries as gate
from tandem.gate.rules import Override
from tandem.inbox import queries as inbox
from tandem.inbox import rules
from tandem.inbox.contract import GetInbox, Inbox, InboxCounts, InboxItem
from tandem.inbox.rules import InboxContext, ListName, Placement
from tandem.pool import admin as pool_admin
from tandem.pool import queries as reviewers
from tandem.pool.plan import rules_of
from tandem.pool.rules import Pool, Reviewer
from tandem.reviews import report_queries as reports
from tandem.reviews import seats, views
from tandem.reviews.context import Services
from tandem.reviews.rules import Review, State
from tandem.store import pages
from tandem.store.base import Unit

SCAN_LIMIT: Final = 1_000
"""Open reviews that are read for each side's turn; beyond it only those that concern the person, and problems."""

_SIDES: Final = ("reviewer", "proposer")


_HELD_UP_ROWS: Final = 20
"""Of the reviews that one cause holds up, so many are shown."""


@dataclass(slots=True)
class _Cause:
    """A pool, or a reviewer by the id, with the reviews that it holds up, or at which its reviewers failed alike."""

    what: Pool | str
    place: Placement
    held: list[Review] = field(default_factory=list[Review])

    def add(self, review: Review, place: Placement) -> None:
        """Add a review; a cause known only from its reviews began with the oldest of them."""
        self.held.append(review)
        if self.place.why in ("stuck", "attention"):
            self.place = min(self.place, place, key=lambda one: one.since_us)


_What = Review | Override | _Cause
Trays = dict[ListName, list[tuple[Placement, _What]]]
"""The three lists, each with at most one more than is shown: only the shown ones are made into items."""


async def get_inbox(services: Services, caller: Caller, request: GetInbox) -> Inbox:
    """A person's inbox; of every project unless one is named.

    Raises:
        TooLarge: More rows than a page may have.
    """
    person, limit = request.person, request.limit
    project = request.project or caller.project
    pages.check_limit(services, limit)

    def work(unit: Unit) -> Inbox:
        newest = services.waits.newest(unit)
        now = services.clock.now_us()
        drafted = inbox.list_drafted(unit, person)
        trays = _filled(unit, services, request, project, now, drafted)
        shown = {tray: held[:limit] for tray, held in trays.items()}
        sizes = inbox.list_sizes(
            unit, [one.id for held in shown.values() for _, one in held if isinstance(one, Review)]
        )
        items = {
            tray: tuple(
                _item(unit, what, place, has_draft=what.id in drafted, **sizes[what.id])
                if isinstance(what, Review)
                else _cause(unit, what, now)
                if isinstance(what, _Cause)
                else InboxItem(
                    "override", place.why, isoformat(place.since_us), who=place.who, cause=rules.overrode(what)
                )
                for place, what in held
            )
            for tray, held in shown.items()
        }
        counts = InboxCounts(**{tray: len(held) for tray, held in trays.items()})
        return Inbox(person=person, **items, counts=counts, cursor=services.waits.cursor(newest))

    return await services.store.read(work)


def _filled(
    unit: Unit, services: Services, request: GetInbox, project: str | None, now_us: int, drafted: frozenset[str]
) -> Trays:
    person, limit = request.person, request.limit
    trays: Trays = {"your_turn": [], "waiting": [], "problems": _overrides(unit, person, project, limit, now_us)}
    causes: dict[str, _Cause] = {}

    def put(place: Placement, what: _What) -> None:
        if len(trays[place.tray]) <= limit:
            trays[place.tray].append((place, what))

    def cause(key: str, what: Pool | str, place: Placement) -> _Cause:
        if key not in causes:
            causes[key] = _Cause(what, place)
            put(place, causes[key])
        return causes[key]

    pools = {pool.id: pool for pool in reviewers.list_pools(unit) if project is None or pool.serves(project)}
    for pool in pools.values():
        found = rules.pool_place(pool, now_us)
        if found is not None:
            cause(pool.id, pool, found)
    wrong = frozenset(causes)
    silent, full = _silent(unit, pools)

    @cache
    def served_by(name: str) -> tuple[Pool | None, Pool | Reviewer | None]:
        """The running pool that takes a project; one that would but for its problem, or the reviewer that fills it."""
        serving = [pool for pool in pools.values() if services.projects.is_registered(name) and pool.serves(name)]
        running = next((one for one in serving if one.id not in full and rules.takes(one, name, now_us)), None)
        blocked = (one if one.id in wrong else full[one.id] for one in serving if one.id in wrong or one.id in full)
        return running, next(blocked, None)

    for review, authored in _open(unit, person, project, limit, now_us, by_token=services.authenticator.required):
        standing = review.state == State.REJECTED and inbox.is_standing(unit, review.id)
        pool, blocked = served_by(review.project)
        is_drafted, silent_us = review.id in drafted, silent.get(review.reviewer_id or "")
        seat, seated = seats.waits(review), seats.is_done(review, person)
        around = InboxContext(person, now_us, authored, pool, blocked, is_drafted, standing, silent_us, seat, seated)
        place = rules.place(reports.with_objections(unit, review), around)
        if place.cause is None:
            put(place, review)
        else:
            cause(place.cause, pools.get(place.cause.partition(" ")[0], place.cause), place).add(review, place)
    return trays


def _silent(unit: Unit, pools: Mapping[str, Pool]) -> tuple[dict[str, int], dict[str, Reviewer]]:
    """Since when reviewers are silent, and of each full pool that has no others the one that is so longest."""
    live = reviewers.list_live(unit) if pools else []
    silent = {one.id: since for one in live if (since := one.said().get("silent_us")) is not None}
    held, full = reviewers.held_reviews(unit) if silent else {}, dict[str, Reviewer]()
    for pool in pools.values():
        own = [one for one in live if one.pool_id == pool.id]
        if own and all(one.id in held and one.id in silent for one in own) and len(own) >= rules_of(pool).max_pool_size:
            full[pool.id] = min(own, key=lambda one: silent[one.id])
    return silent, full


def _overrides(unit: Unit, person: str, project: str | None, limit: int, now_us: int) -> list[tuple[Placement, _What]]:
    since_us = now_us - rules.SHOWN_SECONDS * MICROSECONDS
    found = gate.list_unseen(unit, person, project=project, since_us=since_us, limit=limit + 1)
    return [(Placement("problems", "overridden", one.overridden_at, f"{one.project}/{one.id}"), one) for one in found]


def _open(
    unit: Unit, person: str, project: str | None, limit: int, now_us: int, *, by_token: bool
) -> list[tuple[Review, bool]]:
    """Open reviews in order; of very many, the head of the queue, those that concern the person, and problems."""
    names = Names.of(person, by_token=by_token)
    sides = [inbox.list_open(unit, side, names=names, project=project, limit=SCAN_LIMIT) for side in _SIDES]
    found = {review.id: (review, authored) for side in sides for review, authored in side}
    before = now_us - rules.OVERDUE_SECONDS * MICROSECONDS
    # Debts stand on closed reviews, too.
    for special in inbox.SPECIAL if any(len(side) == SCAN_LIMIT for side in sides) else ("owed",):
        rows = inbox.list_special(
            unit, special, person=person, names=names, project=project, limit=limit + 1, before_us=before
        )
        found.update((review.id, (review, authored)) for review, authored in rows)
    return sorted(found.values(), key=lambda one: rules.rank(one[0], person))


def _item(unit: Unit, review: Review, place: Placement, **more: Any) -> InboxItem:
    handoff = cycles.find_by_review(unit, review.id) if review.category == "handoff" else None
    handed = handoff and f"{handoff.producer} hands {handoff.phase} over to {handoff.target}"
    return InboxItem(
        kind="review" if handoff is None else "cycle",
        why=place.why,
        since=isoformat(place.since_us),
        review=views.row(review),
        who=place.who,
        detail=place.detail or handed,
        **more,
    )


def _cause(unit: Unit, cause: _Cause, now_us: int) -> InboxItem:
    what, place, held = cause.what, cause.place, cause.held
    name, pool = what, what
    if isinstance(what, str):
        reviewer = reviewers.find(unit, what)
        name = reviewer.name if reviewer else what
        pool = reviewer and reviewers.find_pool(unit, reviewer.pool_id)
    view = (
        pool_admin.pool_view(unit, pool, reviewers.list_live(unit, pool.id), now_us) if isinstance(pool, Pool) else None
    )
    return InboxItem(
        kind="failure" if place.why == "attention" else "reviewer" if isinstance(what, str) else "pool",
        why=place.why,
        since=isoformat(place.since_us),
        pool=view,
        who=place.who,
        detail=view and view.why,
        cause=rules.cause(name, place, len(held), now_us, (view and view.why) or ""),
        holds_up=tuple(views.row(one) for one in held[:_HELD_UP_ROWS]),
        held_up=len(held),
    )
