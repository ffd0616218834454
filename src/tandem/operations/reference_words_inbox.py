"""What the reference pages say of the inbox, searches and marks beyond what the declarations do."""

from __future__ import annotations

from typing import Final

CODES: Final[dict[str, tuple[str, ...]]] = {
    "get_inbox": (),
    "search_reviews": (),
    "mark_viewed": ("NOT_FOUND",),
    "list_viewed": ("NOT_FOUND",),
}

_WHY = (
    "Why it is there. Your turn: `review` (nobody reviews it), `verdict` (you hold it), `answer`, `decide` (a "
    "counter-patch), `revise`, `apply`, `revert` (it was rejected). Waiting: `queued` (for a reviewer), `reviewing`, "
    "`proposer`. Problems: `attention` (reviewers failed), `escalate` (too many rounds), `revert` (rejected, and its "
    "commits stand), `stuck` (nobody of a running pool took it for 30 minutes, or a claim ran out and was not taken "
    "back), and of a pool `paused`, `circuit_open` and `lost` (for a day)."
)

FIELDS: Final[dict[str, str]] = {
    "person": "Whose it is.",
    "Inbox.your_turn": "What waits for the person.",
    "Inbox.waiting": "Whatever else is open.",
    "Inbox.problems": "What is wrong; it is in neither of the other lists.",
    "counts": "How many there are in each list, at most one more than the limit.",
    "InboxCounts.your_turn": "What waits for the person.",
    "InboxCounts.waiting": "Whatever else is open.",
    "InboxCounts.problems": "What is wrong.",
    "InboxItem.kind": "`review`, `cycle` (the review of a cycle's hand-off) or `pool`.",
    "InboxItem.why": _WHY,
    "InboxItem.since": "Since when it waits.",
    "InboxItem.review": "The review; null for a pool.",
    "InboxItem.pool": "The pool; null for a review.",
    "InboxItem.who": "Whom it waits for, where that is known.",
    "InboxItem.detail": "What there is to say beyond that: a reason, or what a hand-off leads to.",
    "SearchReviews.status": "Only reviews in this state.",
    "SearchReviews.category": "Only reviews of this kind.",
    "SearchReviews.priority": "Only reviews of this priority.",
    "SearchReviews.turn": "Only reviews where it is this side's turn.",
    "SearchPage.reviews": "The reviews that were found.",
    "searched_back_to": (
        "The time at which the search stopped because it had looked through enough; null if the page is full, or if it "
        "has looked through everything."
    ),
    "FoundReview.files": "How many files the current round touches.",
    "ViewedFiles.paths": "The files that are marked, in order.",
    "by_day": "A tally for each day (UTC), at most the newest 400; empty without `since`.",
    "by_project": "A tally for each project.",
}
