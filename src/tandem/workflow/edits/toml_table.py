"""A table of TOML."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tandem.workflow.edits.edit import Note, Planned, Reversible, Undone, unusable
from tandem.workflow.edits.json_document import same
from tandem.workflow.edits.texts import BOM, before_place, cut, newline_of, read, with_newlines, write
from tandem.workflow.edits.toml_lines import headers

_PLACE = re.compile(r"\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True)
class TomlTable(Reversible):
    """The table `name` with the content `text`; one of that name that is there already stays.

    Attributes:
        path: The file.
        name: The way to the table, such as `("mcp_servers", "gsdreview")`.
        text: The whole block, its header and those of its inner tables included; no comments at its end.
        above: Beginnings of lines: the table goes above the first line that begins so, where it can; else it goes
            to the end of the file.
    """

    path: Path
    name: tuple[str, ...]
    text: str
    above: tuple[str, ...] = ()

    def plan(self, before: bytes | None) -> Planned:
        """As in `Edit`."""
        text = read(self.path, before)
        data = self._parsed(text)
        there, ours = _at(data, self.name), _at(tomllib.loads(self.text), self.name)
        if there is not None:
            remark = f"{self.path}: {'.'.join(self.name)} is there already with another content, and was left as it is"
            return Planned(before or b"", None, "" if same(there, ours) else remark)
        newline = newline_of(text)
        place = self._place(text)
        lead = before_place(text, place, newline)
        block = with_newlines(self.text, newline)
        rest = text[place:]
        tail = newline if rest and not rest.startswith(("\n", "\r\n")) else ""
        after = text[:place] + lead + block + tail + rest
        self._check(after, data)
        return Planned(write(after), {"made": before is None, "lead": lead, "tail": tail})

    def undo(self, current: bytes | None, note: Note) -> Undone:
        """As in `Edit`."""
        if current is None:
            return Undone(None)
        text = read(self.path, current)
        self._parsed(text)
        lead, tail = note.get("lead", ""), note.get("tail", "")
        block = with_newlines(self.text, newline_of(text))
        begin = text.find(block)
        if begin >= 0 and _begins_line(text, begin):
            text = cut(text, begin, begin + len(block), lead, tail)
            lead, tail = "", ""
        # Tables below ours that others wrote since mean nothing without it, and may not even be read.
        found = list(self._regions(text))
        for number, (start, end) in reversed(list(enumerate(found))):
            text = cut(text, start, end, lead if number == 0 else "", tail if number == len(found) - 1 else "")
        name = ".".join(self.name)
        remark = f"{self.path}: {name} had been changed since; it was taken out all the same" if found else ""
        gone = (note.get("made") or not note) and not text.strip(f"{BOM} \t\r\n")
        return Undone(None if gone else write(text), remark)

    def described(self) -> dict[str, Any]:
        """As in `Edit`."""
        return {"kind": "toml_table", "name": list(self.name), "text": self.text, "above": list(self.above)}

    def _place(self, text: str) -> int:
        """Where a table can go: above the line that was asked for, if no bare keys follow it; else the end."""
        found = list(headers(text))
        for line in _line_starts(text):
            if self.above and text.startswith(self.above, line):
                following = next((header.start for header in found if header.start >= line), len(text))
                between = text[line:following].splitlines()
                inside = any(header.start < line < header.end for header in found)
                if not inside and all(not one.strip() or one.lstrip().startswith("#") for one in between):
                    return line
                break
        return len(text)

    def _regions(self, text: str) -> Iterator[tuple[int, int]]:
        for header in headers(text):
            if header.name[: len(self.name)] == self.name:
                yield header.start, header.body_end

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            return tomllib.loads(text.removeprefix(BOM))
        except tomllib.TOMLDecodeError as error:
            found = _PLACE.search(str(error))
            line, column = (int(found[1]), int(found[2])) if found else (None, None)
            problem = f"it cannot be read as TOML: {_PLACE.sub('', str(error)).strip()}"
            raise unusable(self.path, problem, line=line, column=column) from error

    def _check(self, after: str, data: dict[str, Any]) -> None:
        """See that the file means what it meant, and our table."""
        name = ".".join(self.name[:-1])
        try:
            now = tomllib.loads(after.removeprefix(BOM))
        except tomllib.TOMLDecodeError as error:
            problem = f"{name} is written so that no table can be added to it; write it as [{name}.…] tables"
            raise unusable(self.path, problem) from error
        if not same(_without(now, self.name), _without(data, self.name)):
            raise unusable(self.path, f"there is no place for [{'.'.join(self.name)}] that leaves the rest as it is")


def _begins_line(text: str, offset: int) -> bool:
    return text[:offset].removeprefix(BOM) == "" or text[offset - 1] == "\n"


def _line_starts(text: str) -> Iterator[int]:
    yield 1 if text.startswith(BOM) else 0
    yield from (found.end() for found in re.finditer("\n", text))


def _at(data: dict[str, Any], name: tuple[str, ...]) -> Any:
    """What is at a place, times and dates as texts; null if nothing."""
    found: Any = data
    for key in name:
        if not isinstance(found, dict) or key not in found:
            return None
        found = cast("dict[str, Any]", found)[key]
    return _plain(found)


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _plain(inner) for key, inner in cast("dict[str, Any]", value).items()}
    if isinstance(value, list):
        return [_plain(inner) for inner in cast("list[Any]", value)]
    return value if isinstance(value, str | int | float | bool) else str(value)


def _without(data: dict[str, Any], name: tuple[str, ...]) -> Any:
    """Everything but a place, and but tables that hold nothing else."""
    data = _plain(data)
    inner: Any = data
    way: list[dict[str, Any]] = []
    for key in name:
        if not isinstance(inner, dict) or key not in inner:
            return data
        way.append(cast("dict[str, Any]", inner))
        inner = way[-1][key]
    for holder, key in zip(reversed(way), reversed(name), strict=True):
        if key == name[-1] or not holder[key]:
            del holder[key]
    return data
