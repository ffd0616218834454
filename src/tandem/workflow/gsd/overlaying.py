"""Putting pointers and tools into the text of a GSD file, and taking exactly these out again. No I/O.

A pointer is a whole line, and a tool is a whole line or one word of a line, so nothing else of the file is touched:
what was there before comes back to the byte, also after GSD or a person has changed the rest.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from tandem.workflow.gsd.pointers import Pointer

_POINTER_LINE = re.compile(r"^[ \t]*(?:- )?<!-- tandem:[a-z]+ --> [^\n]* <!-- /tandem -->\r?\n", re.MULTILINE)
_HEAD = re.compile(r"---\r?\n(?P<head>(?:[^\n]*\n)*?)---\r?(?:\n|\Z)")
_KEY = re.compile(r"^(?:allowed-tools|tools):(?P<inline>[^\r\n]*)(?P<end>\r?\n)", re.MULTILINE)
_ITEM = re.compile(r"(?P<indent>[ \t]+)(?:-[ \t]+(?P<item>[^\r\n]*?)|(?P<key>[^\s:][^:\r\n]*):[^\r\n]*)(?P<end>\r?\n)")


@dataclass(frozen=True, slots=True)
class Overlaid:
    """A text with its pointers.

    Attributes:
        text: The text.
        missing: The pointers whose anchors it does not have.
    """

    text: str
    missing: tuple[Pointer, ...]


def has_pointers(text: str) -> bool:
    """Whether a pointer of ours stands in it, of this or another version of Tandem."""
    return _POINTER_LINE.search(text) is not None


def without_pointers(text: str) -> str:
    """The text without our lines."""
    return _POINTER_LINE.sub("", text)


def with_pointers(text: str, pointers: Iterable[Pointer]) -> Overlaid:
    """The text with each pointer once, at its anchor; those that stood there before are replaced."""
    lines = without_pointers(text).splitlines(keepends=True) if "\n" in text else [text]
    missing: list[Pointer] = []
    for pointer in pointers:
        place = _place(lines, pointer)
        if place is None:
            missing.append(pointer)
            continue
        anchor = lines[place]
        indent = anchor[: len(anchor) - len(anchor.lstrip())]
        bullet = "- " if anchor.lstrip().startswith("- ") else ""
        end = "\r\n" if anchor.endswith("\r\n") else "\n"
        lines.insert(place + pointer.is_behind, f"{indent}{bullet}{pointer.line}{end}")
    return Overlaid("".join(lines), tuple(missing))


def _place(lines: list[str], pointer: Pointer) -> int | None:
    """The anchor's line; one that ends the file without a newline is none, as nothing could follow it."""
    for anchor in pointer.anchors:
        for number, line in enumerate(lines):
            stripped = line.strip()
            if line.endswith("\n") and (stripped.startswith(anchor) if pointer.is_prefix else stripped == anchor):
                return number
    return None


def with_tool(text: str, tool: str) -> str:
    """The text with a tool at the end of the list in its front matter; as it is without a list, or with it there."""
    listed = _tools(text)
    if listed is None or tool in listed.names:
        return text
    if not listed.is_inline:
        return f"{text[: listed.end]}{listed.indent}{listed.written(tool)}{listed.newline}{text[listed.end :]}"
    return f"{text[: listed.end]}, {tool}{text[listed.end :]}"


def without_tool(text: str, tool: str) -> str:
    """The text without what `with_tool` put in; as it is where that is not there."""
    listed = _tools(text)
    if listed is None or tool not in listed.names:
        return text
    part = text[listed.start : listed.end]
    ours = f", {tool}" if listed.is_inline else f"{listed.indent}{listed.written(tool)}{listed.newline}"
    before, found, behind = part.rpartition(ours)
    return text[: listed.start] + before + behind + text[listed.end :] if found else text


@dataclass(frozen=True, slots=True)
class _Tools:
    """A list of tools, in one of the three ways in which GSD writes them.

    Attributes:
        start: Where the list begins in the text.
        end: Where the next one would go.
        names: The tools.
        is_inline: Whether they stand on one line, with commas.
        is_mapping: Whether each is a member that says true.
        indent: What stands before each, where each has its line.
        newline: What ends a line.
    """

    start: int
    end: int
    names: tuple[str, ...]
    is_inline: bool = False
    is_mapping: bool = False
    indent: str = ""
    newline: str = "\n"

    def written(self, tool: str) -> str:
        return f"{tool}: true" if self.is_mapping else f"- {tool}"


def _tools(text: str) -> _Tools | None:
    head = _HEAD.match(text)
    key = _KEY.search(text, head.start("head"), head.end("head")) if head else None
    if head is None or key is None:
        return None
    inline = key["inline"].strip()
    if inline.startswith("["):
        # GSD writes none of these; a person's own form is left alone.
        return None
    if inline:
        end = key.start("inline") + len(key["inline"].rstrip())
        return _Tools(key.start("inline"), end, tuple(word.strip() for word in inline.split(",")), is_inline=True)
    names: list[str] = []
    place, last = key.end(), None
    while (item := _ITEM.match(text, place, head.end("head"))) and (last is None or item["indent"] == last["indent"]):
        names.append((item["item"] or item["key"]).strip())
        place, last = item.end(), item
    if last is None:
        return None
    return _Tools(
        key.end(), place, tuple(names), is_mapping=last["key"] is not None, indent=last["indent"], newline=last["end"]
    )
