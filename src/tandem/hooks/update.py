"""`reference-transaction`: what a base branch becomes has to be approved, whichever command moves it there.

Also a fast-forward, a reset, a pull and `git update-ref` come here, which call no hook for commits.
"""

from __future__ import annotations

import os

from tandem.hooks import bases, git, refusals
from tandem.hooks.ask import Asker, Refused, Unreachable
from tandem.hooks.ranges import Judge, Known

TYPE_CHECKING = False  # every commit waits for what is imported here; see `tuples`
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import NamedTuple

    from tandem.hooks.bases import Bases
    from tandem.hooks.state import GateFile
else:
    from tandem.hooks.tuples import NamedTuple

_PREPARED = "prepared"
_SYMBOLIC = "ref:"
_FIELDS = 3


class Move(NamedTuple):
    """A ref that a transaction changes.

    Attributes:
        ref: Its full name, as git was told it.
        new: What it becomes: an id, zeros, or `ref:` and another name.
    """

    ref: str
    new: str

    @property
    def is_deletion(self) -> bool:
        """Whether it goes away."""
        return not self.new.strip("0")


def main(gate: GateFile, arguments: Sequence[str], stdin: bytes) -> int:
    """Let the transaction be, or refuse it whole and say what to do; answers with the exit status.

    Args:
        gate: The switch, which is on.
        arguments: Git's: which state the transaction is in.
        stdin: Git's: a line for each ref, with its old and its new value.
    """
    if list(arguments[:1]) != [_PREPARED]:
        return 0
    moves = list(_moves(gate, stdin))
    if not moves:
        return 0
    asker = Asker(gate)
    first = moves[0].ref.removeprefix(bases.HEADS)
    try:
        return _Transaction(gate, asker).judge(moves)
    except Unreachable as error:
        return refusals.refuse(gate, [f"{first} cannot be judged: {error}"], _net(gate, moves), first)
    except (Refused, git.GitTrouble, OSError) as error:
        return refusals.refuse(gate, [f"{first} cannot be judged: {error}"], None, first)
    finally:
        asker.close()


def _moves(gate: GateFile, stdin: bytes) -> Iterator[Move]:
    """The lines that concern the gate. Whether two names are one is not left to the file system's case."""
    guarded = {(bases.HEADS + branch).casefold() for branch in gate.branches}
    for line in stdin.decode("utf-8", "surrogateescape").splitlines():
        fields = line.split(" ", _FIELDS - 1)
        if len(fields) != _FIELDS:
            continue
        _, new, ref = fields
        if ref.casefold() in guarded or ref.casefold().startswith(bases.STARTS):
            yield Move(ref, new)


def _net(gate: GateFile, moves: Sequence[Move]) -> tuple[str | None, str] | None:
    """What a person may let through without the broker: one base branch that moves to a commit."""
    if len(moves) != 1 or moves[0].new.startswith((_SYMBOLIC, "0" * 40)) or moves[0].ref.startswith(bases.STARTS):
        return None
    return git.resolve(gate.place, moves[0].ref), moves[0].new


class _Transaction:
    """One transaction that moves base branches."""

    def __init__(self, gate: GateFile, asker: Asker) -> None:
        self._gate = gate
        self._asker = asker
        self._bases: Bases = bases.read(gate)

    def judge(self, moves: Sequence[Move]) -> int:
        """The exit status: nothing moves unless everything may.

        Raises:
            GitTrouble: Git does not answer.
            Refused: The broker refuses to judge.
            Unreachable: No broker answers.
        """
        judge = Judge(self._gate.place, lambda changes: self._asker.call("check_gate", changes=changes))
        with judge:
            return next((status for move in moves if (status := self._judge(move, judge)) != 0), 0)

    def _is_packing(self, move: Move) -> bool:
        """Whether a ref stays as it is and only goes to the packed ones: `git gc` does that with all of them."""
        now = git.resolve(self._gate.place, move.ref)
        if not move.is_deletion:
            return move.new == now
        # Then the loose one goes. Whoever deletes a ref for good has the packed ones locked at this moment.
        packed = os.path.join(self._gate.place.common_dir, "packed-refs")
        try:
            with open(packed, encoding="utf-8", errors="surrogateescape") as file:
                return not os.path.exists(f"{packed}.lock") and f"{now} {move.ref}" in file.read().splitlines()
        except OSError:
            return False

    def _judge(self, move: Move, judge: Judge) -> int:
        name = move.ref.removeprefix(bases.HEADS)
        if move.ref.casefold().startswith(bases.STARTS):
            if self._is_packing(move):
                return 0
            reason = f"{move.ref} says where judging begins; only 'tandem gate on' and 'tandem gate off' move it."
            return refusals.refuse(self._gate, [reason], None, None)
        if move.new.startswith(_SYMBOLIC):
            reason = f"{name} is a base branch: it cannot stand for {move.new.removeprefix(_SYMBOLIC)}."
            return refusals.refuse(self._gate, [reason, "Merge that branch instead, when it is approved."], None, name)
        # What git says was there before is whatever the caller expects, or nothing at all.
        old = self._bases.tips.get(move.ref) or git.resolve(self._gate.place, move.ref)
        if move.is_deletion or move.new == old:
            return 0
        known = Known(tuple(self._bases.tips.values()), lambda: bases.earlier(self._gate, self._bases))
        judgement = judge.judge(move.new, old=old, without=self._bases.never_judged, known=known)
        if judgement.passes:
            return 0
        wrong = sum(not commit.passes for commit in judgement.commits)
        reasons = [f"{name} stays where it is: {wrong} of {len(judgement.commits)} commits are not approved."]
        reasons += refusals.described(judgement)
        reasons += refusals.advice(self._gate, judgement, old, move.new)
        return refusals.refuse(self._gate, reasons, (old, move.new), name)
