"""One stream of the discussion and the events of a review, by round; and the values of the acting side."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from markupsafe import Markup

from tandem.present.findings import met
from tandem.present.words import reviewer_name
from tandem.reviews.answers import DiscussionEntry, EventView
from tandem.reviews.edits import is_applicable
from tandem.reviews.finding_contract import FindingView
from tandem.reviews.finding_rules import APPROVES, CATEGORIES, OPEN, SEVERITIES, changes, headline
from tandem.web.diffs.markdown import as_written, markdown
from tandem.web.diffs.syntax import Budget
from tandem.web.diffs.views import FileView
from tandem.web.page import PageRequest
from tandem.web.review.acting import NOTHING, told
from tandem.web.review.counter_patch import patch_views
from tandem.web.review.offers import AvailableActions, Remark, offers, patch_remarks, remarks
from tandem.web.review.view import ReviewView, Spot, spot_of

_KEY_BYTES = 12
_WORDS_SECONDS = 1.0
_BROKER = "broker"
"""Who asks for the checks of a new round."""
_NEW_ROUND = {"review_revised", "counter_patch_accepted"}
_SAID = {
    "message_sent": "message",
    "verdict_submitted": "verdict",
    "verdict_comment": "verdict",
    "counter_patch_proposed": "counter_patch",
}
"""Events with an entry of the discussion, and of which kind."""
_SETTLINGS = ("verified", "upheld", "reopened")
_ANSWERS = ("fixed", "refuted", "deferred")


@dataclass(frozen=True, slots=True)
class Item:
    """One line or card of the stream.

    Attributes:
        kind: `message`, `verdict`, `counter_patch`, or `event` for small print.
        at: When, in ISO 8601.
        text: An event in words.
        entry: The entry of the discussion, unless it is an event.
        findings: What a verdict found.
    """

    kind: str
    at: str
    text: str = ""
    entry: DiscussionEntry | None = None
    findings: tuple[DiscussionEntry, ...] = ()


@dataclass(frozen=True, slots=True)
class RoundPart:
    """The entries and events while a round was the current one."""

    number: int
    items: tuple[Item, ...]


@dataclass(frozen=True, slots=True)
class Acts:
    """What the acting side's templates show.

    Attributes:
        offers: What the person may do.
        rounds: The stream.
        time: How long what people and agents wrote may take to be laid out, all of it together.
    """

    view: ReviewView
    offers: AvailableActions
    rounds: tuple[RoundPart, ...]
    time: Budget = field(default_factory=lambda: Budget(_WORDS_SECONDS))

    def thread(self, *spot: Any) -> tuple[FindingView, ...]:
        """The findings that are shown at a spot of the shown round."""
        return tuple(one for group in self.view.together if spot_of(group[0]) == spot for one in group)

    def spots(self, but: Container[str] = ()) -> list[Spot]:
        """Where findings stand, the whole change first; not in the files named."""
        found = {spot for path, spots in self.view.spots.items() if path not in but for spot in spots}
        return sorted(found, key=lambda spot: (spot[0], spot[2] or 0, spot[1]))

    def groups(self) -> list[tuple[str, list[list[FindingView]]]]:
        """The person's own findings and those of others, each with a heading that counts them.

        Those of others that stand together with one of the person's own are listed, and counted, beside it.
        """
        listed = self.view.together
        own = [group for group in listed if any(map(self.is_own, group))]
        found: list[tuple[str, list[list[FindingView]]]] = []
        for whose, groups in (("Your", own), ("Others'" if own else "", [one for one in listed if one not in own])):
            every = [one for group in groups for one in group]
            counted = [one for one in every if self.is_own(one)] if whose == "Your" else every
            beside = len(every) - len(counted)
            more = f", and {beside} of others on the same lines" if beside else ""
            found += [(f"{whose} {headline(counted)}{more}".strip(), groups)] if groups else []
        return found

    def is_own(self, one: FindingView) -> bool:
        """Whether the person found it."""
        return one.source == "person" and self.view.names.include(one.author)

    def finding(self, name: str) -> FindingView | None:
        """A finding by its id."""
        return next((one for one in self.view.findings if one.finding_id == name), None)

    def settlings(self, one: FindingView) -> list[str]:
        """What the person may say of a finding as a reviewer."""
        is_theirs = one.source != "person" or self.view.settles_all
        stays = self.view.state == "approved"
        return [
            word
            for word in (_SETTLINGS if is_theirs and not self.offers.against["settle"] else ())
            if changes(word, one.state) and not (stays and word == "reopened")
        ]

    def accounts(self, one: FindingView) -> list[str]:
        """What the person may say of a finding as the proposer, or in the proposer's place."""
        return [word for word in (() if self.offers.against["account"] else _ANSWERS) if changes(word, one.state)]

    def to_settle(self) -> list[FindingView]:
        """Open findings that go with the verdict, the gravest first."""
        found = (one for one in self.view.findings if one.state in OPEN and self.settlings(one))
        return sorted(found, key=lambda one: (not one.blocking, SEVERITIES.index(one.severity)))

    def applicable(self) -> list[FindingView]:
        """Those whose suggestions can be made a counter-patch."""
        return [one for one in self.view.findings if self.applies(one)]

    def applies(self, one: FindingView) -> bool:
        """Whether it is one of those."""
        return bool(self.view.person) and self.view.is_open and self.view.is_current and is_applicable(one)

    def answers(self, finding_id: str) -> tuple[DiscussionEntry, ...]:
        """The messages that are about a finding."""
        return tuple(entry for entry in self.view.discussion if _answered(entry) == finding_id)

    def find(self, entry_id: str | None) -> DiscussionEntry | None:
        """An entry of the discussion by its id."""
        return next((entry for entry in self.view.discussion if entry.id == entry_id), None)

    def words(self, text: str) -> Markup:
        """What somebody wrote, as HTML; as it was written, when the page has taken long enough."""
        return markdown(text, heading=4) if self.time.left() else as_written(text)

    def patch(self, entry: DiscussionEntry, name: str) -> list[FileView]:
        """What a counter-patch changes of its round while it is pending there; else all of it.

        Args:
            entry: The counter-patch.
            name: What its anchors begin with; they must not be those of the change on the same page.
        """
        pending = self.view.counter_patch
        changes = pending.interdiff if pending is not None and pending.id == entry.id else None
        return patch_views((entry.diff or "") if changes is None else changes, name)

    def remarks(self) -> list[Remark]:
        """The remarks beside Approve."""
        return remarks(self.view)

    def patch_remarks(self) -> list[str]:
        """The remarks beside the decision on the counter-patch."""
        patch = self.view.counter_patch
        return patch_remarks(patch.diff) if patch and patch.diff else []

    def held_back(self) -> str | None:
        """Who approves the current round, and why it is a comment; None if the last verdict is another one."""
        said = next((one for one in reversed(self.view.timeline) if _SAID.get(one.kind) == "verdict"), None)
        if said is None or said.data.get("round") != self.view.current_round:
            return None
        if not str(said.data.get("attention")).startswith(APPROVES):
            return None
        holding = [one for one in self.view.findings if one.blocking]
        whose = "your" if any(self.view.names.include(one.author) for one in holding) else "a person's"
        why = f"held back by {whose} open finding" if holding else "and a person decides"
        return f"{reviewer_name(said.actor)} approved, {why}"

    def unresolved(self) -> int:
        """How many findings no one has settled."""
        return sum(one.state in OPEN for one in self.view.findings)


def values(view: ReviewView, request: PageRequest) -> dict[str, Any]:
    """What the templates of the acting side are given besides the view."""
    return {
        "acts": Acts(view, offers(view), stream(view.timeline, view.discussion)),
        "acting": NOTHING,
        "comment_path": request.query("comment_path"),
        "comment_line": request.number("comment_line"),
        "severities": SEVERITIES,
        "categories": CATEGORIES,
        "new_key": new_key,
        "thread_id": thread_id,
        "spot_of": spot_of,
        "met": met,
    }


def new_key() -> str:
    """A key under which a form has one effect, however often it is sent."""
    return secrets.token_urlsafe(_KEY_BYTES)


def thread_id(path: str, side: str, line: int | None) -> str:
    """The name within a page of the thread below a line."""
    return "thread-" + hashlib.sha256(f"{side} {line} {path}".encode()).hexdigest()[:12]


def stream(timeline: Iterable[EventView], discussion: Iterable[DiscussionEntry]) -> tuple[RoundPart, ...]:
    """The events of a review with the discussion's entries in their places, by round, oldest first."""
    entries: dict[str, DiscussionEntry] = {}
    findings: dict[str, list[DiscussionEntry]] = {}
    for entry in discussion:
        if entry.kind == "finding":
            findings.setdefault(entry.verdict_id or "", []).append(entry)
        else:
            entries[entry.id] = entry
    rounds: list[tuple[int, list[Item]]] = [(1, [])]
    for event in timeline:
        if event.kind in _NEW_ROUND:
            rounds.append((int(event.data.get("round") or rounds[-1][0] + 1), []))
        item = _item(event, entries, findings)
        if item is not None:
            rounds[-1][1].append(item)
    return tuple(RoundPart(number, tuple(items)) for number, items in rounds)


def _item(
    event: EventView, entries: Mapping[str, DiscussionEntry], findings: Mapping[str, list[DiscussionEntry]]
) -> Item | None:
    if event.kind == "message_resolved" or _is_routine(event):
        return None
    kind = _SAID.get(event.kind, "")
    name = str(event.data.get(f"{kind}_id"))
    entry = entries.get(name) if kind else None
    # Of more than is shown the event still tells that something was said; a waiver is no verdict of its person.
    if entry is None or event.data.get("waived"):
        return Item("event", event.at, told(event))
    return Item(kind, event.at, entry=entry, findings=tuple(findings.get(name, ())))


def _is_routine(event: EventView) -> bool:
    """Whether it is told of elsewhere: a round's checks have their own place, and most of them pass."""
    match event.kind:
        case "check_started":
            return True
        case "checks_requested":
            return event.actor == _BROKER
        case "check_finished":
            return event.data.get("status") in {"passed", "skipped"}
        case _:
            return False


def _answered(entry: DiscussionEntry) -> str | None:
    """The finding or question that a message belongs to."""
    if entry.kind not in ("message", "question"):
        return None
    answers = (entry.metadata or {}).get("answers")
    return entry.resolves or (answers if isinstance(answers, str) else None)
