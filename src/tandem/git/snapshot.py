"""Questions about a repository: its local changes, the difference that a gate compares, the changes of a commit.

Whether that is still in a branch, or as it was before, is told by content, not by messages.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath

from tandem.errors import InvalidInput, Unavailable
from tandem.git.changes import Change, Entry, ValidatedContent, parse_raw
from tandem.git.drawing import draw, render
from tandem.git.ground import NOTHING_THERE, has, parents_of, relation
from tandem.git.handle import Base, Handle
from tandem.git.layout import Scratch
from tandem.git.place import is_git_folder
from tandem.git.raw import EXECUTABLE, RAW_OPTIONS, REGULAR, decode_path, digest_of, encode_path
from tandem.git.runner import BoundGit, GitFailed
from tandem.git.validation import text_change

_RANGE = re.compile(r"(?P<start>.*?)(?P<dots>\.\.\.?)(?P<end>.*)", re.DOTALL)
_OID = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{40})\b")
_PARENT = re.compile(rb"^parent ([0-9a-f]+)$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Scope:
    """What to submit: by default all of the working tree against HEAD, new files included.

    Where `status.showUntrackedFiles` is `no`, as a person has it whose home folder is the work tree, new files are not.

    Attributes:
        staged: Only what the index holds.
        revision: One commit (against its first parent), `A..B`, or `A...B` (against where they parted).
        new_files: The only new files to take, in spite of the setting; None for all.
    """

    staged: bool = False
    revision: str | None = None
    new_files: tuple[str, ...] | None = None


EVERYTHING = Scope()


@dataclass(frozen=True, slots=True)
class WorkingDiff:
    """A diff to submit.

    Attributes:
        diff: UTF-8, binary files in full; empty when nothing changed.
        base: Id of the commit (or tree) that it is made against.
        left_out: Files that were not taken, each with the reason.
    """

    diff: str
    base: str
    left_out: tuple[str, ...] = ()


def working_diff(handle: Handle, scope: Scope = EVERYTHING) -> WorkingDiff:
    """The diff to submit, with the base to name; by default all of the working tree against HEAD.

    The user's filters run, as they do when the change is committed; their index stays as it is. A commit of the
    same scope has the same digest.

    Raises:
        InvalidInput: The revision names nothing, or conflicts are unresolved.
    """
    if scope.staged and scope.revision is not None:
        raise InvalidInput("Submit either the staged changes or a revision, not both.", field="revision")
    left_out: tuple[str, ...] = ()
    with handle.scratch(large=True) as scratch:
        if scope.revision is not None:
            base, tree = _revisions(handle, scratch, scope.revision)
        else:
            base = handle.base(None)
            tree, left_out = _Staging(handle, scratch).tree(scope)
        if own := handle.layout.own_folders:
            # Deleting files that are there already is allowed.
            asked = ["--literal-pathspecs", "diff-tree", "-r", "-z", "--name-only", "--diff-filter=d"]
            named = scratch.run([*asked, base.tree, tree, "--", *own]).stdout.split(b"\0")
            handle.layout.ensure_outside(map(os.fsdecode, named[:-1]))
        try:
            return WorkingDiff(render(scratch, ["diff-tree", "-r", base.tree, tree]), base.oid, left_out)
        except GitFailed as exc:
            raise _lacking(handle, exc, (base.tree, tree)) from exc


def _lacking(handle: Handle, failure: GitFailed, trees: tuple[str, str]) -> Unavailable:
    """The error for a difference that git cannot read: a partial clone may lack what a revision holds."""
    for oid in _OID.findall(failure.words):
        if handle.objects.find([oid.encode("ascii")])[0] is None:
            at, compared = shlex.quote(str(handle.layout.root)), " ".join(trees)
            return Unavailable(
                f"The repository at {handle.layout.root} lacks the object {oid}, as a partial clone does. Bring it with"
                f" `git -C {at} diff --stat {compared}`, which fetches all that the change needs.",
                actual=oid,
            )
    return failure


def file_change(handle: Handle, path: str, text: str, base: str | None = None) -> ValidatedContent:
    """As `text_change`, but as the diff that it comes to, with a digest like that of every diff.

    Raises:
        InvalidInput: As there, and where the file has that content already.
    """
    found = text_change(handle, path, text, base)
    (change,) = found.changes
    if change.before == change.after:
        raise InvalidInput(f"{change.path} has exactly this content already.", field="description", path=change.path)
    with handle.scratch() as scratch:
        scratch.write_blob(text.encode())
        diff = draw(scratch, handle.base(found.base_commit).tree, found.changes)
    return replace(found, content=diff, digest=digest_of(found.changes), notes=())


def _revisions(handle: Handle, scratch: Scratch, revision: str) -> tuple[Base, str]:
    """The base and the target tree of a commit or a range."""
    match = _RANGE.fullmatch(revision)
    if match is None:
        target = handle.base(revision, field="revision")
        return _first_parent(handle, target), target.tree
    start = handle.base(match["start"] or None, field="revision")
    target = handle.base(match["end"] or None, field="revision")
    if match["dots"] == "...":
        start = _merge_base(handle, scratch, start, target)
    return start, target.tree


def _first_parent(handle: Handle, target: Base) -> Base:
    commit = handle.objects.find([target.oid.encode()])[0]
    if commit is None or commit.kind != "commit":
        raise InvalidInput(f"{target.oid} is a tree; name a commit or a range.", field="revision")
    parent = _PARENT.search(commit.content.partition(b"\n\n")[0])
    if parent is None:
        empty = handle.layout.objects.empty_tree
        return Base(empty, empty)
    return handle.base(parent.group(1).decode("ascii"), field="revision")


def _merge_base(handle: Handle, scratch: Scratch, one: Base, other: Base) -> Base:
    found = relation(scratch, one.oid, other.oid)
    if found is None:
        raise InvalidInput("The two commits have no ancestor in common; name one to compare with.", field="revision")
    return handle.base(found)


class _Staging:
    """Builds the tree of the next commit in a copy of the user's index."""

    def __init__(self, handle: Handle, scratch: Scratch) -> None:
        self._handle = handle
        # Nothing of the user's may run or be written for a look at the working tree.
        off = ("core.fsmonitor=false", "core.splitIndex=false", "core.untrackedCache=false", scratch.no_hooks)
        settings = [item for setting in off for item in ("-c", setting)]
        self._run = BoundGit(handle.git, scratch.borrow_index(), handle.layout.root, settings).run
        self._git_folders: dict[bytes, bool] = {}

    def tree(self, scope: Scope) -> tuple[str, tuple[str, ...]]:
        """Id of the tree, and the files left out."""
        unmerged = self._run(["ls-files", "--unmerged", "-z"]).stdout
        if unmerged:
            path = unmerged.split(b"\0")[0].partition(b"\t")[2].decode("utf-8", "replace")
            raise InvalidInput(f"{path} has unresolved conflicts; resolve them first.", field="scope", path=path)
        left_out = () if scope.staged else self._add_everything(scope.new_files)
        return self._run(["write-tree"]).text, left_out

    def _add_everything(self, new_files: tuple[str, ...] | None) -> tuple[str, ...]:
        """As `git add --all`, but without turning nested repositories into submodules, and without git folders."""
        self._run(["add", "--update"])
        if new_files is None and self._hides_new_files():
            return ("new files, as status.showUntrackedFiles is no; to submit one, too: git add FILE",)
        if new_files == ():
            return ()
        listing = ["--literal-pathspecs", "ls-files", "--others", "--exclude-standard", "-z", "--", *(new_files or ())]
        others = self._run(listing).stdout.split(b"\0")[:-1]
        folders = {path: self._git_folder(path) for path in others if not path.endswith(b"/")}
        files = [path for path, folder in folders.items() if folder is None]
        if files:
            self._run(["update-index", "--add", "-z", "--stdin"], stdin=b"".join(path + b"\0" for path in files))
        inside = sorted({folder for folder in folders.values() if folder is not None})
        nested = [f"{decode_path(path)} is a git repository of its own" for path in others if path.endswith(b"/")]
        return (*nested, *(f"{decode_path(folder)} is a git folder" for folder in inside))

    def _hides_new_files(self) -> bool:
        asked = ["config", "--get", "status.showUntrackedFiles"]
        stated = self._run(asked, accept=(0, 1)).text.strip().lower()
        return stated in {"no", "false", "off", "0"}

    def _git_folder(self, path: bytes) -> bytes | None:
        """The outermost git folder that a file is in; it may be one that `.git` names, or of a bare repository."""
        known = self._git_folders
        parents = [os.fsencode(parent) for parent in PurePosixPath(os.fsdecode(path)).parents][-2::-1]
        for parent in parents:
            if parent not in known:
                known[parent] = is_git_folder(str(self._handle.layout.root / os.fsdecode(parent)))
            if known[parent]:
                return parent + b"/"
        return None


def raw_changes(handle: Handle, base: str | None = None, target: str | None = None) -> tuple[Change, ...]:
    """What a gate compares: the raw difference from `base` to a commit, or to the index without a target.

    Args:
        handle: The repository.
        base: The commit before; HEAD by default.
        target: The commit after; the index by default.

    Raises:
        InvalidInput: A revision names nothing, or a path is unmerged.
    """
    start = handle.base(base)
    environment = handle.layout.environment()
    if target is None:
        arguments = ["diff-index", "--cached", *RAW_OPTIONS, start.tree]
    else:
        arguments = ["diff-tree", "-r", *RAW_OPTIONS, start.tree, handle.base(target, field="target").tree]
    output = handle.git.run(["-c", "core.fsmonitor=false", *arguments], cwd=handle.layout.root, environment=environment)
    return parse_raw(output.stdout)


def has_landed(handle: Handle, changes: Iterable[Change], base: str, branch: str, *, now: bool) -> bool:
    """Whether a branch has changes that the commit where it and `base` part has not; see `Repository.landed_on`."""
    pairs = {encode_path(change.path): change for change in changes}
    wanted = {path: change.after for path, change in pairs.items()}
    tip = handle.tip(branch)
    if tip is None:
        return False
    is_there = has_entries(handle, wanted, tip)
    if not is_there and (now or has_entries(handle, {path: change.before for path, change in pairs.items()}, tip)):
        return False
    with handle.scratch() as scratch:
        fork = scratch.run(["merge-base", base, tip], accept=(0, 1, NOTHING_THERE)).stdout.decode("ascii").split()
        since = () if is_there else _touching(scratch, tip, fork, pairs)
    # A branch that never had a file has not landed its deletion.
    is_new = not fork or not has_entries(handle, wanted, fork[0])
    return is_new and (is_there or any(has_entries(handle, wanted, commit) for commit in since))


def _touching(scratch: Scratch, tip: str, without: Iterable[str], paths: Iterable[bytes]) -> list[str]:
    """The newest commits that touch some paths, of those that a commit reaches and others do not."""
    named = b"".join(b":(literal)%s\n" % path for path in paths)
    listed = ["rev-list", "--topo-order", f"--max-count={_LOOKED_AT}", "--stdin"]
    ends = "".join(f"^{one}\n" for one in without)
    return scratch.run(listed, stdin=f"{tip}\n{ends}--\n".encode() + named).stdout.decode("ascii").split()


def has_entries(handle: Handle, wanted: Mapping[bytes, Entry], commit: str) -> bool:
    """Whether a commit has exactly these entries at their paths.

    Raises:
        InvalidInput: There is no such commit (`details.field` is `revision`).
    """
    found = handle.objects.entries(handle.base(commit, field="revision").tree, wanted).entries
    return all(found.get(path, handle.layout.objects.absent) == entry for path, entry in wanted.items())


def change_of(
    handle: Handle, commit: str, *, head: str, base: str | None, branches: Sequence[str]
) -> tuple[Change, ...] | None:
    """The changes of a commit that `head` has and the commit built on does not have yet; None otherwise.

    Args:
        handle: The repository.
        commit: The commit's id.
        head: Id of the commit that the next one goes on top of.
        base: Id of the commit that is built on.
        branches: Without `base`: the branches that are built on; None is answered if there are none.
    """
    # In a folder of our own: neither grafts nor the commit graph, which are files in the repository, may say who a
    # commit's parents are.
    with handle.scratch() as scratch:
        parents = parents_of(scratch, commit) or ()
        if len(parents) != 1 or has(scratch, head, commit) is not True:
            return None
        if base is not None:
            built_on = has(scratch, base, commit)
        else:
            # Without branches it cannot be told, so it might be on one.
            built_on = not branches or any(has(scratch, tip, commit) for tip in handle.tips(branches).values())
        if built_on is not False:
            return None
        try:
            return scratch.difference(parents[0], commit)
        except InvalidInput:
            return None


_STATUSES = range(256)
_FILES = frozenset({REGULAR, EXECUTABLE})
_MERGED_BYTES = 8_000_000
_LOOKED_AT = 500
"""Of the newest commits that touch a change's paths."""


@dataclass(frozen=True, slots=True)
class Returned:
    """Whether the content of some commits is as it was before them.

    Attributes:
        standing: A commit that still stands, and the branch that has it; None if none does.
        by: For each that is in a branch's history, the commit that reverted it.
    """

    standing: tuple[str, str] | None
    by: Mapping[str, str]


def returned(
    handle: Handle, commits: Mapping[str, str | None], *, branch: str, head: str, judges: Callable[[Change], bool]
) -> Returned:
    """Whether the content of some commits is as it was before them: they are gone, or were reverted.

    Args:
        handle: The repository.
        commits: Each with the branch that it was made on. That branch counts and `branch`; where it is gone, every
            branch that has the commit.
        branch: The branch that is gone on with.
        head: Its newest commit.
        judges: Which files count.

    Raises:
        InvalidInput: There is no commit `head`.
    """
    back: dict[str, str] = {}
    with handle.scratch() as scratch:
        for commit, made_on in commits.items():
            changes = [change for change in _changes(handle, scratch, commit) if judges(change)]
            for name, tip in ({branch: head} | _tips(handle, commit, made_on, branch)).items():
                is_there = has(scratch, tip, commit) is True
                stands, by = _walk(handle, scratch, changes, tip, commit if is_there else None)
                if stands:
                    return Returned((commit, name), {})
                if is_there and by is not None:
                    back[commit] = by
    return Returned(None, back)


def has_any(handle: Handle, changes: Sequence[Change], commit: str) -> bool:
    """Whether a commit has one of some changes, maybe among others in the same file.

    Raises:
        InvalidInput: There is no such commit.
    """
    with handle.scratch() as scratch:
        return _state(handle, scratch, changes, commit) is True


def _tips(handle: Handle, commit: str, made_on: str | None, but: str) -> dict[str, str]:
    """The branch that a commit was made on; where that is gone, every branch that has the commit."""
    own = handle.tip(made_on) if made_on else None
    if made_on is not None and own is not None:
        return {made_on: own} if made_on != but else {}
    return handle.tips(name for name in handle.branches_with(commit) if name != but)


def _changes(handle: Handle, scratch: Scratch, commit: str) -> tuple[Change, ...]:
    """What a commit changed against its first parent; nothing if it is no longer there, as no branch has it then."""
    parents = parents_of(scratch, commit)
    if parents is None:
        return ()
    return scratch.difference(parents[0] if parents else handle.layout.objects.empty_tree, commit)


def _walk(
    handle: Handle, scratch: Scratch, changes: Sequence[Change], tip: str, commit: str | None
) -> tuple[bool, str | None]:
    """Whether a branch has some changes, and else the commit that took them back.

    Where the newest commit leaves it open, as others changed the same lines since, the last one that tells decides.

    Args:
        handle: The repository.
        scratch: A private folder over it.
        changes: The changes.
        tip: The branch's newest commit.
        commit: The commit of the branch that made them; None if it is not in the branch.
    """
    if commit is None:
        # A copy of it may be there, by a rebase that no hook saw.
        return _state(handle, scratch, changes, tip) is True, None
    since = _touching(scratch, tip, [commit], (encode_path(change.path) for change in changes))
    by: str | None = None
    for one in dict.fromkeys([tip, *since]):
        state = _state(handle, scratch, changes, one)
        if state is False:
            by = one
        elif state is True or by is not None:
            break
    return by is None, by


def _state(handle: Handle, scratch: Scratch, changes: Sequence[Change], commit: str) -> bool | None:
    """Whether a commit has the changes: true if it has one file's, false if every file is without, else None."""
    absent = handle.layout.objects.absent
    wanted = {encode_path(change.path): change for change in changes}
    entries = handle.objects.entries(handle.base(commit, field="head").tree, wanted).entries
    states = {_in_file(handle, scratch, change, entries.get(path, absent)) for path, change in wanted.items()}
    return True if True in states else None if None in states else False


def _in_file(handle: Handle, scratch: Scratch, change: Change, now: Entry) -> bool | None:
    before, after = change.before, change.after
    if now in {before, after}:
        return now == after
    if not {before.mode, after.mode, now.mode} <= _FILES:
        return None
    if before.oid == after.oid:
        return now.mode == after.mode
    oids = (now.oid, after.oid, before.oid)
    sizes = handle.objects.sizes(oids)
    if len(sizes) < len(set(oids)) or sum(sizes.values()) > _MERGED_BYTES:
        return None
    # Taking the change back would change nothing where it is gone, and conflicts where others changed the same lines.
    contents = [one.content for one in handle.objects.find([oid.encode("ascii") for oid in oids]) if one is not None]
    files = [scratch.folder / name for name in ("ours", "base", "theirs")]
    for file, content in zip(files, contents, strict=True):
        file.write_bytes(content)
    merged = scratch.run(["merge-file", "-p", "--quiet", *map(str, files)], accept=_STATUSES)
    return merged.stdout != contents[0] if merged.status_code == 0 else None
