"""`prepare-commit-msg`: lets a commit be made, or refuses it. Also `git commit --no-verify` comes here."""

from __future__ import annotations

import os
import shlex

from tandem.core.visible import say, shortened, visible_line
from tandem.errors import TandemError
from tandem.git.runner import Git
from tandem.hooks import judging
from tandem.hooks.judging import overridden, override_wanted
from tandem.rulings import git, message, next_steps, planning
from tandem.rulings.ask import GateClient
from tandem.rulings.broker_errors import Refused, Unreachable
from tandem.rulings.state import FOLLOWED, FREE, JUDGED, RECORDING

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tandem.git.place import HookRepository
    from tandem.hooks.judging import CommitDecision
    from tandem.rulings.state import GateFile

_SHOWN_PATHS = 10
_UNFINISHED = ("queued", "running")
_SHOWN_CHECKS = 5
_REFUSED = 1
_HINT = "A person at a terminal can override this: tandem gate override -m 'why' -- [arguments of git commit]"


def prepare(gate: GateFile, arguments: Sequence[str]) -> int:
    """Let the commit be made, or refuse it and say what to do; answers with the exit status.

    Args:
        gate: The switch, which is on.
        arguments: Git's: the message's file, where the message comes from, a commit.
    """
    with GateClient(gate, starts=True) as asker:
        try:
            ruling = _ruling(gate, asker, arguments)
            if ruling is None:
                return 0
            if ruling.passes:
                return _let_through(gate, ruling, arguments[0])
            reasons = _explained(gate, asker, ruling, arguments)
        except Unreachable as error:
            reasons = [str(error), "When it answers, commit again."]
        except Refused as error:
            reasons = [f"The broker refuses: {error}"]
            if error.code == "NOT_FOUND":
                unknown = f"The broker does not know the project '{gate.project}'."
                reasons.append(f"{unknown} Register it again with: tandem gate on")
        except (TandemError, OSError) as error:
            reasons = [f"The commit cannot be judged: {str(error).rstrip('.')}."]
        return _refuse(gate, reasons, arguments[0])


def _ruling(gate: GateFile, asker: GateClient, arguments: Sequence[str]) -> CommitDecision | None:
    """Whether a commit may be made, its review created if it has one; None where nothing is judged."""
    branch = git.branch(gate.place)
    asker.branch = planning.base_branch(gate, branch)
    mode = planning.enforcement(gate, branch)
    _set_recording(gate, on=mode in planning.RECORDED)
    if mode == FREE:
        return _compared(asker)
    tree = _tree(gate.place)
    known: GateClient | None = asker
    try:
        ruling = judging.judge(gate, asker, tree, arguments)
    except Unreachable:
        if mode != FOLLOWED:
            raise
        ruling, known = judging.unasked(gate, tree), None
    if ruling.passes or mode == planning.STRICT:
        return ruling
    # Most projects are strict or free, and this one reads GSD's plans.
    from tandem.hooks import loosening

    ruling = loosening.loosened(gate, known, ruling, mode, message.read(arguments[0]), branch)
    made = [] if ruling.submission is None else loosening.submitted(gate, asker, ruling)
    return ruling._replace(review_ids=[*ruling.review_ids, *made])


def _tree(place: HookRepository) -> str:
    """What git has taken: as the script found it, if it called another hook before, which may have staged more."""
    return os.environ.get("TANDEM_TREE") or git.written_tree(place)


def _compared(asker: GateClient) -> None:
    """Go on only if the broker, where it runs, has on record that other branches are free.

    Raises:
        Refused: It has not.
    """
    asker.starts = False
    try:
        asker.get_gate()
    except Unreachable:
        return


def _let_through(gate: GateFile, ruling: CommitDecision, file: str) -> int:
    """Do what a ruling that passes says: remember its tree, write its trailers."""
    _remember(gate.place, ruling.tree)
    message.mark(gate.place, file, list(dict.fromkeys(ruling.review_ids)), signed=ruling.signed)
    return 0


def _refuse(gate: GateFile, reasons: list[str], file: str) -> int:
    """Say why not, unless a person at the terminal overrides it."""
    place, why = gate.place, override_wanted()
    if why is None:
        say(f"refused: {reasons[0]}", *reasons[1:], _HINT)
        return _REFUSED
    tree = _tree(place)
    override_id = overridden(gate, why, reasons, git.between(place, git.head(place), tree), git.branch(place))
    if override_id is None:
        return _REFUSED
    _remember(place, tree)
    message.mark(place, file, [], override_id)
    return 0


def _remember(place: HookRepository, tree: str) -> None:
    """Leave the judged content to `reference-transaction`, which the same process of git starts with the commit."""
    if os.name == "nt":
        # Its shell has other numbers for processes.
        return
    folder = os.path.join(place.folder, JUDGED)
    os.makedirs(folder, exist_ok=True)
    for name in filter(str.isdecimal, os.listdir(folder)):
        try:
            os.kill(int(name), 0)
        except ProcessLookupError:
            os.unlink(os.path.join(folder, name))
        except PermissionError:
            continue
    for process in _git_processes():
        with open(os.path.join(folder, process), "w", encoding="ascii") as file:
            file.write(f"{tree}\n")


def _git_processes() -> list[str]:
    """The number of the process of git that makes the commit; where pre-commit has started this, that of its parent."""
    parent = str(os.getppid())
    if not os.environ.get("PRE_COMMIT_RUNNING_LEGACY"):
        return [parent]
    try:
        told = Git("ps").run(["-o", "ppid=", "-p", parent], environment=os.environ)
    except TandemError:
        return [parent]
    return [parent, *told.text.split()]


def _set_recording(gate: GateFile, *, on: bool) -> None:
    """Have `post-commit` run, or not; strict projects avoid that start of Python."""
    path = os.path.join(gate.place.folder, RECORDING)
    if on != os.path.exists(path):
        if on:
            with open(path, "w", encoding="ascii"):
                return
        os.unlink(path)


def _explained(gate: GateFile, asker: GateClient, ruling: CommitDecision, arguments: Sequence[str]) -> list[str]:
    """Why a commit may not be made, and what to do, a line each.

    Args:
        gate: The switch.
        asker: To ask the broker with.
        ruling: The refusal.
        arguments: Git's.

    Raises:
        Refused: The broker refuses.
        Unreachable: No broker answers.
        TandemError: The staged content cannot be read.
    """
    if ruling.held is not None and not ruling.advice:
        return kept_back(asker, ruling.held, "This commit", "commit again, exactly this")
    lines = ["This commit holds changes that are not approved:"]
    lines += shortened([f"  {visible_line(reason)}" for reason in ruling.reasons], _SHOWN_PATHS, "  and {} more")
    if ruling.advice:
        return [*lines, *ruling.advice]
    is_merge = os.path.exists(os.path.join(gate.place.git_dir, "MERGE_HEAD"))
    named = message.reviews(message.read(arguments[0]))
    if is_merge:
        lines.append(
            "A merge needs no review only if git made it from approved sides, without a merge driver such as union."
        )
    elif named:
        reviews = visible_line(", ".join(named[:_SHOWN_PATHS]))
        lines.append(
            f"Its message names {reviews}, which did not approve this content: a rebase or an edit changes it."
        )
    concerned = next((found for one in ruling.decisions if (found := asker.concerned(one))), None)
    steps = [line for status in concerned or () for line in next_steps.commands(status)]
    # One pick or revert without a conflict leaves nothing behind but its message.
    action = os.environ.get("GIT_REFLOG_ACTION", "").partition(" ")[0]
    going_on = next_steps.continuing() or ("git commit --no-edit" if action in {"cherry-pick", "revert"} else None)
    again = f": {going_on}" if going_on else ", commit again, exactly the approved content."
    refused = [path for one in ruling.decisions[:1] for path in one["paths"] if not path["allowed"]]
    if refused and not is_merge and all(path["kind"] == "in_part" for path in refused):
        whole = dict.fromkeys(path["review_id"] for path in refused)
        return [*lines, *(f"Stage all of it: tandem apply {review_id} --index" for review_id in whole), f"then{again}"]
    lines += _environment(gate.place)
    if any(status["next_action"] == "escalate" for status in concerned or ()):
        return [*lines, *steps]
    if not steps and (going_on is None or going_on.startswith("git commit")):
        is_amend = bool(ruling.former) or [*arguments[1:3]] == ["commit", "HEAD"]
        # In a merge that git makes itself nothing is lost with it.
        if is_merge and action == "merge" and (land := judging.landing(gate, "MERGE_HEAD", asker.branch)) is not None:
            lines.append(f"Leave the merge, and have the branch reviewed and landed: git merge --abort && {land}")
        instead = "tandem commit --no-edit" if going_on else _instead(gate.place, is_amend=is_amend)
        lines.append(f"{next_steps.COMMIT_IT} {instead}")
    else:
        lines += [*(steps or [next_steps.SUBMIT_IT]), f"and when it is approved{again}"]
    # Git lets no one switch branches in the middle of a merge or the like; `git checkout -b` would end it unsaid.
    passes_elsewhere = asker.branch and going_on is None and planning.enforcement(gate, None) in {FREE, FOLLOWED}
    return [*lines, "On another branch it passes: git switch -c NAME"] if passes_elsewhere else lines


def _environment(place: HookRepository) -> list[str]:
    """How commands find a git folder that no `.git` leads to, as of dotfiles, whose git is told in its options."""
    if place.top is None or os.path.lexists(os.path.join(place.top, ".git")):
        return []
    return [f"First:       export GIT_DIR={shlex.quote(place.git_dir)} GIT_WORK_TREE={shlex.quote(place.top)}"]


def _instead(place: HookRepository, *, is_amend: bool) -> str:
    """The command in place of a `git commit`, with the options that git's index for it tells."""
    index = os.path.basename(os.environ.get("GIT_INDEX_FILE", ""))
    words = ["tandem commit --amend --no-edit" if is_amend else next_steps.BY_COMMIT]
    if index == "index.lock":
        words.append("-a")
    elif index.endswith(".lock"):
        entries = git.between(place, git.head(place), git.written_tree(place))
        words += ["--", shlex.join(dict.fromkeys(f":/{entry['path']}" for entry in entries))]
    return " ".join(words)


def kept_back(asker: GateClient, decision: Mapping[str, Any], what: str, again: str) -> list[str]:
    """Why the gate stays closed to an approved change that a required check keeps back, and what to do, a line each.

    Args:
        asker: To ask the broker with.
        decision: An answer of `check_gate` with a `code`.
        what: The approved change; begins the first line.
        again: What to do once the checks have passed.

    Raises:
        Refused: The broker refuses.
        Unreachable: No broker answers.
    """
    held = next(path for path in decision["paths"] if not path["allowed"] and path["review_id"] is not None)
    review_id = held["review_id"]
    if decision["code"] == "REQUIREMENT_MISSING":
        lines = [f"{what} is approved by {review_id}, and the project's policy asks for more:"]
        lines.append(f"  {visible_line(held['reason'])}")
        status = asker.call("get_review_status", review_id=review_id)
        if status["next_action"] == "escalate":
            return [*lines, *next_steps.commands(status)]
        return [*lines, f"Collect it:     tandem submit --revise {review_id}", f"When it is approved, {again}."]
    found = asker.call("list_checks", review_id=review_id, round=held["round"])["checks"]
    open_ = [one for one in found if one["required"] and one["status"] != "passed"]
    ended = [one for one in open_ if one["status"] not in _UNFINISHED]
    lines = [f"{what} is approved by {review_id}, and a required check keeps it back ({decision['code']}):"]
    for one in (ended or open_)[:_SHOWN_CHECKS]:
        reason = one["reason"] or (f"exit status {one['exit_status']}" if one["exit_status"] else "")
        lines.append(visible_line(f"  {one['name']}: {one['status']}" + (f", {reason}" if reason else "")))
        if one["has_log"] and one in ended:
            lines.append(f"    Its log:      tandem checks log {review_id} {shlex.quote(one['name'])}")
    when_passed = f"When they have passed, {again}."
    if any(one.get("needs_person") for one in ended):
        return [*lines, f"What helps:     {next_steps.wait(review_id)}"]
    if open_ and not ended:
        return [*lines, f"Wait for it:    {next_steps.wait(review_id)}", when_passed]
    status = asker.call("get_review_status", review_id=review_id)
    if ended:
        return [*lines, *next_steps.commands({**status, "next_action": "revise", "checks": "failed"}), when_passed]
    # They passed, on something that does not count.
    on = f" --branch {asker.branch}" if asker.branch else ""
    steps = next_steps.commands({**status, "next_action": "wait"}) if status["unapproved_range"] else ()
    steps = steps or [f"Run them again: tandem checks run {review_id}{on}"]
    return [*lines, f"  {visible_line(held['reason'])}", *steps, f"When they count, {again}."]
