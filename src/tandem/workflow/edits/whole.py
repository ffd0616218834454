"""A whole file of ours."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem.workflow.edits.edit import Note, Planned, Reversible, Undone


@dataclass(frozen=True)
class WholeFile(Reversible):
    """A file with exactly this content; another one of the name that is there already stays.

    Attributes:
        path: The file.
        content: Its bytes.
        executable: Whether it may be run.
    """

    path: Path
    content: bytes
    executable: bool = False

    def plan(self, before: bytes | None) -> Planned:
        """As in `Edit`."""
        if before is not None and _digest(before) == _digest(self.content):
            return Planned(before, None)
        if before is not None:
            return Planned(before, None, f"{self.path} is there already with another content, and was left as it is")
        return Planned(self.content, {"made": True, "sha256": _digest(self.content)})

    def undo(self, current: bytes | None, note: Note) -> Undone:
        """As in `Edit`; a file that was changed since stays."""
        if current is None:
            return Undone(None)
        expected = note.get("sha256") or _digest(self.content)
        if _digest(current) != expected:
            return Undone(current, f"{self.path} was changed since, and stays; delete it if nobody needs it")
        return Undone(None)

    def described(self) -> dict[str, Any]:
        """As in `Edit`; the content by its digest, which is all that taking it out needs."""
        return {"kind": "whole_file", "sha256": _digest(self.content), "executable": self.executable}


def _digest(content: bytes) -> str:
    """The same for both kinds of line ends: git may have changed them when the file was checked out."""
    return hashlib.sha256(content.replace(b"\r\n", b"\n")).hexdigest()
