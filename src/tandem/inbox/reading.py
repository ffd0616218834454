"""The inbox: the reviews that wait for a person or for others, and problems.

Every open page reads it again on every event, so it looks at open reviews and at nothing else.
"""

from __future__ import annotations

from functools import cache, partial
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


Trays = dict[ListName, list[tuple[Placement, Review | Pool]]]
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
        trays = _filled(unit, services, person, project, limit, now)
        drafted = inbox.list_drafted(unit, person)
        shown = {
            tray: tuple(_item(unit, what, place, now, drafted) for place, what in held[:limit])
            for tray, held in trays.items()
        }
        counts = InboxCounts(**{tray: len(held) for tray, held in trays.items()})
        return Inbox(person=person, **shown, counts=counts, cursor=services.waits.cursor(newest))

    return await services.store.read(work)


def _filled(unit: Unit, services: Services, person: str, project: str | None, limit: int, now_us: int) -> Trays:
    trays: Trays = {"your_turn": [], "waiting": [], "problems": []}

    def put(place: Placement, what: Review | Pool) -> None:
        if len(trays[place.tray]) <= limit:
            trays[place.tray].append((place, what))

    pools = [pool for pool in reviewers.list_pools(unit) if project is None or pool.serves(project)]
    for pool in pools:
        found = rules.pool_place(pool, now_us)
        if found is not None:
            put(found, pool)

    @cache
    def taken_by(name: str) -> str | None:
        if not services.projects.is_registered(name):
            return None
        return next((pool.id for pool in pools if rules.takes(pool, name, now_us)), None)

    for review, authored in _open(unit, person, project, limit, now_us, by_token=services.authenticator.required):
        standing = review.state == State.REJECTED and inbox.is_standing(unit, review.id)
        around = InboxContext(person, now_us, authored=authored, pool=taken_by(review.project), standing=standing)
        put(rules.place(review, around), review)
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


def _item(unit: Unit, what: Review | Pool, place: Placement, now_us: int, drafted: frozenset[str]) -> InboxItem:
    item = partial(InboxItem, why=place.why, since=isoformat(place.since_us), who=place.who)
    if isinstance(what, Pool):
        pool = pool_admin.pool_view(unit, what, reviewers.list_live(unit, what.id), now_us)
        return item(kind="pool", review=None, pool=pool, detail=pool.why)
    handoff = cycles.find_by_review(unit, what.id) if what.category == "handoff" else None
    handed = handoff and f"{handoff.producer} hands {handoff.phase} over to {handoff.target}"
    kind = "review" if handoff is None else "cycle"
    return item(
        kind=kind, review=views.row(what), pool=None, detail=place.detail or handed, has_draft=what.id in drafted
    )
