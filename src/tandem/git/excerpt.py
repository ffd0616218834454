"""Part of a diff: only what concerns some files, so that a large one can be read by file."""

from __future__ import annotations

import re
from collections.abc import Collection

from tandem.git.patch import read_patches

# A hunk's lines begin with a blank or a sign, and a binary patch's have no blanks: this is always a header.
_FILE_START = re.compile(r"^(?=diff --git )", re.MULTILINE)


def only_files(diff: str, paths: Collection[str]) -> str:
    """The parts of a diff that touch any of the paths, before or after; empty if none does."""
    wanted = {path.encode() for path in paths}
    return "".join(part for part in _FILE_START.split(diff) if _touches(part, wanted))


def _touches(part: str, wanted: set[bytes]) -> bool:
    return any({patch.old, patch.new} & wanted for patch in read_patches(part.encode()))
