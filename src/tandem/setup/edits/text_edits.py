"""Edits that put whole lines into a text: a marked block, and a table of TOML; and a whole file."""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from tandem.setup.edits.edit import BOM, Edited, at, decoded, newline_of, same, unusable

_PLACE = re.compile(r" ?\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True)
class MarkedBlock:
    """`text` between two lines that name it, at the end of a text file.

    A block of the name that is there already is brought up to date where it stands, and cut out whatever became of it.

    Attributes:
        path: The file.
        name: Of the block; letters, digits, `:` and `-`.
        text: The lines between the marks.
    """

    path: Path
    name: str
    text: str

    def put(self, content: bytes | None) -> Edited:
        """As in `Edit`.

        Raises:
            ConfigInvalid: The end of the block is missing.
        """
        text = self._decoded(content)
        block = f"{self._mark('begin')}\n{self.text.strip(chr(10))}\n{self._mark('end')}\n"
        found = self._span().search(text)
        if found is None:
            return Edited(_encoded(_with_lines(text, len(text), block)))
        block = block.replace("\n", newline_of(text))
        if found[0].rstrip() == block.rstrip():
            return Edited(content or b"")
        return Edited(_encoded(text[: found.start()] + block + text[found.end() :]))

    def cut(self, content: bytes, before: bytes | None) -> Edited:
        """As in `Edit`."""
        text = self._decoded(content)
        found = self._span().search(text)
        if found is None:
            return Edited(content)
        earlier = self._decoded(before)
        return Edited(_encoded(_without_lines(text, found[0], earlier, len(earlier))))

    def _mark(self, word: str) -> str:
        return f"<!-- tandem:{self.name} {word} -->"

    def _span(self) -> re.Pattern[str]:
        line = r"(?:^|(?<=\ufeff))[ \t]*{}[ \t]*(?:\r?\n|\Z)"
        return re.compile(
            line.format(self._mark("begin")) + ".*?" + line.format(self._mark("end")), re.MULTILINE | re.DOTALL
        )

    def _decoded(self, content: bytes | None) -> str:
        """The text, in whatever encoding has the letters of the marks as they are.

        Raises:
            ConfigInvalid: The block begins and does not end.
        """
        text = decoded(self.path, content, "surrogateescape")
        begins = re.search(rf"(?:^|(?<=\ufeff))[ \t]*{self._mark('begin')}[ \t]*\r?$", text, re.MULTILINE)
        if begins is not None and self._span().search(text) is None:
            line = text.count("\n", 0, begins.start()) + 1
            raise unusable(self.path, f"the line {self._mark('end')!r} is missing below this one", line=line)
        return text


@dataclass(frozen=True)
class TomlTable:
    """The table `name` with the content `text`; one of that name that is there already stays.

    The text of the file is kept as it is, and read before and after to see that it means the same but for the table.

    Attributes:
        path: The file.
        name: The way to the table, such as `("mcp_servers", "tandem")`.
        text: The whole table, its header and those of its inner tables included; no comments at its end.
        above: Beginnings of lines: the table goes above the first line that begins so, where it can; else it goes
            to the end of the file.
    """

    path: Path
    name: tuple[str, ...]
    text: str
    above: tuple[str, ...] = ()

    def put(self, content: bytes | None) -> Edited:
        """As in `Edit`."""
        text = decoded(self.path, content)
        data = self._parsed(text)
        there = at(data, self.name)
        if there is not None:
            remark = f"{self.path}: {'.'.join(self.name)} is there already with another content, and was left as it is"
            return Edited(content or b"", "" if same(there, at(tomllib.loads(self.text), self.name)) else remark)
        return Edited(_encoded(_with_lines(text, self._place(text), self.text)))

    def cut(self, content: bytes, before: bytes | None) -> Edited:
        """As in `Edit`."""
        text = decoded(self.path, content)
        if at(self._parsed(text), self.name) is None:
            return Edited(content)
        block = self.text.replace("\n", newline_of(text))
        earlier = decoded(self.path, before)
        after = _without_lines(text, block, earlier, self._place(earlier))
        if self._means_the_same(text, after):
            return Edited(_encoded(after))
        return Edited(content, f"{self.path}: {'.'.join(self.name)} was changed since, and stays")

    def _place(self, text: str) -> int:
        """Where the table goes: above the line that was asked for, if nothing else changes its meaning there.

        Raises:
            ConfigInvalid: There is no such place.
        """
        lines = "|".join(map(re.escape, self.above)) or r"(?!)"
        places = [found.start() for found in re.finditer(f"^(?:{lines})", text, re.MULTILINE)]
        for place in (*places, len(text)):
            if self._means_the_same(_with_lines(text, place, self.text), text):
                return place
        where = ".".join(self.name[:-1])
        problem = f"{where} is written so that no table can be added to it; write it as [{where}.…] tables"
        raise unusable(self.path, problem)

    def _parsed(self, text: str) -> dict[str, Any]:
        try:
            return tomllib.loads(text.removeprefix(BOM))
        except tomllib.TOMLDecodeError as error:
            found = _PLACE.search(str(error))
            line, column = (int(found[1]), int(found[2])) if found else (None, None)
            problem = f"it cannot be read as TOML: {_PLACE.sub('', str(error))}"
            raise unusable(self.path, problem, line=line, column=column) from error

    def _means_the_same(self, with_ours: str, without: str) -> bool:
        """Whether our table is all that the one text says and the other does not."""
        try:
            one, other = tomllib.loads(with_ours.removeprefix(BOM)), tomllib.loads(without.removeprefix(BOM))
        except tomllib.TOMLDecodeError:
            return False
        return at(other, self.name) is None and same(_removed(one, self.name), _removed(other, self.name))


@dataclass(frozen=True)
class WholeFile:
    """A file with exactly this content; another one of the name that is there already stays.

    Attributes:
        path: The file.
        text: Its text.
    """

    path: Path
    text: str = ""

    def put(self, content: bytes | None) -> Edited:
        """As in `Edit`."""
        if content is None:
            return Edited(self.text.encode())
        remark = f"{self.path} is there already with another content, and was left as it is"
        return Edited(content, "" if self._is(content) else remark)

    def cut(self, content: bytes, before: bytes | None) -> Edited:
        """As in `Edit`."""
        if self._is(content):
            return Edited(before or b"")
        return Edited(content, f"{self.path} was changed since, and stays; delete it if nobody needs it")

    def _is(self, content: bytes) -> bool:
        """Whether this is its content; git may have changed the line ends when the file was checked out."""
        return content.replace(b"\r\n", b"\n") == self.text.encode().replace(b"\r\n", b"\n")


def _apart(text: str, place: int) -> tuple[str, str]:
    """What has to stand before and behind lines of ours at a place so that blank lines set them apart."""
    newline = newline_of(text)
    head, rest = text[:place].removeprefix(BOM), text[place:]
    tail = newline if rest and not rest.startswith(("\n", "\r\n")) else ""
    if not _ends_line(head):
        return newline * 2, tail
    return (newline if head.splitlines()[-1:] and head.splitlines()[-1].strip() else ""), tail


def _with_lines(text: str, place: int, lines: str) -> str:
    lead, tail = _apart(text, place)
    return text[:place] + lead + lines.replace("\n", newline_of(text)) + tail + text[place:]


def _without_lines(text: str, lines: str, before: str, place: int) -> str:
    """A text without lines of ours, and the blank lines that came with them at that place of an earlier text."""
    head, found, rest = text.partition(lines)
    if not found:
        return text
    lead, tail = _apart(before, place)
    if lead and head.endswith(lead) and _ends_line(head.removesuffix(lead)) == _ends_line(before[:place]):
        head = head.removesuffix(lead)
    rest = rest.removeprefix(tail)
    # What was written behind ours must not end up on the line before it.
    return head + (newline_of(text) if rest and not _ends_line(head) else "") + rest


def _ends_line(head: str) -> bool:
    return not head.removeprefix(BOM) or head.endswith("\n")


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _removed(data: dict[str, Any], name: tuple[str, ...]) -> dict[str, Any]:
    """Everything but a place, and but the tables on the way to it that hold nothing else."""
    key, *deeper = name
    inner: Any = data.get(key)
    if deeper and isinstance(inner, dict):
        inner = _removed(cast("dict[str, Any]", inner), tuple(deeper))
    else:
        inner = inner if deeper else None
    rest = {one: value for one, value in data.items() if one != key}
    return rest | {key: inner} if inner else rest
