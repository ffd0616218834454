"""The operations that pages are made of: the inbox, the search, and the marks on files. No tools of agents."""

from __future__ import annotations

from tandem.contract.operation import OPERATOR, READ, REPEATABLE_WRITE, Operation
from tandem.domain import inbox_answers as answers
from tandem.operations import inbox_requests as ask

OPERATIONS = (
    Operation("get_inbox", "inbox", "show", ask.GetInbox, answers.Inbox, OPERATOR, READ, listed=False),
    Operation(
        "search_reviews", "review", "search", ask.SearchReviews, answers.SearchPage, OPERATOR, READ, listed=False
    ),
    Operation(
        "mark_viewed", "review", "mark", ask.MarkViewed, answers.ViewedFiles, OPERATOR, REPEATABLE_WRITE, listed=False
    ),
    Operation("list_viewed", "review", "viewed", ask.ListViewed, answers.ViewedFiles, OPERATOR, READ, listed=False),
)
