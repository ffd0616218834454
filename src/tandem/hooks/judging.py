"""Is everything in a commit approved? Asks git and the broker, and changes nothing. Else a person may let it pass."""

from __future__ import annotations

import os
import shlex

from tandem.core.stand_ins import NamedTuple
from tandem.core.visible import is_blank
from tandem.rulings import git, message
from tandem.rulings.broker_errors import Refused
from tandem.rulings.ranges import RangeChecker

TYPE_CHECKING = False  # as in `rulings.git`
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from typing import Any

    from tandem.git.place import HookRepository
    from tandem.rulings.ask import GateClient
    from tandem.rulings.git import Change
    from tandem.rulings.state import GateFile

_MOMENT_SECONDS = 2

OVERRIDE_VARIABLE = "TANDEM_OVERRIDE"
"""Holds the reason of a person who overrides the gate."""


class CommitDecision(NamedTuple):
    """Whether a commit may be made. Never changed: what loosens makes another one.

    Attributes:
        passes: Whether it may.
        tree: The id of the tree that is judged.
        changes: Its changes against the commit before.
        review_ids: What its trailers name.
        signed: The signatures of that which its trailers hold.
        reasons: Why not, a line each.
        advice: What to do, if it is not to submit the change and wait.
        decisions: The broker's answers about the refused changes: as a commit of its own, and as an amended one.
        held: The broker's answer, if everything is approved and only a check keeps it back; else None.
        former: What the trailers of the commit name that is amended; empty if none is.
        submission: The review that has to be created first, as the arguments of `create_review`; None if none has.
        waits_for_it: Whether the commit is made only if the broker takes that.
    """

    passes: bool
    tree: str
    changes: list[Change] = []  # noqa: RUF012 - a field's default, which is never changed
    review_ids: Sequence[str] = ()
    signed: Sequence[str] = ()
    reasons: Sequence[str] = ()
    advice: Sequence[str] = ()
    decisions: Sequence[dict[str, Any]] = ()
    held: Mapping[str, Any] | None = None
    former: Sequence[str] = ()
    submission: Mapping[str, Any] | None = None
    waits_for_it: bool = True


def unasked(gate: GateFile, tree: str) -> CommitDecision:
    """The decision on a commit that no broker could be asked about."""
    changes = git.between(gate.place, git.head(gate.place), tree)
    return CommitDecision(passes=False, tree=tree, changes=changes)


def judge(gate: GateFile, asker: GateClient, tree: str, arguments: Sequence[str]) -> CommitDecision:
    """Whether HEAD's next commit may be made.

    Args:
        gate: The switch.
        asker: To ask the broker with.
        tree: The id of the tree that is committed.
        arguments: Git's for `prepare-commit-msg`.

    Raises:
        Refused: The broker refuses.
        Unreachable: No broker answers.
        TandemError: Git does not answer.
        OSError: The message cannot be read.
    """
    head = git.head(gate.place)
    return _merge(gate, asker, head, tree) or _ordinary(gate, asker, head, tree, arguments)


def _ordinary(
    gate: GateFile, asker: GateClient, head: str | None, tree: str, arguments: Sequence[str]
) -> CommitDecision:
    """An ordinary commit: against HEAD, then as the amended HEAD, which looks the same from here."""
    place = gate.place
    changes = git.between(place, head, tree)
    signed = git.signatures(message.values(message.read(arguments[0]), message.SIGNED))
    decision = asker.check_gate(changes, signed, head, sign=gate.sign)
    ruling = CommitDecision(
        passes=decision["allowed"] is True,
        tree=tree,
        changes=changes,
        review_ids=decision["review_ids"],
        signed=_stated(decision),
        reasons=[f"{path['path']}: {path['reason']}" for path in decision["paths"] if not path["allowed"]],
        decisions=[decision],
        held=_held(decision),
    )
    if head is None or (ruling.passes and changes and not gate.sign):
        return ruling
    if _is_amend(place, head, changes, arguments):
        text = git.read_commit(place, head)[1]
        ruling = ruling._replace(former=message.values(text, message.REVIEW))
        signed = git.signatures([*signed, *message.values(text, message.SIGNED)])
    elif ruling.passes:
        return ruling
    return _amending(gate, asker, git.resolve(place, f"{head}^"), ruling, signed)


def _amending(
    gate: GateFile, asker: GateClient, parent: str | None, ruling: CommitDecision, signed: Sequence[str]
) -> CommitDecision:
    """The ruling as of an amended HEAD, whose parent is given, with the signatures of both messages."""
    whole = git.between(gate.place, parent, ruling.tree)
    # An empty difference would revert the last commit, which is a change like any other.
    amended = asker.check_gate(whole, signed, parent, sign=gate.sign) if whole else None
    if amended is not None and amended["allowed"] is True:
        return CommitDecision(
            passes=True,
            tree=ruling.tree,
            changes=ruling.changes,
            review_ids=amended["review_ids"],
            signed=_stated(amended),
        )
    if amended is not None and ruling.held is None:
        ruling = ruling._replace(held=_held(amended), decisions=[*ruling.decisions, amended])
    if ruling.passes and ruling.changes:
        # A signature is for all of a commit, and this one was for the addition.
        return ruling._replace(signed=())
    if ruling.passes:
        # Only the message changes: the ruling on the content still holds.
        return ruling._replace(review_ids=ruling.former, signed=signed)
    return ruling


def _stated(decision: Mapping[str, Any]) -> list[str]:
    return [decision["signed"]] if decision["signed"] else []


def _held(decision: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The decision, if only a check keeps an approved change back."""
    return decision if decision.get("code") is not None else None


def _merge(gate: GateFile, asker: GateClient, head: str | None, tree: str) -> CommitDecision | None:
    """A merge that adds nothing of its own to the approved changes; None if it is none, or must be judged otherwise."""
    place = gate.place
    try:
        with open(os.path.join(place.git_dir, "MERGE_HEAD"), encoding="ascii") as file:
            merged = file.read().split()
    except FileNotFoundError:
        return None
    if head is None or len(merged) != 1:
        return None
    with git.Merges(place) as merges:
        if merges.tree(head, merged[0]) != tree:
            return None
    known = git.Bases(gate, asker.get_gate()["accepted"])
    # What a base branch holds was judged when it got there.
    without = [head, *known.never_judged, *known.tips.values()]
    with RangeChecker(place, asker.check_gate) as checker:
        if not checker.judge(merged[0], old=head, without=without).passes:
            return None
    return CommitDecision(passes=True, tree=tree, signed=_signed_as_a_whole(gate, asker, head, tree))


def _signed_as_a_whole(gate: GateFile, asker: GateClient, head: str, tree: str) -> list[str]:
    """The signature for all that a merge brings, so that its commits need none; empty if there is none."""
    try:
        return _stated(asker.check_gate(git.between(gate.place, head, tree), sign=True)) if gate.sign else []
    except Refused:
        # It is too much for one answer, and passes all the same.
        return []


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


def guarded(gate: GateFile) -> set[str]:
    """The references of base branches, as far as letters' case does not count."""
    return {(git.HEADS + branch).casefold() for branch in gate.branches}


def landing(gate: GateFile, commit: str, onto: str | None, *options: str) -> str | None:
    """The command that has a branch that ends with a commit reviewed and landed; None where no branch here does."""
    ends = git.run(gate.place, ["for-each-ref", "--format=%(refname)", f"--points-at={commit}", git.HEADS])
    names = (ref.removeprefix(git.HEADS) for ref in ends.text.splitlines() if ref.casefold() not in guarded(gate))
    name = next(names, None)
    # On a server the author's branches have other names.
    if name is None or onto is None or onto not in gate.branches or gate.place.top is None:
        return None
    base = ["--onto", onto] if onto != gate.branches[0] else []
    return shlex.join(["tandem", "land", name, *base, *options])


def override_wanted() -> str | None:
    """The reason of the person who wants to override; None without one."""
    why = os.environ.get(OVERRIDE_VARIABLE, "").strip()
    return None if is_blank(why) else why


def overridden(
    gate: GateFile, why: str, reasons: Sequence[str], changes: list[Change], branch: str | None
) -> str | None:
    """Ask the person at the terminal, as `override.asked` does, which see."""
    # What seals the person's answer takes longer to import than a hook to judge.
    from tandem.rulings import override

    return override.asked(gate, why, reasons, changes, branch)
