"""`prepare-commit-msg`: is everything in this commit approved? Also `git commit --no-verify` comes here."""

from __future__ import annotations

import os

from tandem.core.visible import say, visible_line
from tandem.errors import TandemError
from tandem.rulings import enforcement, git, message, next_steps
from tandem.rulings.ask import GateClient, Refused, Unreachable
from tandem.rulings.state import JUDGED

TYPE_CHECKING = False  # as in `git`
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

    from tandem.rulings.git import Change
    from tandem.rulings.state import GateFile, HookRepository

RECORDING = "recording"
"""A file in Tandem's folder of the git folder: commits are to be recorded. Without it `post-commit` starts nothing."""

_SHOWN_PATHS = 10
_FEW_PATHS = 5
_REFUSED = 1
_MOMENT_SECONDS = 2


class CommitDecision:
    """Whether a commit may be made.

    Attributes:
        passes: Whether it may.
        review_ids: What its trailers name.
        reasons: Why not, a line each.
        changes: What it changes against the commit before.
        advice: What to do, if it is not to put the change up and wait.
        signed: The signatures of that which its trailers hold.
        decisions: The broker's answers about what is refused: as a commit of its own, and as an amended one.
        held: The broker's answer, if everything is approved and only a check keeps it back; else null.
        former: What the trailers of the commit name that is amended; empty if none is.
        tree: The id of the tree that was judged.
    """

    __slots__ = (
        "advice",
        "changes",
        "decisions",
        "former",
        "held",
        "passes",
        "reasons",
        "review_ids",
        "signed",
        "tree",
    )

    def __init__(
        self, changes: list[Change], *, passes: bool, review_ids: Sequence[str] = (), signed: str | None = None
    ) -> None:
        self.changes = changes
        self.passes = passes
        self.review_ids = list(review_ids)
        self.signed = [signed] if signed else list[str]()
        self.reasons: list[str] = []
        self.advice: list[str] = []
        self.former: list[str] = []
        self.decisions: list[dict[str, Any]] = []
        self.held: dict[str, Any] | None = None
        self.tree = ""


def main(gate: GateFile, arguments: Sequence[str]) -> int:
    """Let the commit be made, or refuse it and say what to do; answers with the exit status.

    Args:
        gate: The switch, which is on.
        arguments: Git's: the message's file, where the message comes from, a commit.
    """
    with GateClient(gate, starts=True) as asker:
        try:
            return _judged(gate, asker, arguments)
        except Unreachable as error:
            return _refuse(gate, arguments, [str(error), "When it answers, commit again."])
        except Refused as error:
            reasons = [f"The broker refuses: {error}"]
            if error.code == "NOT_FOUND":
                unknown = f"The broker does not know the project '{gate.project}'."
                reasons.append(f"{unknown} Register it again with: tandem gate on")
            return _refuse(gate, arguments, reasons)
        except (TandemError, OSError) as error:
            return _refuse(gate, arguments, [f"What is being committed cannot be judged: {str(error).rstrip('.')}."])


def _judged(gate: GateFile, asker: GateClient, arguments: Sequence[str]) -> int:
    place, file = gate.place, arguments[0]
    branch = git.branch(place)
    asker.branch = enforcement.base_branch(gate, branch)
    mode = enforcement.enforcement(gate, branch)
    _set_recording(gate, on=mode != enforcement.STRICT)
    head, tree = git.head(place), git.written_tree(place)
    ruling = _merge_ruling(gate, asker, head, tree) or _ruling(gate, asker, head, tree, arguments)
    ruling.tree = tree
    if not ruling.passes:
        enforcement.loosen(gate, asker, ruling, mode, message.read(file), branch)
    if not ruling.passes:
        return _refuse(gate, arguments, _explained(gate, asker, ruling, file))
    _remember(place, tree)
    message.mark(place, file, ruling.review_ids, signed=ruling.signed)
    return 0


def _remember(place: HookRepository, tree: str) -> None:
    """Leave what was judged to `reference-transaction`, which the same process of git starts with the commit."""
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
    from subprocess import PIPE, run  # as few do

    try:
        return [parent, *run(["ps", "-o", "ppid=", "-p", parent], stdout=PIPE, text=True, check=False).stdout.split()]
    except OSError:
        return [parent]


def _ruling(gate: GateFile, asker: GateClient, head: str | None, tree: str, arguments: Sequence[str]) -> CommitDecision:
    """An ordinary commit: against HEAD, then as the amended HEAD, which looks the same from here."""
    place = gate.place
    changes = git.between(place, head or git.empty_tree(place), tree)
    signed = git.signatures(message.values(message.read(arguments[0]), message.SIGNED))
    decision = asker.check_gate(changes, signed, head, sign=gate.sign)
    passes = decision["allowed"] is True
    ruling = CommitDecision(changes, passes=passes, review_ids=decision["review_ids"], signed=decision["signed"])
    ruling.reasons = [f"{path['path']}: {path['reason']}" for path in decision["paths"] if not path["allowed"]]
    ruling.held, ruling.decisions = _held(decision), [decision]
    if head is None or (passes and changes and not gate.sign):
        return ruling
    if _is_amend(place, head, changes, arguments):
        text = git.read_commit(place, head)[1]
        ruling.former = message.values(text, message.REVIEW)
        signed = git.signatures([*signed, *message.values(text, message.SIGNED)])
    elif passes:
        return ruling
    parent = git.resolve(place, f"{head}^")
    whole = git.between(place, parent or git.empty_tree(place), tree)
    # Nothing at all would be the last commit taken back, which is a change like any other.
    amended = asker.check_gate(whole, signed, parent, sign=gate.sign) if whole else None
    if amended is not None and amended["allowed"] is True:
        return CommitDecision(changes, passes=True, review_ids=amended["review_ids"], signed=amended["signed"])
    if amended is not None and ruling.held is None:
        ruling.held = _held(amended)
        ruling.decisions.append(amended)
    if passes and changes:
        # A signature is for all of a commit, and this one was for what is added.
        ruling.signed = []
    elif passes:
        # Only the message changes: what was said of the content still holds.
        ruling.review_ids, ruling.signed = ruling.former, [*signed]
    return ruling


def _held(decision: dict[str, Any]) -> dict[str, Any] | None:
    """The decision, if only a check keeps back what is approved."""
    return decision if decision.get("code") is not None else None


def _merge_ruling(gate: GateFile, asker: GateClient, head: str | None, tree: str) -> CommitDecision | None:
    """A merge that adds nothing of its own to what was approved; null if it is none, or must be judged otherwise."""
    place = gate.place
    try:
        with open(os.path.join(place.git_dir, "MERGE_HEAD"), encoding="ascii") as file:
            merged = file.read().split()
    except FileNotFoundError:
        return None
    if head is None or len(merged) != 1:
        return None
    # A merge is rare, and costs more than a commit.
    from tandem.rulings.ranges import RangeChecker

    with git.Merges(place) as merges:
        if merges.tree(head, merged[0]) != tree:
            return None
    known = git.Bases(gate, asker.get_gate()["accepted"])
    # What a base branch holds was judged when it got there.
    without = [head, *known.never_judged, *known.tips.values()]
    with RangeChecker(place, asker.check_gate) as judge:
        passes = judge.judge(merged[0], old=head, without=without).passes
    return CommitDecision([], passes=True, signed=_signed_as_a_whole(gate, asker, head, tree)) if passes else None


def _signed_as_a_whole(gate: GateFile, asker: GateClient, head: str, tree: str) -> str | None:
    """The signature for all that a merge brings, so that its commits need none; null if there is none."""
    try:
        return asker.check_gate(git.between(gate.place, head, tree), sign=True)["signed"] if gate.sign else None
    except Refused:
        # It is too much for one answer, and passes all the same.
        return None


def _is_amend(place: HookRepository, head: str, changes: Sequence[Change], arguments: Sequence[str]) -> bool:
    """Whether a commit is probably `--amend`; only its trailers depend on the answer."""
    if arguments[1:2] == ["commit"]:
        return git.resolve(place, arguments[2] if len(arguments) > 2 else "HEAD") == head  # noqa: PLR2004 git's third
    stated = os.environ.get("GIT_AUTHOR_DATE", "").lstrip("@")
    seconds, _, _ = stated.partition(" ")
    # An amend keeps the author's date, and a new commit has that of now: within a moment of HEAD they look the same.
    # One that changes nothing is an amend, as a new one would be empty.
    if not seconds.isdecimal() or (changes and os.stat(arguments[0]).st_mtime - int(seconds) < _MOMENT_SECONDS):
        return False
    return git.run(place, ["log", "-1", "--format=%ad", "--date=raw", head]).text == stated


def _set_recording(gate: GateFile, *, on: bool) -> None:
    """Have `post-commit` run, or not; it is a start of Python that strict projects do not pay for."""
    path = os.path.join(gate.place.folder, RECORDING)
    if on != os.path.exists(path):
        if on:
            with open(path, "w", encoding="ascii"):
                return
        os.unlink(path)


def _explained(gate: GateFile, asker: GateClient, ruling: CommitDecision, file: str) -> list[str]:
    if ruling.held is not None and not ruling.advice:
        from tandem.hooks import checks  # as below

        return checks.explained(asker, ruling.held, "This commit", "commit again, exactly this")
    lines = ["This commit holds what is not approved:"]
    lines += [f"  {visible_line(reason)}" for reason in ruling.reasons[:_SHOWN_PATHS]]
    if len(ruling.reasons) > _SHOWN_PATHS:
        lines.append(f"  and {len(ruling.reasons) - _SHOWN_PATHS} more")
    if ruling.advice:
        return lines + ruling.advice
    is_merge = os.path.exists(os.path.join(gate.place.git_dir, "MERGE_HEAD"))
    named = [name for name in message.values(message.read(file), message.REVIEW) if name != message.UNREVIEWED]
    if is_merge:
        lines.append(
            "A merge passes unseen only as git itself makes it of approved sides, without a driver such as union."
        )
    elif named:
        reviews = visible_line(", ".join(named[:_SHOWN_PATHS]))
        lines.append(
            f"Its message names {reviews}, which did not approve this content: a rebase or an edit changes it."
        )
    concerned = next((found for one in ruling.decisions if (found := asker.concerned(one))), None)
    steps = [line for status in concerned or () for line in next_steps.commands(status)]
    # One pick or revert without a conflict leaves nothing behind but its message.
    picks = os.environ.get("GIT_REFLOG_ACTION", "").partition(" ")[0] in {"cherry-pick", "revert"}
    going_on = next_steps.continuing() or ("git commit --no-edit" if picks else None)
    again = f": {going_on}" if going_on else ", commit again, exactly what was approved."
    refused = [path for one in ruling.decisions[:1] for path in one["paths"] if not path["allowed"]]
    if refused and not is_merge and all(path["kind"] == "in_part" for path in refused):
        whole = dict.fromkeys(path["review_id"] for path in refused)
        return [*lines, *(f"Stage all of it: tandem apply {review_id} --index" for review_id in whole), f"then{again}"]
    lines += _environment(gate.place)
    if any(status["next_action"] == "escalate" for status in concerned or ()):
        return [*lines, *steps]
    return [*lines, *_staging(gate.place), *(steps or [next_steps.SUBMIT_IT]), f"and when it is approved{again}"]


def _environment(place: HookRepository) -> list[str]:
    """How commands find a git folder that no `.git` leads to, as of dotfiles, whose git is told in its options."""
    if place.top is None or os.path.lexists(os.path.join(place.top, ".git")):
        return []
    import shlex  # only there

    return [f"First:       export GIT_DIR={shlex.quote(place.git_dir)} GIT_WORK_TREE={shlex.quote(place.top)}"]


def _staging(place: HookRepository) -> list[str]:
    """How a commit of what the index does not hold is staged, so that it can be submitted."""
    index = os.path.basename(os.environ.get("GIT_INDEX_FILE", ""))
    if not index.endswith(".lock"):
        return []
    import shlex  # only for such commits

    entries = git.between(place, git.head(place) or git.empty_tree(place), git.written_tree(place))
    paths = dict.fromkeys(entry["path"] for entry in entries)
    if index == "index.lock" and len(paths) > _FEW_PATHS:
        return ["Stage it:    git add -u"]
    named = shlex.join([f":/{path}" for path in paths])
    return [f"Stage {'it:   ' if index == 'index.lock' else 'just it: git reset -q &&'} git add -- {named}"]


def _refuse(gate: GateFile, arguments: Sequence[str], reasons: list[str]) -> int:
    """Say why not, unless a person at the terminal overrides it."""
    from tandem.rulings import override  # only when something is refused

    place, why = gate.place, override.wanted()
    if why is None:
        say(f"refused: {reasons[0]}", *reasons[1:], override.HINT)
        return _REFUSED
    base, tree = git.head(place) or git.empty_tree(place), git.written_tree(place)
    override_id = override.asked(gate, why, reasons, git.between(place, base, tree), git.branch(place))
    if override_id is None:
        return _REFUSED
    _remember(place, tree)
    message.mark(place, arguments[0], [], override_id)
    return 0
