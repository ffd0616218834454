"""One registered repository and everything that is asked of it."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Self

from tandem.core.scratch import ScratchFolder
from tandem.errors import InvalidInput, TimedOut, TooLarge
from tandem.git import base_files, drawing, ground, reviewed_tree, rounds, snapshot, travel, validation, worktree
from tandem.git.base_files import BaseFile
from tandem.git.changes import Change
from tandem.git.ground import Ground
from tandem.git.handle import Handle
from tandem.git.layout import layout_at
from tandem.git.objects import ObjectReader
from tandem.git.raw import encode_path
from tandem.git.reviewed_tree import RoundContent
from tandem.git.runner import Git


class Repository(Handle):
    """A work tree of a git repository.

    All methods block and may be called from several threads. Each raises `Unavailable` when git or the repository is
    missing and `TimedOut` when git hangs. Those without a docstring here have one where they are defined.
    """

    @classmethod
    def discover(cls, path: str | Path, git: Git | None = None) -> Self:
        """The repository whose work tree contains `path`, with the index and the settings that the environment names.

        Raises:
            InvalidInput: The path is in no work tree.
        """
        git = git or Git()
        layout = layout_at(git, Path(path))
        stated = os.environ.get("GIT_INDEX_FILE")
        layout = replace(
            layout,
            index_file=layout.root / stated if stated else None,
            # Files that these settings ignore must not be submitted.
            configuration=tuple(one for one in os.environ.items() if one[0].startswith("GIT_CONFIG")),
        )
        found = cls(layout.root, git)
        found._opened = layout, ObjectReader(git, layout)
        return found

    @classmethod
    @contextmanager
    def of_files(cls, bases: Mapping[str, Iterable[BaseFile]], git: Git) -> Generator[Self]:
        """A repository that has some files of some bases and nothing else, gone when the block ends.

        Args:
            bases: The files of each base, by the base's id.
            git: The program.

        Raises:
            InvalidInput: The ids do not go together.
        """
        with ScratchFolder("git") as folder:
            made = cls(Path(folder), git)
            made._opened, made.bases = base_files.opened(git, bases, Path(folder))
            with made:
                yield made

    validate_diff = validation.validate_diff
    base_files = base_files.read
    text_change = validation.text_change
    file_change = snapshot.file_change
    unread = drawing.unread
    interdiff = rounds.interdiff
    file_of_round = rounds.read_file
    diff_with_edits = rounds.diff_with_edits
    find_places = travel.find_places
    is_rebase = travel.is_rebase
    read_excerpts = travel.read_excerpts
    working_diff = snapshot.working_diff
    apply_to_worktree = worktree.apply_to_worktree
    text_to_worktree = worktree.text_to_worktree
    holds = ground.is_held
    lay_out = reviewed_tree.lay_out
    raw_changes = snapshot.raw_changes
    change_on_the_way = snapshot.change_of
    returned = snapshot.returned
    has_any = snapshot.has_any

    def has_base(self, base: str | None) -> bool:
        """Whether a change can be validated against a base here."""
        try:
            self.base(base)
        except InvalidInput:
            return False
        return True

    def resolve_base(self, base: str | None, field: str = "base") -> str:
        """Id of the commit (or tree) that `base` names: HEAD by default, the empty tree before the first commit.

        Raises:
            InvalidInput: There is no such commit or tree; `details.field` is the `field` that named it.
        """
        return self.base(base, field).oid

    def applies_to(self, changes: Iterable[Change], revision: str = "HEAD") -> bool:
        """Whether all touched paths are, at `revision`, exactly as before the changes.

        Raises:
            InvalidInput: There is no such revision.
        """
        return snapshot.has_entries(self, {encode_path(change.path): change.before for change in changes}, revision)

    def landed_on(
        self, changes: Sequence[Change], base: str, branches: Iterable[str], *, now: bool = False
    ) -> tuple[str, ...]:
        """The branches that had all touched files exactly as after the changes, and had not where they began.

        Args:
            changes: The changes.
            base: The commit that they were made against.
            branches: Names of branches, or HEAD; those that do not exist have nothing.
            now: Only their newest commits count. Else earlier ones do, too, unless the files are as before the changes.
        """
        return tuple(one for one in branches if snapshot.has_landed(self, changes, base, one, now=now))

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
            changes: The changes that validation found in it.
            branches: The base branches, or `HEAD` for what a mirror follows; none for a project without.
            accepted: Commits that count as held, with their ancestors, unless another base branch has them; those that
                are not here are passed over.
            on: The base branch; by default the one that its base is nearest to.
        """
        try:
            found = ground.find(self, content.base, branches, accepted, on)
        except (TimedOut, TooLarge) as error:
            return Ground(content.base, problem=f"It has too much beside its base branch. {error.message}")
        if found.tip is None or found.problem is not None or found.tip == found.base:
            return found
        if not found.commits and self.applies_to(changes, found.tip):
            # The files that it touches are at the tip as they were at its base.
            return found
        with suppress(TimedOut, TooLarge):
            # Otherwise it is seen when the tree is made.
            error = reviewed_tree.conflict(self, content, found.tip)
            if error is not None:
                said = f"The change does not merge with {found.branch} at {found.tip[:12]}: {error.where}."
                return replace(
                    found, conflict=error.paths, problem=f"{said} Take in {found.branch}, and submit a new round."
                )
        return found
