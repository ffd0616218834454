"""The operations on files of rounds, drafts, logs and settings: for the pages and the terminal, so none is listed."""

from __future__ import annotations

from tandem.contract.operation import ALL, OPERATOR, READ, REPEATABLE_WRITE, Operation
from tandem.reviews import page_answers as answers
from tandem.reviews import page_requests as ask

OPERATIONS = (
    Operation("get_round_file", "review", "file", ask.GetRoundFile, answers.RoundFile, ALL, READ, listed=False),
    Operation(
        "draft_counter_patch",
        "review patch",
        "draft",
        ask.DraftCounterPatch,
        answers.CounterPatchDraft,
        ALL,
        READ,
        listed=False,
    ),
    Operation(
        "check_counter_patch",
        "review patch",
        "check",
        ask.CheckCounterPatch,
        answers.CounterPatchCheck,
        ALL,
        READ,
        listed=False,
    ),
    Operation(
        "search_reviews",
        "review",
        "search",
        ask.SearchReviews,
        answers.SearchPage,
        OPERATOR,
        READ,
        listed=False,
    ),
    Operation(
        "mark_viewed",
        "review",
        "mark",
        ask.MarkViewed,
        answers.ViewedFiles,
        OPERATOR,
        REPEATABLE_WRITE,
        listed=False,
    ),
    Operation(
        "list_viewed",
        "review",
        "viewed",
        ask.ListViewed,
        answers.ViewedFiles,
        OPERATOR,
        READ,
        listed=False,
    ),
)
