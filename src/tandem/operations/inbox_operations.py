"""The operations that pages are made of: the inbox, the search, and the marks on files. No tools of agents."""

from __future__ import annotations

from tandem.contract.operation import READ, REPEATABLE_WRITE, Operation, Role
from tandem.domain import inbox_answers as answers
from tandem.operations import inbox_handlers as do
from tandem.operations import inbox_requests as ask

_OPERATOR = frozenset({Role.OPERATOR})

OPERATIONS = (
    Operation("get_inbox", "inbox", "show", ask.GetInbox, answers.Inbox, _OPERATOR, READ, do.get_inbox, listed=False),
    Operation(
        "search_reviews",
        "review",
        "search",
        ask.SearchReviews,
        answers.SearchPage,
        _OPERATOR,
        READ,
        do.search_reviews,
        listed=False,
    ),
    Operation(
        "mark_viewed",
        "review",
        "mark",
        ask.MarkViewed,
        answers.ViewedFiles,
        _OPERATOR,
        REPEATABLE_WRITE,
        do.mark_viewed,
        listed=False,
    ),
    Operation(
        "list_viewed",
        "review",
        "viewed",
        ask.ListViewed,
        answers.ViewedFiles,
        _OPERATOR,
        READ,
        do.list_viewed,
        listed=False,
    ),
)
