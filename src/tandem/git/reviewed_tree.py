"""A folder that holds the reviewed tree: the ground of a round with its change, as a small git repository of ours.

The ground is the tip of the base branch, merged with what the round's base has beside it. `HEAD` is the change as one
commit on that, so that git shows, blames and searches with the project's history, whose objects are read where they
are. No configuration, hook or filter of the project or of the user takes part in making the folder, and none is in it.

A folder that held another round is moved to the next one by the difference. What git needs for that, an index, stands
outside of the folder: programs that worked in there could have changed it, and git would believe it.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tandem.core.scratch import remove_tree
from tandem.core.visible import shortened, visible_line
from tandem.errors import InvalidDiff, Unavailable
from tandem.git.changes import Change, Entry, changes_between
from tandem.git.ground import merged, relation
from tandem.git.handle import Base, Handle
from tandem.git.layout import IMPORTING, Scratch, imported_commit
from tandem.git.raw import ABSENT_MODE, REGULAR, digest_of, encode_path, quote
from tandem.git.runner import BoundGit, GitFailed, make_git_folder
from tandem.git.validation import apply_diff, encoded, repaired

_GIT = ".git"
_EXACT = b"* -text !eol -ident -filter !working-tree-encoding"
"""Files hold what git stored, to the byte, in spite of the project's own attributes."""

_DATE = re.compile(rb"^committer .* (\d+ [+-]\d{4})$", re.MULTILINE)
_FIRST_DATE = b"0 +0000"
_SHOWN = 20
_BY_TEXT = ("-c", "core.symlinks=false")
"""A link is a file with its text: it could lead anywhere."""


@dataclass(frozen=True, slots=True)
class ReviewedTree:
    """Where a round's files are.

    Attributes:
        folder: The working tree.
        commit: What `HEAD` is: the change as a commit, or the ground itself for a round that changes no file. Its id
            follows from the files, the history and the title alone.
        base: The commit that the change stands on; None if there is none.
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
    """A round's base, its content, and the digest of the result.

    Attributes:
        base: Id of the commit (or tree) that it was validated against.
        digest: What its approval would bind to.
        diff: The diff; None for a text.
        path: The file that a text is the whole content of; None for a diff, and for a text that is no file's.
        text: The text; None for a diff.
    """

    base: str
    digest: str | None = None
    diff: str | None = None
    path: str | None = None
    text: str | None = None


class DoesNotMerge(InvalidDiff):
    """A change, or what its base has, does not merge with the tip of the base branch.

    Attributes:
        paths: The files that do not merge; none where the two have no commit in common.
        where: That in words.
    """

    def __init__(self, paths: Sequence[str]) -> None:
        shown = ", ".join(shortened([*map(visible_line, paths)], _SHOWN, "{} more"))
        self.where = f"conflict in {shown}" if paths else "they have no commit in common here"
        super().__init__(
            f"It does not merge with the tip of its base branch: {self.where}. Rebase it, or merge that branch into its"
            " own, and submit a new round.",
            paths=[*paths],
        )
        self.paths = tuple(paths)


def lay_out(
    handle: Handle,
    content: RoundContent,
    folder: Path,
    title: str,
    index: Path | None = None,
    *,
    tip: str | None = None,
) -> ReviewedTree:
    """Makes a folder hold exactly a round's result, as a small repository with the project's history.

    Args:
        handle: The repository.
        content: The round.
        folder: Its parent is there. What else it holds is removed.
        title: The message of the commit that the change becomes.
        index: A file, out of reach of programs that work in the folder, by which the folder is moved to the next round;
            without it the folder is made again.
        tip: The commit of the base branch that the change is merged with; without one its base is taken as it came.

    Raises:
        InvalidInput: The base, or the tip, is not in the repository.
        DoesNotMerge: The change, or what its base has beside the branch, does not merge with the tip.
        InvalidDiff: The diff does not apply to its base, or comes to another digest.
        Unavailable: The disk does not take it.
    """
    with handle.scratch(large=True) as scratch:
        making = _Making(handle, scratch, folder, index or scratch.folder / "tree-index")
        return making.made(_Standing(handle, scratch, content, title).found(tip))


def conflict(handle: Handle, content: RoundContent, tip: str) -> DoesNotMerge | None:
    """Why a round does not merge with a tip; None if it does, or changes nothing."""
    with handle.scratch(large=True) as scratch:
        standing = _Standing(handle, scratch, content, "")
        try:
            if standing.merges(tip):
                standing.found(tip)
        except DoesNotMerge as error:
            return error
    return None


class _Standing:
    """A round as a commit on its ground, in a scratch folder."""

    def __init__(self, handle: Handle, scratch: Scratch, content: RoundContent, title: str) -> None:
        self._handle = handle
        self._scratch = scratch
        self._content = content
        self._title = title
        self._date = _FIRST_DATE

    def found(self, tip: str | None) -> tuple[str, str | None, str]:
        """The ids of the commit, of the one that it stands on, and of the tree.

        Args:
            tip: The tip of the base branch; None to take the base as it came.

        Raises:
            DoesNotMerge: They do not merge.
        """
        content = self._content
        base = self._handle.base(content.base)
        ground = self._ground(base, base if tip is None else self._handle.base(tip))
        if content.diff is None:
            # A text is approved as it is; other changes of its file do not count.
            base = ground
        parent = ground.oid if ground.oid != ground.tree else None
        changes = self._changes(base)
        if not changes and parent is not None:
            return parent, None, ground.tree
        side = self._commit(base.tree, (base.oid,) if base.oid != base.tree else (), changes)
        if changes:
            self._ensure_bound(base, side)
        if tip is None or ground == base:
            return side, parent, self._scratch.run(["rev-parse", f"{side}^{{tree}}"]).text
        tree = self._merged(tip, side)
        return self._commit(tree, (ground.oid,)), parent, tree

    def merges(self, tip: str) -> bool:
        """Whether a tip has something that the round's base has not.

        Raises:
            DoesNotMerge: They have no commit in common.
        """
        base = self._handle.base(self._content.base)
        return self._ground(base, self._handle.base(tip)) != base

    def _ground(self, base: Base, tip: Base) -> Base:
        """What the change goes onto: the tip, the base where that has all of the tip, or else both merged."""
        if base.oid == base.tree != tip.oid:
            raise DoesNotMerge(())
        common = base.oid if base.oid == tip.oid else relation(self._scratch, base.oid, tip.oid)
        found = tip if common == base.oid else base if common == tip.oid else None
        self._date = max(
            map(self._date_of, (tip, base) if found is None else (found,)), key=lambda date: int(date.split()[0])
        )
        if found is not None:
            return found
        tree = self._merged(tip.oid, base.oid)
        return Base(self._commit(tree, (tip.oid, base.oid)), tree)

    def _date_of(self, base: Base) -> bytes:
        """A commit's own date: commits made on it get the same date, and so always the same id."""
        [commit] = self._handle.objects.find([base.oid.encode()])
        found = None if commit is None else _DATE.search(commit.content.partition(b"\n\n")[0])
        return _FIRST_DATE if found is None else found.group(1)

    def _merged(self, tip: str, side: str) -> str:
        tree, paths = merged(self._scratch, tip, side)
        if tree is None or paths:
            raise DoesNotMerge(paths)
        return tree

    def _changes(self, base: Base) -> tuple[Change, ...]:
        """What the round changes; its new files are kept in the scratch folder."""
        content = self._content
        if content.diff is not None:
            return apply_diff(self._handle, self._scratch, encoded(repaired(content.diff)), base).changes
        if content.path is None or content.text is None:
            return ()
        path = encode_path(content.path)
        # Asked in the scratch folder, where the ground may have been made.
        there = self._scratch.run(["ls-tree", "-z", base.tree, "--", path.decode()]).text.split()
        before = {path: Entry(there[0], there[2])} if there else {}
        blob = self._scratch.write_blob(content.text.encode())
        after = {path: Entry(there[0] if there else REGULAR, blob)}
        return changes_between(before, after, self._handle.layout.objects.absent)

    def _ensure_bound(self, base: Base, commit: str) -> None:
        """Insists that a commit changes exactly what an approval binds to."""
        changes = self._scratch.difference(base.tree, commit)
        is_text = self._content.diff is None
        found = "".join(f"{blob}:{path}" for path, _, _, _, blob in changes) if is_text else digest_of(changes)
        if found != self._content.digest:
            raise InvalidDiff("The change comes to another digest than the round's; nothing of it can be shown.")

    def _commit(self, tree: str, parents: Sequence[str], changes: Sequence[Change] = ()) -> str:
        """Id of a commit of a tree with changes. Of the tree git reads only the folders that have changed files."""
        lines = [f"{'merge' if at else 'from'} {oid}".encode() for at, oid in enumerate(parents)]
        lines.append(b'M 040000 %s ""' % tree.encode())
        # Deletions first: a file may become a folder.
        for change in sorted(changes, key=lambda change: change.mode_after != ABSENT_MODE):
            kept = f"M {change.mode_after} {change.blob_after} ".encode()
            name = quote(encode_path(change.path))
            lines.append((b"D " if change.mode_after == ABSENT_MODE else kept) + name)
        return self._scratch.run(IMPORTING, stdin=imported_commit(1, self._date, self._title, lines)).text


class _Making:
    """Git at work on one folder."""

    def __init__(self, handle: Handle, scratch: Scratch, folder: Path, index: Path) -> None:
        self._handle = handle
        self._scratch = scratch
        self._folder = folder
        self._index = index
        environment = {**scratch.environment, "GIT_WORK_TREE": str(folder), "GIT_INDEX_FILE": str(index)}
        self._run = BoundGit(handle.git, environment, folder, _BY_TEXT).run

    def made(self, standing: tuple[str, str | None, str]) -> ReviewedTree:
        commit, parent, tree = standing
        try:
            self._move_to(commit)
        except GitFailed:
            if not self._index.is_file():
                raise
            # The last round's folder cannot be moved on: it is made again.
            self._index.unlink()
            self._move_to(commit)
        return ReviewedTree(self._folder, commit, parent, self._publish(commit), tree)

    def _move_to(self, commit: str) -> None:
        """Makes the folder hold a commit's files and nothing else."""
        self._prepare()
        self._scratch.write_attributes([_EXACT])
        self._run(["read-tree", "--reset", "-u", commit])
        # What others left in the folder: ignored files and repositories inside it, too.
        self._run(["clean", "--quiet", "-x", "-d", "--force", "--force"])

    def _prepare(self) -> None:
        """Make the folder again if no index of ours describes it."""
        # Git that was ended in time leaves it.
        self._index.with_name(f"{self._index.name}.lock").unlink(missing_ok=True)
        if self._folder.is_symlink() or not self._folder.is_dir() or not self._index.is_file():
            _remove(self._folder)
            self._index.unlink(missing_ok=True)
            self._folder.mkdir(mode=0o700)
        _remove(self._folder / _GIT)

    def _publish(self, commit: str) -> tuple[Path, ...]:
        """Makes the folder's own `.git`, with nothing older than this round; the folders that have more objects."""
        layout, own = self._handle.layout, self._folder / _GIT
        own.mkdir()
        objects = Path(make_git_folder(str(own), layout.objects.name, bare=False))
        (own / "HEAD").write_text(f"{commit}\n", "ascii")
        shutil.copytree(self._scratch.folder / "objects", objects, dirs_exist_ok=True)
        with (own / "config").open("a", encoding="ascii") as config:
            config.write("[core]\n\tsymlinks = false\n")
        if self._handle.bases is not None:
            # The repository that they are from is gone when the tree is read.
            shutil.copytree(layout.object_folder, objects, dirs_exist_ok=True)
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


def _remove(path: Path) -> None:
    if not remove_tree(str(path)):
        raise Unavailable(f"{path} cannot be removed, and so keeps its old content. Delete it.", path=str(path))


def _with_alternates(objects: Path) -> tuple[Path, ...]:
    """A folder of objects, and those that it has objects from, as a clone with `--shared` has."""
    try:
        named = (objects / "info" / "alternates").read_bytes().splitlines()
    except OSError:
        named = []
    return (objects, *(objects / os.fsdecode(line) for line in named if line and not line.startswith(b"#")))
