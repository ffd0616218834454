"""A base branch as `tandem land` moves it: what a branch becomes on it, one compare-and-swap, and checkouts of it."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tandem.errors import InvalidInput, InvalidTransition, TandemError
from tandem.git.place import HookRepository, linked_worktrees, main_worktree
from tandem.git.reviewed_tree import DoesNotMerge
from tandem.git.runner import GitFailed
from tandem.gsd.rollback.publishing import bring_files, changed_paths, ensure_free, finish_files, release_locks
from tandem.gsd.rollback.repository import BranchMove, Checkout
from tandem.rulings import git
from tandem.rulings.git import HEADS

Strategy = Literal["merge", "squash", "ff"]


@dataclass(frozen=True, slots=True)
class Candidate:
    """What a base branch would become.

    Attributes:
        tip: Where it is.
        commit: Where it would go.
        tree: The tree of that.
    """

    tip: str
    commit: str
    tree: str


class BaseBranch:
    """A base branch of a repository; all methods block.

    Attributes:
        name: Without `refs/heads/`.
        checkout: Git in the working tree that the command runs in.
        left: Checkouts of it whose files could not follow, a sentence each, with what to do.
    """

    def __init__(self, place: HookRepository, name: str, remote: str | None, source: str) -> None:
        """Takes the branch of the repository, or of a remote, which the repository's follows; and what lands on it."""
        self.name = name
        self._source = source
        self.left: list[str] = []
        self.checkout = Checkout(Path(place.top or place.git_dir))
        self._place = place
        self._remote = remote
        self._ref = HEADS + name

    def tip(self) -> str:
        """Where it is; that of a remote is fetched, and the repository's own is made, or brought there first.

        Raises:
            InvalidInput: There is none, or it is being rebased.
            InvalidTransition: The repository's has commits that the remote's has not, or the gate refuses those there.
        """
        self._ensure_not_rebased()
        here = self.checkout.resolve(self._ref)
        there = here if self._remote is None else self._fetched(self._remote)
        if there is None:
            raise InvalidInput(f"There is no branch {self.name} here: make it, or fetch it.", field="branch")
        if here is not None and not self.checkout.is_ancestor(here, there):
            raise InvalidTransition(
                f"{self.name} has commits here that {self._remote} lacks. Push them first: git push {self._remote}"
                f" {self.name}"
            )
        if here != there:
            self._move_here(here or "", there)
        return there

    def _fetched(self, remote: str) -> str:
        self.checkout.run(["fetch", "--quiet", "--no-tags", remote, self._ref])
        return self.checkout.text("rev-parse", "--verify", "FETCH_HEAD^{commit}")

    def taken_in(self, verb: str) -> str:
        """The command line by which the branch that lands takes it in, where that is checked out."""
        at = self.checkout.text("for-each-ref", "--format=%(worktreepath)", HEADS + self._source)
        elsewhere = ["-C", at] if at and Path(at) != self.checkout.root else []
        takes = [*elsewhere, verb, self.name]
        steps = [takes] if at else [["switch", self._source], takes]
        return " && ".join(f"git {shlex.join(one)}" for one in steps)

    def merged(self, tip: str, head: str, strategy: Strategy, title: str, *, is_final: bool = False) -> Candidate:
        """What a branch at `head` makes of it; a final commit is signed where git's configuration wants that.

        Raises:
            DoesNotMerge: Git alone cannot merge them.
            InvalidTransition: It is no fast-forward, and nothing else is wanted.
        """
        if strategy == "ff" and not self.checkout.is_ancestor(tip, head):
            raise InvalidTransition(
                f"{self.name} has moved on, and only a fast-forward is wanted (landing_strategy). Take it in:"
                f" {self.taken_in('rebase')}"
            )
        with git.Merges(self._place) as merges:
            tree, paths = merges.kept(tip, head)
        if tree is None:
            raise DoesNotMerge(paths)
        if strategy == "ff":
            return Candidate(tip, head, tree)
        parents = [tip, head] if strategy == "merge" else [tip]
        options = [part for parent in parents for part in ("-p", parent)]
        if is_final and self.checkout.text("config", "--type=bool", "commit.gpgSign", accept=(0, 1)) == "true":
            options.append("--gpg-sign")
        return Candidate(tip, self.checkout.text("commit-tree", tree, *options, "-m", title), tree)

    def move(self, to: Candidate) -> bool:
        """Moves it by one compare-and-swap, and then clean checkouts of it; false if it has moved meanwhile.

        Raises:
            InvalidTransition: A hook refuses, such as the gate's.
            InvalidInput: Local changes in a checkout of it are in the way; nothing was changed.
        """
        if self._remote is not None:
            lease = f"--force-with-lease={self._ref}:{to.tip}"
            try:
                self.checkout.run(["push", "--quiet", lease, self._remote, f"{to.commit}:{self._ref}"])
            except GitFailed as error:
                if self._fetched(self._remote) != to.tip:
                    return False
                raise _refused(f"{self._remote} did not take it into {self.name}", error) from error
        return self._move_here(to.tip, to.commit)

    def _move_here(self, old: str, new: str) -> bool:
        trees = self.ensure_checkouts_free(old, new)
        try:
            self.checkout.run(["update-ref", "-m", "tandem land", self._ref, new, old])
        except GitFailed as error:
            if self.checkout.resolve(self._ref) != (old or None):
                return False
            raise _refused(f"Git did not move {self.name}", error) from error
        for tree in trees:
            try:
                bring_files(tree, BranchMove(self.name, old, new))
            except GitFailed as error:
                self.left.append(
                    f"{self.name} has moved, and the files of {tree.root} have not: {error.words} Undo that there (git"
                    " checkout -- FILE) or move it away, then run this again."
                )
        return True

    def ensure_checkouts_free(self, old: str, new: str) -> list[Checkout]:
        """The checkouts of the branch, whose files can go from one commit to another."""
        self._ensure_not_rebased()
        trees = self._checkouts()
        for tree in trees:
            tree.tip()
            ensure_free(tree, changed_paths(tree, old, new), f"Landing on {self.name}, which {tree.root} has,")
        return trees

    def _ensure_not_rebased(self) -> None:
        """Git has no checkout of a branch that is being rebased, and the rebase's end or abort moves that back."""
        common = self._place.common_dir
        for top, own in {main_worktree(common) or common: common, **linked_worktrees(common)}.items():
            if git.rebased(HookRepository(own, common, top)) == self._ref:
                at = "" if Path(top) == self.checkout.root else f"-C {shlex.quote(top)} "
                raise InvalidInput(
                    f"A rebase of {self.name} is in progress in {top}; nothing was changed. Leave it first:"
                    f" git {at}rebase --abort (or end it by --continue).",
                    field="worktree",
                    in_progress="rebase",
                )

    def _checkouts(self) -> list[Checkout]:
        listed = self.checkout.text("worktree", "list", "--porcelain", "-z").split("\0\0")
        found = [entry.split("\0") for entry in listed]
        folders = [Path(top.removeprefix("worktree ")) for top, *facts in found if f"branch {self._ref}" in facts]
        return [Checkout(folder) for folder in folders if folder.is_dir()]

    def has(self, commit: str) -> bool:
        """Whether a commit is in its history."""
        return self.checkout.is_ancestor(commit, self._ref)

    def is_at(self, *commits: str) -> bool:
        """Whether it is at one of some commits."""
        return self.checkout.resolve(self._ref) in commits

    def finish(self, tip: str, commit: str, since: float) -> bool:
        """Ends a move that was cut off, whether or not it took place; whether it did.

        Args:
            tip: Where the branch was.
            commit: Where it went.
            since: When that began, in seconds since the epoch.
        """
        move = BranchMove(self.name, tip, commit)
        for tree in [self.checkout, *self._checkouts()]:
            release_locks(tree, move, since)
            # What somebody has changed there since is left to them.
            try:
                finish_files(tree, move)
            except InvalidInput as error:
                self.left.append(f"In {tree.root}: {error.message}")
        return self.has(commit)


def _refused(what: str, error: GitFailed) -> TandemError:
    return InvalidTransition(f"{what}; nothing was changed. It said:\n{error.words}", git=error.words)
