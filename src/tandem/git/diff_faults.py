"""What is wrong with a diff that git does not take, and what to do: git's own words give advice to git's users."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence

from tandem.errors import InvalidDiff, TooLarge
from tandem.git.handle import Base
from tandem.git.names import decode_path, quote
from tandem.git.patch import FilePatch

SHOWN_CHARACTERS = 2_000
MOST_HUNKS = 10_000
"""Of one file: 80,000 of them in 5 MB keep git busy for longer than its time limit."""
_SEND = "send the output of `git diff`"
_WHOLE = "Send the output of `git diff --binary --submodule=short`"

_NOT_GITS = ((rb"^(?:\x1b\[[0-9;]*m)+(?:diff --git |--- |@@ )", f"The diff has colours in it; {_SEND} --no-color."),)
_NO_FILES = (
    (
        rb"^\*{3} (?:Begin Patch|(?:Add|Update|Delete) File:)",
        f"This is *** Begin Patch, which apply_patch reads, not a diff; {_SEND}.",
    ),
    (rb"^\*{3} \d+(?:,\d+)? \*{4}$", f"This is a context diff, not a unified one; {_SEND}."),
    (rb"^[ \t]*> ?(?:diff --git |--- )", f"The diff is quoted with '>', as in a mail; {_SEND} as it is."),
    (rb"^[ \t]+(?:diff --git |--- )", f"The lines of the diff are indented; {_SEND} as it is."),
    (rb"^Submodule ", "The diff only names a submodule; send the output of `git diff --submodule=short`."),
    (rb"", f"The text is not a diff; {_SEND}."),
)


def ensure_meant(diff: bytes, patches: Sequence[FilePatch]) -> None:
    """Refuses what git would pass over, or read in another way than it was written.

    Raises:
        InvalidDiff: There is such a thing; the message says what, and what to do.
        TooLarge: A file has too many hunks.
    """
    for pattern, words in (*_NOT_GITS, *(() if patches else _NO_FILES)):
        if re.search(pattern, diff, re.MULTILINE):
            raise InvalidDiff(words)
    if words := next((patch.passed_over for patch in patches if patch.passed_over), None):
        raise InvalidDiff(f"Git would pass something over: {words}. {_WHOLE}.")
    if any(patch.converted for patch in patches):
        raise InvalidDiff(f"The line ends of the diff were turned into CRLF; {_SEND} as it is.")
    for patch in patches:
        _ensure_file_meant(patch)
    if len({patch.has_prefix for patch in patches} - {None}) > 1:
        raise InvalidDiff(
            "Some names in the diff have the prefixes a/ and b/, and others have none; send the output of one `git"
            " diff`."
        )


def _ensure_file_meant(patch: FilePatch) -> None:
    path = decode_path(patch.path)
    if any(b"\0" in name for name in (patch.old, patch.new) if name):
        # Git takes what stands before it for the name.
        shown = quote(patch.path).decode("ascii")
        raise InvalidDiff(f"The path {shown} contains a NUL byte; no file can be called so.", path=shown)
    if patch.hunks > MOST_HUNKS:
        raise TooLarge(
            f"{path} has {patch.hunks} hunks, and git takes the longer for each the more there are; {MOST_HUNKS} are"
            " allowed. Send it with more context (`git diff -U25`), so that neighbours become one.",
            path=path,
            limit=MOST_HUNKS,
            actual=patch.hunks,
        )
    if patch.fault is not None:
        raise InvalidDiff(f"In {path}, {patch.fault}. Correct its numbers, or {_SEND}.", path=path)
    if patch.unplaced:
        raise misplaced(path, patch.unplaced)
    if patch.git is None and patch.old and patch.new and patch.old != patch.new:
        raise InvalidDiff(
            f"The diff names two files for one change, {decode_path(patch.old)} and {path}; {_SEND}.", path=path
        )


def misplaced(path: str, hunk: int) -> InvalidDiff:
    """For a hunk of which only its header says where it belongs, which git does not go by."""
    return InvalidDiff(
        f"In {path}, hunk {hunk} has no context, so that nothing tells where its lines belong (-U0 is not taken);"
        f" {_SEND}.",
        path=path,
    )


_CUT = "the file is binary, and the diff leaves its content out: send `git diff --binary`"
_OTHER_LINES = "its lines are not those that the diff has"
# A name may have line ends, which git repeats.
_PATH = r"((?:(?!\nerror: ).)*?)"
# What git says of a file, and what we say of it.
_REFUSALS = tuple(
    (re.compile(rf"^error: {said}", re.MULTILINE | re.DOTALL), words)
    for said, words in (
        (rf"patch failed: {_PATH}:(\d+)$", f"around line {{line}} {_OTHER_LINES}"),
        (rf"{_PATH}: does not exist in index$", "there is no such file"),
        (rf"{_PATH}: already exists in index$", "the file is there already"),
        (rf"cannot apply binary patch to '{_PATH}' without full", _CUT),
        (
            rf"the patch applies to '{_PATH}' \([^)]*\), which does not match",
            "the binary file has another content there",
        ),
        (rf"affected file '{_PATH}' is beyond a symbolic link", "a folder above it is a symbolic link"),
        (rf"'{_PATH}' appears as both a file and as a directory", "it would be both a file and a folder"),
        (rf"invalid path '{_PATH}'", "no file can be called so"),
        (rf"{_PATH}: patch does not apply", _OTHER_LINES),
    )
)
_NO_CONTEXT = (
    f"around line {{line}} {_OTHER_LINES}, or git cannot place hunk {{hunk}}, which has no context (-U0 is not taken)"
)
_ADVICE = re.compile(r" \((?:allow with|use|see) [^)]*\)")
_WAY_OUT = "Make it with `git diff` against that commit, or name the base that it was made against."


def refusal(
    words: str, base: Base, patches: Iterable[FilePatch], hint: Callable[[bytes], str] = lambda _: ""
) -> InvalidDiff:
    """The error for a diff that git did not take.

    Args:
        words: What git said.
        base: What it was applied to.
        patches: The diff's headers.
        hint: What the content of a file tells of the reason.
    """
    details = {"git": words[:SHOWN_CHARACTERS], "base": base.name}
    for pattern, said in _REFUSALS:
        found = pattern.search(words)
        if found is None:
            continue
        named = found.group(1)
        # Git replaces control characters in what it says.
        of_file = [one for one in patches if named.encode() in (one.old, one.new)] or list(patches)
        hunk = min((number for one in of_file for number in one.without_context), default=0)
        line = found.groups()[-1]
        problem = (_NO_CONTEXT if hunk and line != named else said).format(line=line, hunk=hunk) + hint(named.encode())
        path = decode_path(of_file[0].path) if len(of_file) == 1 else named
        return InvalidDiff(
            f"The diff does not apply to {base.name[:12]}. {path}: {problem}. {_WAY_OUT}", path=path, **details
        )
    lines = [line.removeprefix("error: ").removeprefix("fatal: ") for line in words.splitlines()]
    problem = _ADVICE.sub("", "; ".join(lines))[:SHOWN_CHARACTERS]
    return InvalidDiff(f"git cannot read the diff: {problem}. {_SEND.capitalize()} as it is.", **details)
