"""The operations on files of rounds, drafts, logs and settings: for the pages and the terminal, so none is listed."""

from __future__ import annotations

from tandem.contract.operation import ALL, READ, Operation, Role
from tandem.domain import file_answers as answers
from tandem.operations import file_handlers as do
from tandem.operations import file_requests as ask

_OPERATOR = frozenset({Role.OPERATOR})
_ADMIN = frozenset({Role.ADMIN})

OPERATIONS = (
    Operation(
        "get_round_file",
        "review",
        "file",
        ask.GetRoundFile,
        answers.RoundFile,
        ALL,
        READ,
        do.get_round_file,
        listed=False,
    ),
    Operation(
        "draft_counter_patch",
        "review",
        "draft",
        ask.DraftCounterPatch,
        answers.CounterPatchDraft,
        ALL,
        READ,
        do.draft_counter_patch,
        listed=False,
    ),
    Operation(
        "check_counter_patch",
        "review",
        "check",
        ask.CheckCounterPatch,
        answers.CounterPatchCheck,
        ALL,
        READ,
        do.check_counter_patch,
        listed=False,
    ),
    Operation(
        "get_reviewer_log",
        "reviewers",
        "output",
        ask.GetReviewerLog,
        answers.ReviewerLog,
        _OPERATOR,
        READ,
        do.get_reviewer_log,
        listed=False,
    ),
    Operation(
        "get_project_settings",
        "project",
        "settings",
        ask.GetProjectSettings,
        answers.ProjectSettings,
        frozenset({Role.OPERATOR, Role.ADMIN}),
        READ,
        do.get_project_settings,
        listed=False,
        for_agents=False,
    ),
)
