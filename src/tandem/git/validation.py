"""What a diff or a whole text is worth: the bytes it fixes, the files it touches, or why it is refused."""

from __future__ import annotations

import os
import re
import shlex
import signal
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tandem.errors import InvalidDiff, InvalidInput, Unavailable
from tandem.git.changes import AffectedFile, Change, Entry, FileOperation, ValidatedContent, changes_between, parse_raw
from tandem.git.drawing import draw, moved_from
from tandem.git.handle import Base, Handle
from tandem.git.hunks import join_renames, parse, read_files, read_patches
from tandem.git.layout import Scratch, fetching, listed_folder
from tandem.git.patch import SHOWN_CHARACTERS, FilePatch, ensure_meant, header_name, inflated_bytes, misplaced, refusal
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
    link_reason,
    unsafe_reason,
)
from tandem.git.runner import GitFailed, Output

_APPLY = ("apply", "--cached", "--whitespace=nowarn", "--apply", "--numstat", "-z")
_ANSWERS = (0, 1, 128)
_MOVED = re.compile(
    rb"^(?:Checking patch (.*)\.\.\.|Hunk #(\d+) succeeded at (\d+) \(offset (-?\d+) lines?\)\.)$", re.MULTILINE
)
_MOST_NOTES = 20
_REPLACED = "\ufffd".encode()
# Git's words for faults of the machine, not of the diff. Where it names a file of the diff's, the
# line ends otherwise.
_MACHINE_FAULT = re.compile(
    rb"^(?:fatal|error): (?!.*(?:in index|not apply|:\d+)$)(?:Out of memory|.*\bunable to (?:write|create) .*|.*: "
    rb"(?:No space left on device|Disk quota exceeded|Read-only file system|Permission denied|Input/output error)$)",
    re.MULTILINE | re.IGNORECASE,
)
_KILLED = -getattr(signal, "SIGKILL", 1_000)
_NOT_THERE = re.compile(r"^error: (.*): does not exist in index$", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Applied:
    """What a diff does to a tree.

    Attributes:
        changes: Every entry that differs, in path order.
        patches: The diff's own headers.
        notes: What git did that the diff does not say.
    """

    changes: tuple[Change, ...]
    patches: list[FilePatch]
    notes: tuple[str, ...] = ()


def apply_diff(handle: Handle, scratch: Scratch, diff: bytes, base: Base) -> Applied:
    """Applies a diff to the base's tree; new objects stay in the scratch folder.

    Only the entries that the diff names are put into the index. Where that could differ from the whole tree (a file
    in a folder's place, a name that was not recognised) the whole tree is taken.

    Raises:
        InvalidDiff: It is not what `git diff` writes, or does not apply; `details.git` has git's own words.
        TooLarge: It stands for more content than git may take up.
        TimedOut: Git did not end in time.
        Unavailable: Git or the repository cannot be used.
    """
    patches = read_patches(diff)
    ensure_meant(diff, patches)
    candidates = {path for patch in patches for path in (patch.old, patch.new) if path}
    before = handle.objects.entries(base.tree, candidates)
    touched = (before.entries[patch.old] for patch in patches if patch.old in before.entries)
    handle.ensure_fits(touched, inflated_bytes(diff))
    (scratch.folder / "diff").write_bytes(diff)
    if not before.conflicts:
        scratch.write_index(before.entries)
        output = _apply(scratch, base, patches)
        if _is_certain(output, candidates):
            _ensure_taken(handle, scratch, output, base, patches)
            changes = changes_between(before.entries, scratch.read_index(), handle.layout.objects.absent)
            return Applied(changes, patches, _notes(output, patches))
    return _apply_to_whole_tree(handle, scratch, base, patches)


def _apply(scratch: Scratch, base: Base, patches: Sequence[FilePatch]) -> Output:
    """Git's answer; where git itself fails at a diff, that is the diff's fault unless the machine ended it."""
    arguments = [*_APPLY, "-p0" if any(patch.has_prefix is False for patch in patches) else "-p1", "diff"]
    try:
        output = scratch.run([*arguments, "--verbose"], accept=_ANSWERS)
        # Of what does not apply it quotes lines, which could be taken for words of its own.
        return output if output.status_code == 0 else scratch.run(arguments, accept=_ANSWERS)
    except GitFailed as exc:
        if exc.status_code == _KILLED:
            raise
        raise refusal(exc.words or exc.message, base, patches) from exc


def _is_certain(output: Output, candidates: set[bytes]) -> bool:
    """Whether the answer is the one that the whole tree would have given."""
    if output.status_code == 0:
        return {line.split(b"\t", 2)[-1] for line in output.stdout.split(b"\0")[:-1]} <= candidates
    missing = {name.encode() for name in _NOT_THERE.findall(output.words)}
    return missing <= candidates


def _ensure_taken(handle: Handle, scratch: Scratch, output: Output, base: Base, patches: Sequence[FilePatch]) -> None:
    def hint(path: bytes) -> str:
        diff = (scratch.folder / "diff").read_bytes()
        if _REPLACED in diff:
            return "; the diff has U+FFFD, which stands for bytes that were not UTF-8: send it with `tandem submit`"
        found = handle.objects.entries(base.tree, [path]).entries.get(path)
        if found is None or found.mode == GITLINK or b"\r" in diff:
            return ""
        has_returns = b"\r\n" in scratch.run(["cat-file", "blob", found.oid]).stdout
        return "; it has CRLF line ends, and the diff has none: something turned them into LF" if has_returns else ""

    if fault := _MACHINE_FAULT.search(output.stderr):
        words = fault.group().decode("utf-8", "replace")[:SHOWN_CHARACTERS]
        raise Unavailable(f"git could not keep the result: {words}", git=words)
    if output.status_code != 0:
        handle.ensure_there(handle.objects.entries(base.tree, [patch.old for patch in patches if patch.old]).entries)
        raise refusal(output.words, base, patches, hint)


def _notes(output: Output, patches: Sequence[FilePatch]) -> tuple[str, ...]:
    """The hunks that git found at another place than their headers name.

    Raises:
        InvalidDiff: One has no context, and so may be meant for either place.
    """
    unplaced = {(decode_path(patch.path), number) for patch in patches for number in patch.without_context}
    found: list[str] = []
    path = b""
    for name, number, line, offset in _MOVED.findall(output.stderr):
        path = name or path
        if number:
            hunk, at, stated = int(number), int(line), int(line) - int(offset)
            file = decode_path(header_name(path) or b"")
            if (file, hunk) in unplaced:
                raise misplaced(file, hunk)
            found.append(f"{file}: hunk {hunk} is at line {at}, where its lines are, not at line {stated}.")
    if len(found) > _MOST_NOTES:
        found[_MOST_NOTES:] = [f"{len(found) - _MOST_NOTES} more hunks are at other lines than their headers say."]
    return tuple(found)


def _apply_to_whole_tree(handle: Handle, scratch: Scratch, base: Base, patches: list[FilePatch]) -> Applied:
    scratch.run(["read-tree", base.tree])
    output = _apply(scratch, base, patches)
    _ensure_taken(handle, scratch, output, base, patches)
    raw = scratch.run(["diff-index", "--cached", *RAW_OPTIONS, base.tree])
    return Applied(parse_raw(raw.stdout), patches, _notes(output, patches))


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
        raise InvalidDiff(
            "The diff contains a NUL byte; send it with `tandem submit`, which makes a binary patch of that file."
        )
    try:
        return diff.encode("utf-8")
    except UnicodeEncodeError as exc:
        raise InvalidDiff(
            "The diff is not valid Unicode; send it with `tandem submit`, which makes other encodings binary patches."
        ) from exc


def validate_diff(handle: Handle, diff: str, base: str | None = None) -> ValidatedContent:
    """Applies a diff to `base` in a private index, independently of the working tree; returns the changes.

    The user's repository is only read: no object, index or configuration of it changes, and no filter, hook or
    attribute of it takes part. The digest equals that of the commit made from the diff.

    Raises:
        InvalidDiff: It does not apply (with git's words in `details.git` and, where known, `details.path`),
            leaves the repository, makes a symbolic link that does, brings in a submodule at an unknown commit or a
            name that is not UTF-8, or changes nothing.
        InvalidInput: `base` names nothing.
    """
    data = encoded(repaired(diff))
    found = handle.base(base)
    with handle.scratch() as scratch:
        applied = apply_reviewable(handle, scratch, data, found)
        drawn = draw(scratch, found.tree, applied.changes)
        moved = moved_from(scratch, found.tree, applied.changes)
    return ValidatedContent(
        content=drawn,
        base_commit=found.name,
        digest=digest_of(applied.changes),
        validated=True,
        affected_files=_affected(applied.changes, drawn, moved),
        changes=applied.changes,
        notes=applied.notes,
    )


def apply_reviewable(handle: Handle, scratch: Scratch, diff: bytes, base: Base) -> Applied:
    """Applies a diff as `apply_diff` does and refuses what no review can answer for.

    Raises:
        InvalidDiff: Git refuses it, or it brings in links, folders or unknown submodules, or changes nothing.
    """
    applied = apply_diff(handle, scratch, diff, base)
    _ensure_one_patch_a_file(applied.patches)
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
    data = encoded(content)
    read = read_files(data)
    ensure_meant(data, [patch for patch, _ in read])
    found = [(patch, file) for patch, file in read if patch.path]
    named = [patch for patch, _ in found]
    if not any(one.hunks or one.binary or one.modes or one.renamed or one.copied for one in named):
        raise InvalidDiff("The text is not a diff; send the output of `git diff`.")
    _ensure_one_patch_a_file(named)
    files: list[AffectedFile] = []
    for patch, file in found:
        if patch.new is not None:
            _ensure_named(patch.new)
        for path in {patch.old, patch.new} - {None}:
            _ensure_safe(decode_path(path or b""))
        if patch.new is not None and patch.mode_after is not None and patch.mode_after not in _FILE_MODES:
            raise _unwelcome(decode_path(patch.path), patch.mode_after.decode("ascii", "replace"))
        operation = "added" if file.kind == "copied" else file.kind
        added, removed = (None, None) if file.binary else (file.added, file.deleted)
        files.append(AffectedFile(file.path, operation, added, removed, file.old_path if patch.renamed else None))
    return ValidatedContent(
        content=content, affected_files=tuple(sorted(files, key=lambda file: encode_path(file.path)))
    )


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


def _ensure_one_patch_a_file(patches: Sequence[FilePatch]) -> None:
    """Each file is read once and made once, and none is a folder, so that the diff as read is the result.

    Only a file whose type changes comes twice: as deleted and as new.
    """
    taken = Counter(patch.old for patch in patches if patch.old and not patch.copied)
    made = Counter(patch.new for patch in patches if patch.new)
    for path, count in [*taken.items(), *made.items()]:
        if count > 1:
            name = decode_path(path)
            raise InvalidDiff(
                f"The diff changes {name} more than once; send one combined diff (`git diff BASE`).", path=name
            )
    for patch in patches:
        if patch.modes & _FOLDER_MODES:
            raise _unwelcome(decode_path(patch.path), "040000")


def _ensure_safe(path: str) -> None:
    reason = unsafe_reason(path)
    if reason is not None:
        raise InvalidDiff(f"The path {path!r} {reason}; a diff may only touch the repository's files.", path=path)


def _ensure_reviewable(handle: Handle, scratch: Scratch, change: Change) -> None:
    """Refuses changes that git would take but no review can answer for; any file may be deleted."""
    _ensure_safe(change.path)
    if change.mode_after == ABSENT_MODE:
        return
    _ensure_named(encode_path(change.path))
    if change.mode_after == GITLINK:
        _ensure_known_commit(handle, change.path, change.blob_after)
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
        GITLINK: "a submodule, whose commit only a registered repository knows",
        "040000": "a folder, which git keeps no entry for",
    }
    return InvalidDiff(f"{path} would become {kinds.get(mode, 'something else than a file')}.", path=path, mode=mode)


def _ensure_known_commit(handle: Handle, path: str, oid: str) -> None:
    """Refuses a submodule at a commit that neither this repository has nor any folder of its submodules."""
    if handle.objects.find([f"{oid}^{{commit}}".encode()])[0] is not None:
        return
    if handle.bases is not None:
        raise _unwelcome(path, GITLINK)
    modules = list(handle.layout.module_folders(path))
    with handle.scratch() as scratch:
        listed = os.pathsep.join(listed_folder(folder / "objects") for folder in modules)
        environment = {**scratch.environment, "GIT_ALTERNATE_OBJECT_DIRECTORIES": listed}
        asked = ["cat-file", "-e", f"{oid}^{{commit}}"]
        if not handle.git.run(asked, cwd=scratch.folder, environment=environment, accept=(0, 1, 128)).status_code:
            return
    if (handle.layout.root / path / ".git").exists():
        way = fetching(handle.git, handle.layout.root / path, oid)
    else:
        at = "" if handle.layout.root == handle.layout.git_dir else f"-C {shlex.quote(str(handle.layout.root))} "
        way = f"Bring it with `git {at}submodule update --init -- {shlex.quote(path)}`."
    raise InvalidDiff(
        f"{path} would become a submodule at the commit {oid}, which is in none of the submodule's folders here. {way}",
        path=path,
        mode=GITLINK,
        actual=oid,
    )


def _affected(changes: Iterable[Change], drawn: str, moved: Mapping[str, str]) -> tuple[AffectedFile, ...]:
    """The files of a change with their counts of lines; `moved` says where the new ones among them come from.

    A renamed file is one file, with the lines that differ: these are the numbers that every interface shows.
    """
    files = parse(drawn)
    binary = {file.path: file.binary for file in files}
    # A text that becomes binary is two files: its lines have to be read.
    moved = {path: before for path, before in moved.items() if binary[path] == binary[before]}
    counts: dict[str, tuple[int | None, int | None]] = {}
    for file in join_renames(files, moved):
        # A file whose type changes is there twice.
        added, removed = counts.get(file.path, (0, 0))
        counts[file.path] = (None, None) if file.binary else ((added or 0) + file.added, (removed or 0) + file.deleted)
    return tuple(
        AffectedFile(
            change.path,
            "renamed" if change.path in moved else _operation(change),
            *counts[change.path],
            old_path=moved.get(change.path),
        )
        for change in changes
        if change.path in counts
    )


def _operation(change: Change) -> FileOperation:
    if change.mode_before == ABSENT_MODE:
        return "added"
    if change.mode_after == ABSENT_MODE:
        return "deleted"
    return "mode" if change.blob_before == change.blob_after else "modified"


# As git: only a line feed ends a line.
_LINE = re.compile(r"[^\n]*\n|[^\n]+")


def text_change(handle: Handle, path: str, text: str, base: str | None = None) -> ValidatedContent:
    """The whole content of one file: what an approved plan or report binds to.

    Its digest is `<blob>:<path>`, blob being the id of exactly the text's UTF-8 bytes; its one change is against
    `base`, by default HEAD, and keeps the file's mode.

    Raises:
        InvalidInput: The path is unsafe, or no file (`details.field` is `path`), or the text is not Unicode.
    """
    name, data = _checked(path, text)
    handle.layout.ensure_outside([path])
    at = handle.base(base)
    found = handle.objects.entries(at.tree, [name])
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
    counts = _counts(handle, before, data) if before != absent else (len(_LINE.findall(text)), 0)
    return ValidatedContent(
        content=text,
        base_commit=at.name,
        digest=f"{blob}:{path}",
        validated=True,
        affected_files=(AffectedFile(path, "added" if before == absent else "modified", *counts),),
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


def _counts(handle: Handle, before: Entry, data: bytes) -> tuple[int | None, int | None]:
    """Lines gained and lost against the file as it is, counted by git; None for a binary file."""
    handle.ensure_fits([before], len(data))
    with handle.scratch() as scratch:
        written = scratch.write_blob(data)
        output = scratch.run(["diff", "--numstat", "--no-ext-diff", "--no-textconv", before.oid, written])
    if not output.stdout:
        return 0, 0
    added, removed, _ = output.stdout.split(b"\t", 2)
    return (None, None) if added == b"-" else (int(added), int(removed))
