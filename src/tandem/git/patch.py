"""A diff's own headers: which files it names, how git would take them, and why git refuses a diff.

This decides nothing: git applies the diff, and only git's result counts. It says where to look, and what a sender
cannot have meant, in words of ours: git's own give advice to git's users. A review without a repository has only this.
"""

from __future__ import annotations

import base64
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tandem.errors import InvalidDiff, TooLarge
from tandem.git.handle import Base
from tandem.git.raw import decode_path, quote, unquote

_HEADER = re.compile(
    rb"--- |\+\+\+ |index |(?:new file|deleted file|old|new) mode |rename (?:from|old|to|new) |copy (?:from|to) "
    rb"|(?:dis)?similarity index "
)
_BEFORE, _AFTER = b"--- ", b"+++ "
_USUAL_PREFIXES = {_BEFORE: (b"a/", b"i/", b"c/", b"o/", b"1/"), _AFTER: (b"b/", b"w/", b"i/", b"c/", b"2/")}
"""Git's own, with `diff.mnemonicPrefix` too."""


_NOWHERE = b"/dev/null"
_LONGEST_TRIED = 8_192
"""Of a header's two names: every space may be where the second begins; past this length only the middle is tried."""


def header_name(value: bytes) -> bytes | None:
    """The name in a line such as `--- ` or `rename from `, perhaps quoted; a tab ends it. None for no file."""
    quoted = unquote(value)
    name = value.split(b"\t", 1)[0].rstrip(b"\r") if quoted is None else quoted[0]
    return None if name == _NOWHERE else name


def common_name(value: bytes, *, strip: bool = True) -> bytes | None:
    """The name in `diff --git a/NAME b/NAME`, all there is when neither content nor name changes; None if two.

    Without `strip` the names have no prefix.
    """
    if not strip:
        middle = len(value) // 2
        return header_name(value[:middle]) if value[:middle] == value[middle + 1 :] else None
    quoted = unquote(value)
    if quoted is not None:
        return without_prefix(quoted[0])
    start = value.find(b"/") + 1
    at = value.find(b" ") if len(value) <= _LONGEST_TRIED else len(value) // 2
    while at >= 0 and value[at : at + 1] == b" ":
        left = slice(start if start <= at else 0, at)
        other = unquote(value[at + 1 :]) if value.startswith(b'"', at + 1) else None
        if other is not None:
            if value[left] == without_prefix(other[0]):
                return value[left]
        else:
            # Most places are told apart by length, without a copy of the names: a hostile header is all spaces.
            begin = value.find(b"/", at + 1) + 1 or at + 1
            if len(value) - begin == at - left.start and value[begin:] == value[left]:
                return value[left]
        at = value.find(b" ", at + 1) if len(value) <= _LONGEST_TRIED else -1
    return None


def without_prefix(name: bytes) -> bytes:
    """A name without its first folder."""
    _, slash, rest = name.partition(b"/")
    return rest if slash else name


@dataclass(slots=True)
class FilePatch:
    """One file's part of a diff.

    Attributes:
        git: The rest of the `diff --git` line; None where there is no such line.
        names: The names in its other headers as they stand there, by the header.
        old: Path before; None when the file is new.
        new: Path after; None when the file goes.
        renamed: Whether the diff says that the file moved.
        copied: Whether the diff says that the file is a copy.
        modes: The file modes that its headers name.
        mode_before: The mode that its headers give the file before, where they do.
        mode_after: The mode that its headers give the result, where they do.
        comes: Whether a header says that the file is new.
        goes: Whether a header says that the file is deleted.
        hunks: How many hunks it has.
        binary: Whether its content is not lines.
        cut: Whether it only says that binary files differ.
        without_context: The hunks that have no unchanged line, from 1.
        unplaced: The first hunk that only adds lines somewhere in a file, without any around them; 0 if there is none.
        converted: Whether its first header ends with CR, which git does not write.
        fault: The fault of its hunks, in words; None if they have none.
        passed_over: What git would pass over in its part, or before the first one, in words; None if nothing.
    """

    git: bytes | None = None
    names: dict[bytes, bytes] = field(default_factory=dict[bytes, bytes])
    old: bytes | None = None
    new: bytes | None = None
    renamed: bool = False
    copied: bool = False
    modes: set[bytes] = field(default_factory=set[bytes])
    mode_before: bytes | None = None
    mode_after: bytes | None = None
    comes: bool = False
    goes: bool = False
    hunks: int = 0
    binary: bool = False
    cut: bool = False
    without_context: set[int] = field(default_factory=set[int])
    unplaced: int = 0
    converted: bool = False
    fault: str | None = None
    passed_over: str | None = None

    @property
    def path(self) -> bytes:
        """The path that the file is known by."""
        return self.new if self.new is not None else self.old or b""

    @property
    def has_prefix(self) -> bool | None:
        """Whether its names begin with a prefix, such as `a/`, as far as they tell; None if they do not.

        Without prefixes a name is the same on both sides.
        """
        moved = [name for header, name in self.names.items() if header not in _USUAL_PREFIXES]
        if self.git is not None and len(moved) > 1:
            return self.git != b" ".join(moved)
        sides = {side: header_name(self.names[side]) for side in (_BEFORE, _AFTER) if side in self.names}
        named = {side: name for side, name in sides.items() if name is not None}
        if len(named) > 1:
            return named[_BEFORE] != named[_AFTER]
        if self.git is not None:
            middle = len(self.git) // 2
            return self.git[:middle] != self.git[middle + 1 :]
        return next((name.startswith(_USUAL_PREFIXES[side]) for side, name in named.items()), None)

    def resolve(self, *, strip: bool) -> None:
        """Sets the paths, from names with a prefix (`strip`) or without."""
        name = None if self.git is None else common_name(self.git, strip=strip)
        self.old, self.new = None if self.comes else name, None if self.goes else name
        for header, value in self.names.items():
            found = header_name(value)
            if strip and found is not None and header in _USUAL_PREFIXES:
                found = without_prefix(found)
            if header == _BEFORE or header.endswith((b"from ", b"old ")):
                self.old = found
            else:
                self.new = found


def take_header(patch: FilePatch, line: bytes) -> bool:
    """Takes one line below `diff --git` in; False when it is none of a header."""
    found = _HEADER.match(line)
    if found is None:
        return False
    name, value = found.group(), line[found.end() :]
    if name in _USUAL_PREFIXES or name.startswith((b"rename ", b"copy ")):
        patch.names[name] = value
        patch.renamed |= name.startswith(b"rename ")
        patch.copied |= name.startswith(b"copy ")
    elif name == b"index ":
        _mode(patch, name, value.partition(b" ")[2])
    elif name.endswith(b"mode "):
        _mode(patch, name, value)
    return True


def _mode(patch: FilePatch, name: bytes, value: bytes) -> None:
    patch.comes |= name == b"new file mode "
    patch.goes |= name == b"deleted file mode "
    mode = value.strip()
    if name == b"index " and not mode:
        return
    patch.modes.add(mode)
    if name.startswith((b"old ", b"deleted ", b"index ")):
        patch.mode_before = mode
    if name.startswith((b"new ", b"index ")):
        patch.mode_after = mode


# Git takes up to two parts after the marker: what the file becomes, and the way back. Each says how many bytes it has
# without compression, and git holds it to that.
_PARTS = re.compile(rb"^GIT binary patch\n|^(literal|delta) [ \t\v\f\r]*([+-]?)(\d+)", re.MULTILINE)
_LENGTHS = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_TWO_NUMBERS_BYTES = 20
_BEYOND = 2**53
"""More than any file has; JSON has larger numbers only in part."""


def inflated_bytes(diff: bytes) -> int:
    """Bytes of content that a diff's binary parts make, and that reading them takes."""
    total = parts_left = 0
    for match in _PARTS.finditer(diff):
        if match[1] is None:
            parts_left = 2
        elif parts_left:
            total += _BEYOND if match[2] == b"-" else int(match[3][:_TWO_NUMBERS_BYTES])
            if parts_left == 2 and match[1] == b"delta":  # noqa: PLR2004 the way forward
                total += _result_of_delta(diff, diff.find(b"\n", match.end()) + 1)
            parts_left -= 1
    return min(total, _BEYOND)


def _result_of_delta(diff: bytes, start: int) -> int:
    """Size of what a delta makes: its second number. Nothing for what git cannot read either."""
    unpacker = zlib.decompressobj()
    head = b""
    try:
        for packed in _packed_lines(diff, start):
            head += unpacker.decompress(unpacker.unconsumed_tail + packed, _TWO_NUMBERS_BYTES - len(head))
            if len(head) == _TWO_NUMBERS_BYTES or unpacker.eof:
                break
    except (ValueError, zlib.error):
        pass
    _, at = _number(head, 0)
    return _number(head, at)[0]


def _packed_lines(diff: bytes, start: int) -> Iterator[bytes]:
    """The bytes of each line of base 85, of which the first letter says how many there are."""
    while (end := diff.find(b"\n", start)) > start:
        length = _LENGTHS.index(diff[start : start + 1]) + 1
        yield base64.b85decode(diff[start + 1 : end])[:length]
        start = end + 1


def _number(data: bytes, at: int) -> tuple[int, int]:
    """A number of a delta's head, seven bits a byte and the lowest first, and where the next one begins."""
    value = shift = 0
    while at < len(data):
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:  # noqa: PLR2004 the highest bit says that there is more
            break
    return value, at


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
        # Git ends the name at it.
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
        base: The base that it was applied to.
        patches: The diff's headers.
        hint: What the content of a file tells of the reason.
    """
    details = {"git": words[:SHOWN_CHARACTERS], "base": base.name}
    for pattern, said in _REFUSALS:
        found = pattern.search(words)
        if found is None:
            continue
        named = found.group(1)
        # Git replaces control characters in its messages.
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
