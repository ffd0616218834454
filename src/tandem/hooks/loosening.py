"""What `per_plan` and `optimistic` make of a refused commit; imported only where the project's settings loosen."""

from __future__ import annotations

import json
import os

from tandem.bridge.project import with_base_files
from tandem.core.hashes import hex_digest
from tandem.errors import InvalidInput
from tandem.git.raw import FIELDS, digest_of
from tandem.rulings import git, message, next_steps, person, plans
from tandem.rulings.broker_errors import Refused
from tandem.rulings.state import FOLDER, ROLLBACK_NOTE
from tandem.rulings.trust import PER_PLAN

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
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


def loosened(
    gate: GateFile, asker: GateClient, ruling: CommitDecision, mode: str, text: str, branch: str | None
) -> CommitDecision:
    """The ruling on a refused commit where the mode lets it pass: marked, or with the review that it is submitted as.

    Args:
        gate: The switch.
        asker: To ask the broker with.
        ruling: The refusal.
        mode: `per_plan` or `optimistic`.
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
    request = None if known else _request(gate, ruling, text, branch, belongs, plan)
    return ruling._replace(passes=True, review_ids=reviews, submission=request)


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


def _submitted_already(asker: GateClient, changes: list[Change], named: list[str]) -> str | None:
    """The review that a rebased or picked commit brings along, if it is still of exactly this change."""
    wanted = digest_of(tuple(change[field] for field in FIELDS) for change in changes) if named else ""
    for review_id in named[:_MOST_NAMED]:
        try:
            known = asker.call("get_review_status", review_id=review_id)
        except Refused:
            # The message's author made it up.
            continue
        if known["digest"] == wanted and known["status"] in _STANDING:
            return review_id
    return None


def _request(
    gate: GateFile, ruling: CommitDecision, text: str, branch: str | None, belongs: dict[str, str], plan: str
) -> dict[str, Any]:
    """The review of the commit that is being made."""
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
            f"{next_steps.COMMIT_IT} {next_steps.BY_COMMIT}",
        ]
    return [
        f"The plan {plan} is in blocking mode: decided against {', '.join(against)}.",
        f"Roll it back first: tandem rollback {against[0]}",
    ]
