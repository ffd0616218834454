"""The scratch worktree: where commits are reverted, corrected and replayed before anybody's branch moves."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from tandem.domain.answers import Proposal
from tandem.errors import InvalidDiff, TandemError, Unavailable
from tandem.git import parse_only
from tandem.git.repository import Repository
from tandem.git.runner import Output
from tandem.hooks.message import REVIEW
from tandem.workflow.rollback.checkout import Checkout
from tandem.workflow.rollback.history import ROLLBACK, Commit

PREFIX = "tandem-rollback-"

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


class Conflict(Exception):
    """A commit cannot be reverted or replayed where the scratch worktree is; it is as it was before.

    Attributes:
        paths: The files in conflict.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        super().__init__(", ".join(paths))
        self.paths = tuple(paths)


def choose_folder() -> Path:
    """A new, empty folder for a scratch worktree.

    Raises:
        Unavailable: None can be made.
    """
    try:
        return Path(tempfile.mkdtemp(prefix=PREFIX)).resolve()
    except OSError as error:
        raise Unavailable(f"No folder for a scratch worktree can be made: {error}. Nothing was changed.") from error


def remove(checkout: Checkout, folder: Path) -> None:
    """Removes a scratch worktree and what git keeps of it, whatever state it is in; twice is safe."""
    with suppress(TandemError):
        # Twice forced: one whose making was cut short is still locked.
        checkout.run(["worktree", "remove", "--force", "--force", str(folder)])
    shutil.rmtree(folder, ignore_errors=True)
    # The name is ours alone, so that nobody else's entry can be meant.
    shutil.rmtree(checkout.layout.common_dir / "worktrees" / folder.name, ignore_errors=True)


class Scratch:
    """A worktree of the user's repository on no branch, without their hooks.

    Attributes:
        folder: Where it is.
    """

    def __init__(self, checkout: Checkout, folder: Path, head: str) -> None:
        """Makes it.

        Args:
            checkout: The repository.
            folder: An empty folder.
            head: The commit to begin with.
        """
        self.folder = folder
        self._checkout = checkout
        nowhere = checkout.tandem_folder / "no-hooks"
        settings = (*_SETTINGS, f"core.hooksPath={nowhere}")
        self._settings = [item for setting in settings for item in ("-c", setting)]
        checkout.run([*self._settings, "worktree", "add", "--quiet", "--detach", str(folder), head])

    def git(self, *arguments: str, stdin: bytes = b"", accept: Sequence[int] = (0,)) -> Output:
        """Git in the worktree; see `Checkout.run`."""
        return self._checkout.run([*self._settings, *arguments], cwd=self.folder, stdin=stdin, accept=accept)

    @property
    def head(self) -> str:
        """Id of its newest commit."""
        return self.git("rev-parse", "HEAD").stdout.decode("ascii").strip()

    def revert(self, commit: Commit, review_ids: Sequence[str], rolled_back: str) -> str | None:
        """Commits the reverse of a commit.

        Args:
            commit: The commit.
            review_ids: The reviews that are taken back with it.
            rolled_back: The review that the rollback is for.

        Returns:
            The new commit's id; null if nothing of the commit was left to revert.

        Raises:
            Conflict: Later changes are in the way.
        """
        self._settle(self.git("revert", "--no-commit", commit.id, accept=(0, 1)))
        if not self._has_staged():
            self._put_back()
            return None
        subject = f'Revert "{commit.subject}"' if commit.subject else f"Revert {commit.id}"
        lines = [subject, "", f"This reverts commit {commit.id}.", "", *_trailers(review_ids, rolled_back)]
        return self._commit(lines)

    def apply(self, round_: Proposal, subject: str) -> str | None:
        """Commits an accepted counter-patch.

        Args:
            round_: The round that it made.
            subject: The subject of the commit that it replaces.

        Returns:
            The commit's id; null if everything is as the counter-patch wants it already.

        Raises:
            Conflict: It does not fit what is there.
        """
        if round_.diff is not None:
            self._apply_diff(round_.diff)
        elif round_.path is not None and round_.description is not None:
            self._write_text(round_.path, round_.description)
        else:
            return None
        if not self._has_staged():
            return None
        title = f"Apply the counter-patch to: {subject or round_.intent}".splitlines()[0]
        about = f"Round {round_.round} of {round_.review_id}, as its proposer accepted it."
        return self._commit([title, "", about, "", *_trailers([round_.review_id], round_.review_id)])

    def replay(self, commit: Commit) -> str | None:
        """Commits a commit again, with its author and its message.

        Returns:
            The new commit's id; null if nothing of it is left.

        Raises:
            Conflict: What it built upon is gone.
        """
        self._settle(self.git("cherry-pick", "--no-commit", commit.id, accept=(0, 1)))
        if not self._has_staged():
            return None
        self.git("commit", *_AS_IT_IS, "--allow-empty-message", f"--reuse-message={commit.id}")
        return self.head

    def _settle(self, output: Output) -> None:
        """Refuses what git could not merge, and puts the worktree back."""
        if output.status_code == 0:
            return
        unmerged = self.git("diff", "--name-only", "--diff-filter=U", "-z").stdout.split(b"\0")[:-1]
        self._put_back()
        raise Conflict([os.fsdecode(path) for path in dict.fromkeys(unmerged)] or [output.words.splitlines()[0]])

    def _put_back(self) -> None:
        self.git("read-tree", "--reset", "-u", "HEAD")
        for name in ("REVERT_HEAD", "CHERRY_PICK_HEAD", "MERGE_MSG", "AUTO_MERGE"):
            where = self.git("rev-parse", "--git-path", name).stdout
            self.folder.joinpath(os.fsdecode(where).rstrip("\n")).unlink(missing_ok=True)

    def _has_staged(self) -> bool:
        quiet = ["diff-index", "--cached", "--quiet", "--ignore-submodules=none", "HEAD", "--"]
        return self.git(*quiet, accept=(0, 1)).status_code == 1

    def _apply_diff(self, diff: str) -> None:
        try:
            content = parse_only(diff).content.encode()
        except InvalidDiff as error:
            raise Conflict([error.message]) from error
        # In the index only: filters have no say in what was approved.
        options = ["apply", "--cached", "--whitespace=nowarn", "--binary"]
        if self.git(*options, stdin=content, accept=(0, 1, 128)).status_code != 0:
            self._settle(self.git(*options, "--3way", stdin=content, accept=(0, 1, 128)))
        tree = self.git("write-tree").stdout.decode("ascii").strip()
        self.git("read-tree", "--reset", "-u", "HEAD")
        self.git("read-tree", "-m", "-u", "HEAD", tree)

    def _write_text(self, path: str, text: str) -> None:
        """Stages exactly the text's bytes, as its approval is bound to them."""
        with Repository(self.folder) as repository:
            change = repository.text_change(path, text).changes[0]
        blob = self.git("hash-object", "-w", "--stdin", "--no-filters", stdin=text.encode()).stdout.decode().strip()
        self.git("update-index", "--add", "--cacheinfo", f"{change.mode_after},{blob},{path}")
        self.git("checkout-index", "--force", "--", path)

    def _commit(self, lines: Sequence[str]) -> str:
        message = "".join(f"{line}\n" for line in lines)
        self.git("commit", *_AS_IT_IS, "--file=-", stdin=message.encode("utf-8", "replace"))
        return self.head


_AS_IT_IS = ("--quiet", "--no-verify", "--no-edit", "--cleanup=verbatim")


def _trailers(review_ids: Sequence[str], rolled_back: str) -> list[str]:
    return [*(f"{REVIEW}: {review_id}" for review_id in review_ids), f"{ROLLBACK}: {rolled_back}"]
