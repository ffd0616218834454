"""One registered repository and everything that is asked of it."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Concatenate, Generic, ParamSpec, Self, TypeVar

from tandem.core.scratch import ScratchFolder
from tandem.errors import InvalidInput, TimedOut, TooLarge, Unavailable
from tandem.git import base_files, drawing, ground, reviewed_tree, rounds, snapshot, validation, worktree
from tandem.git.base_files import BaseFile
from tandem.git.changes import Change, Entry, ValidatedContent
from tandem.git.ground import Ground
from tandem.git.handle import Handle
from tandem.git.layout import Layout, layout_at
from tandem.git.names import encode_path
from tandem.git.objects import ObjectReader
from tandem.git.reviewed_tree import RoundContent
from tandem.git.runner import Git, GitFailed, Limits

Given = ParamSpec("Given")
Found = TypeVar("Found")


class _Asked(Generic[Given, Found]):
    """A question that a module answers for a handle, as a method of `Repository`; its function says what it does."""

    def __init__(self, function: Callable[Concatenate[Handle, Given], Found]) -> None:
        self._function = function

    def __get__(self, repository: Repository, _: type[Repository]) -> Callable[Given, Found]:
        # Opened only when it is called, as that may be in another thread.
        def ask(*given: Given.args, **named: Given.kwargs) -> Found:
            return self._function(repository.opened(), *given, **named)

        return ask


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

    validate_diff = _Asked(validation.validate_diff)
    base_files = _Asked(base_files.read)
    text_change = _Asked(validation.text_change)
    unread = _Asked(drawing.unread)
    interdiff = _Asked(rounds.interdiff)
    file_of_round = _Asked(rounds.read_file)
    diff_with_edits = _Asked(rounds.diff_with_edits)
    working_diff = _Asked(snapshot.working_diff)
    apply_to_worktree = _Asked(worktree.apply_to_worktree)
    holds = _Asked(ground.is_held)
    lay_out = _Asked(reviewed_tree.lay_out)
    raw_changes = _Asked(snapshot.raw_changes)
    change_on_the_way = _Asked(snapshot.change_of)
    returned = _Asked(snapshot.returned)
    has_any = _Asked(snapshot.has_any)

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

    def opened(self) -> Handle:
        """What questions are answered with; read at the first of them."""
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
        self.opened().layout.ensure_outside([path])

    @property
    def common_dir(self) -> Path:
        """The git folder that all work trees of the repository share."""
        return self.opened().layout.common_dir

    @property
    def object_format(self) -> str:
        """`sha1` or `sha256`."""
        return self.opened().layout.objects.name

    @property
    def is_partial(self) -> bool:
        """Whether it has only some files of some bases."""
        return self.opened().bases is not None

    def has_base(self, base: str | None) -> bool:
        """Whether a change can be validated against a base here."""
        try:
            self.opened().base(base)
        except InvalidInput:
            return False
        return True

    def resolve_base(self, base: str | None) -> str:
        """Id of the commit (or tree) that `base` names: HEAD by default, the empty tree before the first commit.

        Raises:
            InvalidInput: There is no such commit or tree (`details.field` is `base`).
        """
        return self.opened().base(base).oid

    def file_change(self, path: str, text: str, base: str | None = None) -> ValidatedContent:
        """As `text_change`, but as the diff that it comes to, with a digest like that of every diff.

        Raises:
            InvalidInput: As there, and where the file has that content already.
        """
        handle = self.opened()
        return snapshot.file_diff(handle, validation.text_change(handle, path, text, base), text)

    def applies_to(self, changes: Iterable[Change], revision: str = "HEAD") -> bool:
        """Whether all touched paths are, at `revision`, exactly as before the changes.

        Raises:
            InvalidInput: There is no such revision.
        """
        handle = self.opened()
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
        handle = self.opened()
        wanted = {encode_path(change.path): Entry(change.mode_after, change.blob_after) for change in changes}
        return tuple(branch for branch in branches if snapshot.has_landed(handle, wanted, base, branch))

    def stage(self, path: str) -> None:
        """Takes a file of the working tree into the index.

        Raises:
            InvalidInput: Git refuses it, as it does one that it is told to ignore.
        """
        layout = self.opened().layout
        arguments = ["-c", "core.fsmonitor=false", "--literal-pathspecs", "add", "--", path]
        try:
            self._git.run(arguments, cwd=layout.root, environment=layout.environment())
        except GitFailed as exc:
            raise InvalidInput(f"{path} is as it was approved; git does not stage it: {exc.words}", path=path) from exc

    def tips(self, branches: Iterable[str]) -> dict[str, str]:
        """Ids of the newest commits of those branches that there are; `HEAD` is what is checked out."""
        handle = self.opened()
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
        handle = self.opened()
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
