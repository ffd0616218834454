"""The operations on files of rounds, drafts, logs and settings: for the pages and the terminal, so none is listed."""

from __future__ import annotations

from tandem.contract.operation import ADMIN, ALL, OPERATOR, READ, Operation
from tandem.domain import file_answers as answers
from tandem.operations import file_requests as ask

OPERATIONS = (
    Operation("get_round_file", "review", "file", ask.GetRoundFile, answers.RoundFile, ALL, READ, listed=False),
    Operation(
        "draft_counter_patch",
        "review",
        "draft",
        ask.DraftCounterPatch,
        answers.CounterPatchDraft,
        ALL,
        READ,
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
        listed=False,
    ),
    Operation(
        "get_reviewer_log", "reviewers", "output", ask.GetReviewerLog, answers.ReviewerLog, OPERATOR, READ, listed=False
    ),
    Operation(
        "get_project_settings",
        "project",
        "settings",
        ask.GetProjectSettings,
        answers.ProjectSettings,
        OPERATOR | ADMIN,
        READ,
        listed=False,
        for_agents=False,
    ),
)
