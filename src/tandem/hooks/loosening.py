"""What `per_plan`, `optimistic` and `followed` make of a refused commit; imported only where one of them holds."""

from __future__ import annotations

import json
import os

from tandem.bridge.project import with_base_files
from tandem.core.hashes import hex_digest
from tandem.core.visible import say
from tandem.errors import InvalidInput
from tandem.git.raw import FIELDS, digest_of
from tandem.rulings import git, message, next_steps, pending, person, plans
from tandem.rulings.broker_errors import Refused, Unreachable
from tandem.rulings.state import FOLDER, FOLLOWED, ROLLBACK_NOTE
from tandem.rulings.trust import PER_PLAN

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from typing import Any

    from tandem.hooks.judging import CommitDecision
    from tandem.rulings.ask import GateClient
    from tandem.rulings.git import Change
    from tandem.rulings.state import GateFile

_DIFF = ("--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
_PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/", "--no-relative", "--submodule=short", "--ignore-submodules=none")
_LONGEST_INTENT = 500
_LONGEST_NAME = 200
_MOST_NAMED = 20
_STANDING = ("pending", "claimed", "in_review", "approved")
_CHANGES_REQUESTED = "changes_requested"
_DUE = ("revise", "answer_message", "decide_counter_patch")
"""What a review waits for that is its proposer's turn."""

_FOLLOWS = {"followed": True}
_MOST_FOLLOWED = 5
_MERGED = "merged"
"""Of a review that begins before a merge, whose own part of the branch begins where the base branch is in it."""


def loosened(
    gate: GateFile, asker: GateClient | None, ruling: CommitDecision, mode: str, text: str, branch: str | None
) -> CommitDecision:
    """The ruling on a refused commit where the mode lets it pass: marked, or with the review that it is submitted as.

    Args:
        gate: The switch.
        asker: To ask the broker with; None if it was away a moment ago, which only `followed` takes.
        ruling: The refusal.
        mode: `per_plan`, `optimistic` or `followed`.
        text: The message so far.
        branch: The branch that is checked out; None if HEAD is detached.

    Raises:
        Refused: The broker does not know the project.
        Unreachable: No broker answers.
        TandemError: The change cannot be read.
    """
    if mode == FOLLOWED or asker is None:
        return _followed(gate, asker, ruling, text, branch)
    if mode == PER_PLAN:
        marks = [message.UNREVIEWED] if ruling.held is None else ruling.held["review_ids"]
        return ruling._replace(passes=True, review_ids=marks)
    belongs = message.belonging(message.subject(text))
    plan = message.plan_key(belongs.get("phase"), belongs.get("plan"), branch)
    standing = asker.call("get_gate", plan=plan)["plan"]
    if standing is not None and standing["mode"] == "blocking":
        against = [name for name in standing["against"] if not _is_settled(gate, asker, name, branch)]
        advises = ruling.held is None or against
        return ruling._replace(advice=_plan_is_blocking(plan, against)) if advises else ruling
    if ruling.held is not None:
        # It is reviewed already.
        return ruling._replace(passes=True, review_ids=ruling.held["review_ids"])
    named = [name for name in message.values(text, message.REVIEW) if name != message.UNREVIEWED]
    known = _submitted_already(asker, ruling.changes, named)
    # The content of an amended commit is reviewed under its own names, and the addition under the new one.
    reviews = list(dict.fromkeys([*ruling.former, *([known] if known else [])]))
    more = {"optimistic": True, "plan_key": plan, "depends_on": message.values(text, message.DEPENDS_ON)}
    request = None if known else _request(gate, ruling, text, branch, belongs, more)
    if request is not None:
        request.setdefault("plan", plan[:_LONGEST_NAME])
    return ruling._replace(passes=True, review_ids=reviews, submission=request)


def _followed(
    gate: GateFile, asker: GateClient | None, ruling: CommitDecision, text: str, branch: str | None
) -> CommitDecision:
    """The ruling where commits are submitted as they are made.

    What follows on changes that were asked for, or on a question, is a new round of that review: all of the branch
    from where the review began. Anything else is a review of its own.
    """
    ruling = ruling._replace(passes=True, waits_for_it=False)
    own = _request(gate, ruling, text, branch, message.belonging(message.subject(text)), _FOLLOWS)
    if asker is None:
        return ruling._replace(submission=own)
    if ruling.held is not None:
        return ruling._replace(review_ids=ruling.held["review_ids"])
    named = [name for name in message.values(text, message.REVIEW) if name != message.UNREVIEWED]
    if named and git.rebased(gate.place) is not None:
        return ruling._replace(review_ids=named)
    known = _submitted_already(asker, ruling.changes, named, (*_STANDING, _CHANGES_REQUESTED))
    if known is not None:
        return ruling._replace(review_ids=list(dict.fromkeys([*ruling.former, known])))
    answering = _answering(gate, asker, ruling, text, branch)
    return answering or ruling._replace(review_ids=ruling.former, submission=own)


def _answering(
    gate: GateFile, asker: GateClient, ruling: CommitDecision, text: str, branch: str | None
) -> CommitDecision | None:
    """The ruling on a commit that goes on with a review of this branch; None if none waits for that."""
    for review_id, base in _begun(gate):
        try:
            status = asker.call("get_review_status", review_id=review_id)
        except Refused:
            # As in `_submitted_already`.
            continue
        whole = ruling._replace(changes=git.between(gate.place, base, ruling.tree))
        if status["digest"] == _digest(whole.changes) and status["status"] in _STANDING:
            # It was tried before, and failed for another reason.
            return ruling._replace(review_ids=[review_id])
        if status["status"] != _CHANGES_REQUESTED and status["next_action"] not in _DUE:
            continue
        proposal = asker.call("get_proposal", review_id=review_id, files=[])
        if proposal["metadata"].get("branch") == branch:
            more = {**_FOLLOWS, "answers": f"{review_id}, round {status['round']}"}
            request = _request(gate, whole, text, branch, message.belonging(message.subject(text)), more, base)
            request |= {"review_id": review_id, "intent": proposal["intent"], "description": request["intent"]}
            return ruling._replace(review_ids=[review_id], submission=request)
    return None


def _begun(gate: GateFile) -> list[tuple[str, str]]:
    """The newest reviews that commits of this branch name, newest first, each with the commit where it begins."""
    place = gate.place
    head, tips = git.head(place), [*git.Bases(gate, ()).tips.values()]
    own = {commit.oid: commit for commit in git.commits(place, head, tips)} if head is not None else {}
    found: dict[str, str] = {}
    at, is_merged = head, False
    while at in own:
        commit = own[at]
        at, is_merged = commit.first, is_merged or len(commit.parents) > 1
        start = _MERGED if is_merged else at or git.empty_tree(place)
        found |= {name: start for name in commit.reviews if name != message.UNREVIEWED}
    # The commits of a base branch that was merged meanwhile are no part of the change.
    merged = git.run(place, ["merge-base", str(head), *(tips or [str(head)])]).text if is_merged else ""
    return [(name, merged if start == _MERGED else start) for name, start in found.items()][:_MOST_FOLLOWED]


def submitted(gate: GateFile, asker: GateClient, ruling: CommitDecision) -> list[str]:
    """The review that a commit is submitted as; none yet where it goes on without an answer.

    Raises:
        Refused: The broker does not take it, and the commit has to wait for that.
        Unreachable: No broker answers, likewise.
    """
    request = dict(ruling.submission or {})
    if not ruling.waits_for_it and pending.waiting(gate.place):
        pending.deliver(gate)
    try:
        return [asker.call(pending.SUBMITTING, **request)["review_id"]]
    except Unreachable:
        if ruling.waits_for_it:
            raise
        pending.keep(gate.place, pending.SUBMITTING, request)
        say("The broker is away: this commit is submitted when it is back.")
    except Refused as error:
        if ruling.waits_for_it:
            raise
        say(f"This commit is not submitted for review: {error}", "A base branch takes it only when it is approved.")
    return []


def _is_settled(gate: GateFile, asker: GateClient, review_id: str, branch: str | None) -> bool:
    """Whether the rejected change is gone or reverted already, by hand or by a reset, as the broker sees it."""
    place = gate.place
    head = git.head(place)
    # Of a rollback that broke off the files are not as the branch has them: it has to end first.
    if head is None or os.path.exists(os.path.join(place.git_dir, FOLDER, ROLLBACK_NOTE)):
        return False
    facts = {"branch": branch or "HEAD", "head_before": head, "head_after": head, "how": "observed"}
    try:
        asker.call("record_rollback", review_id=review_id, **facts)
    except Refused:
        return False
    return True


def _digest(changes: list[Change]) -> str:
    return digest_of(tuple(change[field] for field in FIELDS) for change in changes)


def _submitted_already(
    asker: GateClient, changes: list[Change], named: list[str], states: Collection[str] = _STANDING
) -> str | None:
    """The review that a rebased or picked commit brings along, if it is still of exactly this change."""
    wanted = _digest(changes) if named else ""
    for review_id in named[:_MOST_NAMED]:
        try:
            known = asker.call("get_review_status", review_id=review_id)
        except Refused:
            # The message's author made it up.
            continue
        if known["digest"] == wanted and known["status"] in states:
            return review_id
    return None


def _request(
    gate: GateFile,
    ruling: CommitDecision,
    text: str,
    branch: str | None,
    belongs: dict[str, str],
    more: Mapping[str, Any],
    base: str | None = None,
) -> dict[str, Any]:
    """The review of the commit that is being made, or of all from `base` on; `more` are its further metadata."""
    place, parent = gate.place, git.head(gate.place)
    base = base or parent or git.empty_tree(place)
    belongs = plans.with_task(place, belongs, [change["path"] for change in ruling.changes], parent)
    intent = message.subject(text)[:_LONGEST_INTENT] or f"A commit on {branch or 'a detached HEAD'}"
    request: dict[str, Any] = {
        "intent": intent,
        "agent_type": os.environ.get("TANDEM_AGENT") or "git",
        "agent_role": "proposer",
        "base": base,
        "diff": _diff(gate, base, ruling.tree),
        **belongs,
        "metadata": {"branch": branch, **more},
    }
    request = person.marked(request, place.top or place.git_dir)
    key = json.dumps([gate.project, base, ruling.changes, intent, request["metadata"], belongs])
    # Tried again, for a message that was not to the liking of another hook, it is the same review.
    request["idempotency_key"] = f"commit-{hex_digest(key.encode())}"
    # A broker on another machine may have no repository.
    return request if gate.broker is None else with_base_files(request, place.top or place.git_dir)


def _diff(gate: GateFile, base: str, tree: str) -> str:
    """What a tree changes, as text; files that are not UTF-8 count as binary, names are quoted."""
    command = ["diff-tree", "-p", *_DIFF, *_PREFIXES, base, tree, "--"]
    try:
        return git.run(gate.place, command).stdout.decode()
    except UnicodeDecodeError:
        attributes = os.path.join(gate.place.folder, f"attributes-{os.getpid()}")
    try:
        with open(attributes, "w", encoding="ascii") as file:
            file.write("* -diff\n")
        binary = ["-c", "core.quotePath=true", "-c", f"core.attributesFile={attributes}"]
        return git.run(gate.place, [*binary, *command]).stdout.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("A changed file is not UTF-8 and marked as text; mark it -diff.") from error
    finally:
        os.unlink(attributes)


def _plan_is_blocking(plan: str, against: list[str]) -> list[str]:
    if not against:
        return [
            f"The plan {plan} is in blocking mode since one of its changes was taken back: approval comes first.",
            next_steps.SUBMIT_IT,
        ]
    return [
        f"The plan {plan} is in blocking mode: decided against {', '.join(against)}.",
        f"Roll it back first: tandem rollback {against[0]}",
    ]
