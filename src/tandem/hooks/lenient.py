"""An unapproved commit on a plan's branch, where the project's trusted settings let it through before the review."""

from __future__ import annotations

import os

from tandem.hooks import git, jsontext, message, modes, person, plans
from tandem.hooks.ask import Refused
from tandem.hooks.commit import PUT_UP

TYPE_CHECKING = False  # as in `jsontext`
if TYPE_CHECKING:
    from typing import Any

    from tandem.hooks.ask import Asker
    from tandem.hooks.commit import Ruling
    from tandem.hooks.git import Change
    from tandem.hooks.state import GateFile

_DIFF = ("--cached", "--binary", "--full-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames")
_PREFIXES = ("--src-prefix=a/", "--dst-prefix=b/", "--no-relative", "--submodule=short", "--ignore-submodules=none")
_LONGEST_INTENT = 500
_LONGEST_NAME = 200
_MOST_NAMED = 20
_STANDING = ("pending", "claimed", "in_review", "approved")


def rule(gate: GateFile, asker: Asker, ruling: Ruling, leniency: str, text: str, branch: str | None) -> None:
    """Let the ruling pass where the mode says so.

    Args:
        gate: The switch.
        asker: To ask the broker with.
        ruling: What was refused; changed where it passes, with what to do where the mode does not help.
        leniency: `strict`, `per_plan` or `optimistic`.
        text: The message so far.
        branch: The branch that is checked out; null if HEAD is detached.

    Raises:
        Refused: The broker does not know the project, or does not take the change up for review.
        Unreachable: No broker answers.
        GitTrouble: The change cannot be read.
    """
    belongs = plans.belonging(message.subject(text))
    plan = plans.plan_key(belongs.phase, belongs.plan, branch)
    standing = asker.call("get_gate", plan=plan)["plan"]
    if leniency == modes.PER_PLAN:
        ruling.passes, ruling.review_ids = True, [message.UNREVIEWED]
    elif leniency == modes.OPTIMISTIC and standing is not None and standing["mode"] == "blocking":
        ruling.advice = _plan_is_blocking(plan, standing)
    elif leniency == modes.OPTIMISTIC:
        named = [name for name in message.values(text, message.REVIEW) if name != message.UNREVIEWED]
        review_id = _put_up_already(asker, ruling.changes, named)
        if review_id is None:
            request = _request(gate, ruling, text, branch, belongs, plan)
            review_id = asker.call("create_review", **request)["review_id"]
        # What an amended commit held is reviewed under its own names, and what was added under the new one.
        ruling.passes, ruling.review_ids = True, list(dict.fromkeys([*ruling.former, review_id]))


def _put_up_already(asker: Asker, changes: list[Change], named: list[str]) -> str | None:
    """The review that a rebased or picked commit brings along, if it is still of exactly this change."""
    wanted = git.digest(changes) if named else ""
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
    gate: GateFile, ruling: Ruling, text: str, branch: str | None, belongs: plans.Belonging, plan: str
) -> dict[str, Any]:
    """The review of the commit that is being made."""
    from hashlib import sha256  # as in `git.digest`

    place = gate.place
    base = git.head(place) or git.empty_tree(place)
    intent = message.subject(text)[:_LONGEST_INTENT] or f"A commit on {branch or 'a detached HEAD'}"
    request: dict[str, Any] = {
        "intent": intent,
        "agent_type": os.environ.get("TANDEM_AGENT") or "git",
        "agent_role": "proposer",
        "base": base,
        "diff": diff(gate, base),
        **belongs.facts(),
        "metadata": {
            "optimistic": True,
            "branch": branch,
            "plan_key": plan,
            "depends_on": message.values(text, message.DEPENDS_ON),
        },
    }
    made_by = person.origin(place.top or place.git_dir)
    if made_by is not None:
        request["metadata"][person.ORIGIN] = made_by
    if belongs.plan is None:
        request["plan"] = plan[:_LONGEST_NAME]
    key = jsontext.dumps([gate.project, base, ruling.changes, request["intent"], request["metadata"], belongs.facts()])
    # Tried again, for a message that was not to the liking of another hook, it is the same review.
    return {**request, "idempotency_key": f"commit-{sha256(key.encode()).hexdigest()}"}


def diff(gate: GateFile, base: str) -> str:
    """What the index changes, as text; files that are not UTF-8 count as binary.

    Raises:
        GitTrouble: Git cannot say it.
    """
    command = ["diff-index", "-p", *_DIFF, *_PREFIXES, base, "--"]
    try:
        return git.run(gate.place, command).stdout.decode()
    except UnicodeDecodeError:
        from tandem.bridge.scratch import ScratchFolder  # such files are rare

        with ScratchFolder("diff") as folder:
            attributes = os.path.join(folder, "attributes")
            with open(attributes, "w", encoding="ascii") as file:
                file.write("* -diff\n")
            found = git.run(gate.place, ["-c", f"core.attributesFile={attributes}", *command]).stdout
    try:
        return found.decode()
    except UnicodeDecodeError as error:
        raise git.GitTrouble("a changed file is not UTF-8 and marked as text; mark it -diff") from error


def _plan_is_blocking(plan: str, standing: dict[str, Any]) -> list[str]:
    against = standing["against"]
    if not against:
        return [
            f"The plan {plan} is in blocking mode since one of its changes was taken back: approval comes first.",
            PUT_UP,
        ]
    first = against[0]
    return [
        f"The plan {plan} is in blocking mode: decided against {', '.join(against)}.",
        f"Take it back first: tandem rollback {first}",
    ]
