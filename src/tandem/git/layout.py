"""Where a repository keeps what belongs to it."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tandem.errors import InvalidInput, Unavailable
from tandem.git.changes import FORMATS, ObjectFormat
from tandem.git.runner import Git, GitFailed, clean_environment, ensure_recent

_QUESTIONS = ("--show-object-format", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one work tree.

    Attributes:
        root: Top level of the work tree.
        git_dir: What git keeps for this work tree alone: HEAD, index.
        common_dir: What all work trees of the repository share: objects, branches.
        objects: How objects are named.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    objects: ObjectFormat

    @property
    def object_folder(self) -> Path:
        """Where the repository's objects are."""
        return self.common_dir / "objects"

    @property
    def index(self) -> Path:
        """The index that the next commit is made from."""
        return self.git_dir / "index"

    def ensure_present(self) -> None:
        """Checks that the repository is still there.

        Raises:
            Unavailable: It was moved or deleted.
        """
        if not (self.git_dir / "HEAD").exists():
            raise Unavailable(f"The repository at {self.root} is no longer there; restore it.", path=str(self.root))

    def environment(self, *, isolated: bool = False) -> dict[str, str]:
        """For git in the user's own repository, with the repository's configuration.

        Args:
            isolated: Whether the user's and the system's are left out, and nothing may be fetched.
        """
        extra = {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.root)}
        if self.common_dir != self.git_dir:
            extra["GIT_COMMON_DIR"] = str(self.common_dir)
        return clean_environment(extra, isolated=isolated)


def layout_at(git: Git, folder: Path) -> Layout:
    """The layout of the work tree that contains `folder`.

    Raises:
        InvalidInput: The folder is in no work tree.
        Unavailable: Git is missing, or of an age that cannot say.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder.", field="path", path=str(folder))
    ensure_recent(git)
    try:
        output = git.run(["rev-parse", *_QUESTIONS], cwd=folder, environment=clean_environment({}, isolated=False))
    except GitFailed as exc:
        raise InvalidInput(
            f"{folder} is not in the work tree of a git repository: {exc.words}",
            field="path",
            path=str(folder),
            git=exc.words,
        ) from exc
    answers = os.fsdecode(output.stdout).splitlines()
    if len(answers) != len(_QUESTIONS) or answers[0] not in FORMATS:
        raise InvalidInput(f"The repository at {folder} has a layout that cannot be used.", field="path")
    name, root, git_dir, common_dir = answers
    return Layout(Path(root), Path(git_dir), (folder / common_dir).resolve(), FORMATS[name])


def neutral_folder() -> Path:
    """A folder to run in that ties up nobody's repository."""
    return Path(tempfile.gettempdir())
