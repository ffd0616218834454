"""One registered repository and everything that is asked of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from tandem.core.scratch import ScratchFolder
from tandem.errors import InvalidInput, TimedOut, TooLarge, Unavailable
from tandem.git import base_files, drawing, ground, returns, reviewed_tree, rounds, snapshot, validation, worktree
from tandem.git.base_files import BaseFile
from tandem.git.changes import Change, Entry, ValidatedContent
from tandem.git.ground import Ground
from tandem.git.handle import Handle
from tandem.git.layout import Layout, layout_at
from tandem.git.names import encode_path
from tandem.git.objects import ObjectReader
from tandem.git.returns import Returned
from tandem.git.reviewed_tree import ReviewedTree, RoundContent
from tandem.git.rounds import RoundPatch
from tandem.git.runner import Git, GitFailed, Limits
from tandem.git.snapshot import Scope, WorkingDiff
from tandem.git.worktree import WorktreeUpdate


class Repository:
    """A work tree of a git repository.

    Nothing is read until something is asked. All methods block and may be called from several threads.
    Every method raises `Unavailable` when git or the repository is missing and `TimedOut` when git hangs.

    Attributes:
        root: Top level of the work tree, or the common git folder of one that has none.
    """

    def __init__(self, root: Path, git: str = "git", timeout_seconds: float = 10, limits: Limits | None = None) -> None:
        self.root = root
        self._git_dir: Path | None = None
        self._index_file: Path | None = None
        self._configuration: tuple[tuple[str, str], ...] = ()
        self._git = Git(git, timeout_seconds, limits)
        self._lock = threading.Lock()
        self._handle: Handle | None = None

    @classmethod
    def discover(cls, path: str | Path, git: str = "git", timeout_seconds: float = 10) -> Self:
        """The repository whose work tree contains `path`, with the index and the settings that the environment names.

        Raises:
            InvalidInput: The path is in no work tree.
        """
        layout = layout_at(Git(git, timeout_seconds), Path(path))
        found = cls(layout.root, git, timeout_seconds)
        found._git_dir = layout.git_dir
        stated = os.environ.get("GIT_INDEX_FILE")
        found._index_file = layout.root / stated if stated else None
        # What is ignored there is not to be submitted.
        found._configuration = tuple(one for one in os.environ.items() if one[0].startswith("GIT_CONFIG"))
        return found

    @classmethod
    @contextmanager
    def of_files(
        cls, bases: Mapping[str, Iterable[BaseFile]], git: str, timeout_seconds: float, limits: Limits | None = None
    ) -> Generator[Self]:
        """A repository that has some files of some bases and nothing else, gone when the block ends.

        Args:
            bases: The files of each base, by the base's id.
            git: The program.
            timeout_seconds: How long one command may take.
            limits: What git may take up.

        Raises:
            InvalidInput: The ids do not go together.
        """
        with ScratchFolder("git") as folder:
            made = cls(Path(folder), git, timeout_seconds, limits)
            made._handle = base_files.handle_of(made._git, bases, Path(folder))
            with made:
                yield made

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends the processes kept for this repository; it may still be used, and closed again."""
        with self._lock:
            handle, self._handle = self._handle, None
        if handle is not None:
            handle.objects.close()

    def _open(self) -> Handle:
        with self._lock:
            if self._handle is None:
                layout = self._layout()
                self._handle = Handle(self._git, layout, ObjectReader(self._git, layout))
            return self._handle

    def _layout(self) -> Layout:
        if not self.root.is_dir():
            raise Unavailable(
                f"The repository at {self.root} is no longer there; restore it. If it was moved, or that was one of its"
                " working trees, run `tandem project move` where it is now.",
                path=str(self.root),
            )
        layout = layout_at(self._git, self.root, self._git_dir)
        if not layout.root.samefile(self.root):
            raise InvalidInput(
                f"{self.root} is not the top of its repository; use {layout.root}.",
                field="root",
                expected=str(layout.root),
            )
        return replace(layout, index_file=self._index_file, configuration=self._configuration)

    def ensure_outside(self, path: str) -> None:
        """As `Layout.ensure_outside`, for one path."""
        self._open().layout.ensure_outside([path])

    @property
    def common_dir(self) -> Path:
        """The git folder that all work trees of the repository share."""
        return self._open().layout.common_dir

    @property
    def object_format(self) -> str:
        """`sha1` or `sha256`."""
        return self._open().layout.objects.name

    @property
    def is_partial(self) -> bool:
        """Whether it has only some files of some bases."""
        return self._open().bases is not None

    def has_base(self, base: str | None) -> bool:
        """Whether a change can be validated against a base here."""
        try:
            self._open().base(base)
        except InvalidInput:
            return False
        return True

    def resolve_base(self, base: str | None) -> str:
        """Id of the commit (or tree) that `base` names: HEAD by default, the empty tree before the first commit.

        Raises:
            InvalidInput: There is no such commit or tree (`details.field` is `base`).
        """
        return self._open().base(base).oid

    def validate_diff(self, diff: str, base: str | None = None) -> ValidatedContent:
        """Applies a diff to `base` in a private index, whatever the working tree holds, and says what it does.

        The user's repository is only read: no object, index or configuration of it changes, and no filter, hook or
        attribute of it takes part. The digest equals that of the commit made from the diff.

        Raises:
            InvalidDiff: It does not apply (with git's words in `details.git` and, where known, `details.path`),
                leaves the repository, makes a symbolic link that does, brings in a submodule at an unknown commit or a
                name that is not UTF-8, or changes nothing.
            InvalidInput: `base` names nothing.
        """
        return validation.validate_diff(self._open(), diff, base)

    def base_files(self, diff: str | None, path: str | None, base: str | None) -> tuple[str, list[BaseFile]]:
        """Id of the base, and the files there that a change touches: what a broker without the repository needs.

        Args:
            diff: The change.
            path: The file that a text is the whole content of, where there is no diff.
            base: What the change is against; HEAD by default.

        Raises:
            InvalidDiff: The diff is none.
            InvalidInput: `base` names nothing.
            TooLarge: They are too many, or too large.
        """
        return base_files.read(self._open(), diff, path, base)

    def text_change(self, path: str, text: str, base: str | None = None) -> ValidatedContent:
        """The whole content of one file: what an approved plan or report binds to.

        Its digest is `<blob>:<path>`, blob being the id of exactly the text's UTF-8 bytes; its one change is against
        `base`, by default HEAD, and keeps the file's mode.

        Raises:
            InvalidInput: The path is unsafe, or no file (`details.field` is `path`), or the text is not Unicode.
        """
        return validation.text_change(self._open(), path, text, base)

    def unread(self, commit: str, paths: Sequence[str]) -> frozenset[str]:
        """Those of some files that need not be read, by the `.gitattributes` of a commit.

        They are marked as made by a program (`linguist-generated`), or as without lines (`-diff`, `binary`).

        Raises:
            InvalidInput: There is no such commit.
        """
        return drawing.unread(self._open(), commit, paths)

    def file_change(self, path: str, text: str, base: str | None = None) -> ValidatedContent:
        """As `text_change`, but as the diff that it comes to, with a digest like that of every diff.

        Raises:
            InvalidInput: As there, and where the file has that content already.
        """
        handle = self._open()
        return snapshot.file_diff(handle, validation.text_change(handle, path, text, base), text)

    def applies_to(self, changes: Iterable[Change], revision: str = "HEAD") -> bool:
        """Whether all touched paths are, at `revision`, exactly as before the changes.

        Raises:
            InvalidInput: There is no such revision.
        """
        handle = self._open()
        tree = handle.base(revision, field="revision").tree
        wanted = {encode_path(change.path): Entry(change.mode_before, change.blob_before) for change in changes}
        found = handle.objects.entries(tree, wanted).entries
        return all(found.get(path, handle.layout.objects.absent) == entry for path, entry in wanted.items())

    def landed_on(self, changes: Iterable[Change], base: str, branches: Iterable[str]) -> tuple[str, ...]:
        """The branches that have all touched files exactly as after the changes, and had not where they began.

        Args:
            changes: The changes.
            base: The commit that they were made against.
            branches: Names of branches; those that do not exist have nothing.
        """
        handle = self._open()
        wanted = {encode_path(change.path): Entry(change.mode_after, change.blob_after) for change in changes}
        return tuple(branch for branch in branches if snapshot.has_landed(handle, wanted, base, branch))

    def interdiff(self, first: tuple[str, str], second: tuple[str, str]) -> str:
        """A unified diff from one round's result to another's; each round is its diff and its base.

        Where the bases differ, only paths that either round touches are compared.

        Raises:
            InvalidDiff: A round's diff no longer applies to its base.
            InvalidInput: A base is no longer in the repository.
        """
        return rounds.interdiff(self._open(), first, second)

    def file_of_round(self, patch: RoundPatch, path: str, *, after: bool) -> bytes | None:
        """What a file holds before or after a round's change, exactly; null if it is not there then.

        Raises:
            InvalidInput: The path is unsafe, or that of a link or a submodule (`details.field` is `path`).
            NotFound: The base, or the content, is no longer in the repository.
            TooLarge: The file is larger than anyone reads.
        """
        return rounds.read_file(self._open(), patch, path, after=after)

    def diff_with_edits(self, patch: RoundPatch, edits: rounds.Edits) -> str:
        """The whole diff, against a round's base, of its change with some files of its result edited or deleted.

        Nothing of it is validated. It is empty when the edits take the change back.

        Raises:
            InvalidInput: An edit is of a path that is unsafe, or of what is no text (`details.field` is `edits`).
            NotFound: The base is no longer in the repository.
            TooLarge: A file is larger than anyone reads.
        """
        return rounds.diff_with_edits(self._open(), patch, edits)

    def working_diff(self, scope: Scope | None = None) -> WorkingDiff:
        """What there is to submit, with the base to name; by default all of the working tree against HEAD.

        The user's filters run, as they do when the change is committed; their index stays as it is. A commit of the
        same scope has the same digest.

        Raises:
            InvalidInput: The revision names nothing, or conflicts are unresolved.
        """
        return snapshot.working_diff(self._open(), scope or Scope())

    def apply_to_worktree(self, diff: str, base: str | None = None, *, index: bool = False) -> WorktreeUpdate:
        """Brings every file that a diff touches to exactly the approved content, or changes nothing.

        Args:
            diff: The approved diff.
            base: What it was made against.
            index: Whether the touched files are staged too.

        Raises:
            InvalidDiff: The diff does not apply to its base.
            InvalidInput: A touched file has local changes (`details.paths`), or lies behind a symbolic link.
        """
        return worktree.apply_to_worktree(self._open(), diff, base, index=index)

    def stage(self, path: str) -> None:
        """Takes a file of the working tree into the index.

        Raises:
            InvalidInput: Git refuses it, as it does one that it is told to ignore.
        """
        layout = self._open().layout
        arguments = ["-c", "core.fsmonitor=false", "--literal-pathspecs", "add", "--", path]
        try:
            self._git.run(arguments, cwd=layout.root, environment=layout.environment())
        except GitFailed as exc:
            raise InvalidInput(f"{path} is as it was approved; git does not stage it: {exc.words}", path=path) from exc

    def tips(self, branches: Iterable[str]) -> dict[str, str]:
        """Ids of the newest commits of those branches that there are; `HEAD` is what is checked out."""
        handle = self._open()
        return {name: tip for name in branches if (tip := handle.tip(name)) is not None}

    def ground(
        self,
        content: RoundContent,
        changes: Sequence[Change],
        branches: Sequence[str],
        accepted: Iterable[str],
        on: str | None = None,
    ) -> Ground:
        """What a change stands on now: a base branch, and what lies between that and its base.

        Args:
            content: The round.
            changes: What it was validated to change.
            branches: The base branches, or `HEAD` for what a mirror follows; none for a project without.
            accepted: Commits that count as held, with their ancestors, unless another base branch has them; those that
                are not here are passed over.
            on: The base branch; by default the one that its base is nearest to.
        """
        handle = self._open()
        try:
            found = ground.find(handle, content.base, branches, accepted, on)
        except (TimedOut, TooLarge) as error:
            return Ground(content.base, problem=f"What it has beside its base branch is too much. {error.message}")
        if found.tip is None or found.problem is not None or found.tip == found.base:
            return found
        if not found.commits and self.applies_to(changes, found.tip):
            # What it touches is at the tip as it was at its base.
            return found
        with suppress(TimedOut, TooLarge):
            # Otherwise it is seen when the tree is made.
            error = reviewed_tree.conflict(handle, content, found.tip)
            if error is not None:
                said = f"The change does not merge with {found.branch} at {found.tip[:12]}: {error.where}."
                return replace(
                    found, conflict=error.paths, problem=f"{said} Take in {found.branch}, and submit a new round."
                )
        return found

    def holds(self, found: Ground) -> bool:
        """Whether its base branch holds by now what a ground had beside it: its commits, or what these come to."""
        return ground.is_held(self._open(), found)

    def lay_out(
        self, content: RoundContent, folder: Path, title: str, index: Path | None = None, *, tip: str | None = None
    ) -> ReviewedTree:
        """Makes a folder hold exactly a round's result, as a small repository with the project's history.

        Args:
            content: The round.
            folder: Its parent is there. What else it holds is removed.
            title: The message of the commit that the change becomes.
            index: A file, out of reach for whoever works in the folder, by which the folder is moved to the next round;
                without it the folder is made anew.
            tip: The commit of the base branch that the change is merged with; without one its base is taken as it came.

        Raises:
            InvalidInput: The base, or the tip, is not in the repository.
            DoesNotMerge: The change, or what its base has beside the branch, does not merge with the tip.
            InvalidDiff: The diff does not apply to its base, or comes to another digest.
            Unavailable: The disk does not take it.
        """
        return reviewed_tree.lay_out(self._open(), content, folder, index, title, tip)

    def raw_changes(self, base: str | None = None, target: str | None = None) -> tuple[Change, ...]:
        """What a gate compares: the raw difference from `base` to a commit, or to the index without a target.

        Args:
            base: The commit before; HEAD by default.
            target: The commit after; the index by default.

        Raises:
            InvalidInput: A revision names nothing, or a path is unmerged.
        """
        return snapshot.raw_changes(self._open(), base, target)

    def change_on_the_way(
        self, commit: str, *, head: str, base: str | None, branches: Sequence[str]
    ) -> tuple[Change, ...] | None:
        """What a commit changed, if `head` has it and what is built on does not have it yet; null otherwise.

        Args:
            commit: The commit's id.
            head: Id of the commit that the next one goes on top of.
            base: Id of the commit that is built on.
            branches: Without `base`: the branches that are built on; null is answered if there are none.
        """
        return snapshot.change_of(self._open(), commit, head=head, base=base, branches=branches)

    def returned(
        self, commits: Mapping[str, str | None], *, branch: str, head: str, judges: Callable[[Change], bool]
    ) -> Returned:
        """Whether the content of some commits is as it was before them: they are gone, or were taken back.

        Args:
            commits: Each with the branch that it was made on. That branch counts and `branch`; where it is gone, every
                branch that has the commit.
            branch: The branch that is gone on with.
            head: Its newest commit.
            judges: Which files count.

        Raises:
            InvalidInput: There is no commit `head`.
        """
        return returns.look(self._open(), commits, branch=branch, head=head, judges=judges)

    def has_any(self, changes: Sequence[Change], commit: str) -> bool:
        """Whether a commit has one of some changes, maybe among others in the same file.

        Raises:
            InvalidInput: There is no such commit.
        """
        return returns.has_any(self._open(), changes, commit)
