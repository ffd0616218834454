"""What every edit can do, and how the files that are edited are found and read."""

from __future__ import annotations

import codecs
import json
import os
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, cast

from tandem.errors import ConfigInvalid

BOM: Final = "\ufeff"


class Edited(NamedTuple):
    """A file after an edit was put in or cut out.

    Attributes:
        content: The file.
        remark: What a person should know, such as that the place is taken; empty if nothing.
    """

    content: bytes
    remark: str = ""


class Edit(Protocol):
    """One thing of ours in one file. Edits are values: equal ones put the same thing into the same place."""

    @property
    def path(self) -> Path:
        """The file, absolute."""
        ...

    def put(self, content: bytes | None) -> Edited:
        """Put our part into a file; the same bytes if it is there, or if its place is taken.

        Args:
            content: The file; null if there is none.

        Raises:
            ConfigInvalid: The file cannot be read as what it should be; names the file and the place.
        """
        ...

    def cut(self, content: bytes, before: bytes | None) -> Edited:
        """Cut our part out of a file that others changed since; the same bytes if somebody changed that very part.

        Args:
            content: The file.
            before: What it was without our parts when we last wrote it; null if there was none.

        Raises:
            ConfigInvalid: The file cannot be read as what it should be; names the file and the place.
        """
        ...


def unusable(path: Path, problem: str, *, line: int | None = None, column: int | None = None) -> ConfigInvalid:
    """The refusal of a file that cannot be edited.

    Args:
        path: The file.
        problem: What is wrong, as the middle of a sentence.
        line: Where, from 1.
        column: Where, from 1.
    """
    where = f", line {line}" if line is not None else ""
    where += f", column {column}" if line is not None and column is not None else ""
    return ConfigInvalid(
        f"{path}{where}: {problem}. Nothing was changed; mend the file, or move it away, and run the command again.",
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
    """What a file holds; null if there is none.

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
    """What is at the end of a way through objects or tables; null if nothing."""
    for key in keys:
        data = cast("dict[str, Any]", data).get(key) if isinstance(data, dict) else None
    return data
