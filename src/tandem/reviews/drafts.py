"""Counter-patches before they are sent: made from edits, and judged as a verdict with them would be."""

from __future__ import annotations

import asyncio

from tandem.contract import answer
from tandem.contract.caller import Caller
from tandem.errors import InvalidDiff, InvalidInput, SchemaInvalid
from tandem.reviews import contents, verdicts
from tandem.reviews import files as round_files
from tandem.reviews import queries as reviews
from tandem.reviews.claim_rules import check_round
from tandem.reviews.context import Services
from tandem.reviews.page_contract import CheckCounterPatch, CounterPatchCheck, CounterPatchDraft, DraftCounterPatch
from tandem.reviews.queries import RoundContent
from tandem.reviews.rules import Review
from tandem.store.base import Unit


async def draft_counter_patch(services: Services, _caller: Caller, request: DraftCounterPatch) -> CounterPatchDraft:
    """The counter-patch that comes of edits to what a round leaves, and whether a verdict could carry it.

    Raises:
        NotFound: There is no such review, or nowhere to read its files from.
        StaleRound: The round is no longer the current one.
        InvalidInput: The edits do not go with the round, or touch what is no text.
        TooLarge: Something is over a limit.
    """
    found = await _found(services, request)
    if found.diff is None:
        body = _text(services, request)
    else:
        body = await _diff(services, found, request)
    if not body:
        problem = "With these edits nothing is left of the change; to say so, request changes or reject it."
        judged = CounterPatchCheck(request.review_id, found.round.round, (), None, applies=False, problem=problem)
    else:
        judged = await _judged(services, found, request.project, body)
    return answer.shown(CounterPatchDraft, judged, counter_patch=body)


async def check_counter_patch(services: Services, _caller: Caller, request: CheckCounterPatch) -> CounterPatchCheck:
    """Whether a verdict could carry a counter-patch.

    Raises:
        NotFound: There is no such review.
        StaleRound: The round is no longer the current one.
        TooLarge: It is over the limit.
    """
    return await _judged(services, await _found(services, request), request.project, request.counter_patch)


async def _found(services: Services, request: DraftCounterPatch | CheckCounterPatch) -> RoundContent:
    def look(unit: Unit) -> RoundContent:
        found = reviews.get_content(unit, request.review_id, request.project)
        check_round(found.review, request.round or found.review.round)
        return found

    return await services.store.read(look)


def _text(services: Services, request: DraftCounterPatch) -> str:
    if request.text is None or request.edits is not None:
        raise InvalidInput("The round is a text: send all of it as text, and no edits.", field="text")
    contents.check_text(services, "text", request.text)
    return request.text


async def _diff(services: Services, found: RoundContent, request: DraftCounterPatch) -> str:
    if request.edits is None or request.text is not None:
        raise InvalidInput("The round is a diff: send edits to its files, and no text.", field="edits")
    edits = {edit.path: edit.content for edit in request.edits}
    if len(edits) != len(request.edits):
        raise InvalidInput("A path is edited twice; send each file once, as it is to be.", field="edits")
    async with round_files.readable(services, found) as (repository, patch), services.validations:
        return await asyncio.to_thread(repository.diff_with_edits, patch, edits)


async def _judged(services: Services, found: RoundContent, project: str | None, body: str) -> CounterPatchCheck:
    """What a verdict says of it: the same code, without a verdict."""

    def still(_unit: Unit, review: Review) -> None:
        check_round(review, found.round.round)

    facts, problem = contents.Content(""), None
    try:
        facts = await verdicts.counter_patch_facts(services, found.review.id, project, body, still)
    except (InvalidDiff, InvalidInput, SchemaInvalid) as error:
        problem = error.message
    return CounterPatchCheck(
        review_id=found.review.id,
        round=found.round.round,
        affected_files=facts.affected_files,
        digest=facts.digest,
        applies=problem is None,
        problem=problem,
    )
