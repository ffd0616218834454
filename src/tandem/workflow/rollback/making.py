"""Making what a rollback publishes: the reverts, the counter-patch and the dependents, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tandem.domain.answers import Proposal
from tandem.errors import InvalidInput
from tandem.workflow.rollback.checkout import Checkout
from tandem.workflow.rollback.choosing import Choice, Taken
from tandem.workflow.rollback.history import Commit, differences, log
from tandem.workflow.rollback.report import Carried, CounterPatch, Reverted, Rework
from tandem.workflow.rollback.scratch import Conflict, Scratch

Tell = Callable[[str], None]
"""Is told what is being done, a few words each."""

_SHORT = 10
_SHOWN_COMMITS = 5


@dataclass(frozen=True, slots=True)
class Made:
    """What was made in the scratch worktree.

    Attributes:
        head: Its newest commit.
        reverted: What was taken back, newest first.
        counter_patch: The accepted counter-patch; null if there is none, or it did not fit.
        carried: The dependents that could be replayed, oldest first.
        rework: What could not be kept.
    """

    head: str
    reverted: tuple[Reverted, ...]
    counter_patch: CounterPatch | None
    carried: tuple[Carried, ...]
    rework: tuple[Rework, ...]


class Maker:
    """One rollback in its scratch worktree; all methods block."""

    def __init__(self, checkout: Checkout, scratch: Scratch, review_id: str, tell: Tell) -> None:
        self._checkout = checkout
        self._scratch = scratch
        self._review_id = review_id
        self._tell = tell
        self._rework: list[Rework] = []

    def make(self, choice: Choice, counter_patch: Proposal | None) -> Made:
        """Reverts newest to oldest, applies the counter-patch, replays the dependents oldest to newest.

        Args:
            choice: What is taken back.
            counter_patch: The round of the accepted counter-patch, if there is one.

        Raises:
            InvalidInput: A revert conflicts with what others did since.
        """
        reverted = [self._revert(one, choice) for one in choice.taken]
        self._rework += [
            Rework(None, "", (review_id,), "was squashed into a commit that was taken back")
            for review_id in choice.squashed
        ]
        patched = self._apply(counter_patch, choice) if counter_patch is not None else None
        carried = [
            found for one in reversed(choice.taken) if one.is_dependent and (found := self._carry(one)) is not None
        ]
        return Made(self._scratch.head, tuple(reverted), patched, tuple(carried), tuple(self._rework))

    def _revert(self, one: Taken, choice: Choice) -> Reverted:
        commit = one.commit
        self._tell(f"reverting {commit.id[:_SHORT]} {commit.subject}")
        try:
            made = self._scratch.revert(commit, one.review_ids, self._review_id)
        except Conflict as conflict:
            raise self._blocked(commit, conflict, choice) from conflict
        return Reverted(commit.id, commit.subject, one.review_ids, one.because, made)

    def _blocked(self, commit: Commit, conflict: Conflict, choice: Choice) -> InvalidInput:
        """The error for a commit upon which somebody else built."""
        ours = {one.commit.id for one in choice.taken}
        paths = [f":(top,literal){path}" for path in conflict.paths]
        since = self._checkout.run(["rev-list", "HEAD", f"^{commit.id}", "--", *paths]).stdout.decode("ascii").split()
        others = [one for one in since if one not in ours][:_SHOWN_COMMITS]
        named = (
            [f"{one.id[:_SHORT]} {one.subject}" for one in log(self._checkout, "--no-walk", *others)] if others else []
        )
        by = f" Others built upon it: {'; '.join(named)}." if named else ""
        return InvalidInput(
            f"{commit.id[:_SHORT]} ({commit.subject}) cannot be taken back by itself: {', '.join(conflict.paths)} was"
            f" changed since.{by} Nothing was changed. Undo it by hand (git revert {commit.id[:_SHORT]}), put the"
            " result up with tandem submit, or ask whose commits these are.",
            field="commit",
            commit=commit.id,
            paths=list(conflict.paths),
            commits=others,
        )

    def _apply(self, round_: Proposal, choice: Choice) -> CounterPatch | None:
        self._tell(f"applying the counter-patch, round {round_.round}")
        # The oldest is what was reviewed; the others only go with it.
        subject = choice.taken[-1].commit.subject
        try:
            made = self._scratch.apply(round_, subject)
        except Conflict as conflict:
            reason = f"the counter-patch does not fit what is there now: {', '.join(conflict.paths)}"
            self._rework.append(Rework(None, subject, (round_.review_id,), reason))
            return None
        if made is None:
            return None
        digests = self._digests(made)
        return CounterPatch(round_.round, made, exact=round_.digest is not None and round_.digest in digests)

    def _carry(self, one: Taken) -> Carried | None:
        commit = one.commit
        if one.against is not None:
            self._give_up(one, f"{one.against} was decided against as well")
            return None
        self._tell(f"replaying {commit.id[:_SHORT]} {commit.subject}")
        try:
            made = self._scratch.replay(commit)
        except Conflict as conflict:
            self._give_up(one, f"it does not apply any more: {', '.join(conflict.paths)}")
            return None
        if made is None:
            self._give_up(one, "nothing of it is left to do")
            return None
        same = one.difference.digest in self._digests(made)
        approval = "none" if not one.review_ids else "carried" if same else "re_review"
        return Carried(commit.id, made, commit.subject, one.review_ids, approval)

    def _give_up(self, one: Taken, reason: str) -> None:
        self._rework.append(Rework(one.commit.id, one.commit.subject, one.review_ids, reason))

    def _digests(self, commit: str) -> Sequence[str | None]:
        made = log(self._checkout, "-1", commit)
        difference = differences(self._checkout, made)[commit]
        return (difference.digest, difference.text_digest)
