"""What waits for a person, as the list shows it. The only module that knows how the broker is asked for it."""

from __future__ import annotations

from dataclasses import dataclass

from tandem.client import TandemClient
from tandem.domain.answers import ReviewRow
from tandem.domain.inbox_answers import InboxItem

_LIMIT = 100


@dataclass(frozen=True, slots=True)
class Item:
    """One thing that is open.

    Attributes:
        key: Tells it from every other in the inbox.
        kind: What it is: `review`, `cycle` (its hand-off is a review) or `pool`.
        why: The code for why it is where it is.
        since: Since when, ISO 8601.
        title: What it is about.
        project: Its project; null for a pool, which is of a whole broker.
        review: The review, if it is one.
        who: Whom it waits on, if that is known.
        detail: The reason, if there is more to say.
    """

    key: str
    kind: str
    why: str
    since: str
    title: str
    project: str | None
    review: ReviewRow | None
    who: str | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class Tray:
    """One of the three lists.

    Attributes:
        title: Its heading.
        items: What is in it, in the broker's order.
        count: How many there are, as it is shown: `3`, `100+`.
    """

    title: str
    items: tuple[Item, ...]
    count: str


@dataclass(frozen=True, slots=True)
class Inbox:
    """Everything that is open, by whose turn it is."""

    your_turn: Tray
    problems: Tray
    waiting: Tray

    @property
    def trays(self) -> tuple[Tray, ...]:
        """In the order in which they are shown."""
        return (self.your_turn, self.problems, self.waiting)


async def read(client: TandemClient, person: str, project: str | None) -> Inbox:
    """Ask the broker.

    Raises:
        TandemError: It refuses, or none answers.
    """
    found = await client.get_inbox(person=person, project=project, limit=_LIMIT)
    counts = found.counts
    return Inbox(
        _tray("Your turn", found.your_turn, counts.your_turn),
        _tray("Problems", found.problems, counts.problems),
        _tray("Waiting on others", found.waiting, counts.waiting),
    )


def _tray(title: str, items: tuple[InboxItem, ...], count: int) -> Tray:
    return Tray(title, tuple(map(_item, items)), f"{_LIMIT}+" if count > _LIMIT else str(count))


def _item(item: InboxItem) -> Item:
    if item.review is not None:
        key, title, project = item.review.review_id, item.review.intent, item.review.project
    else:
        name = item.pool.supervisor_id if item.pool is not None else ""
        key, title, project = f"pool {name}", f"Reviewer pool {name}", None
    return Item(key, item.kind, item.why, item.since, title, project, item.review, item.who, item.detail)
