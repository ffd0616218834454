"""The inbox: what waits for a person, what for others, and what is wrong.

It is read anew on every event by every page that is open, so it looks at what is open and at nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache
from typing import Final

from tandem.contract.access import Names
from tandem.contract.caller import Caller
from tandem.core.clock import MICROSECONDS, isoformat
from tandem.cycles import queries as cycles
from tandem.inbox import queries as inbox
from tandem.inbox import rules
from tandem.inbox.contract import GetInbox, Inbox, InboxCounts, InboxItem
from tandem.inbox.queries import Special
from tandem.inbox.rules import InboxContext, ListName, Placement
from tandem.pool import admin as pool_admin
from tandem.pool import queries as reviewers
from tandem.pool.rules import Pool
from tandem.reviews import views
from tandem.reviews.context import Services
from tandem.reviews.rules import Review, State
from tandem.store import pages
from tandem.store.base import Unit

SCAN_LIMIT: Final = 1_000
"""Open reviews of each side's turn that are looked at; beyond it only those that concern the person, or are wrong."""

_SPECIAL: Final[tuple[Special, ...]] = ("own", "offered", "held", "attention", "escalated", "rejected", "overdue")
_SIDES: Final = ("reviewer", "proposer")


@dataclass(frozen=True, slots=True)
class _Lists:
    """The three lists, each with at most one more than is shown: only what is shown is made into items."""

    limit: int
    held: dict[ListName, list[tuple[Placement, Review | Pool]]] = field(
        default_factory=lambda: {"your_turn": [], "waiting": [], "problems": []}
    )

    def put(self, place: Placement, what: Review | Pool) -> None:
        """Add something, unless its list is full."""
        tray = self.held[place.tray]
        if len(tray) <= self.limit:
            tray.append((place, what))

    def shown(self, tray: ListName, unit: Unit, now_us: int) -> tuple[InboxItem, ...]:
        """What is shown of a list."""
        return tuple(
            _review_item(unit, what, place) if isinstance(what, Review) else _pool_item(unit, what, place, now_us)
            for place, what in self.held[tray][: self.limit]
        )


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
        trays = _fill(unit, services, person, project, _Lists(limit), now)
        count = {tray: len(held) for tray, held in trays.held.items()}
        return Inbox(
            person=person,
            your_turn=trays.shown("your_turn", unit, now),
            waiting=trays.shown("waiting", unit, now),
            problems=trays.shown("problems", unit, now),
            counts=InboxCounts(count["your_turn"], count["waiting"], count["problems"]),
            cursor=services.waits.cursor(newest),
        )

    return await services.store.read(work)


def _fill(unit: Unit, services: Services, person: str, project: str | None, trays: _Lists, now_us: int) -> _Lists:
    pools = [pool for pool in reviewers.list_pools(unit) if project is None or pool.serves(project)]
    for pool in pools:
        found = rules.pool_place(pool, now_us)
        if found is not None:
            trays.put(found, pool)

    @cache
    def taken_by(name: str) -> str | None:
        if not services.projects.is_registered(name):
            return None
        return next((pool.id for pool in pools if rules.takes(pool, name, now_us)), None)

    for review, authored in _open(unit, person, project, trays.limit, now_us, by_token=services.authenticator.required):
        standing = review.state == State.REJECTED and inbox.is_standing(unit, review.id)
        around = InboxContext(person, now_us, authored=authored, pool=taken_by(review.project), standing=standing)
        trays.put(rules.place(review, around), review)
    return trays


def _open(
    unit: Unit, person: str, project: str | None, limit: int, now_us: int, *, by_token: bool
) -> list[tuple[Review, bool]]:
    """What is open, in its order; of very much, the head of the queue and what concerns the person or is wrong."""
    names = Names.of(person, by_token=by_token)
    sides = [inbox.list_open(unit, side, names=names, project=project, limit=SCAN_LIMIT) for side in _SIDES]
    found = {review.id: (review, authored) for side in sides for review, authored in side}
    if any(len(side) == SCAN_LIMIT for side in sides):
        before = now_us - rules.OVERDUE_SECONDS * MICROSECONDS
        for special in _SPECIAL:
            rows = inbox.list_special(
                unit, special, person=person, names=names, project=project, limit=limit + 1, before_us=before
            )
            found.update((review.id, (review, authored)) for review, authored in rows)
    return sorted(found.values(), key=lambda one: rules.rank(one[0], person))


def _review_item(unit: Unit, review: Review, place: Placement) -> InboxItem:
    kind, detail = "review", place.detail
    if review.category == "handoff":
        handoff = cycles.find_by_review(unit, review.id)
        if handoff is not None:
            kind = "cycle"
            detail = detail or f"{handoff.producer} hands {handoff.phase} over to {handoff.target}"
    return InboxItem(
        kind=kind,
        why=place.why,
        since=isoformat(place.since_us),
        review=views.row(review),
        pool=None,
        who=place.who,
        detail=detail,
    )


def _pool_item(unit: Unit, pool: Pool, place: Placement, now_us: int) -> InboxItem:
    shown = pool_admin.pool_view(unit, pool, reviewers.list_live(unit, pool.id), now_us)
    return InboxItem(
        kind="pool",
        why=place.why,
        since=isoformat(place.since_us),
        review=None,
        pool=shown,
        who=place.who,
        detail=shown.why,
    )
