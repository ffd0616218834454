"""The working tree that a rollback is for, its commits, and what their messages say of reviews."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from tandem.errors import InvalidInput
from tandem.git.changes import Change, parse_raw
from tandem.git.layout import layout_at
from tandem.git.raw import ABSENT_MODE, TREE_OPTIONS, by_commit, digest_of
from tandem.git.runner import BoundGit, Git, clean_environment
from tandem.rulings.git import HEADS
from tandem.rulings.message import DEPENDS_ON, PLAN, REVIEW, UNREVIEWED, plan_key, values

ROLLBACK = "Tandem-Rollback"
"""The trailer of the commits that a rollback makes: which review it was for."""

_STEP_SECONDS = 600.0
"""Time limit of one git command: a checkout of a large tree with filters takes its time."""

SHORT = 10
"""Digits of a commit's id, in sentences."""
_REVERTS = re.compile(r"\bThis reverts commit (?P<commit>[0-9a-f]{7,64})\b")
SUBJECT = re.compile(PLAN)
"""Of a commit that names its plan, as in `feat(03-02): retry uploads`."""

# The committer, and the place of the configuration, may be named by the environment.
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
class Tip:
    """A branch and its newest commit when it was looked at.

    Attributes:
        branch: Its name, without `refs/heads/`.
        head: Id of its newest commit.
    """

    branch: str
    head: str


@dataclass(frozen=True, slots=True)
class BranchMove:
    """A branch, without `refs/heads/`, that goes from one commit to another, and the files with it."""

    branch: str
    head_before: str
    head_after: str


class Checkout(BoundGit):
    """Git in a working tree and its repository; all methods block."""

    def __init__(self, folder: Path) -> None:
        """Finds the working tree that a folder is in.

        Raises:
            InvalidInput: It is in none.
        """
        self.git = Git(timeout_seconds=_STEP_SECONDS)
        self.layout = layout_at(self.git, folder)
        # Theirs is the identity; nothing else of the environment steers git.
        identity = {name: os.environ[name] for name in _IDENTITY if name in os.environ}
        super().__init__(self.git, clean_environment(identity, isolated=False), self.layout.root)

    @property
    def root(self) -> Path:
        """Top of the working tree."""
        return self.layout.root

    @property
    def tandem_folder(self) -> Path:
        """Where Tandem keeps its files of this repository, for all its working trees; it need not exist."""
        return self.layout.common_dir / "tandem"

    def text(self, *arguments: str, accept: Sequence[int] = (0,)) -> str:
        """What git prints, without the last line end."""
        return os.fsdecode(self.run(arguments, accept=accept).stdout).rstrip("\n")

    def resolve(self, revision: str) -> str | None:
        """Id of the commit that a revision names; None if there is none such."""
        named = f"{revision}^{{commit}}"
        return self.text("rev-parse", "--quiet", "--verify", "--end-of-options", named, accept=(0, 1, 128)) or None

    def is_ancestor(self, commit: str, descendant: str) -> bool:
        """Whether a commit is in the history of another; false if it is not in the repository."""
        arguments = ["merge-base", "--is-ancestor", commit, descendant]
        return self.run(arguments, accept=(0, 1, 128)).status_code == 0

    def tip(self) -> Tip:
        """The branch that is checked out, where nothing else is under way.

        Raises:
            InvalidInput: A merge, a rebase or the like is, or conflicts are unresolved, or HEAD is detached.
        """
        self._ensure_quiet()
        ref = self.text("symbolic-ref", "--quiet", "HEAD", accept=(0, 1))
        if not ref.startswith(HEADS):
            raise InvalidInput(
                "HEAD is detached; nothing was changed. Check the branch out on which the change was committed:"
                " git switch BRANCH",
                field="branch",
            )
        head = self.resolve("HEAD")
        branch = ref.removeprefix(HEADS)
        if head is None:
            raise InvalidInput(f"The branch {branch} has no commit; there is nothing to revert.", field="branch")
        return Tip(branch, head)

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


@dataclass(frozen=True, slots=True)
class RepositoryCommit:
    """A commit and what its message says.

    Attributes:
        id: Its full id.
        parents: Its parents' ids.
        subject: The first line of its message.
        review_ids: The reviews that its trailers name; they survive a squash, wherever in the message they stand.
        is_unreviewed: Whether it is marked as let through before a review.
        depends_on: The reviews or tasks that it declares to depend on.
        rollback_of: The review whose rollback made it; None if none did.
        reverts: The commits that it says to revert, maybe shortened.
    """

    id: str
    parents: tuple[str, ...]
    subject: str
    review_ids: tuple[str, ...]
    is_unreviewed: bool
    depends_on: tuple[str, ...]
    rollback_of: str | None
    reverts: tuple[str, ...]

    @property
    def is_merge(self) -> bool:
        """Whether it has more than one parent."""
        return len(self.parents) > 1

    @property
    def plan(self) -> str | None:
        """The plan that its subject names, as in `feat(03-02): retry uploads`; None if it names none."""
        found = SUBJECT.match(self.subject)
        return plan_key(found["phase"], found["plan"], None) if found else None

    @property
    def task(self) -> str | None:
        """The task that its subject names; None if it names none."""
        found = SUBJECT.match(self.subject)
        return found["task"] if found else None


@dataclass(frozen=True, slots=True)
class RawDifference:
    """What a commit changed against its first parent.

    Attributes:
        paths: The paths, before and after; a rename is two of them.
        digest: What an approval of exactly this difference is bound to.
        text_digest: What the approval of a text is bound to; None if it changed more than one file, or took one away.
    """

    paths: frozenset[str]
    digest: str
    text_digest: str | None


def parse(record: str) -> RepositoryCommit:
    """A commit from its id, its parents and its message, a line each."""
    commit, parents, message = record.split("\n", 2)
    # A squash indents the messages that it keeps.
    text = "\n".join(line.strip() for line in message.split("\n"))
    reviews = values(text, REVIEW)
    return RepositoryCommit(
        id=commit,
        parents=tuple(parents.split()),
        subject=message.partition("\n")[0].strip(),
        review_ids=tuple(word for word in reviews if word != UNREVIEWED),
        is_unreviewed=UNREVIEWED in reviews,
        depends_on=tuple(values(text, DEPENDS_ON)),
        rollback_of=next(reversed(values(text, ROLLBACK)), None),
        reverts=tuple(_REVERTS.findall(message)),
    )


def log(checkout: Checkout, *arguments: str, paths: Sequence[str] = ()) -> list[RepositoryCommit]:
    """The commits that `git log` answers with, newest first; a child always stands before its parents."""
    options = ["-z", "--topo-order", "--no-show-signature", "--encoding=UTF-8", "--format=%H%n%P%n%B"]
    output = checkout.run(["-c", "log.showSignature=false", "log", *options, *arguments, "--", *paths])
    records = output.stdout.decode("utf-8", "replace").split("\0")
    return [parse(record) for record in records if record.strip()]


def line_from(checkout: Checkout, oldest: Iterable[str], head: str) -> list[RepositoryCommit]:
    """Some commits and all that came to the branch since, newest first."""
    wanted = sorted(set(oldest))
    if len(wanted) > 1:
        wanted = checkout.text("merge-base", "--octopus", *wanted, accept=(0, 1)).split()[:1]
    return log(checkout, head, *(f"^{commit}^@" for commit in wanted))


def reverted_by(line: Sequence[RepositoryCommit]) -> dict[str, str]:
    """For each commit that a later one reverts, that one; a revert that is reverted itself does not count.

    Args:
        line: Commits, newest first.
    """
    gone: dict[str, str] = {}
    for commit in line:
        if commit.id in gone:
            continue
        for named in commit.reverts:
            for other in line:
                if other.id.startswith(named) and other.id not in gone:
                    gone[other.id] = commit.id
    return gone


def differences(checkout: Checkout, commits: Sequence[RepositoryCommit]) -> dict[str, RawDifference]:
    """What each commit changed; merges change nothing here."""
    plain = [commit.id for commit in commits if not commit.is_merge]
    asked = "".join(f"{commit}\n" for commit in plain).encode()
    command = ["diff-tree", "--stdin", "--always", "--root", "-r", *TREE_OPTIONS]
    found = by_commit(checkout.run(command, stdin=asked).stdout) if plain else []
    changed = dict(zip(plain, found, strict=True))
    return {commit.id: _difference(parse_raw(changed.get(commit.id, b""))) for commit in commits}


def _difference(changes: Sequence[Change]) -> RawDifference:
    text = None
    if len(changes) == 1 and changes[0].mode_after != ABSENT_MODE:
        text = f"{changes[0].blob_after}:{changes[0].path}"
    return RawDifference(frozenset(change.path for change in changes), digest_of(changes), text)
