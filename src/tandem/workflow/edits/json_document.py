"""A JSON file as edits see it: its text, its tree, and the way to a member."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tandem.workflow.edits.edit import Note, place_of, unusable
from tandem.workflow.edits.json_layout import Around, added, removed
from tandem.workflow.edits.jsonc import Element, JsonTrouble, Node, parse
from tandem.workflow.edits.texts import BOM, newline_of, read, write


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON file.

    Attributes:
        path: Where it is, for refusals.
        text: Its text.
        root: Its tree; null if it is empty but for comments.
    """

    path: Path
    text: str
    root: Node | None

    def found(self, keys: tuple[str, ...]) -> list[Element]:
        """The members on the way to a place, as far as they are there.

        Raises:
            ConfigInvalid: Something on the way is no object.
        """
        way: list[Element] = []
        node = self.root
        for key in keys:
            if node is None:
                break
            if not node.is_object:
                raise self.refused(self._names(keys[: len(way)]) + " is not an object", node.start)
            element = node.member(key)
            if element is None:
                break
            way.append(element)
            node = element.value
        return way

    def at(self, way: list[Element], level: int) -> Node:
        """The value that the member `level` of a way is in."""
        if level > 0:
            return way[level - 1].value
        return self.root or Node(0, 0, None)

    def refused(self, problem: str, offset: int) -> Exception:
        """The refusal of something at an offset."""
        line, column = place_of(self.text, offset)
        return unusable(self.path, problem, line=line, column=column)

    @staticmethod
    def _names(keys: tuple[str, ...]) -> str:
        return f'"{".".join(keys)}"' if keys else "the document"


def load(path: Path, content: bytes | str | None) -> Document:
    """Read a file.

    Raises:
        ConfigInvalid: It is no JSON, also when comments and trailing commas are allowed.
    """
    text = content if isinstance(content, str) else read(path, content)
    try:
        return Document(path, text, parse(text))
    except JsonTrouble as trouble:
        line, column = place_of(text, trouble.offset)
        raise unusable(path, f"it cannot be read as JSON: {trouble}", line=line, column=column) from trouble


def put(document: Document, keys: tuple[str, ...], value: Any) -> tuple[str, Note]:
    """Put a member where there is none, with the objects on the way to it.

    Returns:
        The text; and a note: `depth`, how many of the keys were there, `around`, the white space that came with it,
        and `root`, what was put around everything in a file that was empty.

    Raises:
        ConfigInvalid: Something on the way is no object.
    """
    note: Note = {}
    if document.root is None:
        begin, end = _root_around(document.text)
        note["root"] = [begin, end]
        document = load(document.path, document.text + begin + "{}" + end)
    way = document.found(keys)
    holder = document.at(way, len(way))
    if not holder.is_object:
        document.found((*keys[: len(way)], ""))
    for key in reversed(keys[len(way) + 1 :]):
        value = {key: value}
    text, around = added(document.text, holder, keys[len(way)], value)
    return text, {**note, "depth": len(way), "around": list(around)}


def _root_around(text: str) -> tuple[str, str]:
    """What to put before and behind the first object of a file that has none."""
    newline = newline_of(text)
    body = text.removeprefix(BOM)
    return (newline if body and not body.endswith("\n") else ""), newline


def taken(document: Document, keys: tuple[str, ...], note: Note) -> str:
    """Cut a member out that `put` put in, with the objects made for it that are empty then."""
    way = document.found(keys)
    if len(way) < len(keys):
        return document.text
    level, made = len(keys) - 1, note.get("depth", len(keys) - 1)
    while level > made:
        holder = document.at(way, level)
        if len(holder.elements) > 1 or holder.commented:
            break
        level -= 1
    around = Around(*note.get("around", ())) if level == made else Around()
    return removed(document.text, document.at(way, level), way[level], around)


def left(document: Document, note: Note) -> bytes | None:
    """What remains of a file: nothing if all that is left was made by us."""
    text = document.text
    around: list[str] = note.get("root") or ["", ""]
    root = document.root
    if note.get("root") and root is not None and not root.elements and not root.commented:
        head, rest = text[: root.start], text[root.end :]
        head = head[: len(head) - len(around[0])] if around[0] and head.endswith(around[0]) else head
        text = head + rest.removeprefix(around[1])
    if not note and root is not None and text.strip() == "{}":
        return None
    return None if note.get("made") and not text.strip() else write(text)


def same(one: Any, other: Any) -> bool:
    """Whether two JSON values are equal: `true` is not 1, and the order of members means nothing."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def plain(value: Any) -> Any:
    """A value as it is when it was written as JSON and read again: tuples are lists."""
    return json.loads(json.dumps(value))
