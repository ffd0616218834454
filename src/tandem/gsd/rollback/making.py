"""Making what a rollback publishes, in a scratch worktree: nothing of the user's is touched here."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path

from tandem.core.scratch import ScratchFolder, sweep
from tandem.errors import InvalidDiff, InvalidInput, Unavailable
from tandem.git.repository import Repository
from tandem.git.runner import BoundGit, Output
from tandem.git.validation import parse_only
from tandem.gsd.rollback.choosing import Choice, RevertedBefore
from tandem.gsd.rollback.report import Carried, ConflictPatch, Reverted, Rework, RollbackReport
from tandem.gsd.rollback.repository import ROLLBACK, SHORT, Checkout, RepositoryCommit, differences, log
from tandem.reviews.answers import Proposal
from tandem.rulings.message import REVIEW

Say = Callable[[str], None]
"""Is told each step, in a few words."""

_SHOWN_COMMITS = 5

_SETTINGS = (
    "core.fsmonitor=false",
    # A resolution that was recorded for something else must not decide here.
    "rerere.enabled=false",
    "merge.directoryRenames=false",
    "submodule.recurse=false",
    "commit.verbose=false",
    "i18n.commitEncoding=UTF-8",
    "advice.detachedHead=false",
)
_AS_IT_IS = ("--quiet", "--no-verify", "--no-edit", "--cleanup=verbatim")


class RevertConflict(Exception):
    """A commit cannot be reverted or replayed where the scratch worktree is; it is as it was before.

    Attributes:
        paths: The files in conflict.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(", ".join(paths))
        self.paths = tuple(paths)


def remove_leftovers(checkout: Checkout) -> None:
    """Removes the scratch worktrees that a crash left; the caller has the lock, so that no process uses one."""
    parents: set[str | None] = {None}
    for left in (checkout.layout.common_dir / "worktrees").glob("tandem-rollback-????????"):
        with suppress(OSError):
            # The path of the worktree's `.git`; the worktree is in the scratch folder of the same name.
            worktree = (left / os.fsdecode((left / "gitdir").read_bytes()).rstrip("\n")).parent
            if worktree.name == worktree.parent.name == left.name:
                parents.add(str(worktree.parent.parent))
                shutil.rmtree(left, ignore_errors=True)
    sweep(parents)


@contextmanager
def scratch_worktree(checkout: Checkout, head: str) -> Generator[Scratch]:
    """A worktree of the user's repository on no branch, at a commit; gone when the block ends.

    Raises:
        Unavailable: It cannot be made.
    """
    try:
        folder = ScratchFolder("rollback")
    except OSError as error:
        raise Unavailable(f"No folder for a scratch worktree can be made: {error}. Nothing was changed.") from error
    with folder as name:
        # Git names its record after the worktree's last folder, by which it is found again.
        worktree = Path(name).resolve() / Path(name).name
        try:
            yield Scratch(checkout, worktree, head)
        finally:
            shutil.rmtree(checkout.layout.common_dir / "worktrees" / worktree.name, ignore_errors=True)


class Scratch(BoundGit):
    """Git in a scratch worktree, in which the user's hooks do not run."""

    def __init__(self, checkout: Checkout, folder: Path, head: str) -> None:
        """Makes it."""
        settings = [*_SETTINGS, f"core.hooksPath={checkout.tandem_folder / 'no-hooks'}"]
        options = [item for setting in settings for item in ("-c", setting)]
        checkout.run([*options, "worktree", "add", "--quiet", "--detach", str(folder), head])
        super().__init__(checkout.git, checkout.environment, folder, options)
        self.folder = folder

    @property
    def head(self) -> str:
        """Id of its newest commit."""
        return self.run(["rev-parse", "HEAD"]).text

    def revert(self, commit: RepositoryCommit, review_ids: Sequence[str], rolled_back: str) -> str | None:
        """Commits the reverse of a commit.

        Args:
            commit: The commit.
            review_ids: The reviews that are reverted with it.
            rolled_back: The review that the rollback is for.

        Returns:
            The new commit's id; None if nothing of the commit was left to revert.

        Raises:
            Conflict: Later changes are in the way.
        """
        self._settle(self.run(["revert", "--no-commit", commit.id], accept=(0, 1)))
        if not self._has_staged():
            self._put_back()
            return None
        subject = f'Revert "{commit.subject}"' if commit.subject else f"Revert {commit.id}"
        return self._commit(subject, f"This reverts commit {commit.id}.", review_ids, rolled_back)

    def apply(self, round_: Proposal, subject: str) -> str | None:
        """Commits an accepted counter-patch.

        Args:
            round_: The round that it made.
            subject: The subject of the commit that it replaces.

        Returns:
            The commit's id; None if everything is as the counter-patch wants it already.

        Raises:
            Conflict: It does not fit the present files.
        """
        if round_.diff is not None:
            self._apply_diff(round_.diff)
        elif round_.path is not None and round_.description is not None:
            self._write_text(round_.path, round_.description)
        if not self._has_staged():
            return None
        title = f"Apply the counter-patch to: {subject or round_.intent}".splitlines()[0]
        about = f"Round {round_.round} of {round_.review_id}, as its proposer accepted it."
        return self._commit(title, about, [round_.review_id], round_.review_id)

    def replay(self, commit: RepositoryCommit) -> str | None:
        """Commits a commit again, with its author and its message.

        Returns:
            The new commit's id; None if nothing of it is left.

        Raises:
            Conflict: The content that it built upon is gone.
        """
        self._settle(self.run(["cherry-pick", "--no-commit", commit.id], accept=(0, 1)))
        if not self._has_staged():
            return None
        self.run(["commit", *_AS_IT_IS, "--allow-empty-message", f"--reuse-message={commit.id}"])
        return self.head

    def _settle(self, output: Output) -> None:
        """Refuses what git could not merge, and puts the worktree back."""
        if output.status_code == 0:
            return
        unmerged = self.run(["diff", "--name-only", "--diff-filter=U", "-z"]).stdout.split(b"\0")[:-1]
        self._put_back()
        raise RevertConflict([os.fsdecode(path) for path in dict.fromkeys(unmerged)] or [output.words.splitlines()[0]])

    def _put_back(self) -> None:
        self.run(["reset", "--quiet", "--hard"])

    def _has_staged(self) -> bool:
        quiet = ["diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD", "--"]
        return self.run(quiet, accept=(0, 1)).status_code == 1

    def _apply_diff(self, diff: str) -> None:
        try:
            content = parse_only(diff).content.encode()
        except InvalidDiff as error:
            raise RevertConflict([error.message]) from error
        # In the index only: filters have no say in an approved content.
        options = ["apply", "--cached", "--whitespace=nowarn", "--binary"]
        if self.run(options, stdin=content, accept=(0, 1, 128)).status_code != 0:
            self._settle(self.run([*options, "--3way"], stdin=content, accept=(0, 1, 128)))
        tree = self.run(["write-tree"]).text
        self._put_back()
        self.run(["read-tree", "-m", "-u", "HEAD", tree])

    def _write_text(self, path: str, text: str) -> None:
        """Stages exactly the text's bytes, as its approval is bound to them."""
        with Repository(self.folder) as repository:
            change = repository.text_change(path, text).changes[0]
        blob = self.run(["hash-object", "-w", "--stdin", "--no-filters"], stdin=text.encode()).text
        self.run(["update-index", "--add", "--cacheinfo", f"{change.mode_after},{blob},{path}"])
        self.run(["checkout-index", "--force", "--", path])

    def _commit(self, subject: str, about: str, review_ids: Sequence[str], rolled_back: str) -> str:
        trailers = [*(f"{REVIEW}: {review_id}" for review_id in review_ids), f"{ROLLBACK}: {rolled_back}"]
        message = "".join(f"{line}\n" for line in (subject, "", about, "", *trailers))
        self.run(["commit", *_AS_IT_IS, "--file=-"], stdin=message.encode("utf-8", "replace"))
        return self.head


class RollbackBuilder:
    """Makes the reverts, the counter-patch and the dependents, one after the other; all methods block."""

    def __init__(self, checkout: Checkout, scratch: Scratch, review_id: str, say: Say) -> None:
        self._checkout = checkout
        self._scratch = scratch
        self._review_id = review_id
        self._say = say
        self._rework: list[Rework] = []

    def make(self, report: RollbackReport, choice: Choice, counter_patch: Proposal | None) -> RollbackReport:
        """Reverts newest to oldest, applies the counter-patch, replays the dependents oldest to newest.

        Args:
            report: The rollback so far.
            choice: The commits to revert.
            counter_patch: The round of the accepted counter-patch, if there is one.

        Returns:
            The report with the new commits.

        Raises:
            InvalidInput: A revert conflicts with what others did since.
        """
        reverted = [self._revert(one, choice) for one in choice.taken]
        for review_id in choice.squashed:
            self._rework.append(Rework(None, "", (review_id,), "was squashed into a commit that was reverted"))
        patched = self._apply(counter_patch, choice) if counter_patch is not None else None
        carried = [self._carry(one) for one in reversed(choice.taken) if one.is_dependent]
        return replace(
            report,
            head_after=self._scratch.head,
            reverted=tuple(reverted),
            counter_patch=patched,
            carried=tuple(one for one in carried if one is not None),
            rework=tuple(self._rework),
        )

    def _revert(self, one: RevertedBefore, choice: Choice) -> Reverted:
        commit = one.commit
        self._say(f"reverting {commit.id[:SHORT]} {commit.subject}")
        try:
            made = self._scratch.revert(commit, one.review_ids, self._review_id)
        except RevertConflict as conflict:
            raise self._blocked(commit, conflict, choice) from conflict
        return Reverted(commit.id, commit.subject, one.review_ids, one.because, made)

    def _blocked(self, commit: RepositoryCommit, conflict: RevertConflict, choice: Choice) -> InvalidInput:
        """The error for a commit upon which somebody else built."""
        ours = {one.commit.id for one in choice.taken}
        paths = [f":(top,literal){path}" for path in conflict.paths]
        since = log(self._checkout, "HEAD", f"^{commit.id}", paths=paths)
        others = [one for one in since if one.id not in ours][:_SHOWN_COMMITS]
        named = "; ".join(f"{one.id[:SHORT]} {one.subject}" for one in others)
        by = f" Others built upon it: {named}." if named else ""
        return InvalidInput(
            f"{commit.id[:SHORT]} ({commit.subject}) cannot be reverted by itself: {', '.join(conflict.paths)} was"
            f" changed since.{by} Nothing was changed. Undo it by hand (git revert {commit.id[:SHORT]}), put the"
            " result up with tandem submit, or ask whose commits these are.",
            field="commit",
            commit=commit.id,
            paths=list(conflict.paths),
            commits=[one.id for one in others],
        )

    def _apply(self, round_: Proposal, choice: Choice) -> ConflictPatch | None:
        self._say(f"applying the counter-patch, round {round_.round}")
        # The oldest has the reviewed content; the others only go with it.
        subject = choice.taken[-1].commit.subject
        try:
            made = self._scratch.apply(round_, subject)
        except RevertConflict as conflict:
            reason = f"the counter-patch does not fit the present files: {', '.join(conflict.paths)}"
            self._rework.append(Rework(None, subject, (round_.review_id,), reason))
            return None
        if made is None:
            return None
        return ConflictPatch(
            round_.round, made, exact=round_.digest is not None and round_.digest in self._digests(made)
        )

    def _carry(self, one: RevertedBefore) -> Carried | None:
        commit = one.commit
        try:
            if one.against is not None:
                return self._give_up(one, f"{one.against} was decided against as well")
            self._say(f"replaying {commit.id[:SHORT]} {commit.subject}")
            made = self._scratch.replay(commit)
        except RevertConflict as conflict:
            return self._give_up(one, f"it does not apply any more: {', '.join(conflict.paths)}")
        if made is None:
            return self._give_up(one, "nothing of it is left to do")
        same = one.difference.digest in self._digests(made)
        approval = "none" if not one.review_ids else "carried" if same else "re_review"
        return Carried(commit.id, made, commit.subject, one.review_ids, approval)

    def _give_up(self, one: RevertedBefore, reason: str) -> None:
        self._rework.append(Rework(one.commit.id, one.commit.subject, one.review_ids, reason))

    def _digests(self, commit: str) -> tuple[str | None, ...]:
        difference = differences(self._checkout, log(self._checkout, "-1", commit))[commit]
        return (difference.digest, difference.text_digest)
