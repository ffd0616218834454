"""`pre-push`: nothing that is not approved goes to a base branch elsewhere, nor anywhere where each task is reviewed.

The last look before others see it: what went round the other hooks is found here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tandem.hooks import bases, git, history, modes, refusals
from tandem.hooks.ask import Asker, Refused, Unreachable
from tandem.hooks.ranges import Judge, Known

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from tandem.hooks.ranges import Judgement
    from tandem.hooks.state import GateFile

_FIELDS = 4
_NOTES = "refs/notes/"


class Sent(NamedTuple):
    """One ref that is pushed.

    Attributes:
        oid: What it becomes there; zeros if it is deleted.
        ref: Its full name there.
        there: What it is there now; zeros if it does not exist.
    """

    oid: str
    ref: str
    there: str


def main(gate: GateFile, arguments: Sequence[str], stdin: bytes) -> int:
    """Let the push go on, or refuse it and say what to do; answers with the exit status.

    Args:
        gate: The switch, which is on.
        arguments: Git's: the remote's name (or URL) and its URL.
        stdin: Git's: a line for each ref, with its name and id here and there.
    """
    sent = [one for one in _sent(stdin) if one.oid.strip("0")]
    if not sent:
        return 0
    asker = Asker(gate)
    try:
        return _Push(gate, asker, arguments[0] if arguments else "").judge(sent)
    except (Unreachable, Refused, git.GitTrouble, OSError) as error:
        return refusals.refuse(gate, [f"What is pushed cannot be judged: {error}"], None, None)
    finally:
        asker.close()


def _sent(stdin: bytes) -> Iterator[Sent]:
    for line in stdin.decode("utf-8", "surrogateescape").splitlines():
        # The name here may hold blanks: it is what the user typed.
        fields = line.rsplit(" ", _FIELDS - 1)
        if len(fields) == _FIELDS:
            yield Sent(fields[1], fields[2], fields[3])


class _Push:
    """One push to one remote."""

    def __init__(self, gate: GateFile, asker: Asker, remote: str) -> None:
        self._gate = gate
        self._asker = asker
        self._remote = remote
        self._never = bases.read(gate).never_judged
        self._guarded = {(bases.HEADS + branch).casefold() for branch in gate.branches}
        holds = modes.effective(gate)
        self._is_strict = holds is None or holds.is_strict

    def judge(self, sent: Sequence[Sent]) -> int:
        """The exit status: nothing is pushed unless everything may be.

        Raises:
            GitTrouble: Git does not answer.
            Refused: The broker refuses to judge.
            Unreachable: No broker answers.
        """
        with Judge(self._gate.place, lambda changes: self._asker.call("check_gate", changes=changes)) as judge:
            return next((status for one in sent if (status := self._judge(one, judge)) != 0), 0)

    def _judge(self, sent: Sent, judge: Judge) -> int:
        is_base = sent.ref.casefold() in self._guarded
        if not is_base and (not self._is_strict or sent.ref.startswith(_NOTES)):
            return 0
        new = git.resolve(self._gate.place, sent.oid)
        if new is None:
            reason = f"{sent.ref} would become {sent.oid}, which is no commit and cannot be judged."
            return refusals.refuse(self._gate, [reason], None, None)
        old = next(iter(history.known_commits(self._gate.place, [sent.there])), None)
        judgement = self._base(judge, new, old) if is_base else self._other(judge, new, old)
        if judgement.passes:
            return 0
        wrong = sum(not commit.passes for commit in judgement.commits)
        reasons = [f"{sent.ref} is not pushed: {wrong} of {len(judgement.commits)} commits are not approved."]
        reasons += refusals.described(judgement)
        reasons += refusals.advice(self._gate, judgement, old, new)
        return refusals.refuse(self._gate, reasons, (old, new), sent.ref.removeprefix(bases.HEADS))

    def _base(self, judge: Judge, new: str, old: str | None) -> Judgement:
        """A base branch there: only what is there already is known, whatever the refs here say."""
        known = Known(() if old is None else (old,), tuple)
        return judge.judge(new, old=old, without=self._never, known=known)

    def _other(self, judge: Judge, new: str, old: str | None) -> Judgement:
        """Another branch: each commit that the remote does not have yet."""
        there = git.run(self._gate.place, ["for-each-ref", "--format=%(objectname)", f"refs/remotes/{self._remote}/"])
        without = history.known_commits(self._gate.place, there.text.splitlines())
        return judge.judge(new, old=old, without=[*self._never, *without])
