"""A private git folder for one question: nothing is written to the user's repository, nothing of it is obeyed.

Its index is a file of version 2, written and read here without starting git.
"""

from __future__ import annotations

import os
import shutil
import struct
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Self

from tandem.core.scratch import ScratchFolder
from tandem.errors import InternalError
from tandem.git.changes import Change, Entry, ObjectFormat, parse_raw
from tandem.git.layout import Layout
from tandem.git.names import quote
from tandem.git.raw import TREE_OPTIONS
from tandem.git.runner import BoundGit, Git, clean_environment, make_git_folder, memory_folder


class Scratch(BoundGit):
    """A bare repository of our own over the objects of another, gone when the block ends.

    Args:
        git: The program.
        layout: The other repository.
        large: Whether whole files of any size may be kept here, for which memory is no place.
    """

    def __init__(self, git: Git, layout: Layout, *, large: bool = False) -> None:
        self._layout = layout
        self._folder = ScratchFolder("git", None if large else memory_folder())
        self.folder = Path(self._folder.name)
        environment = clean_environment(
            {
                "GIT_DIR": str(self.folder),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": listed_folder(layout.object_folder),
                # Which commits a shallow clone has no parents of; without it a walk would end in an error.
                "GIT_SHALLOW_FILE": str(layout.common_dir / "shallow"),
                "HOME": str(self.folder),
                "XDG_CONFIG_HOME": str(self.folder),
            },
            isolated=True,
        )
        super().__init__(git, environment, self.folder)

    def __enter__(self) -> Self:
        try:
            make_git_folder(self._folder.name, self._layout.objects.name)
        except BaseException:
            self._folder.cleanup()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def write_blob(self, content: bytes) -> str:
        """Id of a blob with this content, kept here."""
        return self.run(["hash-object", "-w", "--no-filters", "--stdin"], stdin=content).text

    def difference(self, before: str, after: str) -> tuple[Change, ...]:
        """What changed from one commit or tree to another, in path order.

        Raises:
            InvalidInput: A path is unmerged.
        """
        return parse_raw(self.run(["diff-tree", "-r", *TREE_OPTIONS, before, after]).stdout)

    def write_index(self, entries: Mapping[bytes, Entry]) -> None:
        """Makes the private index hold exactly these entries."""
        (self.folder / "index").write_bytes(encode_index(entries, self._layout.objects))

    def read_index(self) -> dict[bytes, Entry]:
        """The private index's entries."""
        return decode_index((self.folder / "index").read_bytes(), self._layout.objects)

    def tree_of(self, entries: Mapping[bytes, Entry]) -> str:
        """Id of a tree with exactly these entries, kept here."""
        self.write_index(entries)
        return self.run(["write-tree"]).text

    def write_attributes(self, lines: Sequence[bytes]) -> None:
        """The only attributes that git finds here."""
        folder = self.folder / "info"
        folder.mkdir(exist_ok=True)
        (folder / "attributes").write_bytes(b"".join(line + b"\n" for line in lines))

    @property
    def listed_objects(self) -> str:
        """The private objects, as git's list of further object folders has them."""
        return listed_folder(self.folder / "objects")

    @property
    def no_hooks(self) -> str:
        """The setting that keeps the user's hooks from running."""
        return f"core.hooksPath={self.folder / 'no-hooks'}"

    def borrow_index(self) -> dict[str, str]:
        """For git in the user's own repository, but with a copy of its index and with new objects kept here."""
        layout = self._layout
        copy = self.folder / "borrowed-index"
        if layout.index.exists():
            # With its times: git trusts a file's size and time only when they are older than the index.
            shutil.copy2(layout.index, copy)
        return {
            **layout.environment(),
            "GIT_INDEX_FILE": str(copy),
            "GIT_OBJECT_DIRECTORY": str(self.folder / "objects"),
            "GIT_ALTERNATE_OBJECT_DIRECTORIES": listed_folder(layout.object_folder),
        }


def listed_folder(folder: Path) -> str:
    """A folder as one item of git's list of object folders."""
    text = str(folder)
    if os.pathsep in text or text.startswith(('"', "#")):
        return os.fsdecode(quote(os.fsencode(text)))
    return text


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
