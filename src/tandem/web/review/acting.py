"""How a form came back: whether the page it was on is too old, and a refusal in words for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tandem.errors import CursorExpired, InvalidInput, OpenFindings, TandemError
from tandem.pool.rules import readable
from tandem.present.words import reviewer_name
from tandem.reviews.answers import AuditPage, EventView
from tandem.reviews.page_contract import Draft
from tandem.web.page import PageRequest
from tandem.web.rendering import plain, refused
from tandem.web.subjects import has_output

CONFLICT = 409
"""The status of a form of a page that was too old."""


def is_script(request: PageRequest) -> bool:
    """Whether htmx sent the request."""
    return request.http.headers.get("hx-request") == "true"


_INSTEAD = {
    "IDEMPOTENCY_CONFLICT": "This form was sent before with another text, and that one counts: see what arrived. "
    "The text here now is not sent; send it again if it is still to be said.",
    "STALE_ROUND": "There is a newer round than the one that this was written about. Look at it, and send this again "
    "if it still holds.",
    "OPEN_FINDINGS": "Open findings keep the approval back. Say of each below what became of it; or request changes.",
    "TURN_VIOLATION": "Your side spoke last, and the other side comes next. What you wrote stays here until then.",
}
_BESIDES = {
    "TOO_LARGE": "Shorten it, and send it again.",
    "TIMEOUT": "What you wrote is still here; send it again in a moment.",
    "UNAVAILABLE": "What you wrote is still here; send it again in a moment.",
}


_CONTENT = {"review_revised", "counter_patch_accepted", "change_rolled_back"}
_HOLD = {"review_claimed", "claim_released", "review_reclaimed"}
_SAID = {"message_sent", "verdict_comment"}
_DECIDED = {"verdict_submitted", "approval_withdrawn", "review_closed", "requirement_waived"}
_PATCH = {"counter_patch_proposed", "counter_patch_rejected", "counter_patch_superseded"}
_FOUND = {"finding_answered", "finding_settled"}
_ATTENTION = {"attention_raised", "attention_cleared"}

ANYTHING = frozenset(_CONTENT | _HOLD | _SAID | _DECIDED | _PATCH | _FOUND | _ATTENTION)
CLAIMING = frozenset(_CONTENT | _HOLD | _DECIDED)
HOLDING = frozenset(_HOLD | _DECIDED)
JUDGING = frozenset(_CONTENT | _HOLD | _SAID | _DECIDED | _PATCH | _FOUND)
SETTLING = frozenset(_CONTENT | _DECIDED | _FOUND)
TALKING = frozenset(_CONTENT | _SAID | _DECIDED | _PATCH)
RERUNNING = frozenset(_CONTENT | _DECIDED)
RETRYING = frozenset(_CONTENT | _HOLD | _DECIDED | _ATTENTION)

_LIMIT = 200
_TOLD_LENGTH = 200
_VERDICTS = {
    "approved": "approved it",
    "changes_requested": "requested changes",
    "rejected": "rejected it",
    "comment": "commented",
}


class Fact(NamedTuple):
    """One thing that happened to a review.

    Attributes:
        text: Who and what, in words.
        at: When, in ISO 8601; None if that is not known.
    """

    text: str
    at: str | None = None


async def changes_since(request: PageRequest, review_id: str, seen: str, matters: frozenset[str]) -> list[Fact]:
    """What others did to a review after a cursor that matters for an act, oldest first.

    Args:
        request: The request; the person's own doings are no news to them.
        review_id: The review.
        seen: The log's cursor when the page was made; empty if the form has none.
        matters: The kinds of events that count.
    """
    if not seen:
        return []
    try:
        found: AuditPage = await request.call("get_audit_log", review_id=review_id, cursor=seen, limit=_LIMIT)
    except (CursorExpired, InvalidInput):
        return [Fact("The log is not the one that this page was made from. Anything may be different.")]
    return [
        Fact(told(event), event.at)
        for event in found.events
        if event.kind in matters and event.actor != request.person.name
    ]


def told(event: EventView) -> str:
    """Who did what, in a sentence without an end."""
    kind, actor = event.kind, reviewer_name(event.actor)
    data = event.data
    # An event about somebody else than its author (an expiry, say) names both.
    who, reason = reviewer_name(data.get("reviewer_id") or actor), _reason(data, is_output=has_output(event))
    if kind == "review_revised":
        carried = ", a rebase to which the approvals carry over" if data.get("carried_over") else ""
        return f"{actor} revised it: round {data.get('round', '?')}{carried}"
    if kind == "review_claimed":
        return f"{who} was given the new round" if data.get("again") else f"{who} claimed it"
    if kind == "review_reclaimed":
        return f"The claim of {who} ended{reason}"
    if kind in ("checks_requested", "check_finished"):
        return f"{actor} had checks run again: {', '.join(data['checks'])}" if "checks" in data else _ended(data)
    if kind in ("verdict_submitted", "verdict_comment"):
        did = "waived the last missing requirement" if data.get("waived") else _VERDICTS.get(data.get("verdict", ""))
        return f"{actor} {did or 'gave a verdict'}{reason}"
    settled = f"says of a finding: {data.get('answer')}" if kind in _FOUND else None
    return f"{actor} {settled or _REST.get(kind, kind.replace('_', ' '))}{reason}"


def _ended(data: Mapping[str, Any]) -> str:
    status = str(data.get("status"))
    return f"The check {data.get('check')} {_CHECK_ENDS.get(status, status)}{_reason(data)}"


_CHECK_ENDS = {"timeout": "timed out", "error": "ended in an error", "skipped": "was not run"}
_REST = {
    "review_created": "submitted it",
    "claim_released": "released it",
    "message_sent": "wrote a message",
    "message_resolved": "resolved a question",
    "lesson_removed": "removed the lesson of a finding",
    "counter_patch_proposed": "offered a counter-patch",
    "counter_patch_accepted": "accepted the counter-patch: it is a new round",
    "counter_patch_rejected": "rejected the counter-patch",
    "counter_patch_superseded": "let the counter-patch be overtaken",
    "approval_withdrawn": "withdrew the approval",
    "review_closed": "closed it",
    "requirement_waived": "waived a requirement",
    "waiver_settled": "reviewed a waived requirement",
    "waiver_objected": "objects to a waived requirement",
    "attention_raised": "left it to a person",
    "attention_cleared": "had it go on",
    "change_rolled_back": "reverted the change",
}


def _reason(data: Mapping[str, Any], *, is_output: bool = False) -> str:
    reason = str(data.get("reason") or "")
    if not reason:
        return ""
    text = plain(" ".join((readable(reason) if is_output else reason).split()))
    return f": {text[:_TOLD_LENGTH]}{'…' if len(text) > _TOLD_LENGTH else ''}"


@dataclass(frozen=True, slots=True)
class FormResult:
    """How a form that was sent came back.

    Attributes:
        form: The name of the form; empty if none was.
        typed: What stood in its fields.
        error: The refusal; None if the page was only too old, or nothing was refused.
        changes: What others did since the page was opened.
        unseen: What the person themselves wrote in other windows, which the page did not show.
    """

    form: str = ""
    typed: Mapping[str, str] = field(default_factory=dict[str, str])
    error: TandemError | None = None
    changes: Sequence[Fact] = ()
    unseen: Sequence[Draft] = ()

    def text(self, form: str, name: str, otherwise: str = "") -> str:
        """What stood in a field of a form, if that was the form."""
        return self.typed.get(name, otherwise) if form == self.form else otherwise

    @property
    def told(self) -> str:
        """The refusal, and the remedy; empty if nothing was refused."""
        if self.error is None:
            return ""
        code, message = self.error.code, refused(self.error)
        if self.elsewhere:
            return "Open findings of another review, on the same content, keep the approval back. Settle them there:"
        if code == OpenFindings.code and not (self.form == "verdict" and self.error.details.get("findings")):
            return message
        return _INSTEAD.get(code) or (f"{message} {_BESIDES[code]}" if code in _BESIDES else message)

    @property
    def elsewhere(self) -> list[dict[str, Any]]:
        """The findings of other reviews that keep an approval back."""
        return self.error.elsewhere if isinstance(self.error, OpenFindings) else []

    @property
    def is_refused(self) -> bool:
        """Whether there is something to be said beside the form."""
        return self.error is not None or bool(self.changes) or bool(self.unseen)

    @property
    def status(self) -> int:
        """The HTTP status of the page with it."""
        if self.error is not None:
            return self.error.status
        return CONFLICT if self.is_refused else 200


NOTHING = FormResult()
