"""What an unapproved commit gets: `strict` refuses it; `per_plan` and `optimistic` let it through before its review.

Only the project's trusted settings loosen, and never on a base branch.
"""

from __future__ import annotations

import json
import os

from tandem.errors import InvalidInput
from tandem.git.raw import FIELDS, digest_of
from tandem.rulings import git, message, next_steps
from tandem.rulings.state import FOLDER

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from typing import Any

    from tandem.hooks.commit import CommitDecision
    from tandem.rulings.ask import GateClient
    from tandem.rulings.git import Change
    from tandem.rulings.planning import EffectiveSettings
    from tandem.rulings.state import GateFile

STRICT, PER_PLAN, OPTIMISTIC = "strict", "per_plan", "optimistic"

ROLLBACK_NOTE = "rollback.json"
"""In Tandem's folder of the working tree's git folder: a rollback that has not come to its end."""

_DIFF = ("--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
_PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/", "--no-relative", "--submodule=short", "--ignore-submodules=none")
_READABLE = ("-c", "core.quotePath=true", "-c")
_LONGEST_INTENT = 500
_LONGEST_NAME = 200
_MOST_NAMED = 20
_STANDING = ("pending", "claimed", "in_review", "approved")


def effective(gate: GateFile) -> EffectiveSettings | None:
    """What holds in the project, after trust; null where it has no planning settings, and so the strict ones."""
    root = gate.place.settings_root
    if not os.path.isdir(os.path.join(root, ".planning")):
        return None
    # Most projects have none, and each commit would pay for these.
    from tandem.rulings import planning, trust

    found = planning.read(root)
    return planning.effective(found, trusted=trust.trusts(gate.config_dir, gate.root, found.sources))


def reviews_each_task(gate: GateFile) -> bool:
    """Whether every task's change is reviewed before its commit."""
    holds = effective(gate)
    return holds is None or holds.is_strict


def base_branch(gate: GateFile, branch: str | None) -> str | None:
    """The base branch that a branch is, by the gate's own name for it; None if it is none."""
    # Whether two names are one is not left to the file system's case.
    return next((one for one in gate.branches if branch is not None and one.casefold() == branch.casefold()), None)


def enforcement(gate: GateFile, branch: str | None) -> str:
    """What an unapproved commit on a branch gets.

    Args:
        gate: The switch.
        branch: The branch that is checked out; null if HEAD is detached, which is no base branch.
    """
    holds = None if branch in gate.branches else effective(gate)
    if holds is None or holds.is_strict:
        return STRICT
    # Both at once: every change is submitted as soon as it is committed, which says more than the mark.
    return OPTIMISTIC if holds.mode == OPTIMISTIC else PER_PLAN


def loosen(gate: GateFile, asker: GateClient, ruling: CommitDecision, mode: str, text: str, branch: str | None) -> None:
    """Let a refused commit pass where the mode says so.

    Args:
        gate: The switch.
        asker: To ask the broker with.
        ruling: What was refused; changed where it passes, with what to do where the mode does not help.
        mode: As `enforcement` has it.
        text: The message so far.
        branch: The branch that is checked out; null if HEAD is detached.

    Raises:
        Refused: The broker does not know the project, or does not take the change up for review.
        Unreachable: No broker answers.
        TandemError: The change cannot be read.
    """
    belongs = message.belonging(message.subject(text))
    plan = message.plan_key(belongs.get("phase"), belongs.get("plan"), branch)
    standing = asker.call("get_gate", plan=plan)["plan"]
    if mode == PER_PLAN:
        ruling.passes = True
        ruling.review_ids = [message.UNREVIEWED] if ruling.held is None else ruling.held["review_ids"]
    elif mode == OPTIMISTIC and standing is not None and standing["mode"] == "blocking":
        against = [name for name in standing["against"] if not _is_settled(gate, asker, name, branch)]
        if ruling.held is None or against:
            ruling.advice = _plan_is_blocking(plan, against)
    elif mode == OPTIMISTIC and ruling.held is not None:
        # It is reviewed already.
        ruling.passes, ruling.review_ids = True, ruling.held["review_ids"]
    elif mode == OPTIMISTIC:
        named = [name for name in message.values(text, message.REVIEW) if name != message.UNREVIEWED]
        review_id = _submitted_already(asker, ruling.changes, named)
        if review_id is None:
            request = _request(gate, ruling, text, branch, belongs, plan)
            if gate.broker is not None:
                from tandem.bridge.project import with_base_files  # that one may have no repository

                request = with_base_files(request, gate.place.top or gate.place.git_dir)
            review_id = asker.call("create_review", **request)["review_id"]
        # What an amended commit held is reviewed under its own names, and what was added under the new one.
        ruling.passes, ruling.review_ids = True, list(dict.fromkeys([*ruling.former, review_id]))


def _is_settled(gate: GateFile, asker: GateClient, review_id: str, branch: str | None) -> bool:
    """Whether what was decided against is gone or taken back already, by hand or by a reset, as the broker sees it."""
    from tandem.rulings.ask import Refused

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


def _submitted_already(asker: GateClient, changes: list[Change], named: list[str]) -> str | None:
    """The review that a rebased or picked commit brings along, if it is still of exactly this change."""
    from tandem.rulings.ask import Refused

    wanted = digest_of(tuple(change[field] for field in FIELDS) for change in changes) if named else ""
    for review_id in named[:_MOST_NAMED]:
        try:
            known = asker.call("get_review_status", review_id=review_id)
        except Refused:
            # Whoever wrote the message made it up.
            continue
        if known["digest"] == wanted and known["status"] in _STANDING:
            return review_id
    return None


def _request(
    gate: GateFile, ruling: CommitDecision, text: str, branch: str | None, belongs: dict[str, str], plan: str
) -> dict[str, Any]:
    """The review of the commit that is being made."""
    from hashlib import sha256  # as in `digest_of`

    from tandem.rulings import person, plans

    place, parent = gate.place, git.head(gate.place)
    base = parent or git.empty_tree(place)
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
            "optimistic": True,
            "branch": branch,
            "plan_key": plan,
            "depends_on": message.values(text, message.DEPENDS_ON),
        },
    }
    request = person.marked(request, place.top or place.git_dir)
    request.setdefault("plan", plan[:_LONGEST_NAME])
    key = json.dumps([gate.project, base, ruling.changes, intent, request["metadata"], belongs])
    # Tried again, for a message that was not to the liking of another hook, it is the same review.
    return {**request, "idempotency_key": f"commit-{sha256(key.encode()).hexdigest()}"}


def _diff(gate: GateFile, base: str, tree: str) -> str:
    """What a tree changes, as text; files that are not UTF-8 count as binary, names are quoted."""
    command = ["diff-tree", "-p", *_DIFF, *_PREFIXES, base, tree, "--"]
    try:
        return git.run(gate.place, command).stdout.decode()
    except UnicodeDecodeError:
        from tandem.core.scratch import ScratchFolder  # such files are rare

        with ScratchFolder("diff") as folder:
            attributes = os.path.join(folder, "attributes")
            with open(attributes, "w", encoding="ascii") as file:
                file.write("* -diff\n")
            found = git.run(gate.place, [*_READABLE, f"core.attributesFile={attributes}", *command]).stdout
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        raise InvalidInput("A changed file is not UTF-8 and marked as text; mark it -diff.") from error


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
