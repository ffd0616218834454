"""A proposer's next step in a review: the one place that every message of ours takes it from.

`commands` says it for a shell, a command at the end of each line; `operations` for callers of operations. Both read
the answer of `get_review_status`. The first line is what to do; a line that begins with "or" is another way.
"""

from __future__ import annotations

import os

from tandem.git.place import find_repository
from tandem.rulings import open_reviews
from tandem.rulings.open_reviews import AGAIN, STAGED
from tandem.rulings.state import FOLLOWED

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

SUBMIT = "tandem submit --staged --wait -m 'why'"
SUBMIT_IT = f"Submit it:   {SUBMIT}"
COMMIT_IT = "Have it reviewed and committed:"
COMMIT = "git commit -m 'why'"
BY_COMMIT = COMMIT.replace("git", "tandem")
REVISION = "revision"
"""Where a proposal of commits says in its metadata which ones they are."""
_NEXT_ROUND = f"commit it on its branch, as its next round: {BY_COMMIT}"
SUBMIT_BRANCH = "tandem submit --branch --wait -m 'why'"
_ANEW = f"commit it on its branch, and submit all of that: {SUBMIT_BRANCH}"


def wait(review_id: str) -> str:
    """The command that waits until there is something to do about a review, and does it where it can."""
    return open_reviews.record(review_id).get(AGAIN) or f"tandem review status {review_id} --wait"


def answer(status: Mapping[str, Any]) -> str:
    """The command that answers what a reviewer asks, or a person who does not review it."""
    settles = f" --resolves {status['question_id']}" if _is_from_the_side(status) else ""
    return f"tandem review message {status['review_id']} --sender-role proposer --body '…'{settles}"


def _is_from_the_side(status: Mapping[str, Any]) -> bool:
    """Whether a question waits for an answer that takes no turn."""
    return bool(status.get("question_id")) and status.get("turn") != "proposer"


def answer_findings(review_id: str) -> str:
    """How a proposer says of each finding what became of it."""
    command = f"tandem findings answer {review_id} FINDING fixed --reason '…'"
    return f"First answer each finding, fixed, refuted or deferred: {command}"


def decline(review_id: str, patch_id: str | None) -> str:
    """The command that declines a counter-patch; the review stays."""
    return f"tandem review patch reject {review_id} {patch_id} --reason '…'"


def continuing() -> str | None:
    """The command that goes on with the merge, rebase or pick that stopped here, without an editor; None for none."""
    place = find_repository()

    def has(*names: str) -> bool:
        return place is not None and any(os.path.exists(os.path.join(place.git_dir, name)) for name in names)

    if has(os.path.join("rebase-apply", "applying")):
        return "git am --continue"
    # Once no patch is left, git does not continue a rebase by patches, whose refusal names another way.
    if has("rebase-merge", os.path.join("rebase-apply", "final-commit")):
        return f"{_NO_EDITOR} git rebase --continue"
    picking = next((verb for verb in ("cherry-pick", "revert") if has(f"{verb.upper().replace('-', '_')}_HEAD")), None)
    if picking and has("sequencer"):
        return f"{_NO_EDITOR} git {picking} --continue"
    return "git commit --no-edit" if picking or has("MERGE_HEAD") else None


def stopped() -> str | None:
    """The same, if the command that stopped here cannot be run again; None for others."""
    going_on = continuing()
    return going_on if going_on is not None and going_on.endswith("--continue") else None


_NO_EDITOR = "GIT_EDITOR=true"
"""Git asks for no message; it counts before an editor of the configuration and of the environment."""
_AS_REFUSED = "Run the command that the refusal named for afterwards, or else the refused git command again"


def commit(review_id: str) -> list[str]:
    """How the approved, staged content is committed, a line each."""
    return [f"Commit exactly this: {continuing() or COMMIT}", f"Then: tandem review close {review_id}"]


def follow(review_id: str) -> str:
    """The command that submits what follows a review that is over."""
    return f"tandem submit --parent {review_id} --staged --wait -m 'why'"


def _range(revision: str) -> str:
    """The proposed commits, with those that follow them."""
    start = revision.partition("..")[0]
    return f"{start}...HEAD" if "..." in revision else f"{start}..HEAD"


def _revise(status: Mapping[str, Any]) -> str:
    """How a change is submitted as the next round; ends a sentence that asks for the change."""
    review_id = status["review_id"]
    if status.get(FOLLOWED):
        return _NEXT_ROUND
    if status.get(AGAIN):
        return f"{'commit it on its branch' if status.get('revision') else 'git add'}, then: {status[AGAIN]}"
    if status.get("revision"):
        commits = _range(status["revision"])
        return f"commit it on its branch, then: tandem submit --revise {review_id} --range {commits} --wait"
    return f"git add, then: tandem submit --revise {review_id} --staged --wait"


def asks_more(status: Mapping[str, Any]) -> bool:
    """Whether the policy asks for more by now than when a review was approved."""
    return status.get("status") == "approved" and bool(status.get("missing"))


def _collect(status: Mapping[str, Any]) -> list[str]:
    """How the approvals that are left are collected, a line each."""
    review_id, commits = status["review_id"], status.get("revision")
    of_index = f"tandem submit --revise {review_id} --staged --wait"
    of_commits = f"tandem submit --revise {review_id} --range {commits} --wait"
    return [
        f"The policy asks for more since it was approved: {'; '.join(status['missing'])}",
        f"Collect it in a new round of the same content: {of_commits if commits else of_index}",
        f"or a person waives it: tandem waive {review_id} NEED --until 3d --reason WHY",
    ]


def _differently(status: Mapping[str, Any]) -> str:
    """How a rejected change is tried in another way."""
    review_id = status["review_id"]
    if status.get(AGAIN):
        kept = "commit it on its branch" if status.get("revision") else "git add"
        return f"Do it differently, {kept}, then: {status[AGAIN]}"
    if status.get(FOLLOWED):
        return f"Do it differently, {_ANEW}"
    if status.get("revision"):
        # It has to fit into a line.
        again = f"tandem submit --parent {review_id} --range {_range(status['revision'])} --wait -m 'why'"
        return f"Do it differently, commit it on its branch, then: {again}"
    return f"Do it differently, git add, then: {follow(review_id)}"


def alone(status: Mapping[str, Any]) -> bool:
    """Whether a review waits for a person or another agent who may come, and no pool has a reviewer for it."""
    none = _none(status)
    return none.get("reason") in ("no_pool", "no_profile") and not none.get("needs_person")


def _none(status: Mapping[str, Any]) -> Mapping[str, Any]:
    return status.get("no_reviewer") or {}


def without_reviewer(review_id: str) -> str:
    """The message to an agent where no reviewer may ever come."""
    return f"No reviewer comes here by itself. Tell your person: tandem open {review_id}"


def escalation(status: Mapping[str, Any]) -> str:
    """Why a person has to decide, and what an agent does, in two sentences."""
    if alone(status):
        return f"Stop. {without_reviewer(status['review_id'])}"
    why = status.get("attention") or _none(status).get("message")
    if why is None and (status.get("status") == "rejected" or _ended_unapproved(status)):
        why = "Three reviews in a row, each the --parent of the next, ended without approval"
    why = why or f"{status['objections']} rounds ended without agreement"
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


def _needs_no_commit(status: Mapping[str, Any]) -> bool:
    """Whether the approved content is words alone, or committed already."""
    is_commit = status.get(FOLLOWED) and status.get("counter_patch_status") != "accepted"
    return is_commit or status.get("digest", "") is None


def _approved(status: Mapping[str, Any]) -> list[str]:
    if _needs_no_commit(status):
        return [f"Go on, then: tandem review close {status['review_id']}"]
    if status.get(AGAIN) and not status.get("revision"):
        return [f"Commit it: {status[AGAIN]}"]
    fetch = f"tandem apply {status['review_id']} --index"
    now, then = commit(status["review_id"])
    if status.get("counter_patch_status") == "accepted" or status.get("path"):
        # The files here know nothing of a counter-patch yet, and the index nothing of a text.
        return [f"Bring your files to the approved content: {fetch}", now, then]
    if status.get("revision"):
        going_on = stopped()
        now = f"Go on: {going_on}" if going_on else f"{_AS_REFUSED}."
        return [now, then]
    return [now, f"or, if your index differs, first: {fetch}", then]


def beneath(between: str) -> str:
    """How the commits before a change are submitted, on which no check counts before they are approved."""
    why = "Its checks count once the commits before it are approved"
    return f"{why}. Submit those: tandem submit --range {between} --wait -m 'why'"


def is_conflict_in_merge(status: Mapping[str, Any]) -> bool:
    """Whether a review is in conflict with its base branch, and a merge, rebase or pick stopped here."""
    # A followed merge is committed, which submits it.
    return bool(status.get("conflict_with")) and not status.get(FOLLOWED) and continuing() is not None


def conflict_in_merge(status: Mapping[str, Any]) -> str:
    """The words for an agent in a merge whose conflict is resolved: no check runs on that before it is committed."""
    why = f"A required check cannot run on a merge of {status['conflict_with']} before it is committed"
    return f"{why}. Stop, and tell your person: tandem open {status['review_id']}"


def take_in(review_id: str, branch: str, again: str, *, committed: bool | None, staged: bool | None) -> list[str]:
    """How a change is merged with the base branch that it is in conflict with; the gate kept it out of a commit.

    Args:
        review_id: The review.
        branch: The base branch.
        again: How the merged change is submitted; begins a sentence.
        committed: Whether the change is committed.
        staged: Whether it was the index as it was, and other changes of the working tree stay out of it.
    """
    # Of a mirror the base branch is its HEAD.
    branch = "origin/HEAD" if branch == "HEAD" else branch
    take = f"Take in {branch}: git merge --no-edit {branch}"
    if committed:
        return [take, again]
    # By name: where there was nothing to put away, an older stash stays where it is.
    newest = f'"$(git stash list --format=%gd --grep={review_id} -1)"'
    # In a conflict git stages all of a stash.
    rest = "" if staged else "; leave other files out again, with git restore --staged PATH"
    return [
        f"Put it away: git stash push {'--staged' if staged else '--include-untracked'} -m {review_id}",
        take,
        f"Bring it back, in conflict{rest}: git stash pop {newest}",
        again,
        f"Once it is committed: git stash drop {newest}",
    ]


def _waiting(status: Mapping[str, Any]) -> list[str]:
    review_id = status["review_id"]
    if status.get("unapproved_range"):
        return [beneath(status["unapproved_range"]), f"Then wait: {wait(review_id)}"]
    if status.get("checks") == "doubtful":
        return [
            f"Its checks passed on what does not count; why: tandem checks list {review_id}",
            f"Run them again: tandem checks run {review_id}",
            f"Then wait: {wait(review_id)}",
        ]
    return [f"Wait for {'its checks' if status['status'] == 'approved' else 'it'}: {wait(review_id)}"]


def _on_policy_or_ground(status: Mapping[str, Any], again: str) -> list[str] | None:
    """How a round is revised for another reason than its content; None if it is for that."""
    if asks_more(status):
        return _collect(status)
    if is_conflict_in_merge(status):
        return [conflict_in_merge(status)]
    if not status.get("conflict_with"):
        return None
    is_committed = status.get("revision") or status.get(FOLLOWED)
    again, staged = f"Resolve the conflict, {again}", status.get(STAGED)
    return take_in(status["review_id"], status["conflict_with"], again, committed=is_committed, staged=staged)


def commands(status: Mapping[str, Any]) -> list[str]:  # noqa: PLR0911, C901 - one case an action reads best
    """The next steps in a shell, a line each.

    Where a command was run that is run again until its change is committed, that is the way on.
    """
    review_id, patch_id, checks = status["review_id"], status.get("counter_patch_id"), status.get("checks")
    kept = open_reviews.record(review_id)
    status = {**status, AGAIN: kept.get(AGAIN), STAGED: kept.get(STAGED)}
    again = _revise(status)
    findings: Mapping[str, Any] = status.get("findings") or {}
    answers = [answer_findings(review_id)] if findings.get("open", 0) > findings.get("answered", 0) else []
    if status["next_action"] == "revise" and (special := _on_policy_or_ground(status, again)) is not None:
        return special
    match status["next_action"]:
        case "wait":
            return [*answers, *_waiting(status)] if _keeps_back(status) else _waiting(status)
        case "answer_message":
            said = f"Read the messages: tandem review discussion {review_id}"
            return [said, f"Answer: {answer(status)}", f"Then wait: {wait(review_id)}"]
        case "decide_counter_patch":
            then = [f"Then: {status[AGAIN]}"] if status[AGAIN] else []
            return [
                f"Read it: tandem review proposal {review_id}",
                f"Take it: tandem review patch accept {review_id} {patch_id}",
                f"or decline it: {decline(review_id, patch_id)}",
                *then,
            ]
        case "revise" if checks == "failed":
            return [
                f"See what failed: tandem checks list {review_id}",
                f"Change that, {again}",
                f"or, if the check was at fault: tandem checks run {review_id}",
            ]
        case "revise" if status.get("counter_patch_status") == "accepted" and not status[AGAIN]:
            # The files here know nothing of it yet.
            return [f"Bring your files to the round: tandem apply {review_id}", f"Change them, {again}", *answers]
        case "revise":
            return [f"Change it, {again}", *answers]
        case "apply_and_close":
            return _approved(status)
        case "revert":
            return [_differently(status), f"or undo it, then: tandem review close {review_id}"]
        case "escalate":
            # An answer that lacks the reason has it in words.
            return [status.get("message") or escalation(status)]
        case _:
            return [_differently(status)] if _ended_unapproved(status) else []


def _sent(status: Mapping[str, Any], name: str) -> str:
    """How a changed content gets to the broker: as a round of `review_id`, or as what follows `parent_id`."""
    if status.get(FOLLOWED):
        return _NEXT_ROUND if name == "review_id" else _ANEW
    return f"create_review with {name}={status['review_id']} and {_content(status)}"


def _operations_on_ground(status: Mapping[str, Any]) -> str | None:
    """The next step where it depends on the round's content or base; None elsewhere."""
    review_id = status["review_id"]
    waiting = f"get_review_status with review_id={review_id} and wait=true"
    match status["next_action"]:
        case "wait" if status.get("unapproved_range"):
            return f"{beneath(status['unapproved_range'])}, then call {waiting}."
        case "wait" if status.get("checks") == "doubtful":
            again = f"tandem checks run {review_id}"
            return f"Its checks passed on what does not count. Run them again: {again}, then call {waiting}."
        case "revise" if status.get("conflict_with"):
            again, committed = f"Resolve the conflict, then {_sent(status, 'review_id')}", status.get(FOLLOWED)
            taken = take_in(review_id, status["conflict_with"], again, committed=committed, staged=None)
            return f"{'. '.join(taken)}."
        case "apply_and_close" if status.get("revision") and status.get("counter_patch_status") != "accepted":
            return f"{_AS_REFUSED}, then close_review."
        case "apply_and_close" if status.get("path"):
            return f"Bring the file to it: tandem apply {review_id} --index. Commit exactly this, then close_review."
        case _:
            return None


def _operations_on_policy(status: Mapping[str, Any]) -> str | None:
    """The call that collects the approvals that the policy asks for since the last one; None if it asks for none."""
    if status["next_action"] != "revise" or not asks_more(status):
        return None
    more = f"The policy asks for more since it was approved: {'; '.join(status['missing'])}"
    again = f"create_review with review_id={status['review_id']} and {_content(status)}"
    return f"{more}. Send the same content as a new round: {again}."


def _keeps_back(status: Mapping[str, Any]) -> bool:
    """Whether a review waits for a reviewer with findings that keep its approval back: its proposer may answer."""
    findings: Mapping[str, Any] = status.get("findings") or {}
    return status["status"] == "pending" and bool(findings.get("blocking"))


def _on_findings(status: Mapping[str, Any]) -> str:
    findings: Mapping[str, Any] = status.get("findings") or {}
    if not findings.get("open"):
        return ""
    return " Of each finding (list_findings) say with answer_finding whether it is fixed, refuted or deferred."


def operations(status: Mapping[str, Any]) -> str:  # noqa: PLR0911, C901 - as above
    """The next step with operations, in a sentence or two."""
    review_id, patch_id, checks = status["review_id"], status.get("counter_patch_id"), status.get("checks")
    waiting = f"get_review_status with review_id={review_id} and wait=true"
    if (special := _operations_on_policy(status) or _operations_on_ground(status)) is not None:
        return special
    revised, anew = _sent(status, "review_id"), _sent(status, "parent_id")
    match status["next_action"]:
        case "wait":
            return f"Call {waiting}, and with this cursor.{_on_findings(status) if _keeps_back(status) else ''}"
        case "answer_message":
            settles = f", resolves={status['question_id']}" if _is_from_the_side(status) else ""
            reply = f"add_message (sender_role=proposer{settles})"
            return f"Read it with get_discussion, answer with {reply}, then {waiting}.{_on_findings(status)}"
        case "decide_counter_patch":
            decide = f"accept_counter_patch or reject_counter_patch with counter_patch_id={patch_id}"
            return f"Read it with get_proposal, then {decide}, then {waiting}."
        case "revise" if checks == "failed":
            failed = f"A required check failed; its output: tandem checks list {review_id}."
            return f"{failed} Change that, then {revised}."
        case "revise":
            has_counter_patch = status.get("counter_patch_status") == "accepted"
            bring = f"Bring your files to the round: tandem apply {review_id}. " if has_counter_patch else ""
            return f"{bring}Change what verdict_reason asks for, then {revised}.{_on_findings(status)}"
        case "apply_and_close" if _needs_no_commit(status):
            return "Go on, then close_review."
        case "apply_and_close":
            return "Commit exactly this content (get_proposal has it), then close_review."
        case "revert":
            return f"Do it differently, then {anew}; or undo it, then close_review."
        case "escalate":
            return escalation(status)
        case _ if _ended_unapproved(status):
            why = " (closed_reason says why)" if status.get("closed_reason") else ""
            return f"It is closed without approval{why}. Do it differently, then {anew}."
        case _:
            return "Nothing: it is over."
