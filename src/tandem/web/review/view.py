"""What the page of a review is made from: one look at the review, and who looks."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

from tandem.contract.caller import Names
from tandem.contract.operation import Role
from tandem.errors import InvalidInput, NotFound
from tandem.git.changes import origins_of
from tandem.git.hunks import FileDiff
from tandem.present.findings import together
from tandem.reviews.answers import (
    CounterPatchView,
    Discussion,
    DiscussionEntry,
    EventView,
    FullReview,
    Proposal,
    ReviewStatus,
)
from tandem.reviews.claim_rules import is_own
from tandem.reviews.finding_contract import FindingView
from tandem.web.diffs.views import Outline, outline
from tandem.web.page import PageRequest, address

Mode = Literal["unified", "split"]
Shape = Literal["diff", "document", "text"]
Spot = tuple[str, Literal["before", "after"], int | None]
"""The file, the side and the line that a finding stands below; no file for the whole change, no line for the file."""

MODE_COOKIE = "tandem_diff"
_OPEN = frozenset({"pending", "claimed", "in_review", "changes_requested", "approved"})
_HELD = frozenset({"claimed", "in_review"})
_MOST_ENTRIES = 2_000
_MOST_LETTERS = 5_000_000
"""What a page shows of a discussion, in entries and in letters."""


@dataclass(frozen=True, slots=True)
class ReviewView:
    """A review as one person sees it now.

    Attributes:
        review: What get_review answers for the round that is shown.
        discussion: All entries of the discussion, of all rounds, oldest first.
        discussion_cut: Whether there are more than are shown.
        timeline: All events of get_review_timeline, oldest first; none where the page does not tell of them.
        viewed: Paths of the shown round that the person has marked as viewed.
        since: The earlier round that the shown one is compared with; None for the whole change.
        mode: How diffs are laid out.
        shape: What the content is: a diff, a document (a text with a path, or a plan), or another text.
        together: The findings by place and category.
        places: Where each finding is shown, by its id: below the lines of the gravest one that it stands together with.
        spots: The same by path; by the path after of a file that was renamed.
        origins: Where renamed files of the shown round came from, by path.
        person: Who looks; empty if they have not said their name.
        roles: What their token is for; None where none is needed, which is everything.
        more: What else the address says (`show` for documents, `view` and `whitespace` for diffs), kept in links.
    """

    review: FullReview
    discussion: tuple[DiscussionEntry, ...]
    discussion_cut: bool
    timeline: tuple[EventView, ...]
    viewed: frozenset[str]
    since: int | None
    mode: Mode
    shape: Shape
    together: list[list[FindingView]]
    places: Mapping[str, Spot]
    spots: Mapping[str, list[Spot]]
    origins: Mapping[str, str]
    person: str
    roles: frozenset[str] | None
    more: Mapping[str, str | None]

    @property
    def proposal(self) -> Proposal:
        """The content of the round that is shown."""
        return self.review.proposal

    @property
    def findings(self) -> tuple[FindingView, ...]:
        """All findings of the review, of all rounds, oldest first."""
        return self.review.findings

    @property
    def status(self) -> ReviewStatus:
        """Where the review stands."""
        return self.review.status

    @property
    def review_id(self) -> str:
        """The review."""
        return self.status.review_id

    @property
    def round(self) -> int:
        """The round that is shown."""
        return self.proposal.round

    @property
    def current_round(self) -> int:
        """The newest round."""
        return self.status.round

    @property
    def is_current(self) -> bool:
        """Whether the newest round is shown; only that can be decided on."""
        return self.round == self.current_round

    @property
    def state(self) -> str:
        """The review's state."""
        return self.status.status

    @property
    def is_open(self) -> bool:
        """Whether anything can still happen to it, apart from closing."""
        return self.state in _OPEN

    @property
    def is_held(self) -> bool:
        """Whether somebody holds the claim."""
        return self.state in _HELD

    @property
    def holder(self) -> str | None:
        """Who holds the claim."""
        return self.status.reviewer_id if self.is_held else None

    @property
    def holder_name(self) -> str | None:
        """What people call who holds the claim."""
        return self.review.holder and self.review.holder.name

    @property
    def is_holder(self) -> bool:
        """Whether the person holds the claim."""
        return bool(self.person) and self.holder == self.person

    @property
    def is_proposer(self) -> bool:
        """Whether the person put the review up."""
        return bool(self.person) and self.proposal.proposer_id == self.person

    @property
    def names(self) -> Names:
        """The names that the person goes by."""
        return Names.of(self.person, by_token=self.roles is not None)

    @property
    def is_author(self) -> bool:
        """Whether the person may not give the verdict, because the shown round is their own."""
        shown = self.proposal
        return is_own(self.names, shown, proposer=shown.proposer_id, submitter=shown.submitter)

    def has_role(self, role: str) -> bool:
        """Whether the person's token is for a role."""
        return self.roles is None or role in self.roles

    @property
    def settles_all(self) -> bool:
        """Whether the person's word counts as a person's, also without a claim."""
        return self.has_role(Role.OPERATOR) or self.has_role(Role.ADMIN)

    @property
    def counter_patch(self) -> CounterPatchView | None:
        """The counter-patch that its proposer has not decided on yet."""
        return self.proposal.counter_patch

    @property
    def diff(self) -> str:
        """The change that is shown: the whole round's, or the changes since an earlier one."""
        shown = self.proposal.diff if self.since is None else self.proposal.interdiff
        return shown or ""

    @property
    def is_calm(self) -> bool:
        """Whether lines that change in whitespace alone are left out."""
        return self.more["whitespace"] == "off" and self.shape == "diff"

    @property
    def outline(self) -> Outline:
        """The change as the page shows it. Takes a while: call it in a thread."""
        return outline(self.diff, calm=self.is_calm, origins=self.origins)

    @property
    def base(self) -> str:
        """The page's address without a query string."""
        return f"/reviews/{quote(self.review_id, safe='')}"

    def link(self, under: str = "", **changes: Any) -> str:
        """The address of this page, or of one under it, as it is shown now but for the changes; None drops a part."""
        shown: dict[str, Any] = {**self.more, "round": None if self.is_current else self.round, "since": self.since}
        shown |= changes
        return address(self.base + under, **shown)


async def load(request: PageRequest, *, events: bool = False, interdiff: bool = True) -> ReviewView:
    """Look at the review that the address names, in the round and form that it asks for.

    Args:
        request: The request.
        events: Whether the page tells of the review's events.
        interdiff: Whether it shows the change itself, and so may need the difference from an earlier round.

    Raises:
        NotFound: There is no such review or round.
        InvalidInput: The address asks for something odd.
    """
    review_id, since = request.path("review_id"), request.number("since")
    show, view = request.query("show"), request.query("view")
    if show not in (None, "rendered", "source", "changes"):
        raise InvalidInput("show is rendered, source or changes.", field="show")
    asked = request.call(
        "get_review",
        review_id=review_id,
        round=request.number("round"),
        since_round=since if interdiff else None,
        person=request.person.name or None,
    )
    beside = [request.call("get_review_timeline", review_id=review_id)] if events else []
    review: FullReview
    review, *told = await asyncio.gather(asked, *beside)
    shown, entries, page = review.proposal, review.discussion.entries, review.discussion.next_page
    while page is not None and len(entries) < _MOST_ENTRIES and _letters(entries) < _MOST_LETTERS:
        following: Discussion = await request.call("get_discussion", review_id=review_id, limit=200, page=page)
        entries, page = entries + following.entries, following.next_page
    origins = origins_of(shown.affected_files)
    moved = {old: path for path, old in origins.items()}
    spots: dict[str, list[Spot]] = {}
    groups = together(review.findings)
    places = {one.finding_id: spot_of(group[0]) for group in groups for one in group}
    for spot in places.values():
        spots.setdefault(moved.get(spot[0], spot[0]), []).append(spot)
    return ReviewView(
        review=review,
        discussion=entries,
        discussion_cut=page is not None,
        timeline=told[0].events if told else (),
        viewed=frozenset(review.viewed),
        since=since,
        mode="split" if (view or request.http.cookies.get(MODE_COOKIE)) == "split" else "unified",
        shape=_shape(shown),
        together=groups,
        places=places,
        spots=spots,
        origins=origins,
        person=request.person.name,
        roles=None if request.person.access is None else request.person.access.roles,
        more={
            "show": show,
            "view": view if view in ("unified", "split") else None,
            "whitespace": "off" if request.query("whitespace") == "off" else None,
        },
    )


def spot_of(finding: FindingView) -> Spot:
    """Where a finding stands in the shown round."""
    place = finding.place or finding
    return place.file or "", "before" if finding.side == "old" else "after", place.end_line or place.line


def _letters(entries: tuple[DiscussionEntry, ...]) -> int:
    return sum(len(text or "") for one in entries for text in (one.body, one.description, one.diff))


def find_file(request: PageRequest, review: ReviewView) -> tuple[int, FileDiff]:
    """The file of the change that the address names, and its index. Takes a while: call it in a thread.

    Raises:
        NotFound: The change has no such file.
    """
    files, text = review.outline.files, request.path("index")
    if not (text.isascii() and text.isdigit() and int(text) < len(files)):
        raise NotFound(f"This round changes {len(files)} files; there is none at place {text[:20]}.", index=text[:20])
    return int(text), files[int(text)]


def _shape(proposal: Proposal) -> Shape:
    if proposal.diff is not None:
        return "diff"
    is_document = proposal.path is not None or proposal.category in ("plan_review", "verification")
    return "document" if is_document else "text"
