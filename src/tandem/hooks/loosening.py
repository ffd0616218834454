"""What `per_plan`, `optimistic` and `followed` make of a refused commit; imported only where one of them holds."""

from __future__ import annotations

import json
import os

from tandem.bridge.project import with_base_files
from tandem.core.stand_ins import hex_digest
from tandem.core.visible import say
from tandem.errors import InvalidInput
from tandem.rulings import git, message, next_steps, pending, person, plans
from tandem.rulings.broker_errors import Refused, Unreachable
from tandem.rulings.state import FOLDER, FOLLOWED, ROLLBACK_NOTE
from tandem.rulings.trust import OPTIMISTIC, PER_PLAN

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Mapping
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
_CHANGES_REQUESTED = "changes_requested"
_STANDING = ("pending", "claimed", "in_review", "approved", _CHANGES_REQUESTED)
_DUE = ("revise", "answer_message", "decide_counter_patch")
"""What a review waits for that is its proposer's turn."""

_MOST_FOLLOWED = 5


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
    if mode == PER_PLAN:
        marks = [message.UNREVIEWED] if ruling.held is None else ruling.held["review_ids"]
        return ruling._replace(passes=True, review_ids=marks)
    if asker is None:
        return _submitting(gate, ruling._replace(waits_for_it=False), mode, text, branch)
    if mode == OPTIMISTIC and (advice := _stop(gate, asker, ruling, _plan(text, branch), branch)) is not None:
        return ruling._replace(advice=advice)
    if ruling.held is not None:
        # It is reviewed already.
        return ruling._replace(passes=True, review_ids=ruling.held["review_ids"])
    named = message.reviews(text)
    keeps = mode == FOLLOWED and git.rebased(gate.place) is not None
    if mode == FOLLOWED and not keeps and (found := _answering(gate, asker, ruling, text, branch)):
        return found
    known = named if keeps else _submitted_already(asker, ruling.changes, named)
    # The content of an amended commit is reviewed under its own names, and the addition under the new one.
    reviews = list(dict.fromkeys([*ruling.former, *known]))
    ruling = ruling._replace(passes=True, waits_for_it=mode != FOLLOWED, review_ids=reviews)
    return ruling if known else _submitting(gate, ruling, mode, text, branch)


def _stop(gate: GateFile, asker: GateClient, ruling: CommitDecision, plan: str, branch: str | None) -> list[str] | None:
    """What to do before a commit of an optimistic plan that is in blocking mode; None if it is not."""
    standing = asker.call("get_gate", plan=plan)["plan"]
    if standing is None or standing["mode"] != "blocking":
        return None
    against = [name for name in standing["against"] if not _is_settled(gate, asker, name, branch)]
    return _plan_is_blocking(plan, against) if ruling.held is None or against else []


def _plan(text: str, branch: str | None) -> str:
    belongs = message.belonging(message.subject(text))
    return message.plan_key(belongs.get("phase"), belongs.get("plan"), branch)


def _answering(
    gate: GateFile, asker: GateClient, ruling: CommitDecision, text: str, branch: str | None
) -> CommitDecision | None:
    """The ruling on a followed commit after changes were requested, or a question asked: a new round of that review.

    The round is all of the branch from where the review began. None if no review waits for that.
    """
    for review_id, base in _begun(gate):
        try:
            status = asker.call("get_review_status", review_id=review_id)
        except Refused:
            # As in `_submitted_already`.
            continue
        whole = ruling._replace(changes=git.between(gate.place, base, ruling.tree), review_ids=[review_id])
        if status["digest"] == git.digest(whole.changes) and status["status"] in _STANDING:
            # It was tried before, and failed for another reason.
            return whole._replace(passes=True)
        if status["status"] != _CHANGES_REQUESTED and status["next_action"] not in _DUE:
            continue
        proposal = asker.call("get_proposal", review_id=review_id, files=[])
        if proposal["metadata"].get("branch") == branch:
            return _submitting(gate, whole._replace(waits_for_it=False), FOLLOWED, text, branch, proposal, base)
    return None


def _begun(gate: GateFile) -> list[tuple[str, str]]:
    """The newest reviews that commits of this branch name, newest first, each with the commit where it begins."""
    place, head = gate.place, git.head(gate.place)
    if head is None:
        return []
    tips = [*git.Bases(gate, ()).tips.values()]
    own = {commit.oid: commit for commit in git.commits(place, head, tips)}
    # The commits of a base branch that was merged meanwhile are no part of the change.
    merged = git.run(place, ["merge-base", head, *(tips or [head])], accept=(0, 1)).text
    found: dict[str, str] = {}
    at, is_merged = own.get(head), False
    while at is not None:
        is_merged = is_merged or len(at.parents) > 1
        start = merged if is_merged else at.first
        found |= dict.fromkeys((one for one in at.reviews if one != message.UNREVIEWED), start or git.empty_tree(place))
        at = own.get(at.first or "")
    return [*found.items()][:_MOST_FOLLOWED]


def submitted(gate: GateFile, asker: GateClient, ruling: CommitDecision) -> list[str]:
    """The review that a commit is submitted as; none yet where it goes on without an answer.

    Raises:
        Refused: The broker does not take it, and the commit has to wait for that.
        Unreachable: No broker answers, likewise.
    """
    request = dict(ruling.submission or {})
    try:
        if not ruling.waits_for_it:
            pending.deliver(gate)
        return [asker.call(pending.SUBMITTING, **request)["review_id"]]
    except (Unreachable, Refused) as error:
        if ruling.waits_for_it:
            raise
        if isinstance(error, Unreachable):
            pending.keep(gate.place, pending.SUBMITTING, pending.sealed(gate, request))
            say("The broker is away: this commit is submitted when it is back.")
        else:
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


def _submitted_already(asker: GateClient, changes: list[Change], named: list[str]) -> list[str]:
    """The review that a rebased or picked commit brings along, if it is still of exactly this change."""
    wanted = git.digest(changes) if named else ""
    for review_id in named[:_MOST_NAMED]:
        try:
            known = asker.call("get_review_status", review_id=review_id)
        except Refused:
            # The message's author made it up.
            continue
        if known["digest"] == wanted and known["status"] in _STANDING:
            return [review_id]
    return []


def _submitting(
    gate: GateFile,
    ruling: CommitDecision,
    mode: str,
    text: str,
    branch: str | None,
    answered: Mapping[str, Any] | None = None,
    base: str | None = None,
) -> CommitDecision:
    """The ruling with the review of the commit that is being made; or a new round of one, of all from `base` on."""
    place, parent = gate.place, git.head(gate.place)
    base = base or parent or git.empty_tree(place)
    plan, belongs = _plan(text, branch), message.belonging(message.subject(text))
    belongs = plans.with_task(place, belongs, [change["path"] for change in ruling.changes], parent)
    intent = message.subject(text)[:_LONGEST_INTENT] or f"A commit on {branch or 'a detached HEAD'}"
    request: dict[str, Any] = {
        "intent": intent,
        "agent_type": os.environ.get("TANDEM_AGENT") or "git",
        "agent_role": "proposer",
        "base": base,
        "diff": _diff(gate, base, ruling.tree),
        **belongs,
        "metadata": {
            mode: True,
            "branch": branch,
            "plan_key": plan,
            "depends_on": message.values(text, message.DEPENDS_ON),
        },
    }
    request = person.marked(request, place.top or place.git_dir)
    request.setdefault("plan", plan[:_LONGEST_NAME])
    key = [gate.project, base, ruling.changes, intent, request["metadata"], belongs]
    if answered is not None:
        request |= {"review_id": answered["review_id"], "intent": answered["intent"], "description": intent}
        key += [answered["review_id"], answered["round"]]
    # Tried again, for a message that was not to the liking of another hook, it is the same review.
    request["idempotency_key"] = f"commit-{hex_digest(json.dumps(key).encode())}"
    # A broker on another machine may have no repository.
    request = request if gate.broker is None else with_base_files(request, place.top or place.git_dir)
    return ruling._replace(passes=True, submission=request)


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
            f"The plan {plan} is in blocking mode since one of its changes was reverted: approval comes first.",
            f"{next_steps.COMMIT_IT} {next_steps.BY_COMMIT}",
        ]
    return [
        f"The plan {plan} is in blocking mode: decided against {', '.join(against)}.",
        f"Roll it back first: tandem rollback {against[0]}",
    ]
