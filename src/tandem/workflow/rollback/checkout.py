"""The working tree that a rollback is for, and git in it."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from tandem.errors import InvalidInput, TimedOut
from tandem.git.layout import Layout, layout_at
from tandem.git.runner import Git, GitFailed, Output, TimeLimit, clean_environment

STEP_SECONDS = 600.0
"""Time limit of one git command: a checkout of a large tree with filters takes its time."""

_HEADS = "refs/heads/"
_WORDS_LIMIT_BYTES = 16 * 1024

# Who commits may stand in the environment instead of the configuration, and so may where that is.
_IDENTITY = (
    "GIT_AUTHOR_NAME",
    "GIT_AUTHOR_EMAIL",
    "GIT_COMMITTER_NAME",
    "GIT_COMMITTER_EMAIL",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
)

_UNDER_WAY = (
    ("MERGE_HEAD", "merge", "git merge --continue (or --abort)"),
    ("rebase-merge", "rebase", "git rebase --continue (or --abort)"),
    ("rebase-apply", "rebase", "git rebase --continue (or --abort), or that of git am"),
    ("CHERRY_PICK_HEAD", "cherry-pick", "git cherry-pick --continue (or --abort)"),
    ("REVERT_HEAD", "revert", "git revert --continue (or --abort)"),
    ("sequencer", "cherry-pick or revert", "git status, which says how to go on"),
    ("BISECT_LOG", "bisect", "git bisect reset"),
)


@dataclass(frozen=True, slots=True)
class Stand:
    """Where a branch was when it was looked at.

    Attributes:
        branch: Its name, without `refs/heads/`.
        head: Id of its newest commit.
    """

    branch: str
    head: str


class Checkout:
    """A working tree and its repository; all methods block."""

    def __init__(self, layout: Layout, git: Git) -> None:
        self.layout = layout
        self._git = git

    @classmethod
    def at(cls, folder: Path, program: str = "git") -> Checkout:
        """The working tree that a folder is in.

        Raises:
            InvalidInput: It is in none.
        """
        git = Git(program, STEP_SECONDS)
        return cls(layout_at(git, folder), git)

    @property
    def root(self) -> Path:
        """Top of the working tree."""
        return self.layout.root

    @property
    def tandem_folder(self) -> Path:
        """Where Tandem keeps its files of this repository, for all its working trees; it need not exist."""
        return self.layout.common_dir / "tandem"

    def run(
        self,
        arguments: Sequence[str],
        *,
        cwd: Path | None = None,
        stdin: bytes = b"",
        accept: Sequence[int] = (0,),
        extra: Mapping[str, str] | None = None,
    ) -> Output:
        """Git in this working tree, or in another one of the repository.

        Args:
            arguments: What follows `git`.
            cwd: The working tree; by default this one.
            stdin: What git reads.
            accept: The exit statuses that are answers.
            extra: Variables to add to the environment.

        Raises:
            GitFailed: Another exit status.
            TimedOut: It did not end in time.
        """
        environment = git_environment(extra or {})
        where = cwd or self.root
        return self._git.run(arguments, cwd=where, environment=environment, stdin=stdin, accept=accept)

    def merge(self, arguments: Sequence[str], lock: IO[bytes]) -> None:
        """Merges in this working tree; git keeps the lock's file open for as long as it runs, even if we do not.

        Raises:
            GitFailed: It did not succeed.
            TimedOut: It did not end in time.
        """
        with tempfile.TemporaryFile() as words:
            process = self._git.start(
                arguments, cwd=self.root, environment=git_environment({}), stdin=lock, stderr=words
            )
            with process, TimeLimit(process, STEP_SECONDS) as limit:
                if process.stdout is not None:
                    process.stdout.read()
                status_code = process.wait()
            words.seek(0)
            said = words.read(_WORDS_LIMIT_BYTES).decode("utf-8", "replace").strip()
        if limit.passed:
            raise TimedOut(f"git did not end within {STEP_SECONDS:g} s; run the command again.")
        if status_code != 0:
            raise GitFailed("merge", status_code, said)

    def text(self, *arguments: str, accept: Sequence[int] = (0,)) -> str:
        """What git prints, without the last line end."""
        return os.fsdecode(self.run(arguments, accept=accept).stdout).rstrip("\n")

    def resolve(self, revision: str) -> str | None:
        """Id of the commit that a revision names; null if there is none such."""
        named = f"{revision}^{{commit}}"
        return self.text("rev-parse", "--quiet", "--verify", "--end-of-options", named, accept=(0, 1, 128)) or None

    def is_ancestor(self, commit: str, descendant: str) -> bool:
        """Whether a commit is in the history of another; false if it is not in the repository."""
        arguments = ["merge-base", "--is-ancestor", commit, descendant]
        return self.run(arguments, accept=(0, 1, 128)).status_code == 0

    def stand(self) -> Stand:
        """The branch that is checked out, where nothing else is under way.

        Raises:
            InvalidInput: A merge, a rebase or the like is, or conflicts are unresolved, or HEAD is detached.
        """
        self._ensure_quiet()
        ref = self.text("symbolic-ref", "--quiet", "HEAD", accept=(0, 1))
        if not ref.startswith(_HEADS):
            raise InvalidInput(
                "HEAD is detached; nothing was changed. Check the branch out on which the change was committed:"
                " git switch BRANCH",
                field="branch",
            )
        head = self.resolve("HEAD")
        branch = ref.removeprefix(_HEADS)
        if head is None:
            raise InvalidInput(f"The branch {branch} has no commit; there is nothing to take back.", field="branch")
        return Stand(branch, head)

    def _ensure_quiet(self) -> None:
        for name, what, how in _UNDER_WAY:
            if (self.layout.git_dir / name).exists():
                raise InvalidInput(
                    f"A {what} is in progress in {self.root}; nothing was changed. Finish it first: {how}.",
                    field="worktree",
                    in_progress=what,
                )
        if self.run(["ls-files", "--unmerged", "-z"]).stdout:
            raise InvalidInput(
                f"{self.root} has unresolved conflicts; nothing was changed. Resolve them: git status lists them.",
                field="worktree",
            )


def git_environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The environment of git in a working tree of the user's: theirs is the identity, nothing else steers it."""
    identity = {name: os.environ[name] for name in _IDENTITY if name in os.environ}
    return clean_environment({**identity, **extra}, isolated=False)
