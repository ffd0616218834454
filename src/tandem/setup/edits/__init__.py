"""Edits of other programs' files that merge, and that can be undone to the byte.

An edit puts one thing of ours into a file: a member or items of JSON (with comments), a table of TOML, a marked
block of text, or a whole file. A manifest records each edit, its owner and its file.

    manifest = Manifest.load(file, tree=root)
    planned = plan([JsonMember(root / ".mcp.json", ("mcpServers", "tandem"), {...})], manifest, owner="init")
    print(diff(planned.changes))
    undo = install(planned)
    install(plan([], manifest, owner="init"))

The manifest keeps each file's content without our edits, and the digest of the content that we wrote. A file without
later changes is rebuilt from that, so that taking everything out restores it to the byte. From a file with other
changes only our own parts are cut out.
"""

from __future__ import annotations

import difflib
import glob
import hashlib
import io
import json
import os
import shlex
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Final

from pydantic import Field, TypeAdapter

from tandem.core import platforms
from tandem.core.atomic_dirs import Installation, turn
from tandem.core.files import FRESH, remove_if_empty
from tandem.errors import ConfigInvalid, Unavailable
from tandem.setup.edits.edit import BOM, MarkedBlock, TomlTable, WholeFile, content_of, located
from tandem.setup.edits.json_edits import JsonItems, JsonMember

_VERSION: Final = 2
_PATIENCE_SECONDS = 10.0
_EMPTY: Final = {"", "{}"}
CHANGED: Final = "changed"

Edit = JsonMember | JsonItems | TomlTable | MarkedBlock | WholeFile
_EDIT: Final[TypeAdapter[Edit]] = TypeAdapter(Annotated[Edit, Field(discriminator="kind")])


@dataclass(frozen=True, slots=True)
class EditRecord:
    """An edit that was made.

    Attributes:
        edit: All of it but the path, as JSON, with its kind.
        owners: Who wants it; it is taken out when the last owner leaves.
    """

    edit: dict[str, Any]
    owners: tuple[str, ...]

    @classmethod
    def of(cls, edit: Edit, owner: str) -> EditRecord:
        """An edit that one owner wants."""
        facts = {"kind": edit.kind} | {name: value for name, value in vars(edit).items() if name != "path"}
        # As it will be read again: tuples are lists in JSON.
        return cls(json.loads(json.dumps(facts)), (owner,))

    def on(self, path: Path) -> Edit:
        """The edit, for a file."""
        return _EDIT.validate_python({**self.edit, "path": path})


@dataclass(frozen=True, slots=True)
class FileRecord:
    """The edits that were made in one file.

    Attributes:
        edits: In the order in which they were made.
        before: What the file was without them; None if there was none.
        after: The digest of the content that we wrote; `CHANGED` if somebody else's change is in it.
    """

    edits: tuple[EditRecord, ...] = ()
    before: bytes | None = None
    after: str = CHANGED

    def owners(self) -> set[str]:
        """All owners of one of them."""
        return {owner for record in self.edits for owner in record.owners}


@dataclass
class Manifest:
    """The edits that were made in a tree: a repository's working tree, or the user's home folder.

    Attributes:
        file: Where it is kept, apart from the files that are edited.
        tree: The folder that all the files are in; links are followed only to inside of it.
        label: The prefix of file names when they are shown, such as `~/`.
        files: Our edits of each file, by its path from the tree, with slashes.
        folders: The folders that were made for the files, from the tree, with slashes.
        loaded: The content of its file when it was read; None if there was none.
    """

    file: Path
    tree: Path
    label: str = ""
    files: dict[str, FileRecord] = field(default_factory=dict[str, FileRecord])
    folders: tuple[str, ...] = ()
    loaded: bytes | None = None

    @classmethod
    def load(cls, file: Path, tree: Path, label: str = "") -> Manifest:
        """Read it; an empty one if there is none.

        Raises:
            ConfigInvalid: It cannot be read.
        """
        try:
            content = file.read_bytes()
        except FileNotFoundError:
            return cls(file, tree, label)
        except OSError as error:
            raise _unreadable(file, error.strerror or str(error)) from error
        try:
            data = json.loads(content)
            if data["version"] != _VERSION:
                raise _unreadable(file, f"it was written by another version of Tandem ({data['version']!r})")
            files = {name: _read(facts) for name, facts in data["files"].items()}
            return cls(file, tree, label, files, tuple(data["folders"]), content)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise _unreadable(file, "it is damaged") from error

    def content(self) -> bytes | None:
        """What its file has to hold; None if there is nothing to remember."""
        if not self.files and not self.folders:
            return None
        files = {name: _written(record) for name, record in sorted(self.files.items())}
        data = {"version": _VERSION, "files": files, "folders": sorted(self.folders)}
        return json.dumps(data, indent=1).encode() + b"\n"

    def owners(self) -> set[str]:
        """All owners of an edit."""
        return {owner for record in self.files.values() for owner in record.owners()}


@dataclass(frozen=True, slots=True)
class FileChange:
    """What becomes of one file.

    Attributes:
        path: The file itself, links followed.
        key: Its path from the tree.
        name: How it is shown.
        before: Its content; None if there is no file.
        after: Its new content; None if it is deleted.
        record: Its new entry in the manifest; None for none.
        remarks: What a person should know.
    """

    path: Path
    key: str
    name: str
    before: bytes | None
    after: bytes | None
    record: FileRecord | None = None
    remarks: tuple[str, ...] = ()

    @property
    def alters(self) -> bool:
        """Whether the file itself changes."""
        return self.before != self.after


@dataclass(frozen=True, slots=True)
class FilePlan:
    """The changes of one tree's files, not made yet: `diff` shows them, `install` makes them and can undo them.

    Attributes:
        manifest: The tree, and the edits that were made before.
        changes: Of each file, why it changes is in its record: which edits, for which owners.
    """

    manifest: Manifest
    changes: tuple[FileChange, ...]

    @property
    def altered(self) -> list[FileChange]:
        """The files that change; of the others only their entry in the manifest does."""
        return [one for one in self.changes if one.alters]

    @property
    def remarks(self) -> list[str]:
        """What a person should know."""
        return [remark for one in self.changes for remark in one.remarks]

    def owners(self) -> set[str]:
        """All owners of something in the tree once it is carried out."""
        files = self.manifest.files | {one.key: one.record for one in self.changes}
        return {owner for record in files.values() if record is not None for owner in record.owners()}


def plan(edits: Iterable[Edit], manifest: Manifest, *, owner: str) -> FilePlan:
    """Plans the changes after which an owner has exactly these edits.

    Earlier edits that the owner does not want any more are taken out.

    Args:
        edits: All that the owner wants in this tree.
        manifest: The tree, and the edits that were made before.
        owner: For whom; others' edits stay.

    Raises:
        ConfigInvalid: A file does not have its format, or is outside of the tree.
    """
    wanted: dict[Path, list[Edit]] = {}
    for edit in edits:
        wanted.setdefault(located(edit.path, manifest.tree), []).append(edit)
    for name, record in sorted(manifest.files.items()):
        if owner in record.owners():
            wanted.setdefault(located(manifest.tree / name, manifest.tree), [])
    planned: list[FileChange] = []
    for path, of_file in wanted.items():
        name = path.relative_to(manifest.tree.resolve()).as_posix()
        record, before = manifest.files.get(name), content_of(path)
        after, new, remarks = edited(path, before, record, of_file, owner)
        planned.append(FileChange(path, name, manifest.label + name, before, after, new, remarks))
    known = manifest.files
    return FilePlan(
        manifest, tuple(one for one in planned if one.alters or one.remarks or one.record != known.get(one.key))
    )


def edited(
    path: Path,
    content: bytes | None,
    record: FileRecord | None,
    wanted: Sequence[Edit],
    owner: str,
) -> tuple[bytes | None, FileRecord | None, tuple[str, ...]]:
    """One file with exactly these edits of an owner.

    Args:
        path: The file.
        content: Its content; None if there is no file.
        record: The edits that were made before.
        wanted: What the owner wants in it.
        owner: For whom; others' edits stay.

    Returns:
        Its new content, its new record, and remarks that a person should read.

    Raises:
        ConfigInvalid: It does not have its format.
    """
    known = record or FileRecord((), content, _digest(content))
    asked = [EditRecord.of(edit, owner) for edit in wanted]
    kept: list[EditRecord] = []
    gone: list[EditRecord] = []
    for one in known.edits:
        others = tuple(name for name in one.owners if name != owner)
        owners = (*others, owner) if one.edit in [asked_for.edit for asked_for in asked] else others
        (kept if owners else gone).append(replace(one, owners=owners))
    new = [one for one in asked if one.edit not in [had.edit for had in kept]]
    remarks: list[str] = []
    untouched = _digest(content) == known.after
    if untouched:
        after = known.before if gone or new else content
    else:
        after = _cut(path, content, [one for one in gone if not _takes_place(one.edit, new)], known.before, remarks)
    records: list[EditRecord] = []
    for one in (*kept, *new):
        if not untouched and owner not in one.owners:
            # What others want of it is left as it is.
            records.append(one)
            continue
        now, remark = one.on(path).put(after)
        remarks += [remark] if remark else []
        records += [one] if one in kept or now != (after or b"") else []
        after = now if now or after is not None else None
    if after == content:
        made = replace(known, edits=tuple(records))
    elif untouched:
        made = FileRecord(tuple(records), known.before, _digest(after))
    else:
        left: list[str] = []
        before = _cut(path, after, records, known.before, left)
        made = FileRecord(tuple(records), before, CHANGED if left else _digest(after))
    return after, made if records else None, tuple(dict.fromkeys(remarks))


def diff(changes: Iterable[FileChange]) -> str:
    """The unified diff of all that changes, as `git apply` takes it; bytes that are no UTF-8 are surrogates in it."""
    return "".join(line for change in changes if change.alters for line in _diff_lines(change))


def _cut(
    path: Path, content: bytes | None, records: Iterable[EditRecord], before: bytes | None, remarks: list[str]
) -> bytes | None:
    """A file that somebody changed since, without these edits, the latest first."""
    for record in reversed(list(records)):
        if content is not None:
            content, remark = record.on(path).cut(content, before)
            remarks += [remark] if remark else []
    left = "" if content is None else "".join(content.decode("utf-8", "replace").removeprefix(BOM).split())
    # An object that is all that is left was made by us, where nothing was before.
    return before if content is not None and left in _EMPTY and not (before or b"").strip() else content


def _takes_place(edit: dict[str, Any], new: Iterable[EditRecord]) -> bool:
    """Whether an edit that is wanted takes the place of an older one by itself."""
    name = "name" if edit["kind"] == "marked_block" else "keys" if edit.get("replaces") else "kind"
    return name != "kind" and any(one.edit.get(name) == edit[name] for one in new)


def _digest(content: bytes | None) -> str:
    return "" if content is None else hashlib.sha256(content).hexdigest()


def _read(facts: Any) -> FileRecord:
    edits = tuple(EditRecord(one["edit"], tuple(one["owners"])) for one in facts["edits"])
    before = facts["before"]
    return FileRecord(edits, None if before is None else before.encode("utf-8", "surrogateescape"), facts["after"])


def _written(record: FileRecord) -> dict[str, Any]:
    before = None if record.before is None else record.before.decode("utf-8", "surrogateescape")
    edits = [{"edit": one.edit, "owners": list(one.owners)} for one in record.edits]
    return {"edits": edits, "before": before, "after": record.after}


def _unreadable(file: Path, problem: str) -> ConfigInvalid:
    return ConfigInvalid(
        f"{file} cannot be used: {problem}. It says what Tandem put into your files; restore it, or delete it and"
        " take out by hand everything named tandem.",
        file=str(file),
    )


def _diff_lines(change: FileChange) -> Iterator[str]:
    old = "/dev/null" if change.before is None else f"a/{change.name}"
    new = "/dev/null" if change.after is None else f"b/{change.name}"
    # As git writes it: a tab ends a name with a space in it.
    end = "\t" if " " in change.name else ""
    hunks = list(difflib.unified_diff(_lines(change.before), _lines(change.after), n=3))[2:]
    yield f"diff --git a/{change.name} b/{change.name}\n"
    if change.before is None:
        yield "new file mode 100644\n"
    if change.after is None:
        yield "deleted file mode 100644\n"
    if not hunks:
        return
    yield f"--- {old}{end if change.before is not None else ''}\n"
    yield f"+++ {new}{end if change.after is not None else ''}\n"
    for line in hunks:
        yield line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n"


def _lines(content: bytes | None) -> list[str]:
    # Only line feeds end lines here; `splitlines` knows nine more.
    return io.StringIO((content or b"").decode("utf-8", "surrogateescape"), newline="\n").readlines()


def install(plan: FilePlan) -> Callable[[], object]:
    """Change the files and the manifest, or nothing at all.

    Each file is replaced at once. The manifest names each edit before it is made, so that also after a
    crash in the middle the same command, or the one that takes everything out, finishes the work.

    Args:
        plan: The changes to make; its manifest is brought up to date.

    Returns:
        A function that undoes it, for when a later step fails.

    Raises:
        Unavailable: A file cannot be written, or was changed in between; everything is as it was.
    """
    changes, manifest = plan.changes, plan.manifest
    if not changes:
        return lambda: None
    tree = Path(os.path.realpath(manifest.tree))
    before, installation = vars(manifest).copy(), Installation(tree)

    def undo() -> list[Path]:
        left = installation.undo()
        vars(manifest).update(before)
        _remove_if_unused(manifest.file)
        return left

    with _turn(manifest.file):
        _see_that_nothing_moved(changes, manifest)
        try:
            _carry_out(changes, manifest, installation, tree)
        except BaseException as error:
            left = undo()
            if isinstance(error, OSError):
                raise _not_written(error, left) from error
            raise
    return undo


def sweep(manifest_file: Path, files: Iterable[Path]) -> None:
    """Delete what a command that was killed has left unfinished beside a manifest, and of other files.

    Raises:
        Unavailable: Another command does not finish.
    """
    files = [manifest_file, *files]
    if _lock(manifest_file).exists() or any(_interrupted(files)):
        with _turn(manifest_file):
            _remove_interrupted(files)
    _remove_if_unused(manifest_file)


def _see_that_nothing_moved(changes: Iterable[FileChange], manifest: Manifest) -> None:
    moved = [change.name for change in changes if content_of(change.path) != change.before]
    if content_of(manifest.file) != manifest.loaded:
        moved.append(str(manifest.file))
    if moved:
        raise Unavailable(
            f"Changed by somebody else just now: {', '.join(moved)}. Nothing was written; run the command again.",
            files=moved,
        )


def _not_written(error: OSError, left: Sequence[Path]) -> Unavailable:
    where = f"{error.filename}: " if error.filename else ""
    after = f"these could not be put back: {', '.join(map(str, left))}" if left else "everything is as it was"
    return Unavailable(
        f"{where}{error.strerror or error}; {after}. {way_out(error)}", files_left=[str(path) for path in left]
    )


def way_out(error: OSError) -> str:
    """What to do where a file or a folder cannot be written."""
    if not isinstance(error, PermissionError) or os.name != "posix" or error.filename is None:
        return "See to the permissions and to the space on the disk, then run the command again."
    folder = next(one for one in Path(os.fsdecode(error.filename)).absolute().parents if one.is_dir())
    if folder.stat().st_uid == os.geteuid():
        return f"Run the command again once you may write there: chmod u+rwx {shlex.quote(str(folder))}"
    return f"{folder} belongs to another user. Run the command as that one, or have them let you write there."


def _carry_out(changes: Sequence[FileChange], manifest: Manifest, installation: Installation, tree: Path) -> None:
    # Only the holder of the lock writes there.
    _remove_interrupted([manifest.file, *(one.path for one in changes)])
    had = manifest.files
    folders = {folder for one in changes if one.after is not None for folder in one.path.parents if not folder.exists()}
    manifest.folders += tuple(sorted(folder.relative_to(tree).as_posix() for folder in folders))
    manifest.files = had | {one.key: _both(had.get(one.key), one.record) for one in changes if one.record}
    _keep(manifest, installation)
    for one in changes:
        if one.alters:
            _write(installation, one.path, one.after)
    manifest.files = {name: record for name, record in had.items() if name not in {one.key for one in changes}}
    manifest.files |= {one.key: one.record for one in changes if one.record}
    _tidy(manifest, tree)
    _keep(manifest, installation)


def _interrupted(files: Iterable[Path]) -> Generator[Path]:
    """What a command that was killed has written of files without putting it in place."""
    for file in files:
        yield from file.parent.glob(FRESH.format(name=glob.escape(file.name), random="[0-9a-f]" * 16))


def _remove_interrupted(files: Iterable[Path]) -> None:
    for left in _interrupted(files):
        with suppress(OSError):
            left.unlink()


def _keep(manifest: Manifest, installation: Installation) -> None:
    """Write what the manifest says."""
    content = manifest.content()
    if content != manifest.loaded:
        _write(installation, manifest.file, content, mode=0o600)
        manifest.loaded = content


def _write(installation: Installation, path: Path, content: bytes | None, mode: int | None = None) -> None:
    if content is None:
        installation.delete(path, keep_folders=True)
    else:
        installation.write(path, content, mode=mode)


def _tidy(manifest: Manifest, tree: Path) -> None:
    """Delete the folders of ours that are empty.

    One with nothing of ours in it that is not empty is somebody else's now.
    """
    kept = [name for name in manifest.folders if any(file.startswith(f"{name}/") for file in manifest.files)]
    for name in sorted(set(manifest.folders) - set(kept), reverse=True):
        remove_if_empty(tree / name)
    manifest.folders = tuple(sorted(kept))


def _both(old: FileRecord | None, new: FileRecord) -> FileRecord:
    """The record of a file that holds both before and after its change."""
    former = old.edits if old else ()
    return replace(new, edits=(*former, *(one for one in new.edits if one not in former)))


def _remove_if_unused(manifest_file: Path) -> None:
    """Remove the folder of a manifest that is not there, unless something else is in it."""
    if not manifest_file.exists():
        remove_if_empty(manifest_file.parent)


def _lock(file: Path) -> Path:
    return file.with_name(f"{file.name}.lock")


@contextmanager
def _turn(file: Path) -> Generator[None]:
    """Hold the lock of everything that a manifest describes.

    Raises:
        Unavailable: Another command does not finish.
    """
    try:
        platforms.make_private(str(file.parent))
    except OSError as error:
        raise _not_written(error, ()) from error
    try:
        with turn(_lock(file), _PATIENCE_SECONDS):
            yield
    except TimeoutError as error:
        raise Unavailable(f"Another command has been changing what {file} describes; run this one again.") from error
    finally:
        _remove_if_unused(file)
