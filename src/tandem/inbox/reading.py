"""The inbox: the reviews that wait for a person or for others, and problems.

Every open page reads it again on every event, so it looks at open reviews and at nothing else.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final, NamedTuple

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


_HELD_UP_ROWS: Final = 20
"""Of the reviews that one cause holds up, so many are shown."""


class Trays(NamedTuple):
    """What an inbox is made of.

    Attributes:
        lists: The three lists, each with at most one more than is shown: only the shown ones are made into items. What
            holds up reviews is a pool, or a reviewer by the id.
        held_up: The reviews that each pool or reviewer holds up, by its id.
        earliest: Since when each of these has done so.
    """

    lists: dict[ListName, list[tuple[Placement, Review | Pool | str]]]
    held_up: dict[str, list[Review]]
    earliest: dict[str, Placement]


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
        trays = _filled(unit, services, person, project, limit, now, drafted)
        lists = {tray: held[:limit] for tray, held in trays.lists.items()}
        sizes = inbox.list_sizes(
            unit, [what.id for held in lists.values() for _, what in held if isinstance(what, Review)]
        )

        def item(place: Placement, what: Review | Pool | str) -> InboxItem:
            if isinstance(what, Review):
                return _item(unit, what, place, has_draft=what.id in drafted, **sizes.get(what.id, {}))
            return _cause(unit, what, trays, place, now)

        shown = {tray: tuple(item(*one) for one in held) for tray, held in lists.items()}
        counts = InboxCounts(**{tray: len(held) for tray, held in trays.lists.items()})
        return Inbox(person=person, **shown, counts=counts, cursor=services.waits.cursor(newest))

    return await services.store.read(work)


def _filled(
    unit: Unit,
    services: Services,
    person: str,
    project: str | None,
    limit: int,
    now_us: int,
    drafted: frozenset[str],
) -> Trays:
    trays = Trays({"your_turn": [], "waiting": [], "problems": []}, {}, {})

    def put(place: Placement, what: Review | Pool | str) -> None:
        if len(trays.lists[place.tray]) <= limit:
            trays.lists[place.tray].append((place, what))

    pools = {pool.id: pool for pool in reviewers.list_pools(unit) if project is None or pool.serves(project)}
    for pool in pools.values():
        found = rules.pool_place(pool, now_us)
        if found is not None:
            put(found, pool)
            trays.held_up[pool.id], trays.earliest[pool.id] = [], found
    wrong = frozenset(trays.held_up)

    @cache
    def served_by(name: str) -> tuple[Pool | None, Pool | None]:
        """The running pool that takes a project, and one that would if it were not for its problem."""
        serving = [pool for pool in pools.values() if services.projects.is_registered(name) and pool.serves(name)]
        running = next((pool for pool in serving if rules.takes(pool, name, now_us)), None)
        return running, next((pool for pool in serving if pool.id in wrong), None)

    for review, authored in _open(unit, person, project, limit, now_us, by_token=services.authenticator.required):
        standing = review.state == State.REJECTED and inbox.is_standing(unit, review.id)
        pool, blocked = served_by(review.project)
        has_draft = review.id in drafted
        around = InboxContext(
            person, now_us, authored=authored, pool=pool, blocked=blocked, drafted=has_draft, standing=standing
        )
        place = rules.place(review, around)
        if place.cause is None:
            put(place, review)
            continue
        if place.cause not in trays.held_up:
            put(place, pools.get(place.cause, place.cause))
            trays.held_up[place.cause], trays.earliest[place.cause] = [], place
        trays.held_up[place.cause].append(review)
        if place.cause not in wrong and place.since_us < trays.earliest[place.cause].since_us:
            trays.earliest[place.cause] = place
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


def _item(unit: Unit, review: Review, place: Placement, **more: Any) -> InboxItem:
    handoff = cycles.find_by_review(unit, review.id) if review.category == "handoff" else None
    handed = handoff and f"{handoff.producer} hands {handoff.phase} over to {handoff.target}"
    return InboxItem(
        kind="review" if handoff is None else "cycle",
        why=place.why,
        since=isoformat(place.since_us),
        review=views.row(review),
        pool=None,
        who=place.who,
        detail=place.detail or handed,
        **more,
    )


def _cause(unit: Unit, what: Pool | str, trays: Trays, place: Placement, now_us: int) -> InboxItem:
    """A pool or a reviewer with the reviews that it holds up."""
    key = what if isinstance(what, str) else what.id
    place, held = trays.earliest[key], trays.held_up[key]
    if isinstance(what, str):
        reviewer = reviewers.find(unit, what)
        pool = reviewer and reviewers.find_pool(unit, reviewer.pool_id)
        said = rules.cause_of_silence(reviewer.name if reviewer else what, place, len(held), now_us)
    else:
        pool = what
        newest = reviewers.list_newest(unit, what, 1) if place.why == "circuit_open" else []
        said = rules.cause(what, place, len(held), now_us, (newest[0].end_reason or "") if newest else "")
    view = pool and pool_admin.pool_view(unit, pool, reviewers.list_live(unit, pool.id), now_us)
    return InboxItem(
        kind="reviewer" if isinstance(what, str) else "pool",
        why=place.why,
        since=isoformat(place.since_us),
        review=None,
        pool=view,
        who=place.who,
        detail=view and view.why,
        cause=said,
        holds_up=tuple(views.row(one) for one in held[:_HELD_UP_ROWS]),
        held_up=len(held),
    )
