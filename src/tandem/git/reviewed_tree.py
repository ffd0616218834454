"""A folder that holds exactly one round: its base with its change, as a small git repository of ours.

`HEAD` there is the change as one commit on the base, so that git shows, blames and searches with the project's history,
whose objects are read where they are. No configuration, hook or filter of the project or of the user takes part in
making the folder, and none is in it.

A folder that held another round is moved to the next one by the difference. What git needs for that, an index, stands
outside of the folder: whoever worked in there could have changed it, and git would believe it.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tandem.core.scratch import remove_tree
from tandem.errors import InvalidDiff, Unavailable
from tandem.git.changes import Change, Entry, changes_between
from tandem.git.handle import Base, Handle
from tandem.git.paths import quote
from tandem.git.raw import ABSENT_MODE, REGULAR, TREE_OPTIONS, digest_of, encode_path, parse_raw
from tandem.git.runner import GitFailed, make_git_folder
from tandem.git.scratch import Scratch
from tandem.git.validation import apply_diff, encoded, repaired

_GIT = ".git"
_EXACT = b"* -text !eol -ident -filter !working-tree-encoding"
"""Files hold what git stored, to the byte, whatever the project's own attributes say."""

_COMMITTER = b"Tandem <tandem@localhost>"


@dataclass(frozen=True, slots=True)
class ReviewedTree:
    """Where a round's files are.

    Attributes:
        folder: The working tree.
        commit: What `HEAD` is: the change as a commit, or the base itself for a round that changes no file.
        base: The commit that the change stands on; null if there is none.
        objects: Folders that git reads besides, with the project's history.
        tree: Id of the git tree that the folder holds.
    """

    folder: Path
    commit: str
    base: str | None
    objects: tuple[Path, ...]
    tree: str


@dataclass(frozen=True, slots=True)
class RoundContent:
    """What a round was made against, and what it comes to.

    Attributes:
        base: Id of the commit (or tree) that it was validated against.
        digest: What its approval would bind to.
        diff: The diff; null for a text.
        path: The file that a text is the whole content of; null for a diff, and for a text that is no file's.
        text: The text; null for a diff.
    """

    base: str
    digest: str | None = None
    diff: str | None = None
    path: str | None = None
    text: str | None = None


def lay_out(handle: Handle, content: RoundContent, folder: Path, index: Path | None, title: str) -> ReviewedTree:
    """Makes a folder hold a round; see `Repository.lay_out`."""
    base = handle.base(content.base)
    with handle.scratch(large=True) as scratch:
        return _Making(handle, scratch, folder, index or scratch.folder / "tree-index").made(base, content, title)


class _Making:
    """Git at work on one folder."""

    def __init__(self, handle: Handle, scratch: Scratch, folder: Path, index: Path) -> None:
        self._handle = handle
        self._scratch = scratch
        self._folder = folder
        self._index = index
        self._environment = {**scratch.environment, "GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": str(index)}

    def made(self, base: Base, content: RoundContent, title: str) -> ReviewedTree:
        changes = self._changes(base, content)
        parent = base.oid if base.oid != base.tree else None
        # Without a change of its own, the round is what is at the base.
        is_base = parent is not None and not changes
        commit = base.oid if is_base else self._commit(base, parent, changes, title)
        if changes:
            self._ensure_bound(base, commit, content)
        try:
            self._move_to(commit)
        except GitFailed:
            if not self._index.is_file():
                raise
            # What is left of the last round cannot be moved on: it is made anew.
            self._index.unlink()
            self._move_to(commit)
        tree = base.tree if is_base else self._scratch.run(["rev-parse", f"{commit}^{{tree}}"]).text
        return ReviewedTree(self._folder, commit, None if is_base else parent, self._publish(commit), tree)

    def _changes(self, base: Base, content: RoundContent) -> tuple[Change, ...]:
        """What the round changes; its new files are kept in the scratch folder."""
        if content.diff is not None:
            return apply_diff(self._handle, self._scratch, encoded(repaired(content.diff)), base).changes
        if content.path is None or content.text is None:
            return ()
        path, objects = encode_path(content.path), self._handle.layout.objects
        before = self._handle.objects.entries(base.tree, [path]).entries
        blob = self._scratch.run(["hash-object", "-w", "--stdin"], stdin=content.text.encode()).text
        after = {path: Entry(before[path].mode if path in before else REGULAR, blob)}
        return changes_between(before, after, objects.absent)

    def _ensure_bound(self, base: Base, commit: str, content: RoundContent) -> None:
        """Insists that a commit changes exactly what an approval binds to."""
        changes = [*parse_raw(self._scratch.run(["diff-tree", "-r", *TREE_OPTIONS, base.tree, commit]).stdout)]
        is_text = content.diff is None
        found = "".join(f"{blob}:{path}" for path, _, _, _, blob in changes) if is_text else digest_of(changes)
        if found != content.digest:
            raise InvalidDiff("The change comes to another digest than the round's; nothing of it can be shown.")

    def _commit(self, base: Base, parent: str | None, changes: Sequence[Change], title: str) -> str:
        """Id of the change as a commit. Of the tree git reads only the folders that have changed files."""
        message = title.encode()
        gone = [change for change in changes if change.mode_after == ABSENT_MODE]
        lines = [
            b"commit refs/heads/round\nmark :1\ncommitter %s now\ndata %d\n%s" % (_COMMITTER, len(message), message),
            b"from " + parent.encode() if parent is not None else b'M 040000 %s ""' % base.tree.encode(),
            # A file may become a folder: first goes what goes.
            *(b"D " + quote(encode_path(change.path)) for change in gone),
            *(
                b"M %s %s %s"
                % (change.mode_after.encode(), change.blob_after.encode(), quote(encode_path(change.path)))
                for change in changes
                if change.mode_after != ABSENT_MODE
            ),
            b"get-mark :1\n",
        ]
        importing = ["-c", "fastimport.unpackLimit=0", "fast-import", "--quiet", "--date-format=now"]
        return self._scratch.run(importing, stdin=b"\n".join(lines)).text

    def _move_to(self, commit: str) -> None:
        """Makes the folder hold a commit's files and nothing else."""
        self._prepare()
        self._scratch.write_attributes([_EXACT])
        self._run(["read-tree", "--reset", "-u", commit])
        # What others left in the folder: ignored files and repositories inside it, too.
        self._run(["clean", "--quiet", "-x", "-d", "--force", "--force"])

    def _prepare(self) -> None:
        """A folder of which no index of ours says what it holds is made anew."""
        # Git that was ended in time leaves it.
        self._index.with_name(f"{self._index.name}.lock").unlink(missing_ok=True)
        if self._folder.is_symlink() or not self._folder.is_dir() or not self._index.is_file():
            _remove(self._folder)
            self._index.unlink(missing_ok=True)
            self._folder.mkdir(mode=0o700)
        _remove(self._folder / _GIT)

    def _publish(self, commit: str) -> tuple[Path, ...]:
        """The folder's own `.git`, made anew: nothing in it is older than this round. Where more objects are."""
        layout, own = self._handle.layout, self._folder / _GIT
        own.mkdir()
        objects = Path(make_git_folder(str(own), layout.objects.name, bare=False))
        (own / "HEAD").write_text(f"{commit}\n", "ascii")
        shutil.copytree(self._scratch.folder / "objects", objects, dirs_exist_ok=True)
        if self._handle.bases is not None:
            # The repository that they are from is gone when the tree is read.
            shutil.copytree(layout.object_folder, objects, dirs_exist_ok=True)
            with (own / "config").open("a", encoding="ascii") as config:
                config.write("[core]\n\tsymlinks = false\n")
        else:
            (objects / "info").mkdir(exist_ok=True)
            (objects / "info" / "alternates").write_bytes(os.fsencode(layout.object_folder) + b"\n")
        (own / "info").mkdir()
        (own / "info" / "attributes").write_bytes(_EXACT + b"\n")
        shutil.copy2(self._index, own / "index")
        shallow = layout.common_dir / "shallow"
        if shallow.is_file():
            shutil.copy2(shallow, own / "shallow")
        return () if self._handle.bases is not None else _with_alternates(layout.object_folder)

    def _run(self, arguments: Sequence[str]) -> None:
        if self._handle.bases is not None:
            # Somebody said that this is a link: in the folder it is a file with its text.
            arguments = ["-c", "core.symlinks=false", *arguments]
        self._handle.git.run(arguments, cwd=self._folder, environment=self._environment)


def _remove(path: Path) -> None:
    if path.is_symlink() or path.is_file():
        path.unlink()
    elif path.exists() and not remove_tree(str(path)):
        raise Unavailable(f"{path} cannot be removed, and so holds what it held. Delete it.", path=str(path))


def _with_alternates(objects: Path) -> tuple[Path, ...]:
    """A folder of objects, and those that it has objects from, as a clone with `--shared` has."""
    try:
        named = (objects / "info" / "alternates").read_bytes().splitlines()
    except OSError:
        named = []
    return (objects, *(objects / os.fsdecode(line) for line in named if line and not line.startswith(b"#")))
