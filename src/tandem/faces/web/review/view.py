"""What the page of a review is made from: one look at the review, and who looks."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote, urlencode

from tandem.domain.access import Names
from tandem.domain.claims import is_own
from tandem.errors import InvalidInput
from tandem.faces.web.asking import Ask

Mode = Literal["unified", "split"]
Shape = Literal["diff", "document", "text"]

MODE_COOKIE = "tandem_diff"
OPEN_STATES = frozenset({"pending", "claimed", "in_review", "changes_requested", "approved"})
_HELD = frozenset({"claimed", "in_review"})
_CLAIMABLE = frozenset({"pending", "changes_requested"})
_PAGE = 200
_MOST_PAGES = 10


@dataclass(frozen=True, slots=True)
class ReviewView:
    """A review as one person sees it now.

    Attributes:
        review_id: The review.
        proposal: What get_proposal answers for the round that is shown (its `diff` is empty in a light view).
        status: What get_review_status answers.
        discussion: All entries of get_discussion, of all rounds, oldest first.
        discussion_cut: Whether there are more than are shown.
        timeline: All events of get_review_timeline, oldest first.
        viewed: Paths of the shown round that the person has marked as viewed.
        since: The earlier round that the shown one is compared with; null for the whole change.
        mode: How diffs are laid out.
        shape: What the content is: a diff, a document (a text with a path, or a plan), or another text.
        commented: By path, the lines of the shown round that somebody commented on; None stands for the whole file.
        comments: How many comments there are on each path in the shown round.
        person: Who looks; empty if they have not said their name.
        roles: What their token is for; null where none is needed, which is everything.
        more: What else the address says (`show` for documents, `view` for diffs), kept in links.
    """

    review_id: str
    proposal: Mapping[str, Any]
    status: Mapping[str, Any]
    discussion: tuple[dict[str, Any], ...]
    discussion_cut: bool
    timeline: tuple[dict[str, Any], ...]
    viewed: frozenset[str]
    since: int | None
    mode: Mode
    shape: Shape
    commented: Mapping[str, frozenset[int | None]]
    comments: Mapping[str, int]
    person: str
    roles: frozenset[str] | None
    more: Mapping[str, str]

    @property
    def round(self) -> int:
        """The round that is shown."""
        return int(self.proposal["round"])

    @property
    def current_round(self) -> int:
        """The newest round."""
        return int(self.status["round"])

    @property
    def is_current(self) -> bool:
        """Whether the newest round is shown; only that can be decided on."""
        return self.round == self.current_round

    @property
    def state(self) -> str:
        """The review's state."""
        return str(self.status["status"])

    @property
    def is_open(self) -> bool:
        """Whether anything can still happen to it, apart from closing."""
        return self.state in OPEN_STATES

    @property
    def is_held(self) -> bool:
        """Whether somebody holds the claim."""
        return self.state in _HELD

    @property
    def holder(self) -> str | None:
        """Who holds the claim."""
        return self.status["reviewer_id"] if self.is_held else None

    @property
    def is_holder(self) -> bool:
        """Whether the person holds the claim."""
        return bool(self.person) and self.holder == self.person

    @property
    def is_proposer(self) -> bool:
        """Whether the person put the review up."""
        return bool(self.person) and self.proposal["proposer_id"] == self.person

    @property
    def names(self) -> Names:
        """The names that the person goes by."""
        return Names.of(self.person, by_token=self.roles is not None)

    @property
    def is_author(self) -> bool:
        """Whether the person may not give the verdict, because the shown round is their own."""
        shown, names = self.proposal, self.names
        return is_own(
            names,
            proposer=shown["proposer_id"],
            submitter=shown["submitter"],
            origin=shown["origin"],
            author=shown["author"],
            accepted_by=shown["accepted_by"],
        )

    def has_role(self, role: str) -> bool:
        """Whether the person's token is for a role."""
        return self.roles is None or role in self.roles

    @property
    def may_claim(self) -> bool:
        """Whether the person could take it for review now."""
        return bool(self.person) and self.state in _CLAIMABLE and not self.is_author

    @property
    def counter_patch(self) -> Mapping[str, Any] | None:
        """The counter-patch that its proposer has not decided on yet."""
        return self.proposal["counter_patch"]

    @property
    def diff(self) -> str:
        """The change that is shown: the whole round's, or what is new since an earlier one."""
        shown = self.proposal["diff"] if self.since is None else self.proposal["interdiff"]
        return shown or ""

    @property
    def base(self) -> str:
        """The page's address without a query string."""
        return f"/reviews/{quote(self.review_id, safe='')}"

    def link(self, under: str = "", **changes: Any) -> str:
        """The address of this page, or of one under it, as it is shown now but for the changes; None drops a part."""
        shown: dict[str, Any] = {**self.more, "round": None if self.is_current else self.round, "since": self.since}
        shown |= changes
        query = urlencode({name: value for name, value in shown.items() if value is not None})
        return f"{self.base}{under}" + (f"?{query}" if query else "")


async def load(ask: Ask, review_id: str, *, content: bool = True) -> ReviewView:
    """Look at a review, in the round and form that the address asks for.

    Args:
        ask: The request.
        review_id: The review.
        content: Whether the diff is wanted; parts of the page that do not show it are cheaper without.

    Raises:
        NotFound: There is no such review or round.
        InvalidInput: The address asks for something odd.
    """
    number, since = ask.number("round"), ask.number("since")
    proposal, status, entries, timeline = await asyncio.gather(
        ask.call(
            "get_proposal",
            review_id=review_id,
            round=number,
            since_round=since if content else None,
            files=None if content else [],
        ),
        ask.call("get_review_status", review_id=review_id),
        _discussion(ask, review_id),
        ask.call("get_review_timeline", review_id=review_id),
    )
    remarks = [
        entry
        for entry in entries[0]
        if entry["kind"] == "comment" and entry["file"] and entry["round"] == proposal["round"]
    ]
    return ReviewView(
        review_id=proposal["review_id"],
        proposal=proposal,
        status=status,
        discussion=tuple(entries[0]),
        discussion_cut=entries[1],
        timeline=tuple(timeline["events"]),
        viewed=await _viewed(ask, review_id, proposal["round"]),
        since=since,
        mode=_mode(ask),
        shape=_shape(proposal),
        commented=_commented(remarks),
        comments=Counter(entry["file"] for entry in remarks),
        person=ask.person.name,
        roles=None if ask.person.access is None else ask.person.access.roles,
        more=_more(ask),
    )


async def _discussion(ask: Ask, review_id: str) -> tuple[list[dict[str, Any]], bool]:
    entries: list[dict[str, Any]] = []
    page: str | None = None
    for _ in range(_MOST_PAGES):
        found = await ask.call("get_discussion", review_id=review_id, limit=_PAGE, page=page)
        entries += found["entries"]
        page = found["next_page"]
        if page is None:
            return entries, False
    return entries, True


async def _viewed(ask: Ask, review_id: str, number: int) -> frozenset[str]:
    if not ask.person.known:
        return frozenset()
    found = await ask.call("list_viewed", review_id=review_id, round=number, person=ask.person.name)
    return frozenset(found["paths"])


def _commented(remarks: Iterable[Mapping[str, Any]]) -> dict[str, frozenset[int | None]]:
    found: dict[str, set[int | None]] = {}
    for entry in remarks:
        found.setdefault(entry["file"], set()).add(entry["line"])
    return {path: frozenset(lines) for path, lines in found.items()}


def _mode(ask: Ask) -> Mode:
    asked = ask.query("view") or ask.request.cookies.get(MODE_COOKIE)
    return "split" if asked == "split" else "unified"


def _shape(proposal: Mapping[str, Any]) -> Shape:
    if proposal["diff"] is not None:
        return "diff"
    is_document = proposal["path"] is not None or proposal["category"] in ("plan_review", "verification")
    return "document" if is_document else "text"


def _more(ask: Ask) -> dict[str, str]:
    show = ask.query("show")
    if show not in (None, "rendered", "source", "changes"):
        raise InvalidInput("show is rendered, source or changes.", field="show")
    view = ask.query("view")
    more = {"show": show, "view": view if view in ("unified", "split") else None}
    return {name: value for name, value in more.items() if value}
