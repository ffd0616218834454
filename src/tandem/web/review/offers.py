"""The actions that a person may take on a review now, why not others, and the remarks before an approval."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

from markupsafe import Markup

from tandem.contract.operation import Role
from tandem.present.words import reviewer_name
from tandem.reviews.rules import Action, Side, State
from tandem.reviews.unusual import Location, Unusual, counted, of_diff, of_round, of_text
from tandem.web.diffs.code import shown
from tandem.web.diffs.views import outline
from tandem.web.review.view import ReviewView

_OVER = {
    State.APPROVED: "Nothing for you to do. A new round needs a new approval.",
    State.REJECTED: "It is rejected. To try again, its proposer creates a new review.",
    State.CLOSED: "It is closed. To continue, its proposer creates a new review.",
}
_NAMELESS = "Say your name first."


@dataclass(frozen=True, slots=True)
class AvailableActions:
    """Everything that a person might do to a review.

    Attributes:
        against: The reason against each action, in words for the person; empty if it may be done. `release` is for
            renewing, too, `verdict` for findings and counter-patches, `decide` for accepting or rejecting the
            pending counter-patch, `withdraw` for the approval, `waive` for a requirement that is missing, `owed` for
            the review after the fact of one, `answer` for answering a question from the side,
            `speak` for a message in the proposer's place, `settle` for findings as a reviewer, `account` for what
            the proposer says of them.
        side: The side that the person speaks for in the discussion.
        in_place: Whether they would do the proposer's part in the proposer's place.
        from_the_side: Whether a message of theirs is a question to the proposer that takes no turn.
        asked: The next step, once they have sent such a question and while it waits.
    """

    against: Mapping[str, str]
    side: Side
    in_place: bool
    from_the_side: bool
    asked: str

    @property
    def comment_how(self) -> str:
        """How something said about a line is sent: with the `verdict`, as a `message`, or not at all (`none`)."""
        if not self.against["verdict"] or not self.against["claim"]:
            return "verdict"
        return "none" if self.against["message"] else "message"

    @property
    def comment_why(self) -> str:
        """Why nothing said about a line goes with a verdict."""
        return "" if self.comment_how == "verdict" else self.against["claim" if self.against["release"] else "verdict"]


def offers(view: ReviewView) -> AvailableActions:
    """What the person who looks at a review may do."""
    allowed = frozenset(view.review.actions)
    is_reviewer = view.is_holder or _has_reviewed(view)
    side: Side = "proposer" if view.is_proposer and not is_reviewer else "reviewer"
    from_the_side = side == "reviewer" and not is_reviewer
    found: dict[str, tuple[str, str]] = {
        "claim": (Role.REVIEWER, _claim(view, allowed)),
        "take": (Role.REVIEWER, _take(view)),
        "release": (Role.REVIEWER, "" if view.is_holder else "You do not hold it."),
        "verdict": (Role.REVIEWER, _verdict(view)),
        "message": (side, _question(view, allowed) if from_the_side else _message(view, allowed, side)),
        "answer": (Role.PROPOSER, _question(view, allowed)),
        "speak": (Role.PROPOSER, _message(view, allowed, "proposer")),
        "decide": (Role.PROPOSER, _decide(view, allowed)),
        "settle": (Role.REVIEWER, _settle(view)),
        "account": (Role.PROPOSER, _account(view, allowed)),
        "close": (Role.PROPOSER, _close(view, allowed)),
        "retry": (Role.OPERATOR, _retry(view)),
        "waive": (Role.OPERATOR, _waive(view)),
    }
    nameless = "" if view.person else _NAMELESS
    against = {name: why_not or nameless or _without_role(view, role) for name, (role, why_not) in found.items()}
    against["withdraw"] = _withdraw(view, allowed)
    against["owed"] = _owed(view)
    question = next((one for one in view.discussion if one.id == view.status.question_id), None)
    asked = f"Sent. {_next_speaker(view, side)}" if question is not None and question.author == view.person else ""
    return AvailableActions(against, side, not view.is_proposer, from_the_side, asked)


def _without_role(view: ReviewView, role: str) -> str:
    return "" if view.has_role(role) else f"It needs the role {role}, which your access token does not have."


def _has_reviewed(view: ReviewView) -> bool:
    decided = view.state in (State.CHANGES_REQUESTED, State.APPROVED)
    return decided and bool(view.person) and view.status.reviewer_id == view.person and not view.is_proposer


def _claim(view: ReviewView, allowed: frozenset[str]) -> str:
    if view.is_holder:
        return "You hold it already."
    if view.is_held and Action.CLAIM_BESIDE not in allowed:
        return f"You can claim it when {view.holder_name} releases it, or when the lease ends."
    if Action.CLAIM not in allowed:
        over = _OVER.get(State(view.state), "It cannot be claimed now.")
        return (_owed(view) or "A review is owed: give it below.") if view.status.owed else over
    if not view.person:
        return _NAMELESS
    if not view.is_current:
        return f"This is round {view.round}. Claim it where the current one is shown, round {view.current_round}."
    return "It is your own: somebody else gives the verdict." if view.is_author else ""


def _take(view: ReviewView) -> str:
    """The reason against ending a pool's reviewer that holds it; a person who holds it has their time."""
    if view.review.holder is None or view.review.holder.doing is None:
        return "No reviewer of a pool holds it."
    if not view.settles_all:
        return "It needs the role operator, which your access token does not have."
    return "It is your own: somebody else gives the verdict." if view.is_author else ""


def _verdict(view: ReviewView) -> str:
    if not view.is_current:
        return f"This is round {view.round}. A verdict is given on the current one, round {view.current_round}."
    if not view.is_holder:
        return "Claim it first: who holds a review gives the verdict."
    if view.is_author:
        return "This round is your own: release it, and somebody else gives the verdict."
    return ""


def _settle(view: ReviewView) -> str:
    if not view.person:
        return _NAMELESS
    if not view.is_open:
        return _OVER.get(State(view.state), "Nothing is settled in this state.")
    if view.is_author:
        return "It is your own change: somebody else settles its findings."
    return "" if view.is_holder or view.settles_all else "Claim it first: who holds a review settles its findings."


def _account(view: ReviewView, allowed: frozenset[str]) -> str:
    if not view.person:
        return _NAMELESS
    return "" if Action.PROPOSER_MESSAGE in allowed else _OVER.get(State(view.state), "It is over.")


def _message(view: ReviewView, allowed: frozenset[str], side: Side) -> str:
    if not view.person:
        return _NAMELESS
    if (Action.REVIEWER_MESSAGE if side == "reviewer" else Action.PROPOSER_MESSAGE) not in allowed:
        return _OVER.get(State(view.state), "Nothing is discussed in this state.")
    if view.review.speaker == side:
        said = [entry.author for entry in view.discussion if entry.sender_role == side]
        sent = f"{reviewer_name(said[-1])} wrote last." if said and said[-1] != view.person else "Sent."
        return f"{sent} {_next_speaker(view, side)}"
    return ""


def _next_speaker(view: ReviewView, side: Side) -> str:
    if view.is_held or (side == "reviewer" and view.state != State.PENDING):
        return f"{view.proposal.proposer_id if side == 'reviewer' else view.holder_name} comes next."
    return "No one has claimed this yet" + ("." if view.is_author else ": claim it to go on.")


def _question(view: ReviewView, allowed: frozenset[str]) -> str:
    """The reason against a question from the side, and against its answer."""
    if not view.person:
        return _NAMELESS
    return "" if Action.ASK in allowed else _OVER.get(State(view.state), "Nothing is discussed in this state.")


def _decide(view: ReviewView, allowed: frozenset[str]) -> str:
    patch = view.counter_patch
    if patch is None or Action.ACCEPT_COUNTER_PATCH not in allowed:
        return "No counter-patch waits for a decision."
    if view.names.include(patch.author):
        return f"You offered it, so that {view.proposal.proposer_id} decides."
    return ""


def _close(view: ReviewView, allowed: frozenset[str]) -> str:
    return "It is closed already." if State(view.state) is State.CLOSED or Action.CLOSE not in allowed else ""


def _withdraw(view: ReviewView, allowed: frozenset[str]) -> str:
    """Who approved may, and an operator; on a broker without tokens everybody who says their name."""
    if Action.WITHDRAW_SEAT in allowed:
        return _without_role(view, Role.REVIEWER)
    stands = State(view.state) is State.APPROVED or view.status.outcome == "approved"
    if not stands or view.proposal.category == "handoff":
        return "No approval stands that could be withdrawn."
    if not view.person:
        return _NAMELESS
    approver = view.status.reviewer_id
    if view.settles_all:
        return ""
    if view.names.include(approver):
        return _without_role(view, Role.REVIEWER)
    did = "waived the last missing requirement" if view.status.waived_by else "approved it"
    return f"{reviewer_name(approver or '')} {did}, and withdraws that, or an operator does."


def _waive(view: ReviewView) -> str:
    takes_it = State(view.state) in (State.PENDING, State.CLAIMED, State.IN_REVIEW, State.APPROVED)
    if not view.status.missing or not takes_it or not view.is_current:
        return "No requirement is missing that could be waived."
    return ""


def _owed(view: ReviewView) -> str:
    if not view.status.owed:
        return "No review after the fact is owed."
    if not view.person:
        return _NAMELESS
    return "It is your own: somebody else reviews it." if view.is_author else ""


def _retry(view: ReviewView) -> str:
    is_stopped = State(view.state) is State.CHANGES_REQUESTED and view.status.next_action == "escalate"
    if not is_stopped and (view.status.attention is None or State(view.state) is not State.PENDING):
        return "It needs no person's attention."
    none = view.status.no_reviewer
    if none is not None and none.reason == "person":
        return "It waits for the approval of a person, which no other reviewer can give."
    return ""


OF_ONE_FILE = 1_000
"""Lines of one file that are shown at once."""
MOST_FILES = 2_000
"""Files of a change that one page lists."""
_ABOVE = 5


class Remark(NamedTuple):
    """One kind of unusual things.

    Attributes:
        what: How many of which.
        places: Their names and addresses.
        more: How many more places there are.
    """

    what: str
    places: list[tuple[Markup, str]]
    more: int


def remarks(view: ReviewView) -> list[Remark]:
    """The remarks before an approval of the shown round: on all of it, also where a part is shown."""
    diff = view.proposal.diff
    if diff is None:
        path = view.proposal.path or "description"
        return [_remark(view, one) for one in of_text(path, view.proposal.description or "")]
    found = outline(diff, origins=view.origins)
    sizes = [sum(hunk.old_count + hunk.added for hunk in file.hunks) for file in found.files]
    long = [Location(at, found.files[at].path, at=OF_ONE_FILE) for at, size in enumerate(sizes) if size > OF_ONE_FILE]
    parts = counted(len(long), "file shown in parts", "files shown in parts", long)
    of_whole = of_round(drawn=view.proposal.drawn, notes=view.proposal.notes)
    unusual = (*of_whole, *found.unusual, *parts)
    return [*_hidden(view), *_other_pages(view, len(found.files)), *(_remark(view, one) for one in unusual)]


def whitespace_lines(diff: str, origins: Mapping[str, str]) -> int:
    """How many lines of a diff change in whitespace alone."""
    return outline(diff, origins=origins).added - outline(diff, origins=origins, calm=True).added


def _hidden(view: ReviewView) -> list[Remark]:
    """What says that this page leaves lines out, if it does."""
    count = whitespace_lines(view.proposal.diff or "", view.origins) if view.is_calm else 0
    what = f"{count:,} changed {'line' if count == 1 else 'lines'} hidden on this page: only whitespace differs"
    return [Remark(what, [(shown("show all"), view.link(whitespace=None) + "#change")], 0)] if count else []


def _other_pages(view: ReviewView, files: int) -> list[Remark]:
    """What says that one page does not list all files, if it does not."""
    firsts = range(MOST_FILES, files, MOST_FILES)
    what = f"{files:,} files, of which a page lists {MOST_FILES:,}"
    places = [(shown(f"from file {first + 1:,}"), view.link(first=first)) for first in firsts]
    return [Remark(what, places, 0)] if places else []


def patch_remarks(diff: str) -> list[str]:
    """The same of a counter-patch, without links."""
    return [one.line for one in of_diff(outline(diff).files)]


def _remark(view: ReviewView, one: Unusual) -> Remark:
    return Remark(one.what, [(shown(place.name), _address(view, place)) for place in one.places], one.more)


def _address(view: ReviewView, place: Location) -> str:
    line = "" if place.line is None else f"-{'L' if place.before else 'R'}{place.line}"
    if view.proposal.diff is None:
        return view.link(show="source", since=None) + f"#f0{line}"
    start = place.at - _ABOVE if place.at > _ABOVE else None
    return view.link(f"/files/{place.file}", since=None, start=start, whitespace=None) + f"#f{place.file}{line}"
