"""Putting elements into the text of a JSON document and cutting them out, with nothing else moved.

What is put in stands directly behind something that is no white space (a bracket, a comma, a comment), so that
the white space before it is ours, and goes with it.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

from tandem.workflow.edits.jsonc import Element, Node, past_comments
from tandem.workflow.edits.texts import newline_of

_INDENTED = re.compile(r"^([ \t]+)\S", re.MULTILINE)
_DEFAULT_UNIT = "  "


@dataclass(frozen=True, slots=True)
class Style:
    """How a document is laid out.

    Attributes:
        newline: Its line ends.
        unit: One level of its indentation; empty for a document on one line.
        space: What stands behind its commas and colons on one line.
    """

    newline: str
    unit: str
    space: str

    def rendered(self, key: str | None, value: Any, indent: str) -> str:
        """A member or an item, its later lines indented."""
        name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}:{self.space}"
        if not self.unit:
            separators = (f",{self.space}", f":{self.space}")
            return name + json.dumps(value, ensure_ascii=False, separators=separators)
        lines = json.dumps(value, ensure_ascii=False, indent=self.unit).split("\n")
        return name + f"{self.newline}{indent}".join(lines)


def style_of(text: str) -> Style:
    """The layout of a document; of one without lines to judge by, that of most."""
    body = text.strip("\ufeff \t\r\n")
    if "\n" not in body and body not in {"", "{}", "[]"}:
        return Style(newline_of(text), "", " " if re.search(r"[,:] ", body) else "")
    indented = _INDENTED.search(text)
    return Style(newline_of(text), indented[1] if indented else _DEFAULT_UNIT, " ")


class Around(NamedTuple):
    """The white space that was put before and behind an element."""

    lead: str | None = None
    tail: str | None = None


def added(text: str, container: Node, key: str | None, value: Any) -> tuple[str, Around]:
    """Put an element last into an object or an array.

    Returns:
        The text, and the white space that came with the element.
    """
    style = style_of(text)
    if container.elements:
        return _behind(text, container, style, key, value)
    place, ends_line = past_comments(text, container.start + 1)
    inner = text[container.start + 1 : container.end - 1]
    closing = _indent_at(text, container.start)
    indent = closing + style.unit
    on_lines = ends_line or "\n" in inner or (not inner and bool(style.unit))
    if on_lines:
        style = style if style.unit else Style(style.newline, _DEFAULT_UNIT, " ")
        lead = style.newline + indent
    else:
        style = Style(style.newline, "", style.space)
        lead = " " if inner.strip() else inner
    tail = style.newline + closing if on_lines and not inner else ""
    element = style.rendered(key, value, indent)
    return text[:place] + lead + element + tail + text[place:], Around(lead, tail)


def _behind(text: str, container: Node, style: Style, key: str | None, value: Any) -> tuple[str, Around]:
    last = container.elements[-1]
    end = last.value.end
    place, ends_line = past_comments(text, last.end)
    if ends_line or "\n" in text[container.start + 1 : last.start]:
        indent = _indent_at(text, last.start)
        style = style if style.unit else Style(style.newline, _DEFAULT_UNIT, " ")
        lead = style.newline + indent
    else:
        indent, style = "", Style(style.newline, "", style.space)
        lead = style.space
    element = lead + style.rendered(key, value, indent)
    if last.comma is None:
        return text[:end] + "," + text[end:place] + element + text[place:], Around(lead, "")
    return text[:place] + element + "," + text[place:], Around(lead, "")


def _indent_at(text: str, offset: int) -> str:
    """The indentation of the line that an offset is on."""
    line = text[text.rfind("\n", 0, offset) + 1 : offset].removeprefix("\ufeff")
    return line[: len(line) - len(line.lstrip(" \t"))]


def removed(text: str, container: Node, element: Element, around: Around) -> str:
    """Cut an element out, with the white space that came with it and the comma that it needed.

    Args:
        text: The document.
        container: What the element is in.
        element: The element.
        around: The white space that came with it; where that is not known, or was laid out anew since, all that
            stands before it goes.
    """
    others = container.elements
    index = others.index(element)
    before = others[index - 1].comma if index > 0 else None
    # Ours stands directly behind a value. One that stands apart from it is a person's, and the one before is ours.
    comma = element.comma if before is None or element.comma == element.value.end else before
    cuts = [(_begin(text, element, around.lead, comma), element.value.end)]
    if comma is not None:
        cuts.append((comma, comma + 1))
    if len(others) == 1 and not container.commented:
        rest = text[element.end : container.end - 1]
        on_lines = "\n" in text[element.lead : element.start]
        if rest == around.tail or (around.tail is None and on_lines and not rest.strip()):
            cuts.append((element.end, container.end - 1))
    for begin, stop in sorted(cuts, reverse=True):
        text = text[:begin] + text[stop:]
    return text


def _begin(text: str, element: Element, lead: str | None, comma: int | None) -> int:
    """Where to begin cutting, if this comma goes too."""
    follows = text[element.value.end :]
    if comma is not None and comma == element.comma:
        follows = text[element.value.end : comma] + text[element.end :]
    if element.behind_remark and not follows.lstrip(" \t").startswith(("\r", "\n")):
        # What follows must not become part of a comment that ends with its line.
        return element.start
    if lead is not None and text[element.lead : element.start].endswith(lead):
        return element.start - len(lead)
    return element.lead
