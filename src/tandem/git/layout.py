"""Where a repository keeps what belongs to it, and a private git folder over it for one question.

In that nothing is written to the user's repository, and nothing of it is obeyed. Its index is a file of version 2,
written and read here without starting git.
"""

from __future__ import annotations

import os
import shlex
import shutil
import struct
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Self

from tandem.core.scratch import ScratchFolder
from tandem.errors import InternalError, InvalidInput, Unavailable
from tandem.git.changes import FORMATS, Change, Entry, ObjectFormat, parse_raw
from tandem.git.place import HookRepository, find_repository, is_git_folder, linked_worktrees, unusable
from tandem.git.raw import TREE_OPTIONS, quote
from tandem.git.runner import BoundGit, Git, GitFailed, clean_environment, ensure_recent, make_git_folder, memory_folder

_QUESTIONS = ("--show-object-format", "--show-toplevel", "--absolute-git-dir", "--git-common-dir")
_STATED = ("GIT_DIR", "GIT_WORK_TREE")


@dataclass(frozen=True, slots=True)
class Layout:
    """The folders of one work tree.

    Attributes:
        root: Top level of the work tree; the common git folder if there is none.
        git_dir: What git keeps for this work tree alone: HEAD, index.
        common_dir: What all work trees of the repository share: objects, branches.
        objects: How objects are named.
        index_file: Another index than git's own, as hooks of partial commits have it; None for git's own.
        configuration: Variables with git's settings, of the person or agent who works here.
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


def layout_at(git: Git, folder: Path) -> Layout:
    """The layout of the work tree that contains `folder`, or of the common git folder that it is.

    Args:
        git: The program.
        folder: Where to look. In the current folder `GIT_DIR` and `GIT_WORK_TREE` count, as for git itself.

    Raises:
        InvalidInput: The folder is in no work tree.
        Unavailable: Git is missing, or of an age that cannot say.
    """
    if not folder.is_dir():
        raise InvalidInput(f"{folder} is not a folder.", field="path", path=str(folder))
    ensure_recent(git)
    is_current = "GIT_DIR" in os.environ and folder.resolve() == Path.cwd()
    stated = {name: os.environ[name] for name in _STATED if is_current and name in os.environ}
    if not stated and not (folder / ".git").exists() and is_git_folder(str(folder)):
        stated = {"GIT_DIR": str(folder.resolve()), "GIT_WORK_TREE": str(folder)}
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


def neutral_folder() -> Path:
    """A folder to run in that keeps no repository in use."""
    return Path(tempfile.gettempdir())


class Scratch(BoundGit):
    """A bare repository of our own over the objects of another, gone when the block ends.

    Args:
        git: The program.
        layout: The other repository.
        large: Whether whole files of any size may be kept here, for which memory is no place.
    """

    def __init__(self, git: Git, layout: Layout, *, large: bool = False) -> None:
        self._layout = layout
        self._folder = ScratchFolder("git", None if large else memory_folder())
        self.folder = Path(self._folder.name)
        environment = clean_environment(
            {
                "GIT_DIR": str(self.folder),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": listed_folder(layout.object_folder),
                # Which commits a shallow clone has no parents of; without it a walk would end in an error.
                "GIT_SHALLOW_FILE": str(layout.common_dir / "shallow"),
                "HOME": str(self.folder),
                "XDG_CONFIG_HOME": str(self.folder),
            },
            isolated=True,
        )
        super().__init__(git, environment, self.folder)

    def __enter__(self) -> Self:
        try:
            make_git_folder(self._folder.name, self._layout.objects.name)
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def write_blob(self, content: bytes) -> str:
        """Id of a blob with this content, kept here."""
        return self.run(["hash-object", "-w", "--no-filters", "--stdin"], stdin=content).text

    def difference(self, before: str, after: str) -> tuple[Change, ...]:
        """What changed from one commit or tree to another, in path order.

        Raises:
            InvalidInput: A path is unmerged.
        """
        return parse_raw(self.run(["diff-tree", "-r", *TREE_OPTIONS, before, after]).stdout)

    def write_index(self, entries: Mapping[bytes, Entry]) -> None:
        """Makes the private index hold exactly these entries."""
        (self.folder / "index").write_bytes(encode_index(entries, self._layout.objects))

    def read_index(self) -> dict[bytes, Entry]:
        """The private index's entries."""
        return decode_index((self.folder / "index").read_bytes(), self._layout.objects)

    def tree_of(self, entries: Mapping[bytes, Entry]) -> str:
        """Id of a tree with exactly these entries, kept here."""
        self.write_index(entries)
        return self.run(["write-tree"]).text

    def write_attributes(self, lines: Sequence[bytes]) -> None:
        """The only attributes that git finds here."""
        folder = self.folder / "info"
        folder.mkdir(exist_ok=True)
        (folder / "attributes").write_bytes(b"".join(line + b"\n" for line in lines))

    @property
    def no_hooks(self) -> str:
        """The setting that keeps the user's hooks from running."""
        return f"core.hooksPath={self.folder / 'no-hooks'}"

    def borrow_index(self) -> dict[str, str]:
        """For git in the user's own repository, but with a copy of its index and with new objects kept here."""
        layout = self._layout
        copy = self.folder / "borrowed-index"
        if layout.index.exists():
            # With its times: git trusts a file's size and time only when they are older than the index.
            shutil.copy2(layout.index, copy)
        return {
            **layout.environment(),
            "GIT_INDEX_FILE": str(copy),
            "GIT_OBJECT_DIRECTORY": str(self.folder / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": listed_folder(layout.object_folder),
        }


def listed_folder(folder: Path) -> str:
    """A folder as one item of git's list of object folders."""
    text = str(folder)
    if os.pathsep in text or text.startswith(('"', "#")):
        return os.fsdecode(quote(os.fsencode(text)))
    return text


IMPORTING = ("-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--force", "--date-format=raw")


def imported_commit(mark: int, date: bytes, message: str, changes: Iterable[bytes]) -> bytes:
    """A commit by us for git's `IMPORTING`, which answers with its id.

    Args:
        mark: Its number among the commits of one import, from 1.
        date: Seconds since the epoch and time zone.
        message: The message.
        changes: What git is told of parents and files.
    """
    data = message.encode()
    head = b"commit refs/heads/import-%d\nmark :%d\ncommitter Tandem <tandem@localhost> %s" % (mark, mark, date)
    return b"\n".join([head, b"data %d\n%s" % (len(data), data), *changes, b"get-mark :%d\n" % mark])


_HEADER = struct.Struct(">4sLL")
_SIGNATURE = b"DIRC"
_VERSION = 2
_READABLE = (2, 3)
# Times, device, inode, mode, owner and size; only the mode counts in an index that no working tree stands behind.
_STAT = struct.Struct(">24xL12x")
_FLAGS = struct.Struct(">H")
_LONGEST_NAME = 0xFFF
_EXTENDED = 0x4000
_ALIGNMENT = 8


def encode_index(entries: Mapping[bytes, Entry], objects: ObjectFormat) -> bytes:
    """The bytes of an index that holds exactly these entries."""
    parts = [_HEADER.pack(_SIGNATURE, _VERSION, len(entries))]
    for path in sorted(entries):
        mode, oid = entries[path]
        entry = _STAT.pack(int(mode, 8)) + bytes.fromhex(oid) + _FLAGS.pack(min(len(path), _LONGEST_NAME)) + path
        parts.append(entry + b"\0" * (_ALIGNMENT - len(entry) % _ALIGNMENT))
    body = b"".join(parts)
    return body + objects.hash(body)


def decode_index(data: bytes, objects: ObjectFormat) -> dict[bytes, Entry]:
    """The entries of an index that git wrote without a setting of its own.

    Raises:
        InternalError: The file is of another version than git writes by itself.
    """
    signature, version, count = _HEADER.unpack_from(data)
    if signature != _SIGNATURE or version not in _READABLE:
        raise InternalError("git wrote an index that cannot be read back.", version=version)
    entries: dict[bytes, Entry] = {}
    start = _HEADER.size
    for _ in range(count):
        (mode,) = _STAT.unpack_from(data, start)
        at = start + _STAT.size
        oid = data[at : at + objects.size_bytes].hex()
        at += objects.size_bytes
        (flags,) = _FLAGS.unpack_from(data, at)
        at += _FLAGS.size + (2 if flags & _EXTENDED else 0)
        end = data.index(b"\0", at)
        entries[data[at:end]] = Entry(f"{mode:06o}", oid)
        start = end + _ALIGNMENT - (end - start) % _ALIGNMENT
    return entries
