"""What a proposer does next about a review: the one place that every message of ours takes it from.

`commands` says it for a shell, a command at the end of each line; `operations` for callers of operations. Both read
the answer of `get_review_status`. The first line is what to do; a line that begins with "or" is another way.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SUBMIT = "tandem submit --staged --wait -m 'what it is for'"
SUBMIT_IT = f"Submit it:   {SUBMIT}"


def wait(review_id: str) -> str:
    """The command that waits until there is something to do about a review."""
    return f"tandem review status {review_id} --wait"


def answer(review_id: str) -> str:
    """The command that answers what a reviewer asks."""
    return f"tandem review message {review_id} --sender-role proposer --body '…'"


def decline(review_id: str, patch_id: str | None) -> str:
    """The command that declines a counter-patch; the review stays."""
    return f"tandem review patch reject {review_id} {patch_id} --reason '…'"


def commit(review_id: str) -> list[str]:
    """How what is approved and staged is committed, a line each."""
    return ["Commit exactly this: git commit -m 'what it is for'", f"Then: tandem review close {review_id}"]


def follow(review_id: str) -> str:
    """The command that submits what follows a review that is over."""
    return f"tandem submit --parent {review_id} --staged --wait -m 'what it is for'"


def differently(review_id: str) -> str:
    """How a rejected change is tried in another way."""
    return f"Do it differently, git add it, then: {follow(review_id)}"


def alone(status: Mapping[str, Any]) -> bool:
    """Whether a review waits for a person or another agent who may come, and no pool serves it."""
    return _none(status).get("reason") == "no_pool"


def _none(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return status.get("no_reviewer") or {}


def without_reviewer(review_id: str) -> str:
    """What an agent hears where none may ever come."""
    return f"Nobody reviews here by itself. Tell your person: tandem open {review_id}"


def escalation(status: Mapping[str, Any]) -> str:
    """Why a person has to decide, and what an agent does, in two sentences."""
    if alone(status):
        return f"Stop. {without_reviewer(status['review_id'])}"
    why = status.get("attention") or _none(status).get("message")
    if why is None and (status.get("status") == "rejected" or _ended_unapproved(status)):
        why = "Three reviews in a row, each the --parent of the next, ended without approval"
    why = why or f"{status['round']} rounds ended without agreement"
    return f"{why.rstrip('.')}. Stop, and tell your person: tandem open {status['review_id']}"


def _ended_unapproved(status: Mapping[str, Any]) -> bool:
    return status.get("outcome") in ("rejected", "withdrawn")


def _content(status: Mapping[str, Any]) -> str:
    """The arguments of `create_review` that hold a review's content."""
    digest = status.get("digest")
    if digest is None:
        return "the diff" if status.get("category", "code_change") == "code_change" else "the whole description"
    # That of a text names its path.
    _, is_text, path = digest.partition(":")
    return f"path={path} and its whole text as description" if is_text else "the diff"


def _approved(status: Mapping[str, Any]) -> list[str]:
    if status.get("digest", "") is None:
        # Words alone change no file.
        return [f"Go on, then: tandem review close {status['review_id']}"]
    fetch = f"tandem apply {status['review_id']} --index"
    now, then = commit(status["review_id"])
    if status.get("counter_patch_status") == "accepted":
        # The files here know nothing of it yet.
        return [f"Bring your files to what was approved: {fetch}", now, then]
    return [now, f"or, if your index differs, first: {fetch}", then]


def _waiting(status: Mapping[str, Any]) -> list[str]:
    review_id = status["review_id"]
    if status.get("checks") == "doubtful":
        return [
            f"Its checks passed on what does not count; why: tandem checks list {review_id}",
            f"Run them again: tandem checks run {review_id}",
            f"Then wait: {wait(review_id)}",
        ]
    return [f"Wait for {'its checks' if status['status'] == 'approved' else 'it'}: {wait(review_id)}"]


def commands(status: Mapping[str, Any]) -> list[str]:  # noqa: PLR0911 - one case an action reads best
    """What to do next in a shell, a line each."""
    review_id, patch_id, checks = status["review_id"], status.get("counter_patch_id"), status.get("checks")
    again = f"git add, then: tandem submit --revise {review_id} --staged --wait"
    match status["next_action"]:
        case "wait":
            return _waiting(status)
        case "answer_message":
            said = f"Read all that was said: tandem review discussion {review_id}"
            return [said, f"Answer: {answer(review_id)}", f"Then wait: {wait(review_id)}"]
        case "decide_counter_patch":
            return [
                f"Read it: tandem review proposal {review_id}",
                f"Take it: tandem review patch accept {review_id} {patch_id}",
                f"or decline it: {decline(review_id, patch_id)}",
            ]
        case "revise" if checks == "failed":
            return [
                f"See what failed: tandem checks list {review_id}",
                f"Change that, {again}",
                f"or, if the check was at fault: tandem checks run {review_id}",
            ]
        case "revise":
            return [f"Change it, {again}"]
        case "apply_and_close":
            return _approved(status)
        case "revert":
            return [differently(review_id), f"or undo it, then: tandem review close {review_id}"]
        case "escalate":
            # An answer that lacks the reason has it in words.
            return [status.get("message") or escalation(status)]
        case _:
            return [differently(review_id)] if _ended_unapproved(status) else []


def operations(status: Mapping[str, Any]) -> str:  # noqa: PLR0911, C901 - as above
    """What to do next with operations, in a sentence or two."""
    review_id, patch_id, checks = status["review_id"], status.get("counter_patch_id"), status.get("checks")
    waiting = f"get_review_status with review_id={review_id} and wait=true"
    revised, resubmitted = (
        f"create_review with {name}={review_id} and {_content(status)}" for name in ("review_id", "parent_id")
    )
    match status["next_action"]:
        case "wait" if checks == "doubtful":
            return f"Its checks passed on what does not count; list_checks says why. Call run_checks, then {waiting}."
        case "wait":
            return f"Call {waiting}, and with this cursor."
        case "answer_message":
            return f"Read it with get_discussion, answer with add_message (sender_role=proposer), then {waiting}."
        case "decide_counter_patch":
            decide = f"accept_counter_patch or reject_counter_patch with counter_patch_id={patch_id}"
            return f"Read it with get_proposal, then {decide}, then {waiting}."
        case "revise" if checks == "failed":
            failed = f"A required check failed; what it says: tandem checks list {review_id}."
            return f"{failed} Change that, then {revised}."
        case "revise":
            return f"Change what verdict_reason asks for, then {revised}."
        case "apply_and_close" if status.get("digest", "") is None:
            return "Go on, then close_review."
        case "apply_and_close":
            return "Commit exactly this content (get_proposal has it), then close_review."
        case "revert":
            return f"Do it differently, then {resubmitted}; or undo it, then close_review."
        case "escalate":
            return escalation(status)
        case _ if _ended_unapproved(status):
            return f"It is closed without approval (closed_reason says why). Do it differently, then {resubmitted}."
        case _:
            return "Nothing: it is over."
