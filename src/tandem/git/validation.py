"""What a diff or a whole text is worth: the bytes it fixes, the files it touches, or why it is refused."""

from __future__ import annotations

import difflib
import re
import signal
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from tandem.errors import InvalidDiff, InvalidInput, Unavailable
from tandem.git.changes import AffectedFile, Change, Entry, FileOperation, ValidatedContent, changes_between, parse_raw
from tandem.git.handle import Base, Handle
from tandem.git.hunks import read_patches
from tandem.git.layout import layout_at
from tandem.git.patch import FilePatch, inflated_bytes
from tandem.git.paths import link_reason, quote, unsafe_reason
from tandem.git.raw import (
    ABSENT_MODE,
    EXECUTABLE,
    GITLINK,
    RAW_OPTIONS,
    REGULAR,
    SYMLINK,
    decode_path,
    digest_of,
    encode_path,
)
from tandem.git.runner import GitFailed, Output
from tandem.git.scratch import Scratch

_APPLY = ("apply", "--cached", "--whitespace=nowarn", "--apply", "--numstat", "-z")
_SHOWN_CHARACTERS = 2_000
# What git says when not the diff but the machine is to blame. Where it names a file of the diff's, the
# line ends otherwise.
_MACHINE_FAULT = re.compile(
    r"^(?:fatal|error): (?!.*(?:in index|not apply|:\d+)$)(?:Out of memory|.*\bunable to (?:write|create) |.*: "
    r"(?:No space left on device|Disk quota exceeded|Read-only file system|Permission denied|Input/output error)$)",
    re.MULTILINE | re.IGNORECASE,
)
_KILLED = -getattr(signal, "SIGKILL", 1_000)
_NOT_THERE = re.compile(r"^error: (.*): does not exist in index$", re.MULTILINE)
_CULPRITS = (
    re.compile(r"^error: patch failed: (.*):\d+$", re.MULTILINE),
    re.compile(r"^error: (?:invalid path|affected file) '(.*?)'", re.MULTILINE),
    re.compile(r"^error: cannot apply binary patch to '(.*?)'", re.MULTILINE),
    re.compile(r"^error: unable to add cache entry for (.*)$", re.MULTILINE),
    re.compile(r"^error: (.*): (?:does not exist in index|already exists in index|patch does not apply)", re.MULTILINE),
)


@dataclass(frozen=True, slots=True)
class LineCounts:
    """How many lines a file gained and lost; null for a binary file."""

    added: int | None
    removed: int | None


@dataclass(frozen=True, slots=True)
class Applied:
    """What a diff does to a tree.

    Attributes:
        changes: Every entry that differs, in path order.
        counts: Lines by path, as git counted them.
        patches: The diff's own headers.
    """

    changes: tuple[Change, ...]
    counts: dict[bytes, LineCounts]
    patches: list[FilePatch]


def apply_diff(handle: Handle, scratch: Scratch, diff: bytes, base: Base) -> Applied:
    """Applies a diff to the base's tree; new objects stay in the scratch folder.

    Only the entries that the diff names are put into the index. Where that could differ from the whole tree (a file
    in a folder's place, a name that was not recognised) the whole tree is taken.

    Raises:
        InvalidDiff: Git refuses it; the message has git's own words.
        TooLarge: It stands for more content than git may take up.
        TimedOut: Git did not end in time.
        Unavailable: Git or the repository cannot be used.
    """
    patches = read_patches(diff)
    candidates = {path for patch in patches for path in (patch.old, patch.new) if path}
    ensure_no_nul(candidates)
    before = handle.objects.entries(base.tree, candidates)
    touched = (before.entries[patch.old] for patch in patches if patch.old in before.entries)
    handle.ensure_fits(touched, inflated_bytes(diff))
    (scratch.folder / "diff").write_bytes(diff)
    if not before.conflicts:
        scratch.write_index(before.entries)
        output = _apply(scratch, base)
        if _is_certain(output, candidates):
            counts = _accepted(output, base)
            return Applied(_differences(before.entries, scratch.read_index(), handle), counts, patches)
    return _apply_to_whole_tree(scratch, base, patches)


def ensure_no_nul(paths: Iterable[bytes]) -> None:
    r"""Refuses a quoted name with `\000`: git takes what stands before it for the name.

    Raises:
        InvalidDiff: There is one.
    """
    for path in paths:
        if b"\0" in path:
            shown = quote(path).decode("ascii")
            raise InvalidDiff(f"The path {shown} contains a NUL byte; no file can be called so.", path=shown)


def _apply(scratch: Scratch, base: Base) -> Output:
    """Git's answer; where git itself fails at a diff, that is the diff's fault unless the machine ended it."""
    try:
        return scratch.run([*_APPLY, "diff"], accept=(0, 1, 128))
    except GitFailed as exc:
        if exc.status_code == _KILLED:
            raise
        raise refusal(exc.words or exc.message, base) from exc


def _is_certain(output: Output, candidates: set[bytes]) -> bool:
    """Whether the answer is the one that the whole tree would have given."""
    if output.status_code == 0:
        return parse_counts(output.stdout).keys() <= candidates
    missing = {name.encode() for name in _NOT_THERE.findall(output.words)}
    return missing <= candidates


def _accepted(output: Output, base: Base) -> dict[bytes, LineCounts]:
    """Git's line counts, if it took the diff."""
    if _MACHINE_FAULT.search(output.words):
        raise Unavailable(f"git could not keep the result: {output.words[:_SHOWN_CHARACTERS]}", git=output.words)
    if output.status_code != 0:
        raise refusal(output.words, base)
    return parse_counts(output.stdout)


def _differences(before: dict[bytes, Entry], after: dict[bytes, Entry], handle: Handle) -> tuple[Change, ...]:
    try:
        return changes_between(before, after, handle.layout.objects.absent)
    except InvalidInput as exc:
        raise InvalidDiff(exc.message, **exc.details) from exc


def _apply_to_whole_tree(scratch: Scratch, base: Base, patches: list[FilePatch]) -> Applied:
    try:
        scratch.run(["read-tree", base.tree])
        output = _apply(scratch, base)
        counts = _accepted(output, base)
        raw = scratch.run(["diff-index", "--cached", *RAW_OPTIONS, base.tree])
        return Applied(parse_raw(raw.stdout), counts, patches)
    except InvalidInput as exc:
        raise InvalidDiff(exc.message, **exc.details) from exc


def parse_counts(data: bytes) -> dict[bytes, LineCounts]:
    """The lines of `--numstat -z`; a path that comes twice (its type changes) has its counts added up."""
    counts: dict[bytes, LineCounts] = {}
    for line in data.split(b"\0")[:-1]:
        added, removed, path = line.split(b"\t", 2)
        if added == b"-":
            counts[path] = LineCounts(None, None)
            continue
        known = counts.get(path, LineCounts(0, 0))
        if known.added is not None and known.removed is not None:
            counts[path] = LineCounts(known.added + int(added), known.removed + int(removed))
    return counts


def refusal(words: str, base: Base) -> InvalidDiff:
    """The error for a diff that git did not take."""
    said = "; ".join(line.removeprefix("error: ") for line in words.splitlines())[:_SHOWN_CHARACTERS]
    found = next((match for match in (culprit.search(words) for culprit in _CULPRITS) if match), None)
    details = {"git": words[:_SHOWN_CHARACTERS], "base": base.name}
    if found:
        details["path"] = found.group(1)
    return InvalidDiff(
        f"The diff does not apply to {base.name[:12]}: {said}. Make it with `git diff` against that commit,"
        " or name the base that it was made against.",
        **details,
    )


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
        base_commit=found.name,
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
        raise InvalidDiff("The diff changes nothing.", base=base.name)
    for change in applied.changes:
        _ensure_reviewable(handle, scratch, change)
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
        if patch.new is not None:
            _ensure_named(patch.new)
        for path in {patch.old, patch.new} - {None}:
            _ensure_safe(decode_path(path or b""))
        if patch.new is not None and patch.mode_after is not None and patch.mode_after not in _FILE_MODES:
            raise _unwelcome(decode_path(patch.path), patch.mode_after.decode("ascii", "replace"))
        files.append(_as_described(patch))
    return ValidatedContent(
        content=content, affected_files=tuple(sorted(files, key=lambda file: encode_path(file.path)))
    )


def _says_something(patch: FilePatch) -> bool:
    """Whether a file's part of a diff describes any change."""
    return bool(patch.hunks or patch.binary or patch.modes or patch.renamed or patch.copied)


def _ensure_named(path: bytes) -> None:
    """Refuse to bring in a name that many systems cannot show; such a file can only go, or be renamed."""
    try:
        path.decode("utf-8")
    except UnicodeDecodeError as exc:
        shown = decode_path(path)
        raise InvalidDiff(
            f"The path {shown} is not UTF-8; rename the file, or delete it. Any other change of it takes an override by"
            " a person (tandem gate override).",
            path=shown,
        ) from exc


def _ensure_one_patch_a_file(patches: Iterable[FilePatch]) -> None:
    """Each file is taken up once and brought forth once, so that what is read is what results.

    A file whose type changes is the one that comes twice: as deleted and as new.
    """
    patches = list(patches)
    taken = Counter(patch.old for patch in patches if patch.old and not patch.copied)
    made = Counter(patch.new for patch in patches if patch.new)
    for path, count in [*taken.items(), *made.items()]:
        if count > 1:
            name = decode_path(path)
            raise InvalidDiff(
                f"The diff changes {name} more than once; send one combined diff (`git diff BASE`).", path=name
            )


def _ensure_no_folder(patches: Iterable[FilePatch]) -> None:
    for patch in patches:
        if patch.modes & _FOLDER_MODES:
            raise _unwelcome(decode_path(patch.path), "040000")


def _ensure_safe(path: str) -> None:
    reason = unsafe_reason(path)
    if reason is not None:
        raise InvalidDiff(f"The path {path!r} {reason}; a diff may only touch the repository's files.", path=path)


def _ensure_reviewable(handle: Handle, scratch: Scratch, change: Change) -> None:
    """Refuses what git would take but no review can answer for; what goes may be anything."""
    _ensure_safe(change.path)
    if change.mode_after == ABSENT_MODE:
        return
    _ensure_named(encode_path(change.path))
    if change.mode_after == GITLINK and _is_known_commit(handle, change.path, change.blob_after):
        return
    if change.mode_after == SYMLINK:
        _ensure_inside(scratch, change)
    elif change.mode_after not in {REGULAR, EXECUTABLE}:
        raise _unwelcome(change.path, change.mode_after)


def _ensure_inside(scratch: Scratch, change: Change) -> None:
    """Refuses a symbolic link whose text leads out of the repository; the file system is not asked."""
    reason = link_reason(change.path, scratch.run(["cat-file", "blob", change.blob_after]).stdout)
    if reason is not None:
        raise InvalidDiff(
            f"{change.path} would become a symbolic link that {reason}; a link has to stay inside the repository.",
            path=change.path,
            mode=change.mode_after,
        )


def _unwelcome(path: str, mode: str) -> InvalidDiff:
    kinds = {
        SYMLINK: "a symbolic link, which only a registered repository can tell the target of",
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
        decode_path(patch.new): decode_path(patch.old)
        for patch in applied.patches
        if patch.renamed and patch.old and patch.new and patch.old != patch.new
        if (change := changed.get(decode_path(patch.old))) and change.mode_after == ABSENT_MODE
        if decode_path(patch.new) in changed
    }
    gone = set(origins.values())
    return tuple(
        _affected_file(change, applied.counts.get(encode_path(path)), origins.get(path))
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
        path=decode_path(patch.path),
        operation=operation,
        added=None if patch.binary else patch.added,
        removed=None if patch.binary else patch.removed,
        old_path=decode_path(patch.old) if patch.renamed and patch.old else None,
    )


_CONTEXT_LINES = 3
# As git: only a line feed ends a line.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def text_change(handle: Handle, path: str, text: str, base_name: str | None = None) -> ValidatedContent:
    """The content of one file as a change to its base; see `Repository.text_change`."""
    name, data = _checked(path, text)
    base = handle.base(base_name)
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
        base_commit=base.name,
        digest=f"{blob}:{path}",
        validated=True,
        affected_files=(AffectedFile(path, "added" if before == absent else "modified", counts.added, counts.removed),),
        changes=(Change(path, before.mode, before.oid, after.mode, after.oid),),
    )


def _checked(path: str, text: str) -> tuple[bytes, bytes]:
    """Path and text as bytes."""
    quoted = "is quoted, and such a file takes a diff" if path.startswith('"') and path.endswith('"') else None
    reason = quoted or ("has a backslash; use slashes" if "\\" in path else unsafe_reason(path))
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
