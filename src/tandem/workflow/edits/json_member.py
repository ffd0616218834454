"""One member of a JSON object."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem.workflow.edits.edit import Note, Planned, Reversible, Undone
from tandem.workflow.edits.json_document import left, load, plain, put, same, taken
from tandem.workflow.edits.texts import write


@dataclass(frozen=True)
class JsonMember(Reversible):
    """`value` as the member at the end of `keys`; objects on the way are made. Another value there stays.

    Attributes:
        path: The file.
        keys: The way to the member, its own name last.
        value: Any JSON value.
    """

    path: Path
    keys: tuple[str, ...]
    value: Any

    def plan(self, before: bytes | None) -> Planned:
        """As in `Edit`."""
        document = load(self.path, before)
        way = document.found(self.keys)
        if len(way) == len(self.keys):
            line = document.text.count("\n", 0, way[-1].start) + 1
            taken_already = not same(way[-1].value.plain, self.value)
            name = ".".join(self.keys)
            remark = f"{self.path}, line {line}: {name} is there already with another value, and was left as it is"
            return Planned(before or b"", None, remark if taken_already else "")
        text, note = put(document, self.keys, self.value)
        return Planned(write(text), {**note, "made": before is None})

    def undo(self, current: bytes | None, note: Note) -> Undone:
        """As in `Edit`."""
        if current is None:
            return Undone(None)
        document = load(self.path, current)
        way = document.found(self.keys)
        if len(way) < len(self.keys):
            return Undone(left(document, note) if note else current)
        remark = ""
        if not same(way[-1].value.plain, self.value):
            remark = f"{self.path}: {'.'.join(self.keys)} had been changed since; it was taken out all the same"
        rest = load(self.path, taken(document, self.keys, note))
        return Undone(left(rest, note), remark)

    def described(self) -> dict[str, Any]:
        """As in `Edit`."""
        return {"kind": "json_member", "keys": list(self.keys), "value": plain(self.value)}
