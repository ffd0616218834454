"""Git's index file, version 2, written and read without starting git."""

from __future__ import annotations

import struct
from collections.abc import Mapping

from tandem.errors import InternalError
from tandem.git.raw import Entry, ObjectFormat

_HEADER = struct.Struct(">4sLL")
_SIGNATURE = b"DIRC"
_VERSION = 2
_READABLE = (2, 3)
# Times, device, inode, mode, owner and size; only the mode counts in an index that no working tree stands behind.
_STAT = struct.Struct(">24xL12x")
_FLAGS = struct.Struct(">H")
_LONGEST_NAME = 0xFFF
_EXTENDED = 0x4000
_ALIGNMENT = 8


def encode_index(entries: Mapping[bytes, Entry], objects: ObjectFormat) -> bytes:
    """The bytes of an index that holds exactly these entries."""
    parts = [_HEADER.pack(_SIGNATURE, _VERSION, len(entries))]
    for path in sorted(entries):
        mode, oid = entries[path]
        entry = _STAT.pack(int(mode, 8)) + bytes.fromhex(oid) + _FLAGS.pack(min(len(path), _LONGEST_NAME)) + path
        parts.append(entry + b"\0" * (_ALIGNMENT - len(entry) % _ALIGNMENT))
    body = b"".join(parts)
    return body + objects.hash(body)


def decode_index(data: bytes, objects: ObjectFormat) -> dict[bytes, Entry]:
    """The entries of an index that git wrote without a setting of its own.

    Raises:
        InternalError: The file is of another version than git writes by itself.
    """
    signature, version, count = _HEADER.unpack_from(data)
    if signature != _SIGNATURE or version not in _READABLE:
        raise InternalError("git wrote an index that cannot be read back.", version=version)
    entries: dict[bytes, Entry] = {}
    start = _HEADER.size
    for _ in range(count):
        (mode,) = _STAT.unpack_from(data, start)
        at = start + _STAT.size
        oid = data[at : at + objects.size_bytes].hex()
        at += objects.size_bytes
        (flags,) = _FLAGS.unpack_from(data, at)
        at += _FLAGS.size + (2 if flags & _EXTENDED else 0)
        end = data.index(b"\0", at)
        entries[data[at:end]] = Entry(f"{mode:06o}", oid)
        start = end + _ALIGNMENT - (end - start) % _ALIGNMENT
    return entries
