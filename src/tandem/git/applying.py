"""Applying a diff to a tree in a private index, sparsely where that is certain to be the same."""

from __future__ import annotations

import re
import signal
from collections.abc import Iterable
from dataclasses import dataclass

from tandem.core.diff_names import quote
from tandem.errors import InvalidDiff, InvalidInput, Unavailable
from tandem.git.changes import Change, Entry, changes_between, parse_raw
from tandem.git.handle import Base, Handle
from tandem.git.patch import FilePatch, inflated_bytes, read_patches
from tandem.git.raw import RAW_OPTIONS
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
    details = {"git": words[:_SHOWN_CHARACTERS], "base": base.oid}
    if found:
        details["path"] = found.group(1)
    return InvalidDiff(
        f"The diff does not apply to {base.oid[:12]}: {said}. Make it with `git diff` against that commit,"
        " or name the base that it was made against.",
        **details,
    )
