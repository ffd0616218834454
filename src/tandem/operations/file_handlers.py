"""From a typed request on files, drafts, logs or settings to the one service function that does it."""

from __future__ import annotations

from tandem.contract.caller import Caller
from tandem.domain import file_answers as answers
from tandem.operations import file_requests as ask
from tandem.services import drafts, project_view, reviewer_logs, round_files
from tandem.services.context import Services
from tandem.services.round_files import Lines


async def get_round_file(services: Services, request: ask.GetRoundFile, _caller: Caller) -> answers.RoundFile:
    """A file of a round."""
    return await round_files.show(
        services,
        request.review_id,
        request.project,
        number=request.round,
        path=request.path,
        after=request.side == "after",
        lines=Lines(request.first_line, request.last_line, as_base64=request.as_base64),
    )


async def draft_counter_patch(
    services: Services, request: ask.DraftCounterPatch, _caller: Caller
) -> answers.CounterPatchDraft:
    """A counter-patch from edits."""
    sent = drafts.Edited(
        edits=None if request.edits is None else [(edit.path, edit.content) for edit in request.edits],
        text=request.text,
        round=request.round,
    )
    return await drafts.draft(services, request.review_id, request.project, sent)


async def check_counter_patch(
    services: Services, request: ask.CheckCounterPatch, _caller: Caller
) -> answers.CounterPatchCheck:
    """Whether a counter-patch would be taken."""
    return await drafts.check(
        services, request.review_id, request.project, body=request.counter_patch, number=request.round
    )


async def get_reviewer_log(services: Services, request: ask.GetReviewerLog, _caller: Caller) -> answers.ReviewerLog:
    """What a reviewer wrote."""
    return await reviewer_logs.read(services, request.reviewer_id, lines=request.lines, position=request.position)


async def get_project_settings(
    services: Services, request: ask.GetProjectSettings, _caller: Caller
) -> answers.ProjectSettings:
    """What holds for a project."""
    return await project_view.settings(services, request.project)
