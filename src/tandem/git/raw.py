"""Git's raw differences, which digests cover and gates compare, the names of files in them, and signatures of commits.

An entry describes one path: path, mode and blob before, mode and blob after. Quick to import, as each commit waits for
it; `changes.Change` is an entry with names. A path is a text that stands for exactly one name of a file, which git
writes in quotes where it has to; some names may never be touched.
"""

from __future__ import annotations

import os

from tandem.core.stand_ins import hex_digest
from tandem.errors import InvalidInput

TYPE_CHECKING = False  # as in `errors`
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    RawEntry = tuple[str, ...]

_ESCAPES = dict(zip(b'abtnvfr"\\', b'\a\b\t\n\v\f\r"\\', strict=True))
_QUOTED = {value: b"\\" + bytes([letter]) for letter, value in _ESCAPES.items()}
_OCTAL = frozenset(b"01234567")
_OCTAL_LENGTH, _LARGEST_OCTAL = 3, 0o377
_SPACE = 0x20
_DELETE = 0x7F

FIELDS = ("path", "mode_before", "blob_before", "mode_after", "blob_after")
"""What an entry holds, in its order, by the names of the contract."""

RAW_OPTIONS = ("--raw", "-z", "--no-renames", "--full-index", "--ignore-submodules=none", "--ita-invisible-in-index")
"""The options of the digest (see the semantics): none of the user's settings changes its bytes."""

TREE_OPTIONS = RAW_OPTIONS[:-1]
"""Those that hold without an index."""

ABSENT_MODE = "000000"
REGULAR = "100644"
EXECUTABLE = "100755"
SYMLINK = "120000"
GITLINK = "160000"


def quote(path: bytes) -> bytes:
    """A path in double quotes with C escapes, as git reads it back in lists and attribute files."""
    return b'"' + b"".join(_escaped(byte) for byte in path) + b'"'


def _escaped(byte: int) -> bytes:
    known = _QUOTED.get(byte)
    if known is not None:
        return known
    return bytes([byte]) if _SPACE <= byte < _DELETE else b"\\%03o" % byte


def unquote(text: bytes) -> tuple[bytes, bytes] | None:
    """The name that a C-quoted string at the start of `text` stands for, and what follows it."""
    if not text.startswith(b'"'):
        return None
    name = bytearray()
    at = 1
    while at < len(text):
        byte = text[at]
        if byte == ord('"'):
            return bytes(name), text[at + 1 :]
        if byte != ord("\\"):
            name.append(byte)
            at += 1
            continue
        octal = text[at + 1 : at + 4]
        if len(octal) == _OCTAL_LENGTH and _OCTAL.issuperset(octal) and int(octal, 8) <= _LARGEST_OCTAL:
            name.append(int(octal, 8))
            at += 1 + _OCTAL_LENGTH
            continue
        letter = _ESCAPES.get(text[at + 1]) if at + 1 < len(text) else None
        if letter is None:
            return None
        name.append(letter)
        at += 2
    return None


def decode_path(path: bytes) -> str:
    """A path as text: itself, or quoted as git does where it is not UTF-8, or could be taken for a quoted one.

    `encode_path` takes it back, so that no two paths have the same text.
    """
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        text = None
    if text is not None and encode_path(text) == path:
        return text
    return quote(path).decode("ascii")


def encode_path(path: str) -> bytes:
    """The path that a text of `decode_path` stands for."""
    data = path.encode()
    if not data.startswith(b'"'):
        return data
    found = unquote(data)
    return found[0] if found is not None and not found[1] else data


# What HFS+ leaves out when it compares names: `.g<U+200C>it` opens `.git` there.
_HFS_IGNORED = dict.fromkeys([*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF])
_GIT_FOLDERS = frozenset({".git", "git~1"})
LONGEST_PATH_BYTES = 1024
"""No system takes much longer ones in a work tree, and approvals are found by an index on paths."""


def unsafe_reason(path: str) -> str | None:
    """Why a path cannot stand in a repository on any system; None when it can.

    Stricter than the system it runs on, because a change reviewed here may be checked out elsewhere.
    """
    if not path:
        return "is empty"
    if path.startswith('"'):
        path = encode_path(path).decode("utf-8", "surrogateescape")
    if "\0" in path:
        return "contains a NUL byte"
    if len(path.encode("utf-8", "surrogatepass")) > LONGEST_PATH_BYTES:
        return f"is longer than {LONGEST_PATH_BYTES} bytes"
    if _is_absolute(path):
        return "is absolute"
    return next(filter(None, map(_unsafe_part_reason, _parts(path))), None)


def link_reason(path: str, target: bytes) -> str | None:
    """Why the text of a symbolic link could lead out of the repository; None when it cannot.

    `..` leads up from the link's folder, which is a real one, and may stand only where the text begins: behind a name,
    which may be a link itself, the text does not tell where it leads.

    Args:
        path: The link.
        target: Its text.
    """
    text = target.decode("utf-8", "surrogateescape")
    if not text or "\0" in text or len(target) > LONGEST_PATH_BYTES:
        return "has no usable target"
    if _is_absolute(text):
        return "is absolute"
    depth = encode_path(path).count(b"/")
    names = 0
    for part in _parts(text):
        if part == "..":
            if names:
                return "has '..' behind a name"
            depth -= 1
        elif part not in {"", "."}:
            names += 1
            if _is_git_folder(part):
                return "leads into a .git folder"
        if depth < 0:
            return "leads out of it"
    return None


def _is_absolute(path: str) -> bool:
    """Whether it begins at a root, or at a drive of Windows."""
    return path[0] in "/\\" or (path[1:2] == ":" and path[0].isascii() and path[0].isalpha())


def _parts(path: str) -> list[str]:
    return path.replace("\\", "/").split("/")


def _unsafe_part_reason(part: str) -> str | None:
    if part in {"", ".", ".."}:
        return f"has the component {part!r}"
    return "leads into a .git folder" if _is_git_folder(part) else None


def _is_git_folder(part: str) -> bool:
    """Whether some file system takes the name for `.git`."""
    return loosely_read(part) in _GIT_FOLDERS


def loosely_read(part: str) -> str:
    """A component as the file system reads it that minds least how it is written."""
    name = part.translate(_HFS_IGNORED).lower()
    return name.split(":", 1)[0].rstrip(" .")


def raw_bytes(entries: Iterable[RawEntry]) -> bytes:
    """The bytes of `git diff-index --cached --raw -z` for these entries, in git's path order."""
    ordered = sorted((encode_path(entry[0]), *entry[1:]) for entry in entries)
    return b"".join(
        f":{before} {after} {old} {new} {_status(before, after)}".encode() + b"\0%s\0" % path
        for path, before, old, after, new in ordered
    )


def digest_of(entries: Iterable[RawEntry]) -> str:
    """SHA-256, in hexadecimal, of the raw difference: what an approval of a change to files binds to."""
    return hex_digest(raw_bytes(entries))


def _status(before: str, after: str) -> str:
    if before == ABSENT_MODE:
        return "A"
    if after == ABSENT_MODE:
        return "D"
    return "M" if before[:2] == after[:2] else "T"


def merge_arguments(no_driver: str) -> list[str]:
    """The command by which git alone merges two commits, which follow it, independently of attributes and settings.

    Args:
        no_driver: A name that no merge driver can have.
    """
    settings = {
        "merge.default": no_driver,
        "core.attributesFile": os.devnull,
        "merge.renames": "true",
        "merge.directoryRenames": "conflict",
    }
    options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
    return [*options, "merge-tree", "--write-tree", "--no-messages"]


def parse_raw(data: bytes) -> Iterator[RawEntry]:
    """The entries in git's own raw output, in its order.

    Raises:
        InvalidInput: A path is unmerged.
    """
    fields = data.split(b"\0")
    for facts, name in zip(fields[:-1:2], fields[1::2], strict=True):
        before, after, old, new, status = facts[1:].decode("ascii").split(" ")
        path = decode_path(name)
        if status.startswith("U"):
            raise InvalidInput(f"{path} has unresolved conflicts; resolve them first.", field="changes")
        yield path, before, old, after, new


_MOST_SIGNATURES = 10
_SIGNATURE_LETTERS = 99


def signatures(stated: Iterable[str]) -> tuple[str, ...]:
    """Those of a message's values that look like signatures, as many as the broker is asked about."""
    found = (one for one in dict.fromkeys(stated) if len(one) == _SIGNATURE_LETTERS and one.isascii())
    return tuple(found)[:_MOST_SIGNATURES]


def by_commit(data: bytes) -> list[bytes]:
    """The output of `git diff-tree --stdin --always -z`, as the raw difference of each commit."""
    found: list[list[bytes]] = []
    fields: Iterator[bytes] = iter(data.split(b"\0")[:-1])
    for field in fields:
        if field.startswith(b":"):
            found[-1] += (field, next(fields))
        else:
            found.append([])
    return [b"".join(field + b"\0" for field in entries) for entries in found]
