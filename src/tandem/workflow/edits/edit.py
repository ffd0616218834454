"""What every edit can do: put its part into a file, and take exactly that out again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tandem.errors import ConfigInvalid

Note = dict[str, Any]
"""What an edit has to remember to take itself back exactly: JSON values, and nothing of the user's."""


@dataclass(frozen=True, slots=True)
class Planned:
    """What an edit makes of a file.

    Attributes:
        after: The file with our part in it.
        note: For `undo`; null if nothing was put in, because it is there already or the place is taken.
        remark: What a person should know, such as that the place is taken; empty if nothing.
    """

    after: bytes
    note: Note | None
    remark: str = ""


@dataclass(frozen=True, slots=True)
class Undone:
    """What is left of a file.

    Attributes:
        content: The file without our part; null if it goes.
        remark: What a person should know, such as that our part was changed and stays; empty if nothing.
    """

    content: bytes | None
    remark: str = ""


class Edit(Protocol):
    """One thing of ours in one file. Edits are values: equal ones put the same thing into the same place."""

    @property
    def path(self) -> Path:
        """The file, absolute."""
        ...

    def plan(self, before: bytes | None) -> Planned:
        """Put our part in; the same bytes if it is there.

        Args:
            before: The file; null if there is none.

        Raises:
            ConfigInvalid: The file cannot be read as what it should be; names the file and the place.
        """
        ...

    def undo(self, current: bytes | None, note: Note) -> Undone:
        """Take out what `plan` put in and noted; what stands around it stays.

        Raises:
            ConfigInvalid: The file cannot be read as what it should be; names the file and the place.
        """
        ...

    def apply(self, before: bytes | None) -> bytes:
        """`plan` without the note."""
        ...

    def remove(self, current: bytes | None) -> bytes | None:
        """`undo` without a note: white space and whether the file was made by us are guessed."""
        ...

    def described(self) -> dict[str, Any]:
        """All but the path, as JSON, with the `kind`; `manifest.restored` makes an edit of it again."""
        ...


class Reversible:
    """The two methods of `Edit` that follow from the others."""

    def plan(self, before: bytes | None) -> Planned:
        """As in `Edit`."""
        raise AssertionError(before)

    def undo(self, current: bytes | None, note: Note) -> Undone:
        """As in `Edit`."""
        raise AssertionError(current, note)

    def apply(self, before: bytes | None) -> bytes:
        """As in `Edit`."""
        return self.plan(before).after

    def remove(self, current: bytes | None) -> bytes | None:
        """As in `Edit`."""
        return self.undo(current, {}).content


def unusable(path: Path, problem: str, *, line: int | None = None, column: int | None = None) -> ConfigInvalid:
    """The refusal of a file that cannot be edited.

    Args:
        path: The file.
        problem: What is wrong, as the middle of a sentence.
        line: Where, from 1.
        column: Where, from 1.
    """
    where = f", line {line}" if line is not None else ""
    where += f", column {column}" if line is not None and column is not None else ""
    return ConfigInvalid(
        f"{path}{where}: {problem}. Nothing was changed; mend the file, or move it away, and run the command again.",
        file=str(path),
        line=line,
        column=column,
    )


def place_of(text: str, offset: int) -> tuple[int, int]:
    """Line and column of an offset, from 1."""
    before = text[:offset]
    return before.count("\n") + 1, offset - before.rfind("\n")
