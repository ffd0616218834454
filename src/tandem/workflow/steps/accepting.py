"""Taking the counter-patch that a reviewer sent instead of what was put up."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from tandem.errors import InvalidInput, NoCounterPatch
from tandem.workflow.steps import counter_patches, moves
from tandem.workflow.steps.pointers import Pointer
from tandem.workflow.steps.reviewing import Desk
from tandem.workflow.steps.subjects import Subject


async def accept(desk: Desk, subject: Subject) -> Pointer:
    """Accept the pending counter-patch, and bring the files to it unless they are still to be written.

    Returns:
        The pointer to the round that it became.

    Raises:
        NoCounterPatch: There is none.
        InvalidInput: The content here is not the one that the counter-patch is for.
    """
    pointer = desk.pointers.find(subject.key)
    status = await desk.status(pointer)
    if pointer is None or status is None:
        raise NoCounterPatch("Nothing of this was put up; run the command without --accept.")
    proposal = await desk.client.get_proposal(status.review_id)
    patch = counter_patches.pending(proposal)
    if not moves.is_same(subject, pointer, status):
        raise InvalidInput(
            "The content has changed since it was put up, so that the counter-patch does not fit; nothing was done. "
            f"Undo that change, or put it up: {subject.command}",
            field="worktree",
        )
    decided = await desk.client.accept_counter_patch(status.review_id, counter_patch_id=patch.id)
    desk.say(f"{patch.id} is accepted: it is round {decided.round} of {status.review_id}")
    if subject.is_draft:
        return pointer
    try:
        written = await asyncio.to_thread(counter_patches.bring, desk.repository, proposal, patch)
    except InvalidInput as refusal:
        raise InvalidInput(
            f"The counter-patch was accepted, and the working tree could not be brought to it. {refusal.message} "
            f"Or, once it is approved: tandem apply {status.review_id}",
            **refusal.details,
        ) from refusal
    for path in written:
        desk.say(f"changed {path}")
    made = replace(pointer, round=decided.round, digest=decided.digest or pointer.digest, approved=None)
    if not subject.is_committed or subject.path is not None:
        await asyncio.to_thread(desk.pointers.put, subject.key, made)
        return made
    # The commits are as before: what was agreed on is in the working tree only.
    return pointer
