"""Brings the working tree to exactly the approved content, or leaves it as it is."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from tandem.core.atomic_dirs import Installation
from tandem.errors import InvalidInput, Unavailable
from tandem.git.changes import Change, Entry, changes_between, parse_raw
from tandem.git.handle import Base, Handle
from tandem.git.layout import Scratch, listed_folder
from tandem.git.raw import ABSENT_MODE, GITLINK, RAW_OPTIONS, decode_path, encode_path
from tandem.git.runner import BoundGit
from tandem.git.validation import apply_reviewable, encoded, repaired, text_change

_ATTRIBUTES = ".gitattributes"


@dataclass(frozen=True, slots=True)
class WorktreeUpdate:
    """The result of bringing the working tree to the approved content.

    Attributes:
        written: Files that got new content or a new mode.
        deleted: Files that went.
        already: Files that were as approved before.
        indexed: Whether the index was brought along.
        unstaged: Files that `git add` leaves out of the index: ignored, or outside of the sparse checkout.
    """

    written: tuple[str, ...]
    deleted: tuple[str, ...]
    already: tuple[str, ...]
    indexed: bool = False
    unstaged: tuple[str, ...] = ()

    @property
    def changed(self) -> bool:
        """Whether anything in the working tree had to change."""
        return bool(self.written or self.deleted)


def apply_to_worktree(
    handle: Handle, diff: str, base: str | None = None, *, before: str | None = None, index: bool = False
) -> WorktreeUpdate:
    """Brings every file that a diff touches to exactly the approved content, or changes nothing.

    Args:
        handle: The repository.
        diff: The approved diff.
        base: The base that it was made against.
        before: The diff whose content the files have so far; by default they are as in the base.
        index: Whether the touched files are staged too.

    Raises:
        InvalidDiff: The diff does not apply to its base.
        InvalidInput: A touched file has local changes (`details.paths`), or lies behind a symbolic link.
    """
    found = handle.base(base)

    def changes(scratch: Scratch, content: str) -> tuple[Change, ...]:
        return apply_reviewable(handle, scratch, encoded(repaired(content)), found).changes

    return _bring(handle, found, changes, diff, before, index=index)


def text_to_worktree(
    handle: Handle, path: str, text: str, *, before: str | None = None, index: bool = False
) -> WorktreeUpdate:
    """As `apply_to_worktree`, for the whole content of one file; `before` is its content so far, by default HEAD's."""

    def changes(scratch: Scratch, content: str) -> tuple[Change, ...]:
        found = text_change(handle, path, content).changes
        scratch.write_blob(content.encode())
        return found

    return _bring(handle, handle.base(None), changes, text, before, index=index)


def _bring(
    handle: Handle,
    base: Base,
    changes_of: Callable[[Scratch, str], tuple[Change, ...]],
    content: str,
    before: str | None,
    *,
    index: bool,
) -> WorktreeUpdate:
    with handle.scratch(large=True) as scratch:
        changes = changes_of(scratch, content)
        if before is not None:
            earlier = changes_of(scratch, before)
            there = {encode_path(change.path): change.before for change in (*earlier, *changes)}
            first, then = (there | {encode_path(one.path): one.after for one in side} for side in (earlier, changes))
            changes = changes_between(first, then, handle.layout.objects.absent)
        return _Update(handle, scratch, base, changes).run(index=index)


class _Update:
    """One update of the working tree from a base to what a diff makes of it."""

    def __init__(self, handle: Handle, scratch: Scratch, base: Base, changes: Sequence[Change]) -> None:
        self._handle = handle
        self._scratch = scratch
        self._base = base
        self._changes = changes
        self._root = handle.layout.root
        settings = ("-c", "core.fsmonitor=false", "-c", scratch.no_hooks)
        # The user's working tree, index and filters; and those with the scratch folder's index and objects.
        self._users = BoundGit(handle.git, handle.layout.environment(), self._root, settings)
        private = {
            "GIT_INDEX_FILE": str(scratch.folder / "index"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": listed_folder(scratch.folder / "objects"),
        }
        self._private = BoundGit(handle.git, {**handle.layout.environment(), **private}, self._root, settings)
        self._gone = {change.path for change in changes if change.mode_after == ABSENT_MODE}
        self._left_out = self._entries_left_out()

    def run(self, *, index: bool) -> WorktreeUpdate:
        self._handle.layout.ensure_outside(change.path for change in self._changes)
        for change in self._changes:
            self._ensure_plain(change)
        finished = self._paths_at(after=True)
        started = self._paths_at(after=False)
        self._refuse([change.path for change in self._changes if change.path not in finished | started], "worktree")
        pending = [change for change in self._changes if change.path not in finished]
        self._leave_submodules(pending)
        self._refuse(self._obstructed(pending), "worktree")
        if index:
            self._ensure_index()
        installation = Installation(self._root)
        try:
            self._install(installation, pending)
            self._verify()
            if index:
                self._update_index()
        except BaseException as exc:
            self._take_back(installation, exc)
            raise
        return WorktreeUpdate(
            written=tuple(change.path for change in pending if change.path not in self._gone),
            deleted=tuple(change.path for change in pending if change.path in self._gone),
            already=tuple(change.path for change in self._changes if change.path in finished),
            indexed=index,
            unstaged=() if index else self._unstaged(),
        )

    @staticmethod
    def _take_back(installation: Installation, reason: BaseException) -> None:
        """Undoes a half-made update, and says so where the reason is not an error with a message of its own."""
        left = installation.undo()
        if left:
            raise Unavailable(
                f"The working tree could not be changed ({reason}), and these files could not be put back:"
                f" {', '.join(map(str, left))}. Restore them with `git checkout`.",
                paths=[str(path) for path in left],
            ) from reason
        if isinstance(reason, OSError):
            raise Unavailable(f"The working tree could not be changed ({reason}); nothing was changed.") from reason

    def _file(self, path: str) -> Path:
        return self._root.joinpath(*_name(path).split("/"))

    def _ensure_plain(self, change: Change) -> None:
        """Refuses what cannot be written as a file at its own place."""
        for parent in list(PurePosixPath(_name(change.path)).parents)[:-1]:
            folder = self._root / parent
            if folder.is_symlink():
                raise InvalidInput(
                    f"{parent} is a symbolic link in the working tree; nothing is written through it.",
                    field="worktree",
                    path=change.path,
                )

    def _leave_submodules(self, pending: Iterable[Change]) -> None:
        """Refuses what git does by itself, with commands: of another repository nothing is written here."""
        for change in pending:
            if GITLINK not in {change.mode_before, change.mode_after}:
                continue
            path, at = shlex.quote(change.path), f"git -C {shlex.quote(str(self._root))}"
            way = f"{at} rm --quiet -- {path}"
            if change.mode_after == GITLINK:
                inside = f"git -C {shlex.quote(str(self._file(change.path)))}"
                way = f"{at} submodule update --init -- {path} && {inside} fetch --quiet"
                way += f" && {inside} checkout --quiet {change.blob_after} && {at} add -- {path}"
            raise InvalidInput(
                f"{change.path} is a submodule, which apply does not change. Change it, then run this again: {way}",
                field="worktree",
                path=change.path,
            )

    def _refuse(self, paths: Sequence[str], where: str) -> None:
        named = "index" if where == "index" else "working tree"
        if paths:
            raise InvalidInput(
                f"The {named} has local changes that are neither the state before nor the approved one:"
                f" {', '.join(paths)}. Commit, stash or undo them first; nothing was changed.",
                field=where,
                paths=list(paths),
            )

    def _entries(self, *, after: bool) -> dict[bytes, Entry]:
        """The approved entries, or those before."""
        entries = {encode_path(c.path): c.after if after else c.before for c in self._changes}
        return {path: entry for path, entry in entries.items() if entry.mode != ABSENT_MODE}

    def _paths_at(self, *, after: bool) -> set[str]:
        """The touched paths whose file is, by git's own judgement, as approved (or as before)."""
        entries = self._entries(after=after)
        self._scratch.write_index(entries)
        # Exit status 1 only says that something differs.
        self._private.run(["update-index", "-q", "--really-refresh"], accept=(0, 1))
        differing = set(
            self._private.run(["diff-files", "--ignore-submodules=dirty", "--name-only", "-z"]).stdout.split(b"\0")
        )
        same = {decode_path(path) for path in entries.keys() - differing}
        absent = {change.path for change in self._changes if encode_path(change.path) not in entries}
        left_out = {path for path, entry in self._left_out.items() if entries.get(encode_path(path)) == entry}
        return same | {path for path in absent | left_out if not is_file(self._file(path))}

    @property
    def _is_sparse(self) -> bool:
        return (self._handle.layout.git_dir / "info" / "sparse-checkout").exists()

    def _entries_left_out(self) -> dict[str, Entry]:
        """The touched files that the index has and a sparse checkout left out of the working tree."""
        if not self._is_sparse:
            return {}
        listed = self._users.run(["ls-files", "-t", "--stage", "-z"]).stdout
        touched = {encode_path(change.path): change.path for change in self._changes}
        found: dict[str, Entry] = {}
        for facts, path in (line.split(b"\t", 1) for line in listed.split(b"\0")[:-1]):
            tag, mode, oid, _ = facts.decode("ascii").split(" ")
            if tag == "S" and path in touched:
                found[touched[path]] = Entry(mode, oid)
        return found

    def _unstaged(self) -> tuple[str, ...]:
        """The touched files that `git add` would not stage: ignored ones, and those outside of a sparse checkout."""
        # Git does not know a path that is gone and not in the index.
        there = [c.path for c in self._changes if c.path not in self._gone or c.path in self._left_out]
        paths = {encode_path(path): path for path in there}
        if not paths:
            return ()
        listed = b"\0".join(paths)
        asked = ["check-ignore", "-z", "--stdin"]
        refused = self._users.run(asked, stdin=listed, accept=range(256)).stdout.split(b"\0")
        if self._is_sparse:
            tried = ["--literal-pathspecs", "add", "--dry-run", "--pathspec-from-file=-", "--pathspec-file-nul"]
            refused += self._users.run(tried, stdin=listed, accept=range(256)).stderr.splitlines()
        return tuple(paths[path] for path in dict.fromkeys(refused) if path in paths)

    def _obstructed(self, pending: Iterable[Change]) -> list[str]:
        """Obstacles to files to be written: other files in a folder's place, or the reverse."""
        return [
            obstacle
            for change in pending
            if change.path not in self._gone
            for obstacle in obstacles(self._root, _name(change.path))
            if obstacle not in self._gone
        ]

    def _install(self, installation: Installation, pending: Sequence[Change]) -> None:
        for change in pending:
            if change.path in self._gone:
                installation.delete(self._file(change.path))
        written = [change.path for change in pending if change.path not in self._gone]
        # Attributes decide how the other files are written.
        for group in (
            [path for path in written if PurePosixPath(path).name == _ATTRIBUTES],
            [path for path in written if PurePosixPath(path).name != _ATTRIBUTES],
        ):
            if group:
                staged = self._stage(group)
                for path in group:
                    file = staged.joinpath(*_name(path).split("/"))
                    if file.is_symlink():
                        installation.link(self._file(path), os.readlink(file))  # noqa: PTH115 - a slash at its end stays
                        continue
                    mode = stat.S_IMODE(file.stat().st_mode)
                    installation.write(self._file(path), file.read_bytes(), mode=mode, durable=False)

    def _stage(self, paths: Iterable[str]) -> Path:
        """A folder with the approved files as git would check them out here."""
        entries = self._entries(after=True)
        self._scratch.write_index({name: entries[name] for name in map(encode_path, paths)})
        folder = self._scratch.folder / "checkout"
        self._private.run(["checkout-index", "--all", "--force", "--quiet", f"--prefix={folder.as_posix()}/"])
        return folder

    def _verify(self) -> None:
        wrong = sorted({change.path for change in self._changes} - self._paths_at(after=True))
        if wrong:
            raise Unavailable(
                f"The repository's filters do not restore the approved content of {', '.join(wrong)};"
                " nothing was changed.",
                paths=wrong,
            )

    def _ensure_index(self) -> None:
        """Refuses when the index has something of its own at a touched path."""
        output = self._users.run(["diff-index", "--cached", *RAW_OPTIONS, self._base.tree])
        staged = {change.path: change for change in parse_raw(output.stdout)}
        approved = {change.path: change for change in self._changes}
        self._refuse(
            [path for path, change in staged.items() if path in approved and change != approved[path]], "index"
        )

    def _update_index(self) -> None:
        """Stages the touched files; a folder in a deleted file's place is not one of them."""
        folders = [path for path in self._gone if self._file(path).is_dir()]
        # Of a file that is left out git takes the absence for a deletion.
        staged = {path for path in self._left_out if path not in self._gone and not is_file(self._file(path))}
        kept = [c.path for c in self._changes if c.path not in staged and c.path not in folders]
        self._stage_paths(kept, "--add", "--remove", "--replace")
        if folders:
            self._stage_paths(folders, "--force-remove")

    def _stage_paths(self, paths: Iterable[str], *options: str) -> None:
        stdin = b"".join(encode_path(path) + b"\0" for path in paths)
        self._users.run(["update-index", *options, "-z", "--stdin"], stdin=stdin)


def _name(path: str) -> str:
    """A path of a change as the file system's functions take it."""
    return os.fsdecode(encode_path(path))


def obstacles(root: Path, path: str) -> list[str]:
    """Files in the way of one that will be written: in a folder's place, or in the folder that is in its own."""
    target = root / path
    found = [str(parent) for parent in PurePosixPath(path).parents if is_file(root / parent)]
    if target.is_dir() and not target.is_symlink():
        inside = (Path(folder) / name for folder, _, names in os.walk(target) for name in names)
        found += [file.relative_to(root).as_posix() for file in inside]
    return found


def is_file(path: Path) -> bool:
    """Whether anything but a folder is there; a link counts as itself."""
    return path.is_symlink() or (path.exists() and not path.is_dir())
