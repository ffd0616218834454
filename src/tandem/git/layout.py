"""Where a repository keeps what belongs to it."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tandem.errors import InvalidInput, Unavailable
from tandem.git.changes import FORMATS, ObjectFormat
from tandem.git.place import find_repository, is_git_folder, linked_worktrees
from tandem.git.runner import Git, clean_environment, ensure_recent

_QUESTIONS = ("--show-object-format", "--absolute-git-dir", "--git-common-dir", "--show-toplevel")
_STATED = ("GIT_DIR", "GIT_WORK_TREE")


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one work tree.

    Attributes:
        root: Top level of the work tree; the common git folder where nobody works in one.
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

    def module_folders(self, path: str) -> Iterator[Path]:
        """The git folders that may have a submodule's commits: those of its checkouts, then all that git keeps.

        A submodule that was renamed or moved, or is one of a submodule's, has another folder than its path says.
        """
        for top in (self.root, *map(Path, linked_worktrees(str(self.common_dir)))):
            place = find_repository(str(top / path)) if (top / path / ".git").exists() else None
            if place is not None and not (top / path).is_symlink():
                yield Path(place.common_dir)
        for own in ("modules", "worktrees"):
            for folder, inner, _ in os.walk(self.common_dir / own):
                if is_git_folder(folder):
                    yield Path(folder)
                    # Its own submodules, and those of its working trees.
                    inner[:] = [name for name in inner if name in {"modules", "worktrees"}]

    def environment(self, *, isolated: bool = False) -> dict[str, str]:
        """For git in the user's own repository, with the repository's configuration.

        Args:
            isolated: Whether the user's and the system's are left out, and nothing may be fetched.
        """
        extra = {"GIT_DIR": str(self.git_dir)}
        if self.root != self.git_dir:
            extra["GIT_WORK_TREE"] = str(self.root)
        if self.common_dir != self.git_dir:
            extra["GIT_COMMON_DIR"] = str(self.common_dir)
        return clean_environment(extra, isolated=isolated)


def layout_at(git: Git, folder: Path, git_dir: Path | None = None) -> Layout:
    """The layout of the work tree that contains `folder`, or of the common git folder that it is.

    Args:
        git: The program.
        folder: Where to look. In the current folder `GIT_DIR` and `GIT_WORK_TREE` count, as for git itself.
        git_dir: Its git folder, where it is known: then `folder` is the top.

    Raises:
        InvalidInput: The folder is in no work tree.
        Unavailable: Git is missing, or of an age that cannot say.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder.", field="path", path=str(folder))
    ensure_recent(git)
    stated = {name: os.environ[name] for name in _STATED if name in os.environ} if _is_current(folder) else {}
    if git_dir is not None or (not stated and not (folder / ".git").exists() and is_git_folder(str(folder))):
        git_dir = (git_dir or folder).resolve()
        stated = {"GIT_DIR": str(git_dir)} | ({"GIT_WORK_TREE": str(folder)} if folder.resolve() != git_dir else {})
    environment = clean_environment(stated, isolated=False)
    # Without a work tree it says all but the last.
    output = git.run(["rev-parse", *_QUESTIONS], cwd=folder, environment=environment, accept=(0, 128))
    answers = os.fsdecode(output.stdout).splitlines()
    has_top = len(answers) == len(_QUESTIONS)
    if not has_top and not (git_dir and len(answers) == len(_QUESTIONS) - 1):
        raise InvalidInput(
            f"{folder} is not in the work tree of a git repository: {output.words}",
            field="path",
            path=str(folder),
            git=output.words,
        )
    name, own, common = answers[:3]
    if name not in FORMATS:
        raise InvalidInput(f"The repository at {folder} has a layout that cannot be used.", field="path")
    root = Path(own) if git_dir == folder.resolve() else Path(answers[3])
    return Layout(root, Path(own), (folder / common).resolve(), FORMATS[name])


def fetching(git: Git, folder: Path, oid: str) -> str:
    """The command that brings an object to the repository of a folder, as it is made where it has no remote."""
    environment = clean_environment({}, isolated=False)
    remotes = git.run(["remote"], cwd=folder, environment=environment, accept=(0, 128)).text.split()
    named = "origin" if "origin" in remotes or not remotes else remotes[0]
    first = "" if remotes else "git remote add origin URL, then "
    return f"{first}git -C {shlex.quote(str(folder))} fetch {named} {oid}"


def _is_current(folder: Path) -> bool:
    return "GIT_DIR" in os.environ and folder.resolve() == Path.cwd()


def neutral_folder() -> Path:
    """A folder to run in that ties up nobody's repository."""
    return Path(tempfile.gettempdir())
