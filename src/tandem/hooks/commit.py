"""`prepare-commit-msg`: lets a commit be made, or refuses it. Also `git commit --no-verify` comes here."""

from __future__ import annotations

import os

from tandem.core.visible import say
from tandem.errors import TandemError
from tandem.git.runner import Git
from tandem.hooks import explaining, judging
from tandem.hooks.refusing import overridden, override_wanted
from tandem.rulings import enforcement, git, message
from tandem.rulings.ask import GateClient
from tandem.rulings.broker_errors import Refused, Unreachable
from tandem.rulings.state import JUDGED

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Sequence

    from tandem.git.place import HookRepository
    from tandem.hooks.judging import CommitDecision
    from tandem.rulings.state import GateFile

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
            if ruling.passes:
                return _let_through(gate, asker, ruling, arguments[0])
            reasons = explaining.refused_commit(gate, asker, ruling, message.read(arguments[0]))
        except Unreachable as error:
            reasons = [str(error), "When it answers, commit again."]
        except Refused as error:
            reasons = [f"The broker refuses: {error}"]
            if error.code == "NOT_FOUND":
                unknown = f"The broker does not know the project '{gate.project}'."
                reasons.append(f"{unknown} Register it again with: tandem gate on")
        except (TandemError, OSError) as error:
            reasons = [f"What is being committed cannot be judged: {str(error).rstrip('.')}."]
        return _refuse(gate, reasons, arguments[0])


def _ruling(gate: GateFile, asker: GateClient, arguments: Sequence[str]) -> CommitDecision:
    branch = git.branch(gate.place)
    asker.branch = enforcement.base_branch(gate, branch)
    mode = enforcement.enforcement(gate, branch)
    _set_recording(gate, on=mode != enforcement.STRICT)
    ruling = judging.judge(gate, asker, git.written_tree(gate.place), arguments)
    if ruling.passes or mode == enforcement.STRICT:
        return ruling
    # Most projects are strict, and this one reads GSD's plans.
    from tandem.hooks import loosening

    return loosening.loosened(gate, asker, ruling, mode, message.read(arguments[0]), branch)


def _let_through(gate: GateFile, asker: GateClient, ruling: CommitDecision, file: str) -> int:
    """Do what a ruling that passes says: create its review, remember its tree, write its trailers."""
    reviews = list(ruling.review_ids)
    if ruling.submission is not None:
        reviews.append(asker.call("create_review", **ruling.submission)["review_id"])
    _remember(gate.place, ruling.tree)
    message.mark(gate.place, file, list(dict.fromkeys(reviews)), signed=ruling.signed)
    return 0


def _refuse(gate: GateFile, reasons: list[str], file: str) -> int:
    """Say why not, unless a person at the terminal overrides it."""
    place, why = gate.place, override_wanted()
    if why is None:
        say(f"refused: {reasons[0]}", *reasons[1:], _HINT)
        return _REFUSED
    base, tree = git.head(place) or git.empty_tree(place), git.written_tree(place)
    override_id = overridden(gate, why, reasons, git.between(place, base, tree), git.branch(place))
    if override_id is None:
        return _REFUSED
    _remember(place, tree)
    message.mark(place, file, [], override_id)
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
    try:
        told = Git("ps").run(["-o", "ppid=", "-p", parent], environment=os.environ)
    except TandemError:
        return [parent]
    return [parent, *told.text.split()]


def _set_recording(gate: GateFile, *, on: bool) -> None:
    """Have `post-commit` run, or not; strict projects avoid that start of Python."""
    path = os.path.join(gate.place.folder, enforcement.RECORDING)
    if on != os.path.exists(path):
        if on:
            with open(path, "w", encoding="ascii"):
                return
        os.unlink(path)
