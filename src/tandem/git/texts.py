"""Whole texts that name the file they are meant for."""

from __future__ import annotations

import difflib
import re

from tandem.domain.gates import Change
from tandem.domain.patches import AffectedFile, ValidatedContent
from tandem.errors import InvalidInput
from tandem.git.applying import LineCounts
from tandem.git.handle import Handle
from tandem.git.paths import unsafe_reason
from tandem.git.raw import EXECUTABLE, REGULAR, Entry

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
