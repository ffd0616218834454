"""JSON with comments and trailing commas, as a tree that knows where in the text everything stands."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import Any, NamedTuple

_SPACE = re.compile(r"[ \t\r\n]*")
_COMMENT = re.compile(r"//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_STRING = re.compile(r'"(?:[^"\\\x00-\x1f]|\\.)*"')
_SCALAR = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null")
_DEEPEST = 200
_CLOSING = {"{": "}", "[": "]"}


class JsonTrouble(ValueError):
    """Text that is no JSON; `offset` says where."""

    def __init__(self, problem: str, offset: int) -> None:
        super().__init__(problem)
        self.offset = offset


@dataclass(frozen=True, slots=True)
class Element:
    """A member of an object or an item of an array.

    Attributes:
        key: The member's name; null for an item.
        lead: Where the white space before it begins: behind the bracket, comma or comment before it.
        behind_remark: Whether that is a comment that ends with its line.
        start: Where its key, or the item, begins.
        value: Its value.
        comma: Where the comma behind it stands; null if there is none.
    """

    key: str | None
    lead: int
    behind_remark: bool
    start: int
    value: Node
    comma: int | None

    @property
    def end(self) -> int:
        """Where it ends, its comma included."""
        return self.value.end if self.comma is None else self.comma + 1


@dataclass(frozen=True, slots=True)
class Node:
    """A value.

    Attributes:
        start: Where it begins.
        end: Where it ends, exclusive.
        plain: The value itself.
        elements: What is in it, if it is an object or an array.
        commented: Whether there is a comment directly in it.
    """

    start: int
    end: int
    plain: Any
    elements: tuple[Element, ...] = ()
    commented: bool = False

    @property
    def is_object(self) -> bool:
        """Whether it is an object."""
        return isinstance(self.plain, dict)

    @property
    def is_array(self) -> bool:
        """Whether it is an array."""
        return isinstance(self.plain, list)

    def member(self, key: str) -> Element | None:
        """A member of an object; of several with one name the last, as every parser has it."""
        return next((element for element in reversed(self.elements) if element.key == key), None)


def parse(text: str) -> Node | None:
    """The tree of a document; null if there is nothing but white space and comments.

    Raises:
        JsonTrouble: It is no JSON, also when comments and trailing commas are allowed.
    """
    parser = _Parser(text)
    begin = 1 if text.startswith("\ufeff") else 0
    start = parser.skip(begin).end
    if start == len(text):
        return None
    root = parser.value(start, 0)
    end = parser.skip(root.end).end
    if end != len(text):
        raise JsonTrouble("there is something behind the end of the JSON value", end)
    return root


def past_comments(text: str, offset: int) -> tuple[int, bool]:
    """Behind the comments that begin on the same line as an offset, and whether the last ends with its line."""
    ends_line = False
    while True:
        begin = offset
        while text[begin : begin + 1] in {" ", "\t"}:
            begin += 1
        comment = _COMMENT.match(text, begin)
        if comment is None:
            return offset, ends_line
        offset, ends_line = comment.end(), comment[0].startswith("//")


class _Gap(NamedTuple):
    """White space and comments: where they end, where the last white space begins, and which comments there are."""

    end: int
    lead: int
    commented: bool
    behind_remark: bool


class _Parser:
    def __init__(self, text: str) -> None:
        self._text = text

    def skip(self, offset: int) -> _Gap:
        """Past white space and comments."""
        last = ""
        while True:
            space = _SPACE.match(self._text, offset)
            end = space.end() if space else offset
            comment = _COMMENT.match(self._text, end)
            if comment is None:
                return _Gap(end, offset, bool(last), last.startswith("//"))
            offset, last = comment.end(), comment[0]

    def value(self, start: int, depth: int) -> Node:
        if depth > _DEEPEST:
            raise JsonTrouble(f"it is nested deeper than {_DEEPEST} levels", start)
        first = self._text[start : start + 1]
        if first in _CLOSING:
            return self._container(start, first, depth)
        if first == '"':
            return self._scalar(start, _STRING, "a text is not closed, or has characters that must be escaped")
        return self._scalar(start, _SCALAR, "a value was expected here")

    def _scalar(self, start: int, form: re.Pattern[str], problem: str) -> Node:
        found = form.match(self._text, start)
        try:
            if found is not None:
                return Node(start, found.end(), json.loads(found[0]))
        except ValueError as error:
            raise JsonTrouble(problem, start) from error
        raise JsonTrouble(problem, start)

    def _container(self, start: int, opening: str, depth: int) -> Node:
        elements: list[Element] = []
        closing = _CLOSING[opening]
        gap = self.skip(start + 1)
        commented, expects = gap.commented, True
        while self._text[gap.end : gap.end + 1] != closing:
            if not expects:
                raise JsonTrouble(f"a comma or '{closing}' was expected here", gap.end)
            element, seen = self._element(gap, opening, depth)
            elements.append(element)
            expects = element.comma is not None
            gap = self.skip(element.end)
            commented = commented or seen or gap.commented
        plain = (
            {element.key: element.value.plain for element in elements}
            if opening == "{"
            else [element.value.plain for element in elements]
        )
        return Node(start, gap.end + 1, plain, tuple(elements), commented)

    def _element(self, gap: _Gap, opening: str, depth: int) -> tuple[Element, bool]:
        """The element behind a gap, and whether there are comments in it."""
        key: str | None = None
        at, commented = gap.end, False
        if opening == "{":
            if self._text[at : at + 1] != '"':
                raise JsonTrouble("a member's name in double quotes, or '}', was expected here", at)
            name = self.value(at, depth)
            colon = self.skip(name.end)
            if self._text[colon.end : colon.end + 1] != ":":
                raise JsonTrouble("a colon was expected here", colon.end)
            behind = self.skip(colon.end + 1)
            key, at, commented = str(name.plain), behind.end, colon.commented or behind.commented
        value = self.value(at, depth + 1)
        follows = self.skip(value.end)
        comma = follows.end if self._text[follows.end : follows.end + 1] == "," else None
        element = Element(key, gap.lead, gap.behind_remark, gap.end, value, comma)
        return element, commented or (follows.commented and comma is not None)
