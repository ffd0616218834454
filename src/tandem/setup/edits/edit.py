"""What every edit can do, how edited files are found and read, and the edits of whole lines and whole files.

Edits of lines are a marked block of a text and a table of TOML; edits of JSON are in `json_edits`.
"""

from __future__ import annotations

import codecs
import json
import os
import re
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, NamedTuple, cast

from tandem.errors import ConfigInvalid

BOM: Final = "\ufeff"


class Edited(NamedTuple):
    """A file after an edit was put in or cut out.

    Every edit is a value of a `path` and of one thing of ours in that file; equal ones put the same thing into the same
    place. `put` puts it into a file, and leaves the same bytes if it is there, or if its place is taken. `cut` takes it
    out of a file that others changed since, and leaves the same bytes if somebody changed that very part; `before` is
    the file's content without our parts when we last wrote it. Both take None for no file, and raise `ConfigInvalid`,
    which names the file and the place, where it does not have its format.

    Attributes:
        content: The file.
        remark: What a person should know, such as that the place is taken; empty if nothing.
    """

    content: bytes
    remark: str = ""


def unusable(path: Path, problem: str, *, line: int | None = None, column: int | None = None) -> ConfigInvalid:
    """The refusal of a file that cannot be edited.

    Args:
        path: The file.
        problem: The fault, as the middle of a sentence.
        line: Where, from 1.
        column: Where, from 1.
    """
    where = f", line {line}" if line is not None else ""
    where += f", column {column}" if line is not None and column is not None else ""
    return ConfigInvalid(
        f"{path}{where}: {problem}. Nothing was changed; correct the file, or move it away, and run the command again.",
        file=str(path),
        line=line,
        column=column,
    )


def located(path: Path, tree: Path) -> Path:
    """The file itself, links followed to inside of the tree only.

    Raises:
        ConfigInvalid: It is outside, a link to nothing, no file, or below something that is no folder.
    """
    real, root = Path(os.path.realpath(path)), Path(os.path.realpath(tree))
    if not real.is_relative_to(root):
        problem = f"it is a link to {real}, outside of {tree}" if path.is_relative_to(tree) else f"it is not in {tree}"
        raise unusable(path, problem)
    if path.is_symlink() and not real.exists():
        raise unusable(path, f"it is a link to {real}, which is not there")
    if real.exists() and not real.is_file():
        raise unusable(path, "it is not a file")
    nearest = next((folder for folder in real.parents if os.path.lexists(folder)), root)
    if not nearest.is_dir():
        raise unusable(path, f"{nearest} is not a folder")
    return real


def content_of(path: Path) -> bytes | None:
    """What a file holds; None if there is none.

    Raises:
        ConfigInvalid: It cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise unusable(path, f"it cannot be read: {error.strerror or error}") from error


def decoded(path: Path, content: bytes | None, errors: str = "strict") -> str:
    """The text of a file, its byte order mark and line ends as they are; empty if there is none.

    Raises:
        ConfigInvalid: It is no text in UTF-8.
    """
    content = content or b""
    if content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) or b"\0" in content:
        raise unusable(path, "it is not saved as UTF-8 (UTF-16, or no text at all)")
    try:
        return content.decode("utf-8", errors)
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise unusable(path, f"it is not valid UTF-8 ({error.reason} at byte {error.start})", line=line) from error


def newline_of(text: str) -> str:
    """How the lines of a text end, by the majority."""
    return "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"


def same(one: Any, other: Any) -> bool:
    """Whether two values of JSON or TOML are equal: `true` is not 1, and the order of members means nothing."""
    return json.dumps(one, sort_keys=True, default=str) == json.dumps(other, sort_keys=True, default=str)


def at(data: Any, keys: tuple[str, ...]) -> Any:
    """The value at the end of a path through objects or tables; None if there is none."""
    for key in keys:
        data = cast("dict[str, Any]", data).get(key) if isinstance(data, dict) else None
    return data


_PLACE = re.compile(r" ?\(at line (\d+), column (\d+)\)")


@dataclass(frozen=True)
class MarkedBlock:
    """`text` between two lines that name it, at the end of a text file.

    A block of the name that is there already is brought up to date where it stands, and cut out however it was changed.

    Attributes:
        path: The file.
        name: Of the block; letters, digits, `:` and `-`.
        text: The lines between the marks.
    """

    path: Path
    name: str
    text: str
    kind: Literal["marked_block"] = "marked_block"

    def put(self, content: bytes | None) -> Edited:
        """As in `Edited`.

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
        """As in `Edited`."""
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
        """The text, in any encoding that has the letters of the marks as they are.

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
    kind: Literal["toml_table"] = "toml_table"

    def put(self, content: bytes | None) -> Edited:
        """As in `Edited`."""
        text = decoded(self.path, content)
        data = self._parsed(text)
        there = at(data, self.name)
        if there is not None:
            remark = f"{self.path}: {'.'.join(self.name)} is there already with another content, and was left as it is"
            return Edited(content or b"", "" if same(there, at(tomllib.loads(self.text), self.name)) else remark)
        return Edited(_encoded(_with_lines(text, self._place(text), self.text)))

    def cut(self, content: bytes, before: bytes | None) -> Edited:
        """As in `Edited`."""
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
    kind: Literal["whole_file"] = "whole_file"

    def put(self, content: bytes | None) -> Edited:
        """As in `Edited`."""
        if content is None:
            return Edited(self.text.encode())
        remark = f"{self.path} is there already with another content, and was left as it is"
        return Edited(content, "" if self._is(content) else remark)

    def cut(self, content: bytes, before: bytes | None) -> Edited:
        """As in `Edited`."""
        if self._is(content):
            return Edited(before or b"")
        return Edited(content, f"{self.path} was changed since, and stays; delete it if it is not needed")

    def _is(self, content: bytes) -> bool:
        """Whether this is its content; git may have changed the line ends when the file was checked out."""
        return content.replace(b"\r\n", b"\n") == self.text.encode().replace(b"\r\n", b"\n")


def _apart(text: str, place: int) -> tuple[str, str]:
    """The line breaks before and after our lines at a place that set them apart by blank lines."""
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
    # Text written behind ours must not end up on the line before it.
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
