"""Where a repository keeps what belongs to it."""

from __future__ import annotations

import os
import shlex
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tandem.errors import InvalidInput, Unavailable
from tandem.git.changes import FORMATS, ObjectFormat
from tandem.git.place import HookRepository, find_repository, is_git_folder, linked_worktrees, unusable
from tandem.git.runner import Git, GitFailed, clean_environment, ensure_recent

_QUESTIONS = ("--show-object-format", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
_STATED = ("GIT_DIR", "GIT_WORK_TREE")


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one work tree.

    Attributes:
        root: Top level of the work tree; the common git folder where nobody works in one.
        git_dir: What git keeps for this work tree alone: HEAD, index.
        common_dir: What all work trees of the repository share: objects, branches.
        objects: How objects are named.
        index_file: Another index than git's own, as hooks of partial commits have it; None for git's own.
        configuration: Variables with git's settings, of whoever works here.
    """

    root: Path
    git_dir: Path
    common_dir: Path
    objects: ObjectFormat
    index_file: Path | None = None
    configuration: tuple[tuple[str, str], ...] = ()

    @property
    def object_folder(self) -> Path:
        """Where the repository's objects are."""
        return self.common_dir / "objects"

    @property
    def index(self) -> Path:
        """The index that the next commit is made from."""
        return self.index_file or self.git_dir / "index"

    def ensure_present(self) -> None:
        """Checks that the repository is still there.

        Raises:
            Unavailable: It was moved or deleted.
        """
        if not (self.git_dir / "HEAD").exists():
            raise Unavailable(f"The repository at {self.root} is no longer there; restore it.", path=str(self.root))

    @property
    def own_folders(self) -> tuple[str, ...]:
        """The git folders that lie in the work tree under a name that git does not know, from its root."""
        root = self.root.resolve()
        inside = {folder.resolve() for folder in (self.common_dir, self.git_dir)} - {root}
        paths = [folder.relative_to(root) for folder in sorted(inside) if folder.is_relative_to(root)]
        return tuple(path.as_posix() for path in paths if ".git" not in path.parts)

    def ensure_outside(self, paths: Iterable[str]) -> None:
        """Checks that no path leads into the git folder: it has secrets, and hooks that run.

        Raises:
            InvalidInput: One does.
        """
        own = self.own_folders
        for path in paths if own else ():
            for folder in own:
                if PurePosixPath(path).is_relative_to(folder):
                    raise InvalidInput(
                        f"{path} is in {folder}, the git folder itself, which is never submitted or changed. If git"
                        f" tracks it, take it out: git rm -r --cached --quiet -- {shlex.quote(f':/{folder}')}",
                        field="path",
                        path=path,
                    )

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
        # Without a work tree of its own git would look for the one of its configuration, which may be gone.
        extra = {"GIT_DIR": str(self.git_dir), "GIT_WORK_TREE": str(self.root)}
        if self.common_dir != self.git_dir:
            extra["GIT_COMMON_DIR"] = str(self.common_dir)
        if not isolated:
            extra |= dict(self.configuration)
        if self.index_file is not None:
            extra["GIT_INDEX_FILE"] = str(self.index_file)
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
        stated = {"GIT_DIR": str((git_dir or folder).resolve()), "GIT_WORK_TREE": str(folder)}
    environment = clean_environment(stated, isolated=False)
    try:
        output = git.run(["rev-parse", *_QUESTIONS], cwd=folder, environment=environment)
    except GitFailed as exc:
        ensure_usable(find_repository(str(folder)))
        raise InvalidInput(
            f"{folder} is not in the work tree of a git repository: {exc.words}",
            field="path",
            path=str(folder),
            git=exc.words,
        ) from exc
    answers = os.fsdecode(output.stdout).splitlines()
    if len(answers) != len(_QUESTIONS) or answers[0] not in FORMATS:
        ensure_usable(find_repository(str(folder)))
        raise InvalidInput(f"The repository at {folder} has a layout that cannot be used.", field="path")
    name, root, own, common = answers
    return Layout(Path(root), Path(own), (folder / common).resolve(), FORMATS[name])


def ensure_usable(place: HookRepository | None) -> None:
    """Checks that a repository that was found is one to work in.

    Raises:
        InvalidInput: It is not; says why, and what to do.
    """
    trouble = None if place is None else unusable(place)
    if trouble is not None:
        said, way = trouble
        raise InvalidInput(f"{said} {way[:1].upper()}{way[1:]}", field="path")


def fetching(git: Git, folder: Path, oid: str) -> str:
    """The sentence with the command that brings an object to the repository of a folder."""
    # The working tree that a git folder names may be gone.
    own = {} if (folder / ".git").exists() else {"GIT_DIR": str(folder), "GIT_WORK_TREE": str(folder)}
    environment = clean_environment(own, isolated=False)
    remotes = git.run(["remote"], cwd=folder, environment=environment, accept=(0, 128)).text.split()
    if not remotes:
        return "It has no remote to bring it from: fetch it there from a repository that has it."
    remote = "origin" if "origin" in remotes else remotes[0]
    at = shlex.quote(str(folder))
    return f"Bring it with `git {f'--git-dir={at} --work-tree={at}' if own else f'-C {at}'} fetch {remote} {oid}`."


def _is_current(folder: Path) -> bool:
    return "GIT_DIR" in os.environ and folder.resolve() == Path.cwd()


def neutral_folder() -> Path:
    """A folder to run in that ties up nobody's repository."""
    return Path(tempfile.gettempdir())
