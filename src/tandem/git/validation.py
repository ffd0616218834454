"""What a diff or a whole text is worth: the bytes it fixes, the files it touches, or why it is refused."""

from __future__ import annotations

import difflib
import re
from collections import Counter
from collections.abc import Iterable

from tandem.core.diff_names import quote
from tandem.errors import InvalidDiff, InvalidInput
from tandem.git.applying import Applied, LineCounts, apply_diff, ensure_no_nul
from tandem.git.changes import AffectedFile, Change, Entry, FileOperation, ValidatedContent
from tandem.git.handle import Base, Handle
from tandem.git.layout import layout_at
from tandem.git.patch import FilePatch, read_patches
from tandem.git.paths import unsafe_reason
from tandem.git.raw import ABSENT_MODE, EXECUTABLE, GITLINK, REGULAR, SYMLINK, digest_of
from tandem.git.scratch import Scratch

_BINARY_PATCH = "\nGIT binary patch\n"
_FOLDER_MODES = frozenset({b"040000", b"40000"})
_FILE_MODES = frozenset({REGULAR.encode(), EXECUTABLE.encode()})


def repaired(diff: str) -> str:
    """The diff with the end that a shell's `$(…)` took off; a binary patch ends with an empty line.

    Raises:
        InvalidDiff: There is nothing in it.
    """
    if not diff.strip():
        raise InvalidDiff("The diff is empty; send the output of `git diff`.")
    if not diff.endswith("\n"):
        diff += "\n"
    if not diff.endswith("\n\n") and diff.rfind(_BINARY_PATCH) > diff.rfind("\ndiff --git "):
        diff += "\n"
    return diff


def encoded(diff: str) -> bytes:
    """The diff's bytes.

    Raises:
        InvalidDiff: It has characters that no stored text can have.
    """
    if "\0" in diff:
        raise InvalidDiff("The diff contains a NUL byte; send that file as a binary patch (`git diff --binary`).")
    try:
        return diff.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidDiff(
            "The diff is not valid Unicode; send files in another encoding as binary patches (`git diff --binary`)."
        ) from exc


def validate_diff(handle: Handle, diff: str, base: str | None) -> ValidatedContent:
    """Applies a diff to `base` in a private index and says what it does; see `Repository.validate_diff`."""
    content = repaired(diff)
    data = encoded(content)
    found = handle.base(base)
    with handle.scratch() as scratch:
        applied = apply_reviewable(handle, scratch, data, found)
    return ValidatedContent(
        content=content,
        base_commit=found.oid,
        digest=digest_of(applied.changes),
        validated=True,
        affected_files=_affected(applied),
        changes=applied.changes,
    )


def apply_reviewable(handle: Handle, scratch: Scratch, diff: bytes, base: Base) -> Applied:
    """Applies a diff as `apply_diff` does and refuses what no review can answer for.

    Raises:
        InvalidDiff: Git refuses it, or it brings in links, folders or unknown submodules, or changes nothing.
    """
    applied = apply_diff(handle, scratch, diff, base)
    _ensure_one_patch_a_file(applied.patches)
    _ensure_no_folder(applied.patches)
    if not applied.changes:
        raise InvalidDiff("The diff changes nothing.", base=base.oid)
    for change in applied.changes:
        _ensure_reviewable(handle, change)
    return applied


def parse_only(diff: str) -> ValidatedContent:
    """What a diff says of itself, where no repository is known: nothing is validated and no digest given.

    Raises:
        InvalidDiff: It is not a diff, or names a path or a file mode that no review may bring in.
    """
    content = repaired(diff)
    patches = read_patches(encoded(content))
    ensure_no_nul(path for patch in patches for path in (patch.old, patch.new) if path)
    named = [patch for patch in patches if patch.path]
    if not named or not any(map(_says_something, named)):
        raise InvalidDiff("The text is not a diff; send the output of `git diff`.")
    _ensure_one_patch_a_file(named)
    _ensure_no_folder(named)
    files: list[AffectedFile] = []
    for patch in named:
        for path in {patch.old, patch.new} - {None}:
            _ensure_safe(_text(path or b""))
        if patch.new is not None and patch.mode_after is not None and patch.mode_after not in _FILE_MODES:
            raise _unwelcome(_text(patch.path), patch.mode_after.decode("ascii", "replace"))
        files.append(_as_described(patch))
    return ValidatedContent(content=content, affected_files=tuple(sorted(files, key=lambda file: file.path.encode())))


def _says_something(patch: FilePatch) -> bool:
    """Whether a file's part of a diff describes any change."""
    return bool(patch.hunks or patch.binary or patch.modes or patch.renamed or patch.copied)


def _text(path: bytes) -> str:
    try:
        return path.decode("utf-8")
    except UnicodeDecodeError as exc:
        shown = quote(path).decode("ascii")
        raise InvalidDiff(f"The path {shown} is not UTF-8; rename the file.", path=shown) from exc


def _ensure_one_patch_a_file(patches: Iterable[FilePatch]) -> None:
    """Each file is taken up once and brought forth once, so that what is read is what results.

    A file whose type changes is the one that comes twice: as deleted and as new.
    """
    patches = list(patches)
    taken = Counter(patch.old for patch in patches if patch.old and not patch.copied)
    made = Counter(patch.new for patch in patches if patch.new)
    for path, count in [*taken.items(), *made.items()]:
        if count > 1:
            name = _text(path)
            raise InvalidDiff(
                f"The diff changes {name} more than once; send one combined diff (`git diff BASE`).", path=name
            )


def _ensure_no_folder(patches: Iterable[FilePatch]) -> None:
    for patch in patches:
        if patch.modes & _FOLDER_MODES:
            raise _unwelcome(_text(patch.path), "040000")


def _ensure_safe(path: str) -> None:
    reason = unsafe_reason(path)
    if reason is not None:
        raise InvalidDiff(f"The path {path!r} {reason}; a diff may only touch the repository's files.", path=path)


def _ensure_reviewable(handle: Handle, change: Change) -> None:
    """Refuses what git would take but no review can answer for; what goes may be anything."""
    _ensure_safe(change.path)
    known = {ABSENT_MODE, REGULAR, EXECUTABLE}
    if change.mode_after == GITLINK and _is_known_commit(handle, change.path, change.blob_after):
        return
    if change.mode_after not in known:
        raise _unwelcome(change.path, change.mode_after)


def _unwelcome(path: str, mode: str) -> InvalidDiff:
    kinds = {
        SYMLINK: "a symbolic link, which can lead out of the repository",
        GITLINK: "a submodule at a commit that is not known here",
        "040000": "a folder, which git keeps no entry for",
    }
    return InvalidDiff(f"{path} would become {kinds.get(mode, 'something else than a file')}.", path=path, mode=mode)


def _is_known_commit(handle: Handle, path: str, oid: str) -> bool:
    """Whether a submodule's commit is in this repository or in the submodule's own."""
    if handle.objects.find([f"{oid}^{{commit}}".encode()])[0] is not None:
        return True
    folder = handle.layout.root / path
    if folder.is_symlink() or not (folder / ".git").exists():
        return False
    try:
        module = layout_at(handle.git, folder)
    except InvalidInput:
        return False
    with Scratch(handle.git, module) as scratch:
        return scratch.run(["cat-file", "-e", f"{oid}^{{commit}}"], accept=(0, 1, 128)).status_code == 0


def _affected(applied: Applied) -> tuple[AffectedFile, ...]:
    """The files as a reviewer wants to see them: a rename is one file, not two."""
    changed = {change.path: change for change in applied.changes}
    origins = {
        patch.new.decode(): patch.old.decode()
        for patch in applied.patches
        if patch.renamed and patch.old and patch.new and patch.old != patch.new
        if (change := changed.get(patch.old.decode("utf-8", "replace"))) and change.mode_after == ABSENT_MODE
        if patch.new.decode("utf-8", "replace") in changed
    }
    gone = set(origins.values())
    return tuple(
        _affected_file(change, applied.counts.get(path.encode()), origins.get(path))
        for path, change in changed.items()
        if path not in gone
    )


def _affected_file(change: Change, counts: LineCounts | None, old_path: str | None) -> AffectedFile:
    counts = counts or LineCounts(0, 0)
    return AffectedFile(
        path=change.path,
        operation="renamed" if old_path else _operation(change),
        added=counts.added,
        removed=counts.removed,
        old_path=old_path,
    )


def _operation(change: Change) -> FileOperation:
    if change.mode_before == ABSENT_MODE:
        return "added"
    if change.mode_after == ABSENT_MODE:
        return "deleted"
    return "mode" if change.blob_before == change.blob_after else "modified"


def _as_described(patch: FilePatch) -> AffectedFile:
    """A file as an unvalidated diff describes it."""
    operation: FileOperation = "modified"
    if patch.renamed:
        operation = "renamed"
    elif patch.old is None or patch.copied:
        operation = "added"
    elif patch.new is None:
        operation = "deleted"
    elif not patch.hunks and not patch.binary and patch.modes:
        operation = "mode"
    return AffectedFile(
        path=_text(patch.path),
        operation=operation,
        added=None if patch.binary else patch.added,
        removed=None if patch.binary else patch.removed,
        old_path=_text(patch.old) if patch.renamed and patch.old else None,
    )


_CONTEXT_LINES = 3
# As git: only a line feed ends a line.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def text_change(handle: Handle, path: str, text: str) -> ValidatedContent:
    """The content of one file as a change to HEAD; see `Repository.text_change`."""
    name, data = _checked(path, text)
    base = handle.base(None)
    found = handle.objects.entries(base.tree, [name])
    absent = handle.layout.objects.absent
    before = found.entries.get(name, absent)
    if found.conflicts or before.mode not in {REGULAR, EXECUTABLE, absent.mode}:
        raise InvalidInput(
            f"{path} is a folder, a link or a submodule at HEAD, or lies below a file; name a file.",
            field="path",
            path=path,
        )
    blob = handle.layout.objects.object_id("blob", data)
    after = Entry(REGULAR if before == absent else before.mode, blob)
    counts = _counts(handle, before, data) if before != absent else LineCounts(len(_LINE.findall(text)), 0)
    return ValidatedContent(
        content=text,
        base_commit=base.oid,
        digest=f"{blob}:{path}",
        validated=True,
        affected_files=(AffectedFile(path, "added" if before == absent else "modified", counts.added, counts.removed),),
        changes=(Change(path, before.mode, before.oid, after.mode, after.oid),),
    )


def _checked(path: str, text: str) -> tuple[bytes, bytes]:
    """Path and text as bytes."""
    reason = "has a backslash; use slashes" if "\\" in path else unsafe_reason(path)
    if reason is not None:
        raise InvalidInput(f"The path {path!r} {reason}; name a file of the repository.", field="path", path=path)
    try:
        name = path.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidInput("The path is not valid Unicode.", field="path") from exc
    try:
        data = text.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidInput("The text is not valid Unicode.", field="description") from exc
    if b"\0" in data:
        raise InvalidInput("The text contains a NUL byte; send a diff instead.", field="description")
    return name, data


def _counts(handle: Handle, before: Entry, data: bytes) -> LineCounts:
    """Lines gained and lost against the file as it is, counted by git."""
    handle.ensure_fits([before], len(data))
    with handle.scratch() as scratch:
        written = scratch.run(["hash-object", "-w", "--stdin", "--no-filters"], stdin=data).stdout.decode().strip()
        output = scratch.run(["diff", "--numstat", "--no-ext-diff", "--no-textconv", before.oid, written])
    if not output.stdout:
        return LineCounts(0, 0)
    added, removed, _ = output.stdout.split(b"\t", 2)
    return LineCounts(None, None) if added == b"-" else LineCounts(int(added), int(removed))


def unified_text_diff(old: str, new: str, path: str) -> str:
    """A unified diff between two versions of a text, for reading; empty when they are equal."""
    before, after = _LINE.findall(old), _LINE.findall(new)
    lines = difflib.unified_diff(before, after, f"a/{path}", f"b/{path}", n=_CONTEXT_LINES)
    return "".join(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines)
