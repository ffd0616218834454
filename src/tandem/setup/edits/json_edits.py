"""Edits of JSON files, comments and trailing commas allowed: one member of an object, and items of an array.

Python's own parser reads the text, of which comments and trailing commas were made spaces first: so every offset is
one of the file's own text, and only the part that is put in or cut out changes.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, cast

from tandem.setup.edits.edit import BOM, Edited, decoded, newline_of, same, unusable

_STRING = r'"(?:[^"\\\n]|\\.)*"'
_COMMENT = re.compile(rf"{_STRING}|//[^\r\n]*|/\*.*?\*/", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"(?:{_STRING}|[^\s\[{{,:\"])(\s*),(?=\s*[\]}}])|{_STRING}")
_COMMA = re.compile(r"[ \t\r\n\0]*,")
_LINE_END = re.compile(r"[ \t]*[\r\n]")
_SPACE = re.compile(r"[ \t\r\n]*")
_DECODER = json.JSONDecoder()


class Element(NamedTuple):
    """A member of an object, an item of an array, or the whole document.

    Attributes:
        key: The member's name; None for others.
        begin: Where it begins.
        start: Where its value begins.
        end: Where it ends.
        value: Its value.
    """

    key: str | None
    begin: int
    start: int
    end: int
    value: Any


@dataclass(frozen=True)
class JsonMember:
    """`value` as the member at the end of `keys`; objects on the way are made.

    Attributes:
        path: The file.
        keys: The way to the member, its own name last.
        value: Any JSON value.
        replaces: Whether it takes the place of another value, which comes back when it is cut out.
    """

    path: Path
    keys: tuple[str, ...]
    value: Any
    replaces: bool = False
    kind: Literal["json_member"] = "json_member"

    def put(self, content: bytes | None) -> Edited:
        """As in `Edited`."""
        document = JsonText(self.path, content)
        found = document.find(self.keys)
        if found is None:
            return Edited(document.with_member(self.keys, self.value))
        if same(found.value, self.value):
            return Edited(content or b"")
        if self.replaces:
            return Edited(document.with_value(found, json.dumps(self.value)))
        line = document.text.count("\n", 0, found.begin) + 1
        name = ".".join(self.keys)
        remark = f"{self.path}, line {line}: {name} is there already with another value, and was left as it is"
        return Edited(content or b"", remark)

    def cut(self, content: bytes, before: bytes | None) -> Edited:
        """As in `Edited`."""
        document, earlier = JsonText(self.path, content), JsonText(self.path, before)
        found, was = document.find(self.keys), earlier.find(self.keys)
        if found is None:
            return Edited(content)
        if not same(found.value, self.value):
            return Edited(content, f"{self.path}: {'.'.join(self.keys)} was changed since, and stays")
        if was is not None:
            return Edited(document.with_value(found, earlier.text[was.start : was.end]))
        return Edited(document.without(self.keys, found, earlier))


@dataclass(frozen=True)
class JsonItems:
    """`items` at the end of the array at `keys`, those that it has not yet; the array is made if need be.

    Attributes:
        path: The file.
        keys: The way to the array.
        items: Any JSON values.
    """

    path: Path
    keys: tuple[str, ...]
    items: tuple[Any, ...]
    kind: Literal["json_items"] = "json_items"

    def put(self, content: bytes | None) -> Edited:
        """As in `Edited`."""
        document = JsonText(self.path, content)
        array = document.find(self.keys)
        if array is None:
            return Edited(document.with_member(self.keys, list(self.items)))
        if not isinstance(array.value, list):
            raise document.refused(f'"{".".join(self.keys)}" is not a list', array.start)
        for item in self._not_in(array):
            document = JsonText(self.path, document.with_last(document.find(self.keys), None, item))
        return Edited(document.content)

    def cut(self, content: bytes, before: bytes | None) -> Edited:
        """As in `Edited`."""
        document, earlier = JsonText(self.path, content), JsonText(self.path, before)
        array, was = document.find(self.keys), earlier.find(self.keys)
        if array is None:
            return Edited(content)
        ours = self._not_in(was) if was is not None else self.items
        missing = 0
        for item in reversed(ours):
            array = document.find(self.keys)
            has = document.elements(array) if array is not None and isinstance(array.value, list) else []
            found = next((element for element in reversed(has) if same(element.value, item)), None)
            missing += found is None
            if found is not None:
                document = JsonText(self.path, document.without((*self.keys, "*"), found, earlier))
        array = document.find(self.keys)
        if was is None and array is not None and array.value == []:
            document = JsonText(self.path, document.without(self.keys, array, earlier))
        changed = f"{self.path}: {missing} of our items in {'.'.join(self.keys)} had been changed or taken out since"
        return Edited(document.content, changed if missing else "")

    def _not_in(self, array: Element) -> list[Any]:
        value: Any = array.value
        has = cast("list[Any]", value) if isinstance(value, list) else []
        return [item for item in self.items if not any(same(item, one) for one in has)]


class JsonText:
    """The text of a JSON file, and the place of each value in it.

    Attributes:
        content: The file.
        text: Its text.
        root: The value in it; None if it is empty but for comments.
    """

    def __init__(self, path: Path, content: bytes | None) -> None:
        """Read it.

        Raises:
            ConfigInvalid: It is no JSON, also when comments and trailing commas are allowed.
        """
        self.content = content or b""
        self.text = decoded(path, content)
        self.root: Element | None = None
        self._path = path
        marked = " " * self.text.startswith(BOM)
        # Comments as zero bytes, which a text has none of: so they can be told from white space.
        self._marked = _COMMENT.sub(_without_comment, marked + self.text.removeprefix(BOM))
        self._plain = _TRAILING_COMMA.sub(_without_comma, self._marked.replace("\0", " "))
        try:
            if self._plain.strip():
                value = json.loads(self._plain)
                start = _skip(self._plain, 0)
                self.root = Element(None, start, start, len(self._plain.rstrip()), value)
        except RecursionError as error:
            raise self.refused("it is nested too deep", 0) from error
        except ValueError as error:
            offset = error.pos if isinstance(error, json.JSONDecodeError) else 0
            problem = error.msg if isinstance(error, json.JSONDecodeError) else str(error)
            raise self.refused(f"it cannot be read as JSON: {problem}", offset) from error

    def refused(self, problem: str, offset: int) -> Exception:
        """The refusal of something at an offset."""
        line, column = self.text.count("\n", 0, offset) + 1, offset - self.text.rfind("\n", 0, offset)
        return unusable(self._path, problem, line=line, column=column)

    def find(self, keys: tuple[str, ...]) -> Element | None:
        """The member at the end of a way; None if there is none.

        Raises:
            ConfigInvalid: Something on the way is no object.
        """
        return self._way(keys)[len(keys)]

    def elements(self, holder: Element) -> list[Element]:
        """The elements of an object or an array."""
        found: list[Element] = []
        at = _skip(self._plain, holder.start + 1)
        while self._plain[at] not in "]}":
            begin, key = at, None
            if self._plain[holder.start] == "{":
                key, at = _DECODER.raw_decode(self._plain, at)
                at = _skip(self._plain, _skip(self._plain, at) + 1)
            value, end = _DECODER.raw_decode(self._plain, at)
            found.append(Element(key, begin, at, end, value))
            at = _skip(self._plain, end)
            at = _skip(self._plain, at + 1) if self._plain[at] == "," else at
        return found

    def with_value(self, element: Element, text: str) -> bytes:
        """The file with another value in the place of one."""
        return self._spliced(element.start, element.end, text)

    def with_member(self, keys: tuple[str, ...], value: Any) -> bytes:
        """The file with a member that is not there, and the objects on the way to it."""
        if self.root is None:
            newline = newline_of(self.text)
            apart = newline if self.text.removeprefix(BOM) and not self.text.endswith("\n") else ""
            return JsonText(self._path, f"{self.text}{apart}{{}}{newline}".encode()).with_member(keys, value)
        way = [element for element in self._way(keys) if element is not None]
        for key in reversed(keys[len(way) :]):
            value = dict[str, Any]({key: value})
        return self.with_last(way[-1], keys[len(way) - 1], value)

    def with_last(self, holder: Element | None, key: str | None, value: Any) -> bytes:
        """The file with an element put last into an object or an array, laid out like those that are there."""
        if holder is None:
            return self.content
        elements = self.elements(holder)
        inside = self._marked[holder.start + 1 : holder.end - 1]
        document = self.text.strip(f"{BOM} \t\r\n")
        one_line = "\n" not in document and document not in {"{}", "[]"}
        newline = newline_of(self.text)
        indented = re.search(r"^([ \t]+)\S", self.text, re.MULTILINE)
        unit = indented[1] if indented else "  "
        space = " " if not one_line or re.search(r"[,:] ", document) else ""
        closing = self._indent(holder.start)
        indent = self._indent(elements[-1].begin) if elements else closing + unit
        place, comma = self._behind(elements[-1].end) if elements else (holder.start + 1 + len(inside.rstrip()), "")
        if "\n" in inside or not (elements or inside.strip() or one_line):
            lead, tail = newline + indent, "" if "\n" in inside else newline + closing
            shown = json.dumps(value, ensure_ascii=False, indent=unit).replace("\n", newline + indent)
        else:
            lead, tail = space if elements else " " if inside.strip() else inside, ""
            shown = json.dumps(value, ensure_ascii=False, separators=(f",{space}", f":{space}"))
        name = "" if key is None else f"{json.dumps(key, ensure_ascii=False)}:{space}"
        if comma or not elements:
            # Where the last one has a comma, ours gets one too.
            return self._spliced(place, place, f"{lead}{name}{shown}{comma or tail}")
        end = elements[-1].end
        return self._spliced(end, place, f",{self.text[end:place]}{lead}{name}{shown}")

    def without(self, keys: tuple[str, ...], element: Element, earlier: JsonText) -> bytes:
        """The file without an element, and without the objects on the way to it that are empty then.

        Args:
            keys: The way to it.
            element: The element.
            earlier: The file before anything was put in: its elements stay, laid out as they were.
        """
        holders = self._way(keys[:-1])
        way = [one for one in [*holders, element] if one is not None]
        level = len(way) - 1
        while level > 1 and self._is_alone(way[level], way[level - 1]) and earlier.find(keys[: level - 1]) is None:
            level -= 1
        gone, holder = way[level], way[level - 1]
        was = earlier.find(keys[: level - 1])
        empty = earlier.text[was.start : was.end] if was is not None else ""
        if self._is_alone(gone, holder) and re.fullmatch(r"[\[{][ \t]*[\]}]", empty):
            return self._spliced(holder.start, holder.end, empty)
        return self._cut(gone, self.elements(holder))

    def _is_alone(self, element: Element, holder: Element) -> bool:
        """Whether nothing else is in an object or array, no comment either."""
        around = self.text[holder.start + 1 : element.begin] + self.text[element.end : holder.end - 1]
        return not around.strip(" \t\r\n,")

    def _cut(self, element: Element, elements: list[Element]) -> bytes:
        """The file without one of several elements, the comma that it needed, and the white space before it."""
        index = elements.index(element)
        comma, rest = _COMMA.match(self._marked, element.end), self.text[element.end :]
        head = self.text[: len(self._marked[: element.begin].rstrip())]
        # A comma that stands apart is a person's: ours stands directly behind the element before.
        if comma and (comma.end() == element.end + 1 or not index):
            rest = self.text[element.end : comma.end() - 1] + self.text[comma.end() :]
        remarks = {found.end() for found in _COMMENT.finditer(self.text) if found[0].startswith("//")}
        if len(head) in remarks and not _LINE_END.match(rest):
            # What follows must not become part of a comment that ends with its line.
            head = self.text[: element.begin]
        if index and len(rest) == len(self.text) - element.end:
            comma_before = self._marked.index(",", elements[index - 1].end)
            head = head[:comma_before] + head[comma_before + 1 :]
        return (head + rest).encode()

    def _way(self, keys: tuple[str, ...]) -> list[Element | None]:
        """The document and the members on a way, None where there is none.

        Raises:
            ConfigInvalid: Something on the way is no object.
        """
        way = [self.root]
        for depth, key in enumerate(keys):
            holder, found = way[-1], None
            if holder is not None and not isinstance(holder.value, dict):
                name = f'"{".".join(keys[:depth])}"' if depth else "the document"
                raise self.refused(f"{name} is not an object", holder.start)
            if holder is not None:
                # Of several with one name the last counts, as for every parser.
                found = next((one for one in reversed(self.elements(holder)) if one.key == key), None)
            way.append(found)
        return way

    def _behind(self, offset: int) -> tuple[int, str]:
        """Where something goes behind an element: past the comments on its line; and the comma, if there is one."""
        comma = _COMMA.match(self._marked, offset)
        begin = comma.end() if comma else offset
        behind = re.split(r"[^ \t\0]", self._marked[begin:], maxsplit=1)[0]
        return begin + len(behind.rstrip()), "," if comma else ""

    def _indent(self, offset: int) -> str:
        """The indentation of the line that an offset is on."""
        line = self.text[self.text.rfind("\n", 0, offset) + 1 : offset].removeprefix(BOM)
        return line[: len(line) - len(line.lstrip(" \t"))]

    def _spliced(self, begin: int, end: int, text: str) -> bytes:
        return (self.text[:begin] + text + self.text[end:]).encode()


def _without_comment(found: re.Match[str]) -> str:
    return found[0] if found[0].startswith('"') else "\0" * len(found[0])


def _without_comma(found: re.Match[str]) -> str:
    return found[0] if found[1] is None else found[0][:-1] + " "


def _skip(text: str, offset: int) -> int:
    found = _SPACE.match(text, offset)
    return found.end() if found else offset
