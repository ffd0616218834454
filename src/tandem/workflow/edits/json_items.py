"""Items of a JSON array."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem.workflow.edits.edit import Note, Planned, Reversible, Undone
from tandem.workflow.edits.json_document import Document, left, load, plain, put, same, taken
from tandem.workflow.edits.json_layout import Around, added, removed
from tandem.workflow.edits.jsonc import Element
from tandem.workflow.edits.texts import write


@dataclass(frozen=True)
class JsonItems(Reversible):
    """`items` at the end of the array at `keys`, those that it has not yet; the array is made if need be.

    Attributes:
        path: The file.
        keys: The way to the array.
        items: Any JSON values.
    """

    path: Path
    keys: tuple[str, ...]
    items: tuple[Any, ...]

    def plan(self, before: bytes | None) -> Planned:
        """As in `Edit`."""
        document = load(self.path, before)
        way = document.found(self.keys)
        if len(way) < len(self.keys):
            text, note = put(document, self.keys, list(self.items))
            return Planned(write(text), {**note, "made": before is None, "items": plain(self.items)})
        if not way[-1].value.is_array:
            raise document.refused(f'"{".".join(self.keys)}" is not a list', way[-1].value.start)
        has = [element.value.plain for element in way[-1].value.elements]
        missing = [item for item in self.items if not any(same(item, one) for one in has)]
        arounds: list[Any] = []
        for item in missing:
            text, around = added(document.text, document.found(self.keys)[-1].value, None, item)
            arounds.append(list(around))
            document = load(self.path, text)
        note = {"items": plain(missing), "arounds": arounds} if missing else None
        return Planned(write(document.text) if missing else before or b"", note)

    def undo(self, current: bytes | None, note: Note) -> Undone:
        """As in `Edit`."""
        if current is None:
            return Undone(None)
        document = load(self.path, current)
        items: list[Any] = note.get("items", list(self.items))
        way = document.found(self.keys)
        if len(way) < len(self.keys) or not way[-1].value.is_array:
            return Undone(left(document, note) if note else current)
        array = way[-1].value
        ours = [element for element in array.elements if any(same(element.value.plain, item) for item in items)]
        remark = "" if len(ours) >= len(items) else self._changed(len(items) - len(ours))
        made = "depth" in note or not note
        if made and len(ours) == len(array.elements) and not array.commented:
            document = load(self.path, taken(document, self.keys, note))
        else:
            arounds = note.get("arounds", [()] * len(items))
            document = self._without(document, reversed(list(zip(items, arounds, strict=True))))
        return Undone(left(document, note), remark)

    def _without(self, document: Document, items: Iterable[tuple[Any, Sequence[str]]]) -> Document:
        for item, around in items:
            array = document.found(self.keys)[-1].value
            fitting: list[Element] = [one for one in array.elements if same(one.value.plain, item)]
            if fitting:
                text = removed(document.text, array, fitting[-1], Around(*around))
                document = load(self.path, text)
        return document

    def _changed(self, number: int) -> str:
        return f"{self.path}: {number} of our items in {'.'.join(self.keys)} had been changed or taken out since"

    def described(self) -> dict[str, Any]:
        """As in `Edit`."""
        return {"kind": "json_items", "keys": list(self.keys), "items": plain(self.items)}
