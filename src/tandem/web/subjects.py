"""Events in plain words: their subjects, their actors, and the facts that matter to a person."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import quote

from tandem.cycles.answers import CyclePage
from tandem.pool.contract import ReviewerList
from tandem.pool.rules import plainly
from tandem.present.facts import Fact, details
from tandem.present.words import reviewer_name
from tandem.reviews.answers import EventView
from tandem.web.page import PageRequest
from tandem.webhooks.contract import DeliveryView

_MOST_CYCLES = 200
_TECHNICAL = (
    "digest", "generation", "pool", "pid", "incarnation", "rotation", "runner", "tree", "validated", "intent",
    "feature", "quick", "named", "old", "new",
)  # fmt: skip
_TECHNICAL_ENDINGS = ("_generation", "_id", "_ids", "_hash", "_digest")
_SAYS_NOTHING = (None, "", "normal")
_CODES = ("category", "outcome", "kind", "phase", "next_phase", "sender_role", "what")
"""Facts whose values are names of the contract."""
_WITH_OUTPUT = frozenset({
    "review_reclaimed", "attention_raised", "pool_paused", "pool_resumed", "circuit_opened", "reviewer_terminated",
    "reviewer_outcome",
})  # fmt: skip
_NAME = re.compile(r"[\w-]+")


class Names:
    """Plain names for the subjects and actors of events.

    Args:
        known: The intents of reviews, the hosts of pools and the features of cycles, by their ids.
    """

    def __init__(self, known: Mapping[str, str]) -> None:
        self.known = known

    def subject(self, event: EventView | DeliveryView, project: str | None = None) -> tuple[str, str | None]:
        """The subject of an event in words, and the address of its page, if it has one."""
        kind, is_other, rest = event.subject.partition(":")
        if not is_other:
            is_log = kind == "log"
            return ("the log", None) if is_log else (self.called(kind), f"/reviews/{quote(kind)}")
        pages = {"project": "/projects/", "gate": "/projects/", "reviewer": "/reviewers/"}
        if kind in pages:
            return ("gate of " if kind == "gate" else "") + self.called(rest), pages[kind] + quote(rest, safe="")
        if kind == "cycle":
            place = f"/cycles/{quote(project, safe='')}/{quote(rest, safe='')}" if project else None
            return self.known.get(rest) or " ".join(rest.split("_")[1:-1]).replace("-", " "), place
        if kind == "pool":
            return f"pool on {self.called(rest)}", "/reviewers"
        of = {"key": rest.rpartition("/")[2], "override": rest.rpartition("/")[0], "session": event.actor}.get(kind)
        return f"{kind} of {of}" if of else kind, {"webhook": "/webhooks"}.get(kind)

    def called(self, name: str) -> str:
        """A name without its technical parts: the title of a review, the host of a pool."""
        unknown = {"rv_": "a review", "sv_": "a pool"}.get(name[:3])
        return self.known.get(name) or unknown or reviewer_name(name)

    def facts(self, event: EventView) -> list[Fact]:
        """What an event says besides its kind, without ids, digests and generations."""
        return details(
            {
                name: self._said(name, value, is_output=has_output(event))
                for name, value in event.data.items()
                if value is not False  # which 0 is equal to
                and value not in (*_SAYS_NOTHING, event.new, event.actor)
                and name not in _TECHNICAL
                and not name.endswith(_TECHNICAL_ENDINGS)
            }
        )

    def _said(self, name: str, value: Any, *, is_output: bool) -> Any:
        if not isinstance(value, str):
            return value
        if name in _CODES:
            return value.replace("_", " ")
        return _NAME.sub(lambda one: self.called(one[0]), plainly(value) if is_output else value)


def has_output(event: EventView) -> bool:
    """Whether an event's reason may have the JSON that a program wrote; what people write stays as it is."""
    if event.kind == "claim_released":
        return reviewer_name(event.actor) != event.actor
    return event.kind in _WITH_OUTPUT and event.data.get("kind") != "manual"


async def names(request: PageRequest, events: Iterable[EventView | DeliveryView], titles: Mapping[str, str]) -> Names:
    """The names for events: one operation for all pools among them, and one for all cycles."""
    kinds = {one.subject.partition(":")[0] for one in events} | {one.actor[:3] for one in events}
    known = dict(titles)
    if kinds & {"pool", "sv_"} and request.may("list_reviewers"):
        found: ReviewerList = await request.call("list_reviewers")
        known |= {one.supervisor_id: one.host for one in (*found.reviewers, *found.pools)}
    if "cycle" in kinds and request.may("list_cycles"):
        page: CyclePage = await request.call("list_cycles", limit=_MOST_CYCLES)
        known |= {one.cycle_id: one.feature for one in page.cycles}
    return Names(known)
